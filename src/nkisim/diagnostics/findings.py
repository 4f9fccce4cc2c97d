"""Findings, the report that collects them, and the one function that raises or records.

``flag`` is the only door: it builds the finding at the user's line and asks the recorder of the
current run what to do.

    NkiValidationError (AssertionError)
      NkiCallError (also TypeError)        a call that does not fit the 0.3.0 signature
    NkiFindingWarning (UserWarning)        a run recorded error-severity findings
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from nkisim.diagnostics.frames import Place, user_place
from nkisim.diagnostics.rules import Rule, Severity

__all__ = [
    "RECORDER",
    "Finding",
    "NkiCallError",
    "NkiFindingWarning",
    "NkiValidationError",
    "Recorder",
    "Report",
    "Strictness",
    "flag",
]

Strictness = Literal["simulate", "strict", "check"]


@dataclass(slots=True, repr=False)
class Finding:
    """One rule found at one place; equal findings of a line fold into a count.

    ``level`` is a severity other than the rule's: lower where the case is harmless, or that of an
    error because the caller asked for it.
    """

    rule: Rule
    message: str
    place: Place
    instruction: str = ""
    operand: str = ""
    seen: str = ""
    allowed: str = ""
    fix: str = ""
    notes: tuple[str, ...] = ()
    count: int = 1
    level: Severity | None = None

    @property
    def severity(self) -> Severity:
        """How bad it is: the rule's severity, unless this case has its own."""
        return self.level or self.rule.severity

    @property
    def file(self) -> str:
        """File of the user's line."""
        return self.place.file

    @property
    def line(self) -> int:
        """Line number in that file."""
        return self.place.line

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return {
            "rule": self.rule.id,
            "slug": self.rule.slug,
            "severity": self.severity,
            "message": self.message,
            "file": self.file,
            "line": self.line,
            "loops": dict(self.place.loops),
            "instruction": self.instruction,
            "operand": self.operand,
            "seen": self.seen,
            "allowed": self.allowed,
            "fix": self.fix,
            "notes": list(self.notes),
            "count": self.count,
        }

    def __str__(self) -> str:
        return "\n".join([f"{self.headline}: {self.message}", *self.details()])

    @property
    def headline(self) -> str:
        """Severity, id and slug."""
        return f"{self.severity}[{self.rule.id}] {self.rule.slug}"

    def __repr__(self) -> str:
        return f"<{self.headline} at {self.place}>"

    def details(self) -> list[str]:
        """Return place, operands, reason and remedy, a line each."""
        source = self.place.text
        lines = [f"  --> {self.place}" + (f"   {source}" if source else "")]
        lines += [f"      {note}" for note in self.notes]
        if self.seen or self.allowed:
            lines.append(
                f"  seen  {self.seen}" + (f"; allowed {self.allowed}" if self.allowed else "")
            )
        lines.append(f"  why   {self.rule.matters}")
        if self.fix:
            lines.append(f"  fix   {self.fix}")
        if self.count > 1:
            lines.append(f"  count {self.count}")
        return lines


class NkiValidationError(AssertionError):
    """A kernel does what NKI 0.3.0 forbids; ``finding`` says what, where and how to mend it."""

    __module__ = "nkisim"

    def __init__(self, finding: Finding) -> None:
        super().__init__("\n".join([finding.message, finding.headline, *finding.details()]))
        self.finding = finding

    @property
    def rule_id(self) -> str:
        """Catalogue id of the broken rule."""
        return self.finding.rule.id

    def __reduce__(self) -> tuple[Any, ...]:
        # What an exception is made from is not what it is called with; processes hand it on so.
        return type(self), (self.finding,)


class NkiCallError(NkiValidationError, TypeError):
    """A call whose arguments do not fit the 0.3.0 signature."""


class NkiFindingWarning(UserWarning):
    """The kernel computed a result, but the device would refuse or corrupt something in it."""

    __module__ = "nkisim"


