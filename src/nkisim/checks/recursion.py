"""Recursion without end, from the stack that it left."""

from __future__ import annotations

from collections import Counter
from types import CodeType, TracebackType

from nkisim.checks.langcheck.endless import Step, recursion
from nkisim.diagnostics import NkiValidationError, Place, is_own_file

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
