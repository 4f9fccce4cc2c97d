"""Variables that are read before assignment, because a branch was not taken."""

from __future__ import annotations

import ast
import re
from types import TracebackType

from nkisim.diagnostics import NkiValidationError, Place, declare, flag, is_own_file
from nkisim.source import definition_of

UNBOUND = declare(
    "L059",
    "unbound-name",
    "error",
    "A variable is read that is assigned only in a branch that was not taken, or in a loop "
    "without iterations.",
    "the compiler does not find the name",
    meaningless=True,
)


class NkiUnboundError(NkiValidationError, UnboundLocalError):
    """An unbound variable, with the lines that would have assigned it."""


def report_unbound(error: UnboundLocalError) -> None:
    """Flag an unbound variable of the user's code; other errors are left unchanged."""
    last = _last(error.__traceback__)
    quoted = re.search(r"'(\w+)'", str(error))
    if last is None or quoted is None or is_own_file(last.tb_frame.f_code.co_filename):
        return
    name, code = quoted[1], last.tb_frame.f_code
    lines = _assignments(last, name)
    flag(
        UNBOUND,
        f"{code.co_name} reads {name}, which was never assigned",
        operand=name,
        seen=f"{name} without a value",
        fix=f"give {name} a value before the branch or the loop",
        notes=tuple(f"{name} is assigned at {code.co_filename}:{line}" for line in lines),
        place=Place(code.co_filename, last.tb_lineno),
        error=NkiUnboundError,
    )


def _last(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


class _Function:
    """Stand-in for a function of which only a frame is known."""

    def __init__(self, code: object) -> None:
        self.__code__ = code


def _assignments(at: TracebackType, name: str) -> list[int]:
    """Return the lines of a function that assign to a name."""
    definition = definition_of(_Function(at.tb_frame.f_code))
    if definition is None:
        return []
    names = (node for node in ast.walk(definition[1]) if isinstance(node, ast.Name))
    return sorted({n.lineno for n in names if n.id == name and isinstance(n.ctx, ast.Store)})
