"""Findings for exceptions of a kernel: endless recursion, unbound variables, fractional bounds."""

from __future__ import annotations

import ast
import re
from collections import Counter
from types import CodeType, TracebackType

from nkisim.checks.langcheck.calls import fractions
from nkisim.checks.langcheck.endless import Step, recursion
from nkisim.diagnostics import NkiValidationError, Place, declare, flag, is_own_file, raised_at
from nkisim.memory.rules import FRACTIONAL_EXTENT
from nkisim.source import definition_of

_FEWEST = 10
"""Number of times that a function is on the stack of a recursion; others fill it once or twice."""


def report_recursion(error: RecursionError) -> None:
    """Raise the finding of the user's functions that called each other until the stack was full.

    Other errors are left unchanged.
    """
    stack = list(_users(error.__traceback__))
    counts = Counter(code for code, _ in stack)
    most = max(counts.values(), default=0)
    if most < _FEWEST:
        return
    # A recursion that ends may be on the stack too, but only a few times.
    first = next(code for code, _ in stack if counts[code] > most // 2)
    begin, end = [i for i, (code, _) in enumerate(stack) if code is first][:2]
    steps = [
        Step(code.co_qualname.split("<locals>.")[-1], Place(code.co_filename, line))
        for code, line in stack[begin:end]
    ]
    raise NkiValidationError(recursion(steps)) from None


def _users(traceback: TracebackType | None) -> list[tuple[CodeType, int]]:
    """Return the functions of a stack outside this package, with their lines."""
    found = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_own_file(code.co_filename):
            found.append((code, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found


UNBOUND = declare(
    "L059",
    "unbound-name",
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


_FLOAT_AS_INTEGER = re.compile(r"'(numpy\.)?float\d*' object cannot be interpreted as an integer")


class NkiFractionError(NkiValidationError, TypeError):
    """A float where Python takes integers only, as a bound of ``range``."""


def report_fraction(error: TypeError) -> None:
    """Flag a float where Python takes integers only; other errors are left unchanged."""
    place, last = raised_at(error), _last(error.__traceback__)
    if place is None or last is None or not _FLOAT_AS_INTEGER.match(str(error)):
        return
    calls = (node for node in _nodes(last) if isinstance(node, ast.Call))
    ranges = (c for c in calls if c.lineno == place.line and ast.unparse(c.func) == "range")
    message, fix, data = str(error), "use // or math.ceil", None
    for found in (found for call in ranges for found in fractions(call.args)):
        message, fix, data = found.message, found.fix, found.data
        place = place._replace(line=getattr(found.node, "lineno", place.line))
        break
    flag(
        FRACTIONAL_EXTENT,
        message,
        fix=fix,
        place=place,
        error=NkiFractionError,
        data=data,
        stops=True,
    )


def _last(traceback: TracebackType | None) -> TracebackType | None:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


class _Function:
    """Stand-in for a function of which only a frame is known."""

    def __init__(self, code: object) -> None:
        self.__code__ = code


def _nodes(at: TracebackType) -> list[ast.AST]:
    """Return the syntax tree of a function."""
    definition = definition_of(_Function(at.tb_frame.f_code))
    return [] if definition is None else [*ast.walk(definition[1])]


def _assignments(at: TracebackType, name: str) -> list[int]:
    """Return the lines of a function that assign to a name."""
    names = (node for node in _nodes(at) if isinstance(node, ast.Name))
    return sorted({n.lineno for n in names if n.id == name and isinstance(n.ctx, ast.Store)})
