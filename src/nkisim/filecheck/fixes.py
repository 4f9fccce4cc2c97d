"""Fixes of files: the rewrites of findings, tried in memory, and written where they hold.

A fix holds if the finding is gone, the file has no error that it did not have, and the kernels that
ran compute the same bits. A rule declares where its fix changes results.
"""

from __future__ import annotations

import ast
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from nkisim.diagnostics import Finding, Rewrite
from nkisim.diagnostics.ledger import Ledger
from nkisim.diagnostics.syntax import parsed, tree_of
from nkisim.filecheck.files import check_files
from nkisim.filecheck.settings import CheckSettings
from nkisim.rewriting import (
    Edit,
    NotPastedError,
    NotPythonError,
    SourceError,
    SourceText,
    disjoint,
    drafts,
    edited,
    edits_of,
    read_source,
    write_source,
)

_MOST_TRIALS = 200
"""Trials after which no further fix is tried."""

_MOST_ROUNDS = 20
"""Rounds of fixes in a trial: of what the fixes of the round before have revealed."""

_Key = tuple[str, str, int, str]
"""Rule, file, line before all fixes, and generation of a finding."""


@dataclass
class FixedFile:
    """A file with its fixes.

    Attributes:
        path: The file.
        before: Its contents before all fixes.
        now: Its contents after them; the same where there are none.
        fixed: The findings whose fixes were applied, with their lines in ``before``.
        problem: Reason why the fixes were not written; empty if they were, or if there are none.
    """

    path: Path
    before: SourceText
    now: SourceText
    fixed: list[Finding] = field(default_factory=list)
    problem: str = ""

    @property
    def changed(self) -> bool:
        """Whether the contents differ from those before."""
        return self.now.text != self.before.text

    def write(self) -> None:
        """Write the contents, if the file still has those that were checked."""
        try:
            if read_source(self.path) != self.before:
                raise SourceError("not fixed: it changed while it was checked")
            write_source(self.path, self.now)
        except SourceError as error:
            self.now, self.fixed, self.problem = self.before, [], str(error)


@dataclass(frozen=True)
class _Draft:
    """A text of a file, and the line before all fixes of each of its lines."""

    source: SourceText
    lines: Sequence[int]

    @classmethod
    def read(cls, path: Path) -> _Draft | None:
        """Return a file as it is, None if it cannot be read, which is a finding of its own."""
        try:
            source = read_source(path)
        except SourceError:
            return None
        return cls(source, range(1, source.text.count("\n") + 2))

    def line_before(self, line: int) -> int:
        # A file whose lines end in carriage returns alone counts as one line.
        return self.lines[line - 1] if 0 < line <= len(self.lines) else line


@dataclass(frozen=True)
class _Fix:
    """A rewrite of a file, as edits of its text, with the findings that have it."""

    path: Path
    rewrite: Rewrite
    edits: list[Edit]
    findings: list[Finding]

    @property
    def changes_results(self) -> bool:
        return any(bool(finding.rule.silent) for finding in self.findings)


@dataclass(frozen=True)
class _State:
    """Texts of files, and what a check of them found."""

    files: Mapping[Path, _Draft]
    ledger: Ledger

    def key(self, finding: Finding, target: str) -> _Key:
        draft = self.files.get(Path(finding.file))
        line = finding.line if draft is None else draft.line_before(finding.line)
        return finding.rule.id, finding.file, line, target

    def keys(self, finding: Finding) -> list[_Key]:
        """Return the keys of a finding on all its generations."""
        return [self.key(finding, target) for target in finding.targets or ("",)]

    def with_line_before(self, finding: Finding) -> Finding:
        """Return a finding with its line before all fixes."""
        line = self.key(finding, "")[2]
        return replace(finding, place=finding.place._replace(line=line))

    @cached_property
    def found(self) -> Counter[_Key]:
        """The number of findings of each key."""
        return Counter(key for finding in self.ledger.findings for key in self.keys(finding))

    @cached_property
    def errors(self) -> Counter[_Key]:
        """The number of errors of each key, and of exceptions that stopped a kernel."""
        found = [f for f in self.ledger.findings if f.severity == "error"]
        rules = {f.rule.id for f in found}
        keys = [key for finding in found for key in self.keys(finding)]
        for (file, _), record in self.ledger.kernels.items():
            for target, reason in record.stopped.items():
                if reason.partition(" ")[0] not in rules:
                    keys.append((reason.partition(":")[0], file, record.place.line, target))
        return Counter(keys)

    def fixes(self) -> Iterator[_Fix]:
        """Yield the fixes that can be applied together, those of each file in turn."""
        for path, draft in self.files.items():
            here = [f for f in self.ledger.findings if f.rewrite and Path(f.rewrite.file) == path]
            yield from _together(path, draft.source.text, here)


