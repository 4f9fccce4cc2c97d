"""The recorder of a run, and the one function that raises or records findings.

``flag`` is the only entry point: it builds the finding for the user's line; the recorder of the
current run decides whether to raise, record or ignore it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from contextvars import ContextVar
from typing import Any, Literal

from nkisim.diagnostics.findings import Fact, Finding, NkiValidationError, in_order
from nkisim.diagnostics.frames import Place, user_locals, user_place
from nkisim.diagnostics.ignores import silencing_line
from nkisim.diagnostics.rules import Rule, Severity

Strictness = Literal["simulate", "strict", "check"]


class Recorder:
    """Collects the findings of one run and decides which of them stop it.

    Attributes:
        strictness: Level of the run.
        errors: Ids of rules that are errors in this run, whatever their severity.
        ignored: Ids of rules that are not reported in this run.
        watches_values: True when results are checked for NaN and infinity.
        silenced: File, line and rule id of findings that a comment silenced.

    A finding is *folded* into an earlier one of equal severity and equal cause: the same rule,
    broken by the same view or tile, or by another operand of the same call. The earlier finding
    lists the first few places of the folded ones.

    A finding is *suspended* while its effect is unknown: it is recorded with a lower severity and
    numbered. It is *confirmed* when the effect is observed.
    """

    def __init__(
        self,
        strictness: Strictness,
        errors: Collection[str] = (),
        ignored: Collection[str] = (),
    ) -> None:
        self.strictness = strictness
        self.errors = frozenset(errors)
        self.ignored = frozenset(ignored)
        self.silenced: set[tuple[str, int, str]] = set()
        self.watches_values = strictness != "simulate" or bool(errors)
        self._folded: dict[FindingKey, Finding] = {}
        self._causes: dict[tuple[str, Hashable], Finding] = {}
        self._withdrawn: set[tuple[str, str, int]] = set()
        self._suspended: list[Finding] = []
        self._confirmed: dict[FindingKey, Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """The findings so far, in order."""
        return in_order(self._folded.values())

    def stops(self, finding: Finding) -> bool:
        """Return whether a finding must raise."""
        return finding.rule.meaningless or (
            self.strictness == "strict" and finding.severity == "error"
        )

    def silences(self, finding: Finding) -> bool:
        """Return whether a finding is ignored; findings without a natural result never are."""
        if finding.rule.meaningless:
            return False
        comment = silencing_line(finding.file, finding.line, finding.rule.id)
        if comment:
            self.silenced.add((finding.file, comment, finding.rule.id))
        return comment > 0 or finding.rule.id in self.ignored

    def has_equal(self, finding: Finding) -> bool:
        """Return whether an equal finding of the same line is recorded."""
        return key_of(finding) in self._folded

    def add(self, finding: Finding, cause: Hashable = None) -> Finding:
        """Record a finding; return it, or the earlier one that it is folded into.

        Equal findings of one line are counted. ``cause`` identifies what the finding is about, such
        as a view, which may break the rule at several lines.
        """
        key = key_of(finding)
        if key[:3] in self._withdrawn:
            return finding
        known = self._confirmed.get(key) or self._folded.get(key)
        if known is not None:
            known.count += 1
            return known
        lower = self._lower(finding)
        if lower is not None:
            self._folded = {
                key if f is lower else k: finding if f is lower else f
                for k, f in self._folded.items()
            }
            return finding
        causes: list[Hashable] = [] if cause is None else [cause]
        if finding.rule.whole_call:
            causes.append((finding.file, finding.line, finding.instruction))
        for part in causes:
            earlier = self._causes.setdefault((finding.rule.id, part), finding)
            if earlier is not finding and earlier.severity in ("error", finding.severity):
                _also(earlier, finding)
                return earlier
        self._folded[key] = finding
        return finding

    def _lower(self, finding: Finding) -> Finding | None:
        """Return an equal finding of lower severity that is not suspended, or None."""
        for severity in ("note", "warning"):
            known = self._folded.get((*key_of(finding)[:-1], severity))
            suspended = any(known is other for other in self._suspended)
            if known is not None and finding.severity == "error" and not suspended:
                return known
        return None

    def withdraw(self, rule: Rule, file: str, line: int) -> None:
        """Remove the findings of a rule at a line, because a later finding explains them."""
        self._withdrawn.add((rule.id, file, line))
        self._folded = {k: f for k, f in self._folded.items() if k[:3] not in self._withdrawn}

    def recorded(
        self, rules: Collection[str], instruction: str, place: Place | None = None
    ) -> Finding | None:
        """Return the first finding of ``rules`` about an instruction, at ``place`` or anywhere."""
        for finding in self._folded.values():
            at = place is None or (finding.file, finding.line) == (place.file, place.line)
            if at and finding.rule.id in rules and finding.instruction == instruction:
                return finding
        return None

    def suspend(self, finding: Finding, most: int) -> int:
        """Return the number (from 1) of a suspended finding; all beyond ``most`` share the last."""
        key = key_of(finding)
        known = self._confirmed.get(key) or self._folded.get(key, finding)
        for number, suspended in enumerate(self._suspended, 1):
            if suspended is known:
                return min(number, most)
        self._suspended.append(known)
        return min(len(self._suspended), most)

    def confirm(self, number: int, most: int, consequence: str) -> None:
        """Make a suspended finding as severe as its rule, and note why."""
        last = number if number < most else len(self._suspended)
        for finding in self._suspended[number - 1 : last]:
            if consequence not in finding.notes:
                finding.notes += (consequence,)
            if finding.severity == finding.rule.severity or self.silences(finding):
                continue
            waiting = key_of(finding)
            finding.level = None
            if self.stops(finding):
                self._folded.pop(waiting, None)
                raise NkiValidationError(finding)
            self._confirmed[waiting] = finding
            # A new dict keeps the order of the findings although the key changes.
            self._folded = {
                key_of(f) if f is finding else key: f for key, f in self._folded.items()
            }


_MOST_PLACES = 3
"""Number of other places that a finding names."""


def _also(finding: Finding, other: Finding) -> None:
    """Note the place of another finding with the same cause."""
    what = " ".join(part for part in (other.instruction, other.operand) if part)
    if (other.file, other.line) == (finding.file, finding.line):
        note = f"also {other.operand}"
    else:
        note = f"also {what} at {other.file}:{other.line}"
    more = [n for n in finding.notes if n.startswith("also ")]
    if note not in more and len(more) < _MOST_PLACES:
        finding.notes += (note,)


FindingKey = tuple[str, str, int, str, str, str]


def key_of(finding: Finding) -> FindingKey:
    """Return the key under which equal findings are counted as one."""
    return (
        finding.rule.id,
        finding.file,
        finding.line,
        finding.instruction,
        finding.operand,
        finding.severity,
    )


RECORDER: ContextVar[Recorder | None] = ContextVar("nkisim_recorder", default=None)
"""Recorder of the run in this context; None outside a run."""


def _variables() -> tuple[Fact, ...]:
    """Return the tensors among the variables of the running function."""
    return tuple(
        Fact("", name, tuple(value.shape), str(value.dtype), value.buffer.value)
        for name, value in user_locals().items()
        # Tensors only; this package cannot import their class.
        if hasattr(type(value), "get_pattern") and hasattr(value, "buffer")
    )


def flag(
    rule: Rule,
    message: str,
    *,
    instruction: str = "",
    operand: str = "",
    seen: object = "",
    allowed: object = "",
    fix: str = "",
    notes: tuple[str, ...] = (),
    place: Place | None = None,
    severity: Severity | None = None,
    error: type[NkiValidationError] = NkiValidationError,
    facts: tuple[Fact, ...] = (),
    data: Mapping[str, Any] | None = None,
    stops: bool = False,
    cause: Hashable = None,
) -> Finding:
    """Raise or record a finding of ``rule``, depending on the strictness of the current run.

    ``severity`` replaces the severity of the rule in this case. ``stops`` is True if this case has
    no natural result, although other cases of the rule have one. ``cause`` identifies a view or a
    tile that breaks the rule wherever it is used: see ``Recorder``. Outside a run there is no
    recorder: a finding without a natural result raises, others are only returned.
    """
    stops = stops or rule.meaningless
    recorder = RECORDER.get()
    finding = Finding(
        rule,
        message,
        place or user_place(),
        instruction,
        operand,
        " ".join(str(seen).split()),  # an array takes several lines
        str(allowed),
        fix,
        notes,
        level=severity,
        facts=facts,
        data=data or {},
    )
    if recorder is None:
        if stops:
            raise error(finding)
        return finding
    if rule.id in recorder.errors:
        finding.level = "error"
    if not recorder.has_equal(finding):
        finding.facts += _variables()
    if not stops and recorder.silences(finding):
        return finding
    if stops or recorder.stops(finding):
        raise error(finding)
    return recorder.add(finding, cause)
