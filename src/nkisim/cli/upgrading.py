"""``nkisim upgrade``: the command and its report.

Exit status: 0 done, 1 something is left to do, 2 a mistake on the command line.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nkisim.cli.group import commands, format_option
from nkisim.cli.streams import claimed_stdout
from nkisim.cli.targets import project_of, targets_of
from nkisim.files import python_files
from nkisim.rewriting import SourceError, SourceText, read_source, unified_diff, write_source
from nkisim.versions import VERSIONS, resolve

if TYPE_CHECKING:
    from nkisim.filecheck import CheckSettings
    from nkisim.upgrade import Outcome
    from nkisim.upgrade.engine import Change
    from nkisim.upgrade.verify import KernelResult, Verification


@dataclass
class UpgradedFile:
    """One file: the outcome, or the reason why there is none."""

    path: Path
    outcome: Outcome | None
    problem: str = ""
    source: SourceText | None = None
    written: bool = False
    verification: Verification | None = None

    @property
    def changed(self) -> bool:
        """Whether the new text differs from the old one."""
        return self.outcome is not None and self.outcome.after != self.outcome.before

    @property
    def shown(self) -> Outcome | None:
        """The outcome, if the file was processed or at least changed."""
        return None if self.problem and not self.changed else self.outcome

    @property
    def kernels(self) -> list[KernelResult]:
        """The kernels that were verified."""
        return [] if self.verification is None else self.verification.kernels


def as_text(files: Sequence[UpgradedFile], diff: bool) -> str:
    """Return what is left to do and to review by rule, then the changes and what was verified."""
    failed = [row for file in files for row in _verification(file, failed=True)]
    passed = [row for file in files for row in _verification(file, failed=False)]
    rows = [*_to_do(files), *failed, *_reviews(files), *_changes(files, diff), *passed]
    rows += _options(files)
    return "".join(rows)


def _by_rule(rows: Iterable[tuple[str, str]], verb: str) -> Iterator[str]:
    """Yield a heading for each rule with its rows below it."""
    from nkisim.upgrade import RULES

    groups: dict[str, list[str]] = {}
    for rule, row in rows:
        groups.setdefault(rule, []).append(row)
    for rule in sorted(groups):
        yield f"{rule} {RULES[rule].title}: {len(groups[rule])} to {verb}\n"
        yield from groups[rule]


def _places(files: Sequence[UpgradedFile]) -> Iterator[tuple[UpgradedFile, Outcome]]:
    for file in files:
        if file.shown is not None:
            yield file, file.shown


def _to_do(files: Sequence[UpgradedFile]) -> Iterator[str]:
    def row(file: UpgradedFile, finding: Change) -> str:
        line = finding.new_line if file.written else finding.line
        return f"{file.path}:{line}: {finding.rule} to do: {finding.message}\n"

    found = ((f.rule, row(file, f)) for file, made in _places(files) for f in made.findings)
    yield from _by_rule(found, "do")


def _reviews(files: Sequence[UpgradedFile]) -> Iterator[str]:
    def row(file: UpgradedFile, change: Change) -> str:
        place = f"{file.path}:{change.line}: {change.rule} {change.message}\n"
        return f"{place}    review: {change.review}\n"

    found = (
        (c.rule, row(file, c)) for file, made in _places(files) for c in made.changes if c.review
    )
    yield from _by_rule(found, "review")


def _options(files: Sequence[UpgradedFile]) -> Iterator[str]:
    found = (
        (o.rule, f"{file.path}:{o.line}: {o.rule} {o.message}\n")
        for file, made in _places(files)
        for o in made.options
    )
    yield from _by_rule(found, "consider")


def _changes(files: Sequence[UpgradedFile], diff: bool) -> Iterator[str]:
    for file, outcome in _places(files):
        if diff and file.changed:
            yield unified_diff(file.path, outcome.before, outcome.after)
        for change in outcome.changes:
            if not diff and not change.review:
                yield f"{file.path}:{change.line}: {change.rule} {change.message}\n"


def _verification(file: UpgradedFile, failed: bool) -> Iterator[str]:
    path = file.path
    for finding in file.verification.findings if file.verification is not None else ():
        if (finding.severity == "error") == failed:
            place = f"{path}:{finding.line}" if finding.file == path.name else str(finding.place)
            yield f"{place}: {finding.summary}\n"
    for kernel in file.kernels:
        if kernel.failed == failed:
            yield f"{path}: {kernel.name}: {kernel.detail}\n"


def summary(files: Sequence[UpgradedFile], target: str, write: bool) -> str:
    """Return the counts of files, rewrites, findings and kernels, and why kernels did not run."""
    done = [outcome for _, outcome in _places(files)]
    changes = sum(len(outcome.changes) for outcome in done)
    findings = sum(len(outcome.findings) for outcome in done)
    accepted = sum(outcome.accepted for outcome in done)
    touched = sum(file.written if write else file.changed for file in files)
    broken = sum(bool(file.problem) for file in files)
    verb = "changed" if write else "would change"
    rows = [
        f"{_many(len(files), 'file')} read, {touched} {verb} ({_many(changes, 'rewrite')}), "
        f"{_many(findings, 'finding')} left"
    ]
    if broken:
        rows[0] += f"; {_many(broken, 'file')} not processed"
    kernels = [kernel for file in files for kernel in file.kernels]
    if kernels:
        ran = sum(kernel.status != "read" for kernel in kernels)
        same = sum(kernel.status == "same" for kernel in kernels)
        rows[0] += (
            f"; {_many(len(kernels), 'kernel')} verified, {ran} run, {same} compared and equal"
        )
    if accepted:
        rows.append(
            f"{_many(accepted, 'older form')} that {target} takes: not changed; "
            "--from RELEASE changes or lists what is older than the release of the files"
        )
    reasons = Counter(kernel.reason for kernel in kernels if kernel.status == "read")
    for reason, count in reasons.most_common():
        rows.append(f"{_many(count, 'kernel')} not run: {reason}")
    return "".join(f"{row}\n" for row in rows)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def as_json(files: Iterable[UpgradedFile], target: str, skipped: Sequence[tuple[Path, str]]) -> str:
    """Return the outcome of all files as JSON."""
    data = {
        "to": target,
        "files": [
            {
                "path": str(file.path),
                "changed": file.changed,
                "written": file.written,
                "problem": file.problem,
                "accepted": file.outcome.accepted if file.outcome else 0,
                "changes": [asdict(c) for c in file.outcome.changes] if file.outcome else [],
                "findings": [asdict(f) for f in file.outcome.findings] if file.outcome else [],
                "options": [asdict(o) for o in file.outcome.options] if file.outcome else [],
                "verification": _verification_json(file.verification),
            }
            for file in files
        ],
        "skipped": [{"path": str(path), "reason": reason} for path, reason in skipped],
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


DONE, LEFT = 0, 1

_RELEASES = ("auto", "beta1", "beta2", "0.3", "0.4", "0.5", "0.6", "0.7")
_MANY = 50


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
@format_option("text", "json")
@click.option("--notes", is_flag=True, help="Put findings into the text as `# nkisim:` comments.")
@click.option("--verify", is_flag=True, help="Check the result, run it and compare the numbers.")
@click.option("--shapes", default="", help='Arguments for --verify: "x=bf16[128,512] eps=1e-6".')
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
    shapes: str,
    generations: str | None,
) -> int:
    """Bring the kernels of each PATH, a file or a folder, to a newer NKI release.

    Without --write no file changes. --from auto changes what the version of --to refuses; in files
    of Beta 1, which import neuronxcc.nki, and of Beta 2, which have arguments of its own, also what
    is deprecated or has another meaning. What cannot be changed safely is listed first, by rule,
    with what to do. A file that is not valid Python stays as it is and is reported. Notebooks, and
    links out of a folder, are skipped.

    --verify checks the result as `nkisim check` does, for the version of --to. It imports the
    files and runs the kernels whose arguments are known, from nkisim_examples() in the file, from
    --shapes, nt.tensor annotations and defaults, old and new, and compares the results.

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
    if shapes and not verify:
        raise click.UsageError("--shapes are arguments for --verify, which is missing")
    settings = _settings(roots[0], shapes, generations) if verify else None
    others: list[Path] = []
    files = list(dict.fromkeys(path for root in roots for path in python_files(root, others)))
    skipped = list(_reasons(others))
    done = list(_shown(_processed(files, since, target, write, notes), len(files)))

    def report() -> str:
        return as_json(done, target, skipped) if form == "json" else as_text(done, diff)

    if settings is not None:
        with claimed_stdout() as stdout:
            _verify(done, target, write, settings)
            stdout.write(report())
    else:
        click.echo(report(), nl=False)
    if form == "text":
        problems = [(file.path, file.problem) for file in done if file.problem]
        for path, reason in (*problems, *skipped):
            click.echo(f"nkisim: {path}: {reason}", err=True)
        click.echo(summary(done, target, write), nl=False, err=True)
    return _status(done, write, check)