def _together(path: Path, text: str, findings: Iterable[Finding]) -> list[_Fix]:
    """Return the fixes of one text that are in different statements and define own names."""
    chosen: list[_Fix] = []
    names, new_names = _stored(tree_of(text)), set[str]()
    for finding in findings:
        rewrite = finding.rewrite
        assert rewrite is not None
        same = [fix for fix in chosen if fix.rewrite == rewrite]
        if same:
            same[0].findings.append(finding)
            continue
        taken = [fix.rewrite for fix in chosen]
        if any(r.first <= rewrite.last and rewrite.first <= r.last for r in taken):
            continue
        try:
            edits = edits_of(text, rewrite)
        except NotPastedError as error:
            _reject([finding], str(error))
            continue
        new = _bound(rewrite.code) - names
        if (
            not edits
            or new & new_names
            or not disjoint(edits, [e for f in chosen for e in f.edits])
        ):
            continue
        chosen.append(_Fix(path, rewrite, edits, [finding]))
        new_names |= new
    return chosen


def _bound(code: str) -> set[str]:
    """Return the names that code, or the head of a loop, binds."""
    code = textwrap.dedent(code)
    return _stored(parsed(code) or parsed(f"{code}\n    pass"))


def _stored(tree: ast.Module | None) -> set[str]:
    nodes = () if tree is None else ast.walk(tree)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _reject(findings: Iterable[Finding], reason: str) -> None:
    """Take the code from findings whose fix is not written, and note why."""
    for finding in findings:
        finding.rewrite = None
        finding.notes += (f"not fixed: {reason}",)


class _RejectedError(Exception):
    """Fixes do not hold; the message is the reason."""


