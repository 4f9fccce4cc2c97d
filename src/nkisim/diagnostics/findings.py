"""Findings: their data, their text, and the exceptions that carry them.

NkiValidationError (AssertionError)
  NkiCallError (also TypeError)        a call that does not fit the 0.3.0 signature
NkiFindingWarning (UserWarning)        a run recorded error-severity findings
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nkisim.diagnostics.frames import Place
from nkisim.diagnostics.pictures import Bitmap
from nkisim.diagnostics.rules import Rule, Severity

MOST_SHOWN = 200
"""Maximum number of findings in text, GitHub and HTML output; JSON contains all of them."""

DATA: Mapping[str, str] = {
    "buffer": "L060: memory of the returned tensor",
    "by_address": "M030: whether the two are tensors of their own, at one address",
    "call": "L021: the call, as it is written",
    "columns": "M009: columns of the tile, if it has two dimensions",
    "condition": "L027: whether the comparison decides a branch",
    "dtypes": "D004, D007, D032: types that the operand may have, the usual one first",
    "elements": "M001: number of elements that are read",
    "expression": "L019: the division, as it is written",
    "extent": "S009: extent of the dimension",
    "is_none": "A025: whether None is given for a tensor or a register",
    "keyword": "A025, A032, A044: the argument that the function does not have",
    "makes": "rules about what an instruction reads: the NaN or infinity that it makes from it",
    "member": "A013: class and name of the enum member that an integer stands for",
    "module": "A025: the module of NKI, or NkiTensor, that a name is missing in",
    "outputs": "D020, D031, D042: outputs that have NaN or infinity although all inputs are finite",
    "renamed": "A032, A044: the parameter that has the meaning of the argument",
    "rows": "S001: rows of the tile",
    "shape": "S039, S046, S054: the shape that the operand must have",
    "shapes": "S008, S064: the shapes of the two tensors",
    "start": "S009: start of the slice",
    "unwritten": "M001: how many of the elements nothing has written",
    "unwritten_box": "M006: start and stop per dimension of the box around unwritten elements",
    "who": "C rules with a line of each core: the core or rank of the finding's own line",
}
"""Keys of the data of findings: the rules that have them, and their meaning."""


class Rewrite(NamedTuple):
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


class Fact(NamedTuple):
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
        tried: Whether the code was tried: applied to a copy of the file that was checked and run.
        untried: Reason why not, where a trial was wanted.
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
    tried: bool = False
    untried: str = ""

    @property
    def severity(self) -> Severity:
        """Severity: ``level`` where it is set, else the rule's."""
        return self.level or self.rule.severity

    @property
    def refuses(self) -> bool:
        """Whether the compiler or the device refuses the kernel for it."""
        return self.severity == "error" and self.rule.silent is not True

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
            "rewrite": None if self.rewrite is None else self.rewrite._asdict(),
            "tried": None if self.rewrite is None else self.tried,
            "untried": self.untried,
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
        if self.untried:
            lines.append(f"  note  not tried: {self.untried}")
        if self.targets:
            lines.append(f"  on    {', '.join(self.targets)}")
        if self.count > 1:
            lines.append(f"  count {self.count}")
        return lines


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings in order, with those that explain a NaN in an output first."""
    return sorted(findings, key=lambda finding: "outputs" not in finding.data)


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
