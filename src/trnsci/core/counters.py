"""Counters of kernel launches, and of the calls that torch computed instead.

- launches: a kernel has run, on a device or on the simulator; by the name of its function.
- fallbacks: a kernel failed; by operation, such as ``trnblas.gemm``.
- refusals: a kernel does not accept the arguments; by operation and reason.
- no_kernel: a function without a kernel was called on a kernel path; by function, such as
  ``trnblas.axpy``.

All counters are per process, over all threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from threading import Lock

_lock = Lock()
_launches: Counter[str] = Counter()
_fallbacks: Counter[str] = Counter()
_refusals: Counter[tuple[str, str]] = Counter()
_no_kernel: Counter[str] = Counter()


@dataclass(frozen=True)
class Counts:
    """Counts since the last reset; a name that was never counted has 0.

    Attributes:
        launches: Launches by kernel.
        fallbacks: Fallbacks by operation.
        refusals: Refusals by operation and reason.
        no_kernel: Calls on a kernel path of functions without a kernel, by function.
    """

    launches: Counter[str]
    fallbacks: Counter[str]
    refusals: Counter[tuple[str, str]]
    no_kernel: Counter[str]

    def __sub__(self, earlier: Counts) -> Counts:
        """Return the counts since ``earlier``."""
        return Counts(
            self.launches - earlier.launches,
            self.fallbacks - earlier.fallbacks,
            self.refusals - earlier.refusals,
            self.no_kernel - earlier.no_kernel,
        )


def counts() -> Counts:
    """Return a copy of the counters."""
    with _lock:
        return Counts(_launches.copy(), _fallbacks.copy(), _refusals.copy(), _no_kernel.copy())


def reset() -> None:
    """Set all counters to 0."""
    with _lock:
        _launches.clear()
        _fallbacks.clear()
        _refusals.clear()
        _no_kernel.clear()


def count_launch(kernel: str) -> None:
    """Count one launch of a kernel."""
    with _lock:
        _launches[kernel] += 1


def count_fallback(operation: str) -> None:
    """Count one fallback of an operation."""
    with _lock:
        _fallbacks[operation] += 1


def count_refusal(operation: str, reason: str) -> None:
    """Count one call whose arguments the kernel of an operation does not accept."""
    with _lock:
        _refusals[operation, reason] += 1


def count_no_kernel(function: str) -> None:
    """Count one call of a function without a kernel, on a kernel path."""
    with _lock:
        _no_kernel[function] += 1
