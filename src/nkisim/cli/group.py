"""The group of commands, and its entry point.

A script runs after click has finished, not inside it: click would turn its exceptions into messages
of its own, and its frames would appear in the user's traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import click

import nkisim

PROCESS = object()
"""The object of click's context in a process that ends after the command."""

ARGUMENTS = "nkisim.arguments"
"""Key of the whole command line in the ``meta`` of click's context."""


_COMMANDS = {
    "check": ("checking", "Check the kernels of each FILE, or one of them, on every generation."),
    "explain-log": (
        "logs",
        "Print what the codes in LOG mean, a file of the compiler's or the runtime's output.",
    ),
    "find": ("finding", "Print the calls of NKI that WORDS mean, with their signatures."),
    "info": (
        "information",
        "Print versions, the target and its limits, and the environment variables of a simulation.",
    ),
    "judge": (
        "judging",
        "Judge a kernel of FILE: is it legal, right and fast, and what gains most.",
    ),
    "profile": (
        "profiling",
        "Predict the device time of the kernels of each FILE, or of one of them.",
    ),
    "rule": ("catalogue", "Print the page of a rule, by id or name."),
    "rules": ("catalogue", "List all rules, or those that TEXT selects."),
    "run": ("scripts", "Run SCRIPT with ARGUMENTS; `import nki` in it resolves to nkisim."),
    "serve": (
        "serving",
        "Answer requests on stdin and stdout from one warm process, until stdin ends.",
    ),
    "tune": ("tuning", "Rank the variants of KERNEL by predicted time."),
    "upgrade": (
        "upgrading",
        "Bring the kernels of each PATH, a file or a folder, to a newer NKI release.",
    ),
}
"""Every command: the module that defines it, imported when the command is used, and the first
sentence of its help."""


class _ScriptOrCommand(click.Group):
    """A group in which ``run`` may be omitted before a script, and commands are imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _COMMANDS:
            import_module(f"nkisim.cli.{_COMMANDS[cmd_name][0]}")
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            if not _looks_like_script(args[0]):
                import difflib

                close = difflib.get_close_matches(args[0], _COMMANDS, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise click.UsageError(f"{args[0]!r} is neither a command nor a script{hint}", ctx)
            args = ["run", *args]
        ctx.meta[ARGUMENTS] = list(args)
        variable = os.environ.get("NKISIM_NKI")
        if args and variable:  # modules of commands have names of the version in force
            _resolved(variable, "NKISIM_NKI")
        return super().parse_args(ctx, args)


@click.group(cls=_ScriptOrCommand, name="nkisim", no_args_is_help=True)
@click.version_option(nkisim.__version__, prog_name="nkisim")
def commands() -> None:
    """Run and check NKI kernels without a Trainium."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with ``arguments``, by default the process's own."""
    try:
        outcome: Any = commands.main(
            args=None if arguments is None else list(arguments),
            prog_name="nkisim",
            standalone_mode=False,
            obj=PROCESS,
        )
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    last: Callable[[], None] | None = getattr(outcome, "run", None)
    if last is not None:
        last()
    else:
        sys.exit(outcome)


def _choose_version(context: click.Context, _: click.Parameter, asked: str | None) -> None:
    if asked is not None:
        put_in_force(_resolved(asked, "--nki"), context)


def _resolved(asked: str, argument: str) -> str:
    from nkisim.versions import resolve

    try:
        return resolve(asked, argument)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def put_in_force(version: str, context: click.Context | None = None) -> None:
    """Put an NKI version in force for a command, and for the processes that it starts."""
    from nkisim.versions import NKI_VARIABLE

    _set_variable(NKI_VARIABLE, version, context or click.get_current_context())


def _set_variable(name: str, value: str, context: click.Context) -> None:
    """Set an environment variable for a command, and for the processes that it starts."""
    from nkisim.options import variable_set

    if context.find_object(object) is PROCESS:
        os.environ[name] = value  # until the process ends
    else:
        context.with_resource(variable_set(name, value))


def _choose_lnc(context: click.Context, _: click.Parameter, asked: str | None) -> None:
    if asked is not None:
        from nkisim.options import LNC_VARIABLE

        _set_variable(LNC_VARIABLE, asked, context)


lnc_option = click.option(
    "--lnc",
    type=click.Choice(["1", "2"]),
    expose_value=False,
    is_eager=True,
    callback=_choose_lnc,
    help="Cores of a logical core of the chip; default: NEURON_LOGICAL_NC_CONFIG, its most.",
)
"""The option ``--lnc`` of commands that run kernels."""

nki_option = click.option(
    "--nki",
    expose_value=False,
    is_eager=True,
    callback=_choose_version,
    help="NKI version to judge by, such as 0.6; default: NKISIM_NKI, an installed nki, 0.3.0.",
)
"""The option ``--nki`` of commands that run or check kernels."""


def format_option(*formats: str) -> Callable[[Any], Any]:
    """Return the option ``--format`` of a command that prints a report; text by default."""
    kinds = click.Choice(list(formats))
    return click.option("--format", "form", type=kinds, default="text", help="Default: text.")


def _looks_like_script(argument: str) -> bool:
    """Return whether ``argument`` is a file, or has the form of a file name."""
    return (
        os.path.exists(argument)
        or argument.endswith(".py")
        or os.path.basename(argument) != argument
    )
