"""``nkisim check``: check the kernels of files, and fix them.

Exit status: 0 clean, 1 findings, 2 a mistake on the command line, 3 nothing was checked, 4 a file
cannot be read, imported or written.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nkisim.cli.group import commands, format_option, lnc_option, nki_option
from nkisim.cli.streams import claimed_stdout, emit
from nkisim.cli.targets import project_of, split_name, stdin_file, targets_of
from nkisim.diagnostics.formats import FORMATS, rendered, wants_colour
from nkisim.diagnostics.ledger import FailOn, Ledger
from nkisim.files import python_files
from nkisim.rewriting import unified_diff

if TYPE_CHECKING:
    from nkisim.filecheck.fixes import FixedFile

CLEAN, FINDINGS, NOTHING, BROKEN = 0, 1, 3, 4

_COMMAS = "ids or families, separated by commas; may be repeated"


class _Check(click.Command):
    """The command, with an answer for an option that is not one of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.option_name == "--strict":
                raise click.UsageError(
                    "No such option: --strict. A check never stops at a finding; --fail-on "
                    "warning exits with status 1 for warnings too.",
                    ctx,
                ) from None
            raise


@commands.command(cls=_Check)
@click.argument("files", nargs=-1, required=True, metavar="FILE[::KERNEL]...")
@click.option("--shapes", multiple=True, help='Arguments: "x=bf16[128,512] eps=1e-6".')
@click.option("--target", help="trn1, trn2, trn3, gen2, ... or all; several with commas.")
@format_option(*FORMATS)
@nki_option
@lnc_option
@click.option("--output", default="-", metavar="FILE", help="File to write to; by default, print.")
@click.option("--only", multiple=True, help=f"Rules to check: {_COMMAS}.")
@click.option("--ignore", multiple=True, help=f"Rules to exclude: {_COMMAS}.")
@click.option("--fail-on", type=click.Choice(["error", "warning"]), help="Default: error.")
@click.option("--max-instructions", type=click.IntRange(min=1), help="Limit of a run.")
@click.option("--max-seconds", type=click.FloatRange(min=0, min_open=True), default=600.0)
@click.option("--require-run", is_flag=True, help="Fail where a kernel is only read.")
@click.option("--source-only", is_flag=True, help="Read the files; import and run nothing.")
@click.option("--fix", is_flag=True, help="Write the fixes of findings to the files.")
@click.option("--diff", is_flag=True, help="Print the fixes as a diff; the report goes to stderr.")
@click.option("--no-trials", is_flag=True, help="Show code without trying it.")
@click.option("--allow-none", is_flag=True, help="Exit with status 0 if no file has a kernel.")
@click.option("--watch", is_flag=True, help="Check again at every save, until Ctrl-C.")
def check(
    files: tuple[str, ...],
    shapes: tuple[str, ...],
    target: str | None,
    form: str,
    output: str,
    only: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: FailOn | None,
    max_instructions: int | None,
    max_seconds: float,
    require_run: bool,
    source_only: bool,
    fix: bool,
    diff: bool,
    no_trials: bool,
    allow_none: bool,
    watch: bool,
) -> int:
    """Check the kernels of each FILE, or one of them, on every generation.

    KERNEL is a name, Class.name or name[2]; FILE may be - for stdin. Arguments come from
    nkisim_examples() in the file, from --shapes, nt.tensor annotations and defaults, of which
    --shapes wins; without them only the source is checked. --source-only imports no file. What the
    files print goes to stderr. --fix writes the code of findings that have some, and checks again;
    --diff without it changes no file. Exit status, after the fixes: 0 clean, 1 findings, 2 a
    mistake on the command line, 3 nothing was checked, 4 a file cannot be read, imported or
    written.
    """
    from nkisim.filecheck import CheckSettings, Selection, check_files, parse_shapes
    from nkisim.filecheck.fixes import fix_files, tried_files

    if "-" in {name.partition("::")[0] for name in files} and (fix or watch):
        raise click.UsageError("--fix and --watch need a file; --diff prints the fixes of stdin")
    wanted = [split_name(name, stdin=True) for name in files]
    if watch:
        from nkisim.cli import watching

        return watching.watch([path for path, _ in wanted], max_seconds)
    project = project_of(wanted[0][0])
    for option, given in (("--shapes", shapes), ("--require-run", require_run)):
        if source_only and given:
            raise click.UsageError(
                f"{option} runs kernels and --source-only runs none; leave out one"
            )
    try:
        settings = CheckSettings(
            shapes=parse_shapes(" ".join(shapes)) if shapes else {},
            targets=targets_of(target or project.target or "all"),
            selection=Selection(
                _ids(only) or project.only,
                (*project.ignore, *_ids(ignore)),
                project.per_file_ignores,
            ),
            max_instructions=max_instructions or project.max_instructions or 2_000_000,
            max_seconds=max_seconds,
            require_run=not source_only and (require_run or project.require_run),
            source_only=source_only,
        )
        paths = [(path, kernel) for file, kernel in wanted for path in python_files(file)]
        with claimed_stdout() as stdout:
            fixed: list[FixedFile] = []
            if fix or diff:
                ledger, fixed = fix_files(paths, settings, write=fix)
            else:
                ledger = (check_files if no_trials else tried_files)(paths, settings)
            ledger.relative_to(os.getcwd())
            if text_file := stdin_file():
                ledger.renamed(text_file, "-")
            stream = sys.stderr if diff else stdout.stream
            colour = form == "text" and wants_colour(stream)
            report = rendered(ledger, form, colour)
            if diff:
                stdout.write(_diffs(fixed))
            emit(report, output, sys.stderr if diff else stdout)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    problems = [file for file in fixed if file.problem]
    for file in problems:
        click.echo(f"nkisim: {_short(file.path)}: {file.problem}", err=True)
    status = _status(ledger, fail_on or project.fail_on, allow_none)  # type: ignore[arg-type]
    return BROKEN if problems and status == CLEAN else status


def _diffs(files: list[FixedFile]) -> str:
    """Return the diffs of all changed files."""
    changed = [file for file in files if file.changed]
    return "".join(unified_diff(_short(f.path), f.before.text, f.now.text) for f in changed)


def _short(path: Path) -> Path:
    """Return a path relative to the working folder, if it is below it; stdin's is -."""
    if str(path) == stdin_file():
        return Path("-")
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _status(ledger: Ledger, fail_on: FailOn, allow_none: bool) -> int:
    from nkisim.filecheck import BROKEN_FILE

    if ledger.fails(fail_on, besides=(BROKEN_FILE.id,)):
        return FINDINGS
    if ledger.fails(fail_on):
        return BROKEN
    if not ledger.kernels and not allow_none:
        click.echo("nkisim: nothing was checked: no function with @nki.jit", err=True)
        return NOTHING
    return CLEAN


def _ids(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
