"""``nkisim upgrade``: bring kernels of older NKI releases to newer ones.

Exit status: 0 done, 1 something is left to do, 2 a mistake on the command line.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nkisim.cli.checking import project_of, targets_of
from nkisim.cli.group import commands
from nkisim.cli.streams import claimed_stdout
from nkisim.filecheck import CheckSettings, Selection
from nkisim.files import python_files
from nkisim.rewriting import SourceError, SourceText, read_source, unified_diff, write_source
from nkisim.versions import VERSIONS, resolve

if TYPE_CHECKING:
    from nkisim.upgrade import Outcome
    from nkisim.upgrade.verify import Verification

__all__ = ["upgrade"]

DONE, LEFT = 0, 1

_RELEASES = ("auto", "beta1", "beta2", "0.3", "0.4", "0.5")
_MANY = 50


@dataclass
class _File:
    """One file: the outcome, or the reason why there is none."""

    path: Path
    outcome: Outcome | None
    problem: str = ""
    source: SourceText | None = None
    written: bool = False
    verification: Verification | None = None

    @property
    def changed(self) -> bool:
        return self.outcome is not None and self.outcome.after != self.outcome.before


def _release(_: click.Context, __: click.Parameter, value: str) -> str:
    short = re.sub(r"^(\d+\.\d+)\.0$", r"\1", value)
    if short not in _RELEASES:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(_RELEASES)}")
    return short


def _target(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        return resolve(value, "--to")
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@commands.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--from", "since", default="auto", show_default=True, callback=_release)
@click.option("--to", "target", default="0.3.0", show_default=True, callback=_target)
@click.option("--diff", is_flag=True, help="Print the changes as a unified diff.")
@click.option("--write", is_flag=True, help="Write the changed files.")
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if work is left.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.option("--notes", is_flag=True, help="Put findings into the text as `# nkisim:` comments.")
@click.option("--verify", is_flag=True, help="Check the result, run it and compare the numbers.")
@click.option("--target", "generations", help="Generations to verify on, as in `nkisim check`.")
def upgrade(
    paths: tuple[str, ...],
    since: str,
    target: str,
    diff: bool,
    write: bool,
    check: bool,
    form: str,
    notes: bool,
    verify: bool,
    generations: str | None,
) -> int:
    """Bring the kernels of each PATH, a file or a folder, to a newer NKI release.

    Without --write no file changes. --from auto takes the oldest release that the names of a file
    allow: Beta 1 if it imports neuronxcc.nki, else 0.3 or later. What cannot be changed safely is
    listed with what to do. A file that is not valid Python stays as it is and is reported.

    --verify checks the result as `nkisim check` does, for the version of --to. It imports the
    files and runs the kernels whose arguments are known, old and new, and compares the results.

    Exit status: 0 done, 1 something is left to do (with --write or --check), a file could not be
    processed or its verification failed, 2 a mistake on the command line.
    """
    if since[0].isdigit() and VERSIONS.index(resolve(since)) > VERSIONS.index(target):
        raise click.UsageError(f"--from {since} is newer than --to {target}: only forward")
    if write and check:
        raise click.UsageError("--write and --check exclude each other: --check writes nothing")
    roots = [Path(path) for path in paths]
    for root in roots:
        if not root.exists():
            raise click.UsageError(f"{str(root)!r} does not exist")
    settings = _settings(roots[0], generations)
    files = list(dict.fromkeys(path for root in roots for path in python_files(root)))
    done = list(_shown(_processed(files, since, target, write, notes), len(files)))
    show = _as_json if form == "json" else _as_text
    if verify:
        with claimed_stdout() as stdout:
            _verify(done, target, write, settings)
            stdout.write(show(done, target, write, diff))
    else:
        click.echo(show(done, target, write, diff), nl=False)
    if form == "text":
        _summarise(done, write)
    return _status(done, write, check)


def _processed(
    files: Sequence[Path], since: str, target: str, write: bool, notes: bool
) -> Iterator[_File]:
    """Yield the results in the order of the files; many files are shared between processes."""
    work = partial(_process, since=since, target=target, write=write, notes=notes)
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


def _process(path: Path, since: Any, target: str, write: bool, notes: bool) -> _File:
    from nkisim.upgrade import upgrade_text

    try:
        source = read_source(path)
    except SourceError as error:
        return _File(path, None, str(error))
    try:
        outcome = upgrade_text(source.text, since, target, notes=notes)
    except Exception as error:  # one file must not stop the others
        return _File(path, None, f"cannot be processed: {type(error).__name__}: {error}")
    file = _File(path, outcome, outcome.problem, source)
    if write and file.changed:
        try:
            write_source(path, replace(source, text=outcome.after))
            file.written = True
        except SourceError as error:
            file.problem = str(error)
    return file


def _settings(root: Path, generations: str | None) -> CheckSettings:
    """Return the settings of a verification: the project's, and the generations of the command."""
    project = project_of(root)
    try:
        return CheckSettings(
            targets=targets_of(generations or project.target or "all"),
            selection=Selection(project.only, project.ignore, project.per_file_ignores),
            max_instructions=project.max_instructions or 2_000_000,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _verify(files: Sequence[_File], target: str, write: bool, settings: CheckSettings) -> None:
    """Verify the files that were processed: those on disk with --write, else the new texts."""
    from nkisim.upgrade.verify import Upgraded, verify

    texts = {}
    for file in files:
        outcome, source = file.outcome, file.source
        if outcome is None or source is None or file.problem or "nki" not in outcome.before:
            continue
        after = replace(source, text=outcome.after).encoded()
        texts[file.path] = Upgraded(source.encoded(), after, outcome.since)
    for path, found in verify(texts, target, settings, written=write).items():
        next(file for file in files if file.path == path).verification = found


def _status(files: Iterable[_File], write: bool, check: bool) -> int:
    for file in files:
        if file.problem or (file.verification is not None and not file.verification.ok):
            return LEFT
        if file.outcome is None or not (write or check):
            continue
        if file.outcome.findings or (check and file.changed):
            return LEFT
    return DONE


def _as_text(files: Sequence[_File], target: str, write: bool, diff: bool) -> str:
    """Return the changes and findings of all files; what could not be processed goes to stderr."""
    rows: list[str] = []
    for file in files:
        if file.problem:
            click.echo(f"nkisim: {file.path}: {file.problem}", err=True)
        outcome = file.outcome
        if outcome is None or (file.problem and not file.changed):
            continue
        if diff and file.changed:
            rows.append(unified_diff(file.path, outcome.before, outcome.after))
        for change in outcome.changes:
            if not diff or change.review:
                rows.append(f"{file.path}:{change.line}: {change.rule} {change.message}\n")
            if change.review:
                rows.append(f"    review: {change.review}\n")
        for finding in outcome.findings:
            line = finding.new_line if file.written else finding.line
            rows.append(f"{file.path}:{line}: {finding.rule} to do: {finding.message}\n")
        if file.verification is not None:
            rows += [f"{row}\n" for row in _verification_rows(file.path, file.verification)]
    return "".join(rows)


def _verification_rows(path: Path, found: Verification) -> Iterator[str]:
    for finding in found.findings:
        place = f"{path}:{finding.line}" if finding.file == path.name else str(finding.place)
        yield f"{place}: {finding.summary}"
    for kernel in found.kernels:
        yield f"{path}: {kernel.name}: {kernel.detail}"


def _summarise(files: Sequence[_File], write: bool) -> None:
    done = [f.outcome for f in files if f.outcome is not None and (f.changed or not f.problem)]
    changes = sum(len(outcome.changes) for outcome in done)
    findings = sum(len(outcome.findings) for outcome in done)
    touched = sum(file.written if write else file.changed for file in files)
    broken = sum(bool(file.problem) for file in files)
    verb = "changed" if write else "would change"
    tail = f"; {_many(broken, 'file')} not processed" if broken else ""
    kernels = [k for f in files if f.verification is not None for k in f.verification.kernels]
    if kernels:
        ran = sum(kernel.status != "read" for kernel in kernels)
        same = sum(kernel.status == "same" for kernel in kernels)
        tail += f"; {_many(len(kernels), 'kernel')} verified, {ran} run, {same} compared and equal"
    click.echo(
        f"{_many(len(files), 'file')} read, {touched} {verb} ({_many(changes, 'rewrite')}), "
        f"{_many(findings, 'finding')} left{tail}",
        err=True,
    )


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _as_json(files: Iterable[_File], target: str, write: bool, _: bool) -> str:
    data = {
        "to": target,
        "files": [
            {
                "path": str(file.path),
                "changed": file.changed,
                "written": file.written,
                "problem": file.problem,
                "changes": [asdict(c) for c in file.outcome.changes] if file.outcome else [],
                "findings": [asdict(f) for f in file.outcome.findings] if file.outcome else [],
                "verification": _verification_json(file.verification),
            }
            for file in files
        ],
    }
    return json.dumps(data, indent=2) + "\n"


def _verification_json(found: Verification | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "ok": found.ok,
        "kernels": [asdict(kernel) for kernel in found.kernels],
        "findings": [finding.to_dict() for finding in found.findings],
    }
