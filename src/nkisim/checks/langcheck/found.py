"""What a check says about a piece of syntax."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from nkisim.diagnostics import Finding, Place, Rule

__all__ = ["Found"]


@dataclass(frozen=True, slots=True)
class Found:
    """A rule broken by a piece of syntax.

    Attributes:
        rule: The rule.
        node: The syntax.
        message: What is wrong, in one sentence.
        fix: A mend.
        seen: The value or the text that is wrong.
        operand: The name that it is about.
        notes: Other places.
    """

    rule: Rule
    node: ast.AST
    message: str
    fix: str
    seen: str = ""
    operand: str = ""
    notes: tuple[str, ...] = ()

    def finding(self, file: str) -> Finding:
        """Return the finding in a file."""
        return Finding(
            self.rule,
            self.message,
            Place(file, getattr(self.node, "lineno", 0)),
            operand=self.operand,
            seen=self.seen,
            fix=self.fix,
            notes=self.notes,
        )
