"""Findings, and the one function that raises or records them.

``flag`` is the only entry point: it builds the finding for the user's line; the recorder of the
current run decides whether to raise, record or ignore it.

    NkiValidationError (AssertionError)
      NkiCallError (also TypeError)        a call that does not fit the 0.3.0 signature
    NkiFindingWarning (UserWarning)        a run recorded error-severity findings
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from nkisim.diagnostics.frames import Place, user_locals, user_place
from nkisim.diagnostics.ignores import silencing_line
from nkisim.diagnostics.pictures import Bitmap
from nkisim.diagnostics.rules import Rule, Severity

__all__ = [
    "DATA",
    "MOST_SHOWN",
    "RECORDER",
    "Fact",
    "Finding",
    "NkiCallError",
    "NkiFindingWarning",
    "NkiValidationError",
    "Recorder",
    "Rewrite",
    "Strictness",
    "flag",
]

MOST_SHOWN = 200
"""Maximum number of findings in text, GitHub and HTML output; JSON has all of them."""

DATA: Mapping[str, str] = {
    "buffer": "L060: memory of the returned tensor",
    "call": "L021: the call, as it is written",
    "columns": "M009: columns of the tile, if it has two dimensions",
    "condition": "L027: whether the comparison decides a branch",
    "elements": "M001: number of elements that are read",
    "expression": "L019: the division, as it is written",
    "extent": "S009: extent of the dimension",
    "is_none": "A025: whether None is given for a tensor or a register",
    "keyword": "A025: the argument that the function does not have",
    "member": "A013: class and name of the enum member that an integer stands for",
    "module": "A025: the module of NKI that a name is missing in",
    "rows": "S001: rows of the tile",
    "start": "S009: start of the slice",
    "unwritten": "M001: how many of the elements nothing has written",
    "unwritten_box": "M006: start and stop per dimension of the box around unwritten elements",
    "who": "C rules with a line of each core: the core or rank of the finding's own line",
}
"""Keys of the data of findings: the rules that have them, and their meaning."""

Strictness = Literal["simulate", "strict", "check"]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Replacement code for lines of the user's file.

    Attributes:
        file: The file.
        first, last: First and last line number of the replaced lines.
        code: The new lines, with the indentation of the file.
    """

    file: str
    first: int
    last: int
    code: str

    def shown(self) -> list[str]:
        """Return the lines without their common indentation."""
        return textwrap.dedent(self.code).splitlines()

    def applied(self, text: str) -> str:
        """Return the text of a file with the rewrite applied."""
        lines = text.splitlines()
        lines[self.first - 1 : self.last] = self.code.splitlines()
        return "\n".join(lines) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Return the rewrite as plain data."""
        return {"file": self.file, "first": self.first, "last": self.last, "code": self.code}


@dataclass(frozen=True, slots=True)
class Fact:
    """A tensor involved in a finding: an argument of the call or a variable.

    Attributes:
        argument: Parameter of the instruction; empty for a variable.
        name: Name of the variable, or of the tensor.
        shape, dtype, buffer: Its properties, where known.
        of: Shape of the tensor that it is a view of.
        pattern, offset: Access pattern of the view: ``(step, count)`` per dimension.
    """

    argument: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    buffer: str
    of: tuple[int, ...] = ()
    pattern: tuple[tuple[int, int], ...] = ()
    offset: int = 0


@dataclass(slots=True, repr=False)
class Finding:
    """One violation of a rule at one place; equal findings of a line are counted, not repeated.

    Attributes:
        rule: The rule.
        message: Description of the fault in one sentence.
        place: The user's line.
        instruction, operand: Name of the instruction, and of the argument at fault.
        seen, allowed: The value found, and the legal values.
        fix: Fix, in words.
        notes: Other places and operands involved.
        count: Number of occurrences at this line.
        level: Severity that overrides the rule's: lower for a harmless case, ``"error"`` where the
            caller selected that.
        rewrite: Fix as code to paste, where one is known.
        targets: Generations with this finding, where several were simulated.
        facts: Tensors of the call; input of the suggested rewrite.
        span: First line and column, last line and column of the operand's text, where known; lines
            count from 1, columns from 0.
        picture: Map of the elements at fault, where there is one.
        data: Values that the texts are made from, with keys of ``DATA``. Code reads these; texts
            are for people.
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
    rewrite: Rewrite | None = None
    targets: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    span: tuple[int, int, int, int] | None = None
    picture: Bitmap | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def severity(self) -> Severity:
        """Severity: ``level`` where it is set, else the rule's."""
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
            "targets": list(self.targets),
            "span": None if self.span is None else list(self.span),
            "rewrite": None if self.rewrite is None else self.rewrite.to_dict(),
            "data": dict(self.data),
        }

    def __str__(self) -> str:
        return "\n".join([self.summary, *self.details()])

    @property
    def headline(self) -> str:
        """Severity, id and slug."""
        return f"{self.severity}[{self.rule.id}] {self.rule.slug}"

    @property
    def summary(self) -> str:
        """Severity, id, slug and message in one line."""
        return f"{self.headline}: {self.message}"

    def __repr__(self) -> str:
        return f"<{self.headline} at {self.place}>"

    def details(self) -> list[str]:
        """Return place, operands, reason and fix, a line each."""
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
        if self.rewrite is not None:
            lines += [
                f"  {'code' if i == 0 else '    '}  {line}"
                for i, line in enumerate(self.rewrite.shown())
            ]
        if self.targets:
            lines.append(f"  on    {', '.join(self.targets)}")
        if self.count > 1:
            lines.append(f"  count {self.count}")
        return lines


