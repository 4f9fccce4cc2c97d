"""What happens when a kernel fails: it is counted, and said once per operation and cause."""

from __future__ import annotations

import inspect
import warnings
from threading import Lock

from trnsci.core.counters import count_fallback
from trnsci.core.errors import NkiFallbackWarning

__all__ = ["callers_level", "forget_causes", "report_fallback"]

_LONGEST = 200  # characters of the cause's first line that tell it from other causes

_lock = Lock()
_told: set[tuple[str, str, str]] = set()


def report_fallback(operation: str, error: Exception, variable: str) -> None:
    """Count that torch computes in the place of a kernel, and warn if this cause is new.

    Args:
        operation: Qualified name of the operation, such as ``"trnblas.gemm"``.
        error: Why the kernel failed.
        variable: Environment variable that makes the operation raise instead.
    """
    count_fallback(operation)
    text = str(error)
    line = (text.splitlines() or [""])[0][:_LONGEST]
    cause = (operation, type(error).__name__, line)
    with _lock:
        if cause in _told:
            return
        _told.add(cause)
    try:
        warnings.warn(
            f"{operation}: the kernel failed and torch computed the result ({cause[1]}: {line}); "
            f"{variable}=1 raises instead",
            NkiFallbackWarning,
            stacklevel=callers_level(operation.partition(".")[0]),
        )
    except NkiFallbackWarning:
        # A filter made it an exception: torch does not compute, and nothing was told.
        with _lock:
            _told.discard(cause)
        raise


def forget_causes() -> None:
    """Make every cause new again."""
    with _lock:
        _told.clear()


def callers_level(library: str) -> int:
    """Return the ``stacklevel`` of a warning at which the code that called the library stands.

    It is to be asked for in the function that warns.
    """
    inner = {library, "torch", "trnsci"}
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_back is not None and _package(frame.f_globals) in inner:
        level, frame = level + 1, frame.f_back
    return level


def _package(namespace: dict[str, object]) -> str:
    return str(namespace.get("__name__", "")).partition(".")[0]