@dataclass(repr=False)
class Report:
    """What a run found. Data first; ``str(report)`` is one way to show it.

    Attributes:
        findings: In order of first appearance, repeats folded.
        outputs: What the kernel returned, or None when it was stopped.
        target: Generation that was simulated.
        stopped: Why the kernel did not run to its end; empty when it did.
    """

    findings: list[Finding] = field(default_factory=list)
    outputs: Any = None
    target: str = ""
    stopped: str = ""

    @property
    def ok(self) -> bool:
        """True when the kernel ran to its end and no finding has error severity."""
        return not self.stopped and not self.errors

    @property
    def codes(self) -> set[str]:
        """Ids of the rules that were found."""
        return {f.rule.id for f in self.findings}

    @property
    def errors(self) -> list[Finding]:
        """The findings of error severity."""
        return [f for f in self.findings if f.severity == "error"]

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def summary(self) -> str:
        """Return the closing line: counts by severity, and what stopped the kernel."""
        stopped = f"; the kernel was stopped by {self.stopped}" if self.stopped else ""
        if not self.findings:
            return "no findings" + stopped
        counts = [
            f"{n} {severity}{'s' if n > 1 else ''}"
            for severity in ("error", "warning", "note")
            if (n := sum(f.severity == severity for f in self.findings))
        ]
        total = len(self.findings)
        return f"{total} finding{'s' if total > 1 else ''}: " + ", ".join(counts) + stopped

    def to_json(self) -> str:
        """Return the report, without the outputs, as JSON text."""
        data = {
            "target": self.target,
            "ok": self.ok,
            "stopped": self.stopped,
            "findings": [f.to_dict() for f in self.findings],
        }
        return json.dumps(data, indent=2)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.findings), self.summary()])

    __repr__ = __str__  # what notebooks and test reports show


class Recorder:
    """Collects the findings of one run and decides which of them stop it.

    Attributes:
        strictness: Level of the run.
        errors: Ids of rules that are errors in this run, whatever their severity.
        watches_values: True when results are looked at for NaN and infinity.

    A finding whose consequence is not known yet is *suspended*: recorded with a lower severity and
    numbered. It is *confirmed* when the consequence shows.
    """

    def __init__(self, strictness: Strictness, errors: Collection[str] = ()) -> None:
        self.strictness = strictness
        self.errors = frozenset(errors)
        self.watches_values = strictness != "simulate" or bool(errors)
        self._folded: dict[_Key, Finding] = {}
        self._suspended: list[Finding] = []
        self._confirmed: dict[_Key, Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """The findings so far."""
        return list(self._folded.values())

    def stops(self, finding: Finding) -> bool:
        """Tell whether a finding must raise."""
        return finding.rule.meaningless or (
            self.strictness == "strict" and finding.severity == "error"
        )

    def add(self, finding: Finding) -> None:
        """Record a finding, folding it into an equal one of the same line."""
        key = _key(finding)
        known = self._confirmed.get(key) or self._folded.setdefault(key, finding)
        if known is not finding:
            known.count += 1

    def suspend(self, finding: Finding, most: int) -> int:
        """Return a number, from 1, for a recorded finding; all beyond ``most`` share the last."""
        key = _key(finding)
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
            if finding.severity == finding.rule.severity:
                continue
            waiting = _key(finding)
            finding.level = None
            if self.stops(finding):
                self._folded.pop(waiting, None)
                raise NkiValidationError(finding)
            self._confirmed[waiting] = finding
            # It keeps its place among the others.
            self._folded = {_key(f) if f is finding else key: f for key, f in self._folded.items()}


_Key = tuple[str, str, int, str, str, str]


def _key(finding: Finding) -> _Key:
    """Return what findings have in common that are folded into one."""
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
) -> Finding:
    """Raise or record a finding of ``rule``, as the strictness of the current run asks.

    ``severity`` is that of this case, where it differs from the rule's. Outside a run only rules
    without a natural result raise; there is nowhere to record the rest.
    """
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
    )
    if recorder is None:
        if rule.meaningless:
            raise error(finding)
        return finding
    if rule.id in recorder.errors:
        finding.level = "error"
    if recorder.stops(finding):
        raise error(finding)
    recorder.add(finding)
    return finding
