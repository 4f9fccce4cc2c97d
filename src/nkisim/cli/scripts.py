"""``nkisim run``: run an unmodified script, with ``import nki`` resolving to nkisim.

The simulator is imported when the script imports ``nki``.
"""

from __future__ import annotations

import os
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click

from nkisim import shim
from nkisim.arch import resolve_target
from nkisim.cli.group import commands, nki_option
from nkisim.cli.targets import project_of
from nkisim.options import IGNORE_VARIABLE, STRICT_VARIABLE, TARGET_VARIABLE

if TYPE_CHECKING:
    from nkisim.diagnostics.ledger import FailOn


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A script with its arguments and its settings.

    Attributes:
        path, arguments: The script and its arguments.
        force: Whether nkisim replaces a real ``nki``.
        variables: Environment variables to set, for this process and its child processes.
        report: File for the findings of all kernels; empty for none.
        fail_on: Severity of findings that make the exit status 1; None leaves the status unchanged.
        profile: Whether the predicted times of its kernels are printed at the end.
    """

    path: str
    arguments: tuple[str, ...]
    force: bool
    variables: tuple[tuple[str, str], ...] = ()
    report: str = ""
    fail_on: FailOn | None = None
    profile: bool = False

    def run(self) -> None:
        """Run the script as ``python script.py`` would, with ``import nki`` resolving to nkisim."""
        path = os.path.abspath(self.path)
        sys.argv = [self.path, *self.arguments]
        sys.path[:1] = [os.path.dirname(path)]
        os.environ.update(self.variables)
        shim.install(force=self.force)
        if not self.force and shim.real_nki_found():
            click.echo(
                "nkisim: AWS's nki is used as it is; --force puts nkisim in its place", err=True
            )
        # Child processes of the script have to find the simulator too.
        os.environ.setdefault("NKI_SIMULATOR", "1")
        if self.report or self.fail_on:
            from nkisim.runs.process_ledger import open_ledger

            open_ledger(self.report)
        if self.profile:
            from nkisim.runs.process_calls import count_calls

            count_calls()
        _hide_frames_before(path)
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as ended:
            if ended.code:  # the script's own failure takes precedence
                raise
        if self.profile:
            from nkisim.cli.call_times import times_text

            sys.stdout.flush()
            click.echo(times_text(), err=True)
        if self.report or self.fail_on:
            _end(self.fail_on)


def _end(fail_on: FailOn | None) -> None:
    """Print a summary; exit with status 1 if kernels broke rules."""
    from nkisim.diagnostics.formats import ledger_text, wants_colour
    from nkisim.runs.process_ledger import close_ledger

    ledger = close_ledger()
    if ledger is None:
        return
    sys.stdout.flush()
    if fail_on is None or not ledger.fails(fail_on):
        click.echo(f"nkisim: {ledger.summary()}", err=True)
        return
    click.echo(ledger_text(ledger, wants_colour(sys.stderr)), err=True, nl=False)
    sys.exit(1)


@commands.command()
@click.option("--force", is_flag=True, help="Use nkisim even where AWS's nki is installed.")
@click.option("--strict", is_flag=True, help="Stop at every finding of severity error.")
@click.option("--target", help="Generation to run on, such as trn2.")
@nki_option
@click.option(
    "--report", default="", metavar="FILE", help="Write findings: .json .sarif .html .txt"
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    help="Exit with status 1 when a kernel has findings of this severity.",
)
@click.option(
    "--profile", is_flag=True, help="Print the predicted times of the script's kernels at its end."
)
@click.argument("script", type=click.Path(exists=True, dir_okay=False, readable=True))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    script: str,
    arguments: tuple[str, ...],
    force: bool,
    strict: bool,
    target: str | None,
    report: str,
    fail_on: FailOn | None,
    profile: bool,
) -> ScriptCall:
    """Run SCRIPT with ARGUMENTS; `import nki` in it resolves to nkisim.

    The script needs no change. Its exit status is the command's.
    """
    try:
        project = project_of(Path(script))
        # A project may name several generations, for `check`; a script runs on one.
        target = target or (
            "" if project.target == "all" or "," in project.target else project.target
        )
        if target:
            resolve_target(target)
        if report:
            from nkisim.diagnostics.formats import format_of

            format_of(report)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    variables = {
        STRICT_VARIABLE: "1" if strict or project.strict else "",
        TARGET_VARIABLE: target,
        IGNORE_VARIABLE: ",".join(project.ignore),
    }
    chosen = tuple((name, value) for name, value in variables.items() if value)
    return ScriptCall(script, arguments, force, chosen, report, fail_on, profile)


run.allow_interspersed_args = False  # options after the script are the script's


def _hide_frames_before(path: str) -> None:
    """Make an uncaught exception print the frames of the file ``path`` and those that follow."""
    print_exception = sys.excepthook

    def from_script(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        from nkisim.diagnostics import hide_own_frames, own_frames_shown

        if not own_frames_shown():
            hide_own_frames(error)
        start = error.__traceback__
        while start is not None and start.tb_frame.f_code.co_filename != path:
            start = start.tb_next
        # A script that does not compile has no frame; its SyntaxError has the location.
        print_exception(kind, error.with_traceback(start), start)
        if (getattr(error, "name", None) or "").partition(".")[0] == "neuronxcc":
            click.echo(
                "nkisim: neuronxcc.nki is the name of older releases; `nkisim upgrade "
                f"{_last_file(start, path)} --write` rewrites the kernels",
                err=True,
            )

    sys.excepthook = from_script


def _last_file(traceback: TracebackType | None, path: str) -> str:
    """Return the file of the last frame, or ``path`` without one."""
    while traceback is not None:
        path, traceback = traceback.tb_frame.f_code.co_filename, traceback.tb_next
    return path