class _Trials:
    """Trials of fixes: each is applied to the texts in memory, and all files are checked again."""

    def __init__(
        self,
        wanted: Sequence[tuple[Path, str | None]],
        settings: CheckSettings,
        files: Mapping[Path, _Draft],
    ) -> None:
        self.wanted, self.settings = wanted, replace(settings, digests=True)
        self.state = _State(files, check_files(wanted, self.settings))
        self.fixed: list[tuple[Path, Finding]] = []
        self._texts = {self._text(files)}
        self._rejected: dict[tuple[str, ...], str] = {}

    def run(self) -> None:
        """Apply all fixes that hold."""
        for _ in range(_MOST_TRIALS):
            fixes = self.fixes(self.state)
            # A fix that changes results would hide that another one does.
            fixes = [fix for fix in fixes if not fix.changes_results] or fixes
            if not fixes:
                return
            reason = self._try(fixes)
            while reason and len(fixes) > 1:
                fixes = fixes[: len(fixes) // 2]
                reason = self._try(fixes)
            if reason:
                self._rejected[_identity(fixes[0])] = reason

    def fixes(self, state: _State) -> list[_Fix]:
        """Return the fixes that can be tried; note at the findings of others why not."""
        found = []
        for fix in state.fixes():
            reason = self._rejected.get(_identity(fix))
            if reason is None:
                found.append(fix)
            else:
                _reject(fix.findings, reason)
        return found

    def _try(self, fixes: list[_Fix]) -> str:
        """Apply fixes if they hold together; return the reason if they do not."""
        try:
            state, fixed = self._held(fixes)
        except _RejectedError as error:
            return str(error)
        self.fixed += fixed
        self.state = state
        self._texts.add(self._text(state.files))
        return ""

    def _held(self, fixes: list[_Fix]) -> tuple[_State, list[tuple[Path, Finding]]]:
        """Return the state after fixes, and the fixed findings.

        An error at which a kernel stopped hides those behind it, and one of an operand that of
        the next operand. What fixes reveal is fixed with them, or they are rejected.
        """
        state, fixed, changes = self.state, [], False
        goals = {key for fix in fixes for f in fix.findings for key in state.keys(f)}
        for _ in range(_MOST_ROUNDS):
            after = self._checked(state, fixes)
            for fix in fixes:
                fixed += [(fix.path, state.with_line_before(finding)) for finding in fix.findings]
                changes |= fix.changes_results
            state = after
            left = {key for key in goals if state.found[key] >= self.state.found[key]}
            left |= set(state.errors - self.state.errors)
            fixes = [
                fix
                for fix in (self.fixes(state) if left else ())
                if not left.isdisjoint(key for f in fix.findings for key in state.keys(f))
            ]
            if not fixes:
                break
        if left:
            raise _RejectedError(_described(left, state))
        if not changes:
            self._compare(self.state, state)
        return state, fixed

    def _checked(self, state: _State, fixes: Iterable[_Fix]) -> _State:
        files = dict(state.files)
        for path, draft in state.files.items():
            edits = [edit for fix in fixes if fix.path == path for edit in fix.edits]
            if edits:
                try:
                    text, lines = edited(draft.source.text, edits, draft.lines)
                except NotPythonError as error:
                    raise _RejectedError(f"the result is not valid Python: {error}") from error
                files[path] = _Draft(draft.source._replace(text=text), lines)
        if self._text(files) in self._texts:
            raise _RejectedError("it would undo another fix")
        with drafts({path: draft.source for path, draft in files.items()}):
            return _State(files, check_files(self.wanted, self.settings))

    def _compare(self, before: _State, after: _State) -> None:
        for key, record in after.ledger.kernels.items():
            earlier = before.ledger.kernels.get(key)
            for old, new in zip(earlier.results if earlier else (), record.results, strict=False):
                if not old[1] or not new[1]:
                    continue  # one of the runs was stopped
                if old[0] != new[0]:
                    raise _RejectedError(
                        f"the results of {record.name} cannot be compared, its arguments differ "
                        "from run to run; seed their random numbers"
                    )
                if old[1] != new[1]:
                    raise _RejectedError(f"{record.name} would compute other results")

    @staticmethod
    def _text(files: Mapping[Path, _Draft]) -> tuple[str, ...]:
        return tuple(draft.source.text for draft in files.values())


def _identity(fix: _Fix) -> tuple[str, ...]:
    """Return what a fix is known by after lines have moved."""
    return (str(fix.path), fix.rewrite.code, *(finding.rule.id for finding in fix.findings))


def _described(keys: set[_Key], state: _State) -> str:
    """Return the first finding of these keys, or the exception, in words."""
    for finding in state.ledger.findings:
        if not keys.isdisjoint(state.keys(finding)):
            on = f" on {', '.join(finding.targets)}" if finding.targets else ""
            return f"the result would have {finding.headline} in line {finding.line}{on}"
    return f"the result would be stopped by {min(keys)[0]}"


def fix_files(
    wanted: Sequence[tuple[Path, str | None]], settings: CheckSettings, *, write: bool
) -> tuple[Ledger, list[FixedFile]]:
    """Check files and fix what their findings have code for; return what remains, and the files.

    Without ``write`` the files stay as they are, and the ledger has the present findings. Only the
    files of ``wanted`` are changed, not the ones that they import.

    Raises:
        ValueError: As ``check_files``.
    """
    paths = dict.fromkeys(path.resolve() for path, _ in wanted)
    texts = {path: draft for path in paths if (draft := _Draft.read(path)) is not None}
    trials = _Trials(wanted, settings, texts)
    present = trials.state.ledger
    trials.run()
    files = [
        FixedFile(path, texts[path].source, draft.source, [f for p, f in trials.fixed if p == path])
        for path, draft in trials.state.files.items()
    ]
    if not write:
        trials.fixes(_State(texts, present))  # notes which are rejected
        return present, files
    for file in files:
        if file.changed:
            file.write()
    written = not any(file.problem for file in files)
    ledger = trials.state.ledger if written else check_files(wanted, settings)
    ledger.fixed = [finding for file in files for finding in file.fixed]
    return ledger, files
