"""Fallback to torch when a kernel fails: counted, with one warning per operation and cause."""

from __future__ import annotations

import inspect
import warnings
from threading import Lock

from trnsci.core.counters import count_fallback
from trnsci.core.errors import NkiFallbackWarning

_LONGEST = 200  # characters of the error's first line that identify a cause

_lock = Lock()
_reported: set[tuple[str, str, str]] = set()


def report_fallback(operation: str, error: Exception, variable: str) -> None:
    """Count a fallback to torch, and warn if its cause is new.

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
        if cause in _reported:
            return
        _reported.add(cause)
    try:
        warnings.warn(
            f"{operation}: the kernel failed and torch computed the result ({cause[1]}: {line}); "
            f"{variable}=1 raises instead",
            NkiFallbackWarning,
            stacklevel=callers_level(operation.partition(".")[0]),
        )
    except NkiFallbackWarning:
        # A warning filter made it an exception: torch does not compute, so report it again.
        with _lock:
            _reported.discard(cause)
        raise


def forget_causes() -> None:
    """Clear the set of reported causes, so that each one is warned about again."""
    with _lock:
        _reported.clear()


def callers_level(*libraries: str) -> int:
    """Return the ``stacklevel`` that attributes a warning to the caller of the libraries.

    Call it in the function that warns.
    """
    inner = {*libraries, "torch", "trnsci"}
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_back is not None and _package(frame.f_globals) in inner:
        level, frame = level + 1, frame.f_back
    return level


def _package(namespace: dict[str, object]) -> str:
    return str(namespace.get("__name__", "")).partition(".")[0]
