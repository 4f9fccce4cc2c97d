"""The result of a source check: a rule violated by a syntax node."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from nkisim.diagnostics import Finding, Place, Rule, Severity


class Found(NamedTuple):
    """A rule violated by a syntax node.

    Attributes:
        rule: The rule.
        node: The syntax node.
        message: Description of the fault in one sentence.
        fix: Fix, in words.
        seen: The value or the text that is wrong.
        operand: The name at fault.
        notes: Other places.
        allowed: The legal values.
        instruction: Name of the called instruction.
        level: Severity, where it differs from the rule's.
        data: Values that the texts are made from.
    """

    rule: Rule
    node: ast.AST
    message: str
    fix: str
    seen: str = ""
    operand: str = ""
    notes: tuple[str, ...] = ()
    allowed: str = ""
    instruction: str = ""
    level: Severity | None = None
    data: Mapping[str, Any] = MappingProxyType({})

    def at_level(self, level: Severity | None) -> Found:
        """Return the result with the severity of a version; None leaves it."""
        return self if level is None else self._replace(level=level)

    def finding(self, file: str) -> Finding:
        """Return the finding in a file."""
        return Finding(
            self.rule,
            self.message,
            Place(file, getattr(self.node, "lineno", 0)),
            instruction=self.instruction,
            operand=self.operand,
            seen=self.seen,
            allowed=self.allowed,
            fix=self.fix,
            notes=self.notes,
            level=self.level,
            data=self.data,
        )
