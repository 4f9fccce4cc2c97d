"""The code of findings, tried in memory: what holds is shown, or written to the files.

Code holds if the finding is gone, the file has no error that it did not have, and the kernels that
ran compute the same results. A rule declares where its fix changes results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from nkisim.diagnostics import Finding, Rewrite
from nkisim.diagnostics.ledger import KernelRecord, Ledger
from nkisim.filecheck.drafted import Draft, Fix, Key, State, reject
from nkisim.filecheck.files import check_files
from nkisim.filecheck.settings import CheckSettings
from nkisim.rewriting import (
    NotPythonError,
    SourceError,
    SourceText,
    drafts,
    read_source,
    write_source,
)

_MOST_TRIALS = 200
"""Trials after which no further fix is tried."""

_MOST_ROUNDS = 20
"""Rounds of fixes in a trial: of what the fixes of the round before have revealed."""

_MOST_REPEATS = 3
_FEW_INSTRUCTIONS = 50_000
"""The trials of a report end after so many times the instructions of the check, or so many."""

_Wanted = Sequence[tuple[Path, str | None]]
_Place = tuple[str, str, int]
"""Rule, file and line before all fixes of a finding."""


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


class _RejectedError(Exception):
    """Fixes do not hold together; the message is the reason.

    Attributes:
        reasons: Reasons by fix, for those that are known to be at fault.
        kernels: The places of the kernels with the fault.
    """

    def __init__(
        self,
        message: str,
        reasons: Mapping[int, str] = MappingProxyType({}),
        kernels: Collection[Any] = (),
    ) -> None:
        super().__init__(message)
        self.reasons, self.kernels = reasons, kernels


class _UndoneError(_RejectedError):
    """The text of an earlier trial comes again."""


class _SpentError(Exception):
    """The trials of a report have executed enough instructions."""


class _Trials:
    """Trials of fixes: each is applied to the texts in memory, and the files are checked again.

    Args:
        wanted: Files, each with the name of a kernel or None.
        settings: Settings of the checks.
        writes: Whether the files will be written: then only they are changed, every trial runs all
            kernels, and there may be many. Otherwise the trials serve a report.
    """

    def __init__(self, wanted: _Wanted, settings: CheckSettings, *, writes: bool) -> None:
        self.wanted, self.settings = wanted, replace(settings, results=True)
        self.writes = writes
        paths = dict.fromkeys(path.resolve() for path, _ in wanted)
        texts = {path: draft for path in paths if (draft := Draft.read(path)) is not None}
        ledger = check_files(wanted, self.settings)
        rewrites = [f.rewrite for f in ledger.findings if f.rewrite is not None]
        for path in () if writes else dict.fromkeys(Path(r.file) for r in rewrites):
            draft = None if path in texts else Draft.read(path)
            if draft is not None:
                texts[path] = draft
        self.before = self.state = State(texts, ledger)
        self.fixed: list[tuple[Path, Finding]] = []
        self._texts = {self._text(texts)}
        self._rejected: dict[tuple[str, ...], str] = {}
        self._refused: dict[_Place, str] = {}
        self._code: dict[_Place, str] = {}
        self._notes: dict[_Place, tuple[str, ...]] = {}
        self._places = {key: record.place for key, record in ledger.kernels.items()}
        self._left = max(_MOST_REPEATS * ledger.instructions, _FEW_INSTRUCTIONS)

    def run(self) -> None:
        """Apply all fixes that hold."""
        try:
            for _ in range(_MOST_TRIALS):
                fixes = self._batch()
                if not fixes:
                    return
                self._apply(fixes)
        except _SpentError:
            return

    def fixes(self, state: State) -> list[Fix]:
        """Return the fixes that can be tried; note at the findings of others why not."""
        found = []
        for fix in state.fixes:
            reason = self._rejected.get(fix.identity)
            if reason is None:
                found.append(fix)
            else:
                reject(fix.findings, reason)
        return found

    def _batch(self) -> list[Fix]:
        """Return the fixes to try next: one that changes results would hide that another does."""
        fixes = self.fixes(self.state)
        same = {self._place(fix) for fix in fixes if not fix.changes_results}
        return [
            fix for fix in fixes if not fix.changes_results or not same & {self._place(fix), None}
        ] or fixes

    def _place(self, fix: Fix) -> Any:
        """Return the place of the kernel that a fix is in, None for one outside of all."""
        record = self._kernel(fix)
        return None if record is None else record.place

    def _kernel(self, fix: Fix) -> KernelRecord | None:
        return self.before.kernel_at(str(fix.path), fix.first)

    def _apply(self, fixes: list[Fix]) -> None:
        """Apply those of some fixes that hold together."""
        while fixes:
            try:
                self._hold(fixes)
                return
            except _RejectedError as error:
                fixes = self._without_fault(fixes, error)

    def _without_fault(self, fixes: list[Fix], error: _RejectedError) -> list[Fix]:
        """Return the fixes to try next: without those at fault, of other kernels, or half."""
        reasons = dict(error.reasons)
        if not reasons:
            others = [fix for fix in fixes if self._place(fix) not in error.kernels]
            if others and len(others) < len(fixes):
                return others
            if len(fixes) > 1:
                return fixes[: len(fixes) // 2]
            reasons[0] = str(error)
        for number, reason in reasons.items():
            self._rejected[fixes[number].identity] = reason
            for finding in fixes[number].findings:
                self._refused[_at(self.state, finding)] = reason
        return [fix for number, fix in enumerate(fixes) if number not in reasons]

    def _hold(self, fixes: list[Fix]) -> None:
        """Apply fixes if they hold together.

        An error at which a kernel stopped hides those behind it, and one of an operand that of
        the next operand. What fixes reveal is fixed with them, or they are rejected.

        Raises:
            _RejectedError: They do not hold.
        """
        first, state, fixed = fixes, self.state, list[tuple[Path, Finding]]()
        goals = {key for fix in fixes for f in fix.findings for key in state.keys(f)}
        changed = {self._place(fix) for fix in fixes if fix.changes_results}
        later: list[Fix] = []
        left: dict[Key, str] = {}
        records: dict[tuple[str, str], KernelRecord] = {}
        texts = set(self._texts)
        for _ in range(_MOST_ROUNDS):
            try:
                after = self._checked(state, fixes, texts)
            except _UndoneError as error:
                raise self._fault(first, left) if left else error from None
            for fix in fixes:
                fixed += [(fix.path, state.with_line_before(finding)) for finding in fix.findings]
            state = after
            records |= {key: r for key, r in state.ledger.kernels.items() if r.runs}
            ended = {key for key in goals.union(left) if self._ran(state, key)}
            keys = set(state.errors - self.state.errors)
            keys |= {key for key in goals & ended if state.found[key] >= self.state.found[key]}
            left = {key: reason for key, reason in left.items() if key not in ended}
            left |= {key: _described(key, state) for key in keys}
            fixes = [
                fix
                for fix in (self.fixes(state) if left else ())
                if not keys.isdisjoint(key for f in fix.findings for key in state.keys(f))
            ]
            kernels = {self._place(fix) for fix in fixes}
            lost = {k: r for k, r in left.items() if not kernels & {self._place_of(k), None}}
            if lost:
                raise self._fault(first, lost)
            if not fixes:
                break
            later += fixes
            changed |= {self._place(fix) for fix in fixes if fix.changes_results}
        else:
            raise self._fault(first, left)
        if None not in changed:
            self._compare(first, records, changed)
        if later and not self.writes:
            self._describe(first, later, state, fixed[sum(len(f.findings) for f in first) :])
        self.fixed += fixed
        self.state = state
        self._texts.add(self._text(state.files))

    def _checked(self, state: State, fixes: Sequence[Fix], texts: set[tuple[str, ...]]) -> State:
        """Return the state after fixes."""
        files = dict(state.files)
        for path in {fix.path for fix in fixes}:
            edits = [edit for fix in fixes if fix.path == path for edit in fix.edits]
            try:
                files[path] = files[path].edited(edits)
            except NotPythonError as error:
                raise _RejectedError(f"the result is not valid Python: {error}") from error
        if self._text(files) in texts:
            raise _UndoneError("it would undo another fix")
        texts.add(self._text(files))
        if not self.writes and self._left < 0:
            raise _SpentError
        with drafts({path: draft.source for path, draft in files.items()}):
            settings = self._running(state, fixes)
            after = State(files, check_files(self.wanted, settings), settings.whole)
        self._left -= after.ledger.instructions
        return after

    def _running(self, state: State, fixes: Sequence[Fix]) -> CheckSettings:
        """Return the settings of a trial.

        A report runs the kernels that still have fixes, wholly on one generation that has all their
        findings. Of a kernel that a refused instruction stopped, legality alone is checked.
        """
        common: dict[str, set[str]] = {}
        refused: dict[str, bool] = {}
        for fix in () if self.writes else (*fixes, *self.fixes(state)):
            record = self._kernel(fix)
            if record is None:
                return self.settings
            here = common.setdefault(record.name, set(self.settings.targets))
            for finding in fix.findings:
                here &= set(finding.targets or here)
            stops = all(f.rule.meaningless or not f.targets for f in fix.findings)
            ended = set(record.stopped) != set(record.targets)
            refused[record.name] = refused.get(record.name, not ended) and stops
        whole = {
            name: () if refused[name] else sorted(here)[-1:] or self.settings.targets
            for name, here in common.items()
        }
        return self.settings if self.writes else replace(self.settings, whole=whole)

    def _fault(self, fixes: Sequence[Fix], left: Mapping[Key, str]) -> _RejectedError:
        """Return the error of fixes after which findings are left."""
        reasons: dict[int, str] = {}
        for key, reason in left.items():
            for number, fix in enumerate(fixes):
                goals = {goal for finding in fix.findings for goal in self.state.keys(finding)}
                here = str(fix.path) == key[1] and fix.first <= key[2] <= fix.last
                if here or key in goals:
                    reasons.setdefault(number, reason)
        kernels = {self._place_of(key) for key in left}
        return _RejectedError(next(iter(left.values())), reasons, kernels)

    def _place_of(self, key: Key) -> Any:
        record = self.before.kernel_at(key[1], key[2])
        return None if record is None else record.place

    def _ran(self, state: State, key: Key) -> bool:
        """Return whether the kernel of a finding could run in a trial."""
        record = self.before.kernel_at(key[1], key[2])
        return state.ran is None or record is None or record.name in state.ran

    def _compare(
        self,
        fixes: Sequence[Fix],
        records: Mapping[tuple[str, str], KernelRecord],
        changed: set[Any],
    ) -> None:
        """Compare the results of kernels with those before fixes, where they must stay."""
        for key, record in records.items():
            earlier, place = self.state.ledger.kernels.get(key), self._places.get(key)
            if earlier is None or place in changed:
                continue
            for number, new in record.results.items():
                old = earlier.results.get(number, ("", ()))
                if not old[1] or not new[1]:
                    continue  # one of the runs was stopped
                reason = ""
                if old[0] != new[0]:
                    reason = (
                        f"the results of {record.name} cannot be compared, its arguments differ "
                        "from run to run; seed their random numbers"
                    )
                elif not _same_results(old[1], new[1]):
                    reason = f"{record.name} would compute other results"
                if reason:
                    mine = [n for n, fix in enumerate(fixes) if self._place(fix) == place]
                    one = {mine[0]: reason} if len(mine) == 1 else {}
                    raise _RejectedError(reason, one, {place})

    def _describe(
        self, first: Sequence[Fix], later: Sequence[Fix], state: State, revealed: list[Any]
    ) -> None:
        """Keep the code of fixes that took several rounds, and what the others revealed."""
        own = {_at(self.state, finding) for fix in first for finding in fix.findings}
        known = {_at(self.before, f) for f in self.before.ledger.findings} - own
        new = [finding for _, finding in revealed if _at(self.before, finding) not in known]
        stopped = {self._place(f) for f in first if any(x.rule.meaningless for x in f.findings)}
        for fix in first:
            inside = [f for f in later if f.path == fix.path and fix.first <= f.first <= fix.last]
            lines = range(fix.first, fix.last + 1)
            here = [f for f in new if f.file == str(fix.path) and f.line in lines]
            code = state.files[fix.path].made_of(fix.first, fix.last)
            others = [
                f"behind it: {f.headline} in line {f.line}"
                for f in new
                if f not in here and self.before.kernel_at(f.file, f.line) is self._kernel(fix)
            ]
            for finding in fix.findings:
                at = _at(self.state, finding)
                if inside and len(here) >= len(inside):
                    self._code[at] = code
                if finding.rule.meaningless or self._place(fix) not in stopped:
                    self._notes[at] = tuple(dict.fromkeys(others))

    def mark(self, state: State) -> Ledger:
        """Mark the findings whose code was tried, and take their code from those where it fails."""
        present = self.fixed if state is self.before else []
        done = {_at(self.before, finding) for _, finding in present}
        coded = [finding for finding in state.ledger.findings if finding.rewrite is not None]
        held = [f.rewrite for f in coded if _at(state, f) in done]
        for finding in coded:
            at, rewrite = _at(state, finding), finding.rewrite
            assert rewrite is not None
            if at in done:
                finding.tried = True
                finding.rewrite = rewrite._replace(code=self._code.get(at, rewrite.code))
                finding.notes += self._notes.get(at, ())
            elif at in self._refused:
                reject([finding], self._refused[at])
            elif reason := state.untried(finding):
                finding.untried = reason
            elif any(r.file == rewrite.file and _overlap(r, rewrite) for r in held if r):
                reject([finding], "the code of another finding changes the same lines")
            else:
                finding.untried = "the trials took too long"
        return state.ledger

    @staticmethod
    def _text(files: Mapping[Path, Draft]) -> tuple[str, ...]:
        return tuple(draft.source.text for draft in files.values())


def _at(state: State, finding: Finding) -> _Place:
    return state.key(finding, "")[:3]


def _overlap(a: Rewrite, b: Rewrite) -> bool:
    return a.first <= b.last and b.first <= a.last


def _same_results(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> bool:
    """Return whether results are the same up to rounding, by the comparator of ``judge``."""
    from nkisim.trials.comparison import compare

    types = [[array.dtype for array in arrays] for arrays in (before, after)]
    return types[0] == types[1] and compare(after, before)(*before).passed


def _described(key: Key, state: State) -> str:
    """Return the first finding of a key, or the exception, in words."""
    for finding in state.findings:
        if key in state.keys(finding):
            on = f" on {', '.join(finding.targets)}" if finding.targets else ""
            return f"the result would have {finding.headline} in line {finding.line}{on}"
    return f"the result would be stopped by {key[0]}"


def tried_files(wanted: _Wanted, settings: CheckSettings) -> Ledger:
    """Check files and try the code of their findings; what fails has none in the result.

    Raises:
        ValueError: As ``check_files``.
    """
    trials = _Trials(wanted, settings, writes=False)
    trials.run()
    return trials.mark(trials.before)


def fix_files(
    wanted: _Wanted, settings: CheckSettings, *, write: bool
) -> tuple[Ledger, list[FixedFile]]:
    """Check files and fix what their findings have code for; return what remains, and the files.

    Without ``write`` the files stay as they are, and the ledger has the present findings. Only the
    files of ``wanted`` are changed, not the ones that they import.

    Raises:
        ValueError: As ``check_files``.
    """
    trials = _Trials(wanted, settings, writes=True)
    trials.run()
    before = trials.before
    files = [
        FixedFile(
            path, before.files[path].source, draft.source, [f for p, f in trials.fixed if p == path]
        )
        for path, draft in trials.state.files.items()
    ]
    if not write:
        return trials.mark(before), files
    for file in files:
        if file.changed:
            file.write()
    written = not any(file.problem for file in files)
    state = trials.state if written else State(before.files, check_files(wanted, settings))
    ledger = trials.mark(state)
    ledger.fixed = [finding for file in files for finding in file.fixed]
    return ledger, files
