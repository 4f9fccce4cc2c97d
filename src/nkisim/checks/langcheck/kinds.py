"""Kinds of values, loops and operands that several rules distinguish."""

from __future__ import annotations

import ast

from nkisim.checks.langcheck.unit import Unit
from nkisim.source import indices

RUNTIME = {"register": "register", "index": "loop index", "counter": "loop index"}
"""Kinds whose value is known only on the device, with their names in messages."""


def is_dynamic_loop(unit: Unit, loop: ast.AST) -> bool:
    """Return whether a loop runs over ``nl.dynamic_range``."""
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and unit.meaning(loop.iter.func).path == "nki.language.dynamic_range"
    )


def operand_name(value: ast.AST | None) -> str | None:
    """Return the name of an operand, itself or sliced; an element may be that of a list."""
    if isinstance(value, ast.Subscript):
        if not any(isinstance(part, ast.Slice) for part in indices(value)):
            return None
        value = value.value
    return value.id if isinstance(value, ast.Name) else None
