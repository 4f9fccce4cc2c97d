"""``nkisim upgrade``: bring kernels of older NKI releases to 0.3.0.

Exit status: 0 done, 1 something is left to do, 2 a mistake on the command line.
"""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nkisim.cli.group import commands

if TYPE_CHECKING:
    from nkisim.upgrade import Outcome

__all__ = ["upgrade"]

DONE, LEFT = 0, 1

_RELEASES = ("auto", "beta1", "beta2", "0.3")
_MANY = 50
_TARGETS = ("0.3.0", "0.3")


@dataclass
class _File:
    """One file: the outcome, or the reason why there is none."""

    path: Path
    outcome: Outcome | None
    problem: str = ""
    written: bool = False

    @property
    def changed(self) -> bool:
        return self.outcome is not None and self.outcome.after != self.outcome.before


def _target(_: click.Context, __: click.Parameter, value: str) -> str:
    if value not in _TARGETS:
        raise click.BadParameter(f"{value!r} is not available; accepted is 0.3.0")
    return "0.3.0"


@commands.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--from", "since", type=click.Choice(_RELEASES), default="auto", show_default=True)
@click.option("--to", "target", default="0.3.0", show_default=True, callback=_target)
@click.option("--diff", is_flag=True, help="Print the changes as a unified diff.")
@click.option("--write", is_flag=True, help="Write the changed files.")
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if work is left.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--notes", is_flag=True, help="Put findings into the text as `# nkisim:` comments.")
def upgrade(
    paths: tuple[str, ...],
    since: str,
    target: str,
    diff: bool,
    write: bool,
    check: bool,
    form: str,
    notes: bool,
) -> int:
    """Bring the kernels of each PATH, a file or a folder, to a newer NKI release.

    Without --write no file changes. With --from auto, files that import neuronxcc.nki are of
    Beta 1; in others only forms that 0.3.0 does not have are changed. What cannot be changed safely
    is listed with what to do. A file that is not valid Python stays as it is and is reported. Exit
    status: 0 done, 1 something is left to do (with --write or --check) or a file could not be
    processed, 2 a mistake on the command line.
    """
    if write and check:
        raise click.UsageError("--write and --check exclude each other: --check writes nothing")
    if find_spec("libcst") is None:
        raise click.UsageError(
            "nkisim upgrade needs libcst, which is not installed: pip install 'trnsci[codemod]'"
        )
    from nkisim.upgrade import python_files

    roots = [Path(path) for path in paths]
    for root in roots:
        if not root.exists():
            raise click.UsageError(f"{str(root)!r} does not exist")
    files = list(dict.fromkeys(path for root in roots for path in python_files(root)))
    done = list(_shown(_processed(files, since, write, notes), len(files)))
    if form == "json":
        click.echo(json.dumps(_json(done, target, write), indent=2))
    else:
        _print(done, write, diff)
    return _status(done, write, check)


def _processed(files: Sequence[Path], since: str, write: bool, notes: bool) -> Iterator[_File]:
    """Yield the results in the order of the files; many files are shared between processes."""
    work = partial(_process, since=since, write=write, notes=notes)
    if len(files) < _MANY:
        yield from map(work, files)
        return
    with ProcessPoolExecutor() as pool:
        yield from pool.map(work, files, chunksize=8)


def _shown(done: Iterator[_File], total: int) -> Iterator[_File]:
    """Yield the results, with a progress bar on a terminal if there are many."""
    if total < _MANY or not sys.stderr.isatty():
        yield from done
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(done, description="upgrade", total=total, console=console, transient=True)


def _process(path: Path, since: Any, write: bool, notes: bool) -> _File:
    from nkisim.upgrade import read_source, upgrade_text, write_source

    try:
        text, encoding, mark = read_source(path)
    except OSError as error:
        return _File(path, None, f"cannot be read: {error.strerror}")
    except SyntaxError as error:
        return _File(path, None, f"cannot be read: {error.msg}")
    except UnicodeDecodeError as error:
        return _File(path, None, f"cannot be read: not {error.encoding} text ({error.reason})")
    try:
        outcome = upgrade_text(text, since, notes=notes)
    except Exception as error:  # one file must not stop the others
        return _File(path, None, f"cannot be processed: {type(error).__name__}: {error}")
    file = _File(path, outcome, outcome.problem)
    if write and file.changed:
        try:
            write_source(path, outcome.after, encoding, mark)
            file.written = True
        except OSError as error:
            file.problem = f"cannot be written, nothing was changed: {error.strerror or error}"
        except UnicodeEncodeError as error:
            file.problem = f"cannot be written, nothing was changed: {error}"
    return file


def _status(files: Iterable[_File], write: bool, check: bool) -> int:
    for file in files:
        if file.problem:
            return LEFT
        if file.outcome is None or not (write or check):
            continue
        if file.outcome.findings or (check and file.changed):
            return LEFT
    return DONE


def _print(files: Sequence[_File], write: bool, diff: bool) -> None:
    changes = findings = 0
    for file in files:
        if file.problem:
            click.echo(f"nkisim: {file.path}: {file.problem}", err=True)
        outcome = file.outcome
        if outcome is None or (file.problem and not file.changed):
            continue
        changes, findings = changes + len(outcome.changes), findings + len(outcome.findings)
        if diff and file.changed:
            click.echo(_diff(file.path, outcome), nl=False)
        for change in outcome.changes:
            if not diff or change.review:
                click.echo(f"{file.path}:{change.line}: {change.rule} {change.message}")
            if change.review:
                click.echo(f"    review: {change.review}")
        for finding in outcome.findings:
            line = finding.new_line if file.written else finding.line
            click.echo(f"{file.path}:{line}: {finding.rule} to do: {finding.message}")
    touched = sum(file.written if write else file.changed for file in files)
    broken = sum(bool(file.problem) for file in files)
    verb = "changed" if write else "would change"
    tail = f"; {_many(broken, 'file')} not processed" if broken else ""
    click.echo(
        f"{_many(len(files), 'file')} read, {touched} {verb} ({_many(changes, 'rewrite')}), "
        f"{_many(findings, 'finding')} left{tail}",
        err=True,
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _diff(path: Path, outcome: Outcome) -> str:
    name = path.as_posix().lstrip("/")
    rows = difflib.unified_diff(
        outcome.before.splitlines(keepends=True),
        outcome.after.splitlines(keepends=True),
        f"a/{name}",
        f"b/{name}",
    )
    ends = (row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows)
    return "".join(ends)


def _json(files: Iterable[_File], target: str, write: bool) -> dict[str, Any]:
    return {
        "to": target,
        "files": [
            {
                "path": str(file.path),
                "changed": file.changed,
                "written": file.written,
                "problem": file.problem,
                "changes": [asdict(c) for c in file.outcome.changes] if file.outcome else [],
                "findings": [asdict(f) for f in file.outcome.findings] if file.outcome else [],
            }
            for file in files
        ],
    }