class NkiValidationError(AssertionError):
    """A kernel violates a rule of NKI 0.3.0; ``finding`` has the message, the place and the fix."""

    __module__ = "nkisim"

    def __init__(self, finding: Finding) -> None:
        super().__init__(_as_text(finding))
        self.finding = finding

    def rewritten(self, rewrite: Rewrite | None) -> None:
        """Add code to paste to the finding, and to the text."""
        self.finding.rewrite = rewrite
        self.args = (_as_text(self.finding),)

    @property
    def rule_id(self) -> str:
        """Catalogue id of the broken rule."""
        return self.finding.rule.id

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle would call the class with the text, not with the finding.
        return type(self), (self.finding,)


def _as_text(finding: Finding) -> str:
    return "\n".join([finding.message, finding.headline, *finding.details()])


class NkiCallError(NkiValidationError, TypeError):
    """A call whose arguments do not fit the 0.3.0 signature."""


class NkiFindingWarning(UserWarning):
    """The kernel computed a result, but has findings of error severity."""

    __module__ = "nkisim"


class Recorder:
    """Collects the findings of one run and decides which of them stop it.

    Attributes:
        strictness: Level of the run.
        errors: Ids of rules that are errors in this run, whatever their severity.
        ignored: Ids of rules that are not reported in this run.
        watches_values: True when results are checked for NaN and infinity.
        silenced: File, line and rule id of findings that a comment silenced.

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
        self._folded: dict[_Key, Finding] = {}
        self._suspended: list[Finding] = []
        self._confirmed: dict[_Key, Finding] = {}

    @property
    def findings(self) -> list[Finding]:
        """The findings so far."""
        return list(self._folded.values())

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

    def knows(self, finding: Finding) -> bool:
        """Return whether an equal finding of the same line is recorded."""
        return _key(finding) in self._folded

    def add(self, finding: Finding) -> None:
        """Record a finding, folding it into an equal one of the same line."""
        key = _key(finding)
        known = self._confirmed.get(key) or self._folded.setdefault(key, finding)
        if known is not finding:
            known.count += 1

    def suspend(self, finding: Finding, most: int) -> int:
        """Return the number (from 1) of a suspended finding; all beyond ``most`` share the last."""
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
            if finding.severity == finding.rule.severity or self.silences(finding):
                continue
            waiting = _key(finding)
            finding.level = None
            if self.stops(finding):
                self._folded.pop(waiting, None)
                raise NkiValidationError(finding)
            self._confirmed[waiting] = finding
            # The order of the findings does not change.
            self._folded = {_key(f) if f is finding else key: f for key, f in self._folded.items()}


_Key = tuple[str, str, int, str, str, str]


def _key(finding: Finding) -> _Key:
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
        # A tensor; its class is in a higher layer.
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
) -> Finding:
    """Raise or record a finding of ``rule``, depending on the strictness of the current run.

    ``severity`` is that of this case, where it differs from the rule's. ``stops`` is True for a
    case without a natural result of a rule that usually has one. Outside a run only what has no
    natural result raises; there is nowhere to record the rest.
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
    if not recorder.knows(finding):
        finding.facts += _variables()
    if not stops and recorder.silences(finding):
        return finding
    if stops or recorder.stops(finding):
        raise error(finding)
    recorder.add(finding)
    return finding
