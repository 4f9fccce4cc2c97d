"""The command line: ``nkisim run`` and ``nkisim info``.

A script runs after click has finished, not inside it: click would turn its exceptions into messages
of its own, and its frames would stand in the user's traceback.
"""

from __future__ import annotations

import difflib
import os
import platform
import runpy
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from types import TracebackType

import click
from rich.console import Console
from rich.table import Table

from nkisim import shim
from nkisim.options import FAST_VARIABLE

__all__ = ["ScriptCall", "commands", "main"]

_DISTRIBUTION = "trnsci"
_VARIABLES = (
    "NKI_SIMULATOR",
    "NKI_PRECISE_FP",
    "NEURON_PLATFORM_TARGET_OVERRIDE",
    "NKISIM_SOURCE_RULES",
)


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script, its arguments, whether a real ``nki`` is displaced, and whether it runs fast."""

    path: str
    arguments: tuple[str, ...]
    force: bool
    fast: bool = False

    def run(self) -> None:
        """Run the script as ``python script.py`` would, with ``import nki`` meaning nkisim."""
        path = os.path.abspath(self.path)
        sys.argv = [self.path, *self.arguments]
        sys.path[:1] = [os.path.dirname(path)]
        if self.fast:
            os.environ[FAST_VARIABLE] = "1"
        shim.install(force=self.force)
        if not self.force and shim.real_nki_found():
            click.echo(
                "nkisim: AWS's nki is used as it is; --force puts nkisim in its place", err=True
            )
        # Processes that the script starts are to find the simulator too.
        os.environ.setdefault("NKI_SIMULATOR", "1")
        _hide_frames_before(path)
        runpy.run_path(path, run_name="__main__")


class _ScriptOrCommand(click.Group):
    """A group whose ``run`` may be left out in front of a script."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            if not _looks_like_script(args[0]):
                close = difflib.get_close_matches(args[0], self.commands, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise click.UsageError(f"{args[0]!r} is neither a command nor a script{hint}", ctx)
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ScriptOrCommand, name="nkisim", no_args_is_help=True)
@click.version_option(package_name=_DISTRIBUTION, prog_name="nkisim")
def commands() -> None:
    """Run NKI kernels without a Trainium."""


@commands.command()
@click.option("--force", is_flag=True, help="Use nkisim even where AWS's nki is installed.")
@click.option("--fast", is_flag=True, help="Let products round otherwise, on a matrix unit.")
@click.argument("script", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(script: str, arguments: tuple[str, ...], force: bool, fast: bool) -> ScriptCall:
    """Run SCRIPT with ARGUMENTS; `import nki` in it means nkisim.

    The script needs no change. Its exit status is the command's.
    """
    if fast and find_spec("numba") is None:
        raise click.UsageError(
            "--fast needs numba, which is not installed: pip install '.[fast]' in the checkout"
        )
    return ScriptCall(script, arguments, force, fast)


run.allow_interspersed_args = False  # what follows the script belongs to it, options too


@commands.command()
@click.option("--target", help="Generation to describe, by default the one that kernels run on.")
def info(target: str | None) -> None:
    """Print versions, the target and its limits, and the variables that steer a simulation."""
    from nkisim.arch import resolve_target

    try:
        generation = resolve_target(target)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    versions = [
        ("nkisim", _version_of(_DISTRIBUTION)),
        ("NKI surface", shim.NKI_VERSION),
        ("numpy", _version_of("numpy")),
        ("ml_dtypes", _version_of("ml_dtypes")),
        ("numba", _version_of("numba")),
        ("python", platform.python_version()),
    ]
    limits = [
        ("generation", f"{generation.name} ({', '.join(generation.aliases)})"),
        ("partitions", f"{generation.partitions}"),
        ("SBUF per partition", f"{generation.sbuf_bytes} bytes"),
        ("SBUF usable by kernels", f"{generation.sbuf_usable_bytes} bytes"),
        ("PSUM per partition", f"{generation.psum_bytes} bytes"),
        ("PSUM banks", f"{generation.psum_banks} of {generation.psum_bank_bytes} bytes"),
        ("matmul stationary free size", f"at most {generation.stationary_free_max}"),
        ("matmul moving free size", f"at most {generation.moving_free_max}"),
        ("bn_stats free size", f"at most {generation.bn_stats_free_max}"),
    ]
    variables = [(name, os.environ.get(name, "not set")) for name in _VARIABLES]
    console = Console(highlight=False)
    for title, rows in (("Versions", versions), ("Target", limits), ("Environment", variables)):
        _print_section(console, title, rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with ``arguments``, by default the process's own."""
    try:
        outcome = commands.main(
            args=None if arguments is None else list(arguments),
            prog_name="nkisim",
            standalone_mode=False,
        )
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    if isinstance(outcome, ScriptCall):
        outcome.run()
    else:
        sys.exit(outcome)


def _looks_like_script(argument: str) -> bool:
    """Return whether ``argument`` is a file, or is written as if it were meant to be one."""
    return (
        os.path.exists(argument)
        or argument.endswith(".py")
        or os.path.basename(argument) != argument
    )


def _version_of(distribution: str) -> str:
    """Return the installed version of ``distribution``."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _print_section(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print ``rows`` in two columns below ``title``."""
    table = Table.grid(padding=(0, 3))
    table.add_column(min_width=34)
    for name, value in rows:
        table.add_row(f"  {name}", value)
    console.print(title, style="bold")
    console.print(table)


def _hide_frames_before(path: str) -> None:
    """Make an uncaught exception print its traceback from the frames of the file ``path`` on."""
    print_exception = sys.excepthook

    def from_script(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        start = traceback
        while start is not None and start.tb_frame.f_code.co_filename != path:
            start = start.tb_next
        # A script that does not compile has no frame, and its SyntaxError says where.
        print_exception(kind, error.with_traceback(start), start)

    sys.excepthook = from_script
