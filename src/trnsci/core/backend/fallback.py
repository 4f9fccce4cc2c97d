"""Calls that torch computes although a kernel was requested: counted, and warned about once.

A kernel that fails is a fallback, with one warning per operation and cause. A kernel that does not
accept a call is a refusal, with one warning per public function and reason.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from threading import Lock
from types import FrameType

from trnsci.core.counters import count_fallback, count_refusal
from trnsci.core.errors import NkiFallbackWarning, NkiRefusalWarning
from trnsci.libraries import LIBRARIES

_INNER = {*LIBRARIES, "torch", "trnsci"}
_LONGEST = 200  # characters of the error's first line that identify a cause

_lock = Lock()
_reported: set[tuple[str, ...]] = set()


def report_fallback(operation: str, error: Exception, variable: str) -> None:
    """Count a fallback to torch, and warn if its cause is new.

    Args:
        operation: Qualified name of the operation, such as ``"trnblas.gemm"``.
        error: Why the kernel failed.
        variable: Environment variable that makes the operation raise instead.
    """
    count_fallback(operation)
    kind, line = type(error).__name__, (str(error).splitlines() or [""])[0][:_LONGEST]
    _warn_once(
        (operation, kind, line),
        f"{operation}: the kernel failed and torch computed the result ({kind}: {line}); "
        f"{variable}=1 raises instead",
        NkiFallbackWarning,
    )


def report_refusal(operation: str, reason: str, variable: str, warn: bool) -> None:
    """Count a refusal; if ``warn``, also warn unless the function has warned of this reason.

    The function is the public one that the user called. Where none is on the stack, as in a
    backward pass or while torch.compile traces, it is the operation.

    Args:
        operation: Qualified name of the operation.
        reason: Why the kernel does not accept the call.
        variable: Environment variable that makes the operation raise instead.
        warn: Whether kernels were requested by name.
    """
    count_refusal(operation, reason)
    if not warn:
        return
    function = _called_function() or operation
    what = "the result" if function == operation else operation
    _warn_once(
        (function, reason),
        f"{function}: torch computes {what} ({reason}); {variable}=1 raises instead",
        NkiRefusalWarning,
    )


def forget_causes() -> None:
    """Clear the set of reported causes, so that each one is warned about again."""
    with _lock:
        _reported.clear()


def callers_level() -> int:
    """Return the ``stacklevel`` that attributes a warning to the caller of the libraries.

    Call it in the function that warns.
    """
    return len(_inner_frames())


def _warn_once(cause: tuple[str, ...], message: str, category: type[Warning]) -> None:
    with _lock:
        if cause in _reported:
            return
        _reported.add(cause)
    try:
        warnings.warn(message, category, stacklevel=callers_level())
    except category:
        # A warning filter made it an exception: torch does not compute, so report it again.
        with _lock:
            _reported.discard(cause)
        raise


def _called_function() -> str:
    """Return the qualified name of the outermost public function of a library on the stack.

    A private function with an underscore before a public name, such as the sampler of a
    distribution, counts as the public one.
    """
    called = ""
    for frame in _inner_frames():
        package = _package(frame)
        name = frame.f_code.co_qualname.partition(".<locals>")[0].removeprefix("_")
        if package in LIBRARIES and name.partition(".")[0] in sys.modules[package].__all__:
            called = f"{package}.{name}"
    return called


def _inner_frames() -> list[FrameType]:
    """Return the frames of libraries and torch, from the caller of this function outwards."""
    own = inspect.currentframe()
    frames, frame = [], own and own.f_back
    while frame is not None and frame.f_back is not None and _package(frame) in _INNER:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
