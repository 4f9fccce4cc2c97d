"""The report of ``nkisim upgrade``: what is left to do first, then what was changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nkisim.rewriting import SourceText, unified_diff

if TYPE_CHECKING:
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