_NOTEBOOK = "is a notebook: upgrade the script that `jupyter nbconvert --to script` makes of it"


def _reasons(skipped: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files of folders that are not read and may have kernels, with the reason."""
    for path in skipped:
        if path.is_symlink():
            yield path, f"skipped: it is a link to {path.resolve()}, outside of the folder"
        elif path.suffix == ".ipynb" and b"nki" in path.read_bytes():
            yield path, f"skipped: it {_NOTEBOOK}"


def _processed(
    files: Sequence[Path], since: str, target: str, write: bool, notes: bool
) -> Iterator[UpgradedFile]:
    """Yield the results in the order of the files; many files are shared between processes."""
    work = partial(_process, since=since, target=target, write=write, notes=notes)
    if len(files) < _MANY:
        yield from map(work, files)
        return
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor() as pool:
        yield from pool.map(work, files, chunksize=8)


def _shown(done: Iterator[UpgradedFile], total: int) -> Iterator[UpgradedFile]:
    """Yield the results, with a progress bar on a terminal if there are many."""
    if total < _MANY or not sys.stderr.isatty():
        yield from done
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(done, description="upgrade", total=total, console=console, transient=True)


def _process(path: Path, since: Any, target: str, write: bool, notes: bool) -> UpgradedFile:
    from nkisim.upgrade import upgrade_text

    if path.suffix == ".ipynb":  # whose JSON is a Python expression, too
        return UpgradedFile(path, None, _NOTEBOOK)
    try:
        source = read_source(path)
    except SourceError as error:
        return UpgradedFile(path, None, str(error))
    try:
        outcome = upgrade_text(source.text, since, target, notes=notes)
    except Exception as error:  # one file must not stop the others
        return UpgradedFile(path, None, f"cannot be processed: {type(error).__name__}: {error}")
    file = UpgradedFile(path, outcome, outcome.problem, source)
    if write and file.changed:
        try:
            write_source(path, source._replace(text=outcome.after))
            file.written = True
        except SourceError as error:
            file.problem = str(error)
    return file


def _settings(root: Path, shapes: str, generations: str | None) -> CheckSettings:
    """Return the settings of a verification: the project's, and those of the command."""
    from nkisim.filecheck import CheckSettings, Selection, parse_shapes

    project = project_of(root)
    try:
        return CheckSettings(
            shapes=parse_shapes(shapes) if shapes else {},
            targets=targets_of(generations or project.target or "all"),
            selection=Selection(project.only, project.ignore, project.per_file_ignores),
            max_instructions=project.max_instructions or 2_000_000,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _verify(
    files: Sequence[UpgradedFile], target: str, write: bool, settings: CheckSettings
) -> None:
    """Verify the files that were processed: those on disk with --write, else the new texts."""
    from nkisim.filecheck.files import UnknownShapeError
    from nkisim.upgrade.verify import Upgraded, verify

    texts = {}
    for file in files:
        outcome, source = file.outcome, file.source
        if outcome is None or source is None or file.problem or "nki" not in outcome.before:
            continue
        after = source._replace(text=outcome.after)
        texts[file.path] = Upgraded(source, after, outcome.since)
    try:
        verified = verify(texts, target, settings, written=write)
    except UnknownShapeError as error:
        raise click.UsageError(str(error)) from None
    for path, found in verified.items():
        next(file for file in files if file.path == path).verification = found


def _status(files: Iterable[UpgradedFile], write: bool, check: bool) -> int:
    for file in files:
        if file.problem or (file.verification is not None and not file.verification.ok):
            return LEFT
        if file.outcome is None or not (write or check):
            continue
        if file.outcome.findings or (check and file.changed):
            return LEFT
    return DONE
