"""How often kernels were launched, and how often torch had to compute in their place.

A kernel is counted each time it has run, on a device or on the simulator, under the name of its
function; a fallback, when the kernel failed, under the operation that fell back, such as
``trnblas.gemm``; a refusal, when the kernel does not take such arguments, under the operation and
the reason. All count for the process, over all threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from threading import Lock

__all__ = ["Counts", "count_fallback", "count_launch", "count_refusal", "counts", "reset"]

_lock = Lock()
_launches: Counter[str] = Counter()
_fallbacks: Counter[str] = Counter()
_refusals: Counter[tuple[str, str]] = Counter()


@dataclass(frozen=True)
class Counts:
    """What was counted since the last reset; a name that was never counted has 0.

    Attributes:
        launches: Launches by kernel.
        fallbacks: Fallbacks by operation.
        refusals: Refusals by operation and reason.
    """

    launches: Counter[str]
    fallbacks: Counter[str]
    refusals: Counter[tuple[str, str]]

    def __sub__(self, earlier: Counts) -> Counts:
        """Return what was counted since ``earlier``."""
        return Counts(
            self.launches - earlier.launches,
            self.fallbacks - earlier.fallbacks,
            self.refusals - earlier.refusals,
        )


def counts() -> Counts:
    """Return a copy of the counters as they are now."""
    with _lock:
        return Counts(_launches.copy(), _fallbacks.copy(), _refusals.copy())


def reset() -> None:
    """Set all counters to 0."""
    with _lock:
        _launches.clear()
        _fallbacks.clear()
        _refusals.clear()


def count_launch(kernel: str) -> None:
    """Count one launch of a kernel."""
    with _lock:
        _launches[kernel] += 1


def count_fallback(operation: str) -> None:
    """Count one fallback of an operation."""
    with _lock:
        _fallbacks[operation] += 1


def count_refusal(operation: str, reason: str) -> None:
    """Count one call that the kernel of an operation does not take."""
    with _lock:
        _refusals[operation, reason] += 1
