"""How often kernels were launched, and how often torch had to compute in their place.

A kernel is counted each time it has run, on a device or on the simulator, under the name of its
function; a fallback under the operation that fell back, such as ``trnblas.gemm``. Both count for
the process, over all threads.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from threading import Lock

__all__ = ["Counts", "count_fallback", "count_launch", "counts", "reset"]

_lock = Lock()
_launches: Counter[str] = Counter()
_fallbacks: Counter[str] = Counter()


@dataclass(frozen=True)
class Counts:
    """What was counted since the last reset; a name that was never counted has 0.

    Attributes:
        launches: Launches by kernel.
        fallbacks: Fallbacks by operation.
    """

    launches: Counter[str]
    fallbacks: Counter[str]

    def __sub__(self, earlier: Counts) -> Counts:
        """Return what was counted since ``earlier``."""
        return Counts(self.launches - earlier.launches, self.fallbacks - earlier.fallbacks)


def counts() -> Counts:
    """Return a copy of the counters as they are now."""
    with _lock:
        return Counts(_launches.copy(), _fallbacks.copy())


def reset() -> None:
    """Set all counters to 0."""
    with _lock:
        _launches.clear()
        _fallbacks.clear()


def count_launch(kernel: str) -> None:
    """Count one launch of a kernel."""
    with _lock:
        _launches[kernel] += 1


def count_fallback(operation: str) -> None:
    """Count one fallback of an operation."""
    with _lock:
        _fallbacks[operation] += 1
