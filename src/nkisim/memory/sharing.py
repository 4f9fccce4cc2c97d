"""Who wrote and read shared memory, and when: accesses of two cores that nothing orders.

Cores are ordered only by the synchronisations that both pass. An access after a core's n-th one
comes after everything that the other did before its own n-th, and after nothing else. A clash can
be missed where a later access hides an earlier one; none is invented.
"""

from __future__ import annotations

import numpy as np

from nkisim.diagnostics import Rule, declare, flag
from nkisim.memory.tensor import NkiTensor

__all__ = ["SharedAccess"]

UNORDERED_READ = declare(
    "C007",
    "unordered-read",
    "error",
    "A core reads shared HBM that the other core wrote, with no barrier between.",
    "the read may come first and see old data",
)
UNORDERED_WRITE = declare(
    "C008",
    "unordered-write",
    "error",
    "Both cores write the same part of a shared tensor, with no barrier between.",
    "which write comes last is not specified",
)

UNORDERED_REUSE = declare(
    "C012",
    "unordered-reuse",
    "error",
    "A core writes a part of a shared tensor that the other core reads, with no barrier between.",
    "the write may come first, and the read see the next round's data",
)

_NEVER = -1


class SharedAccess:
    """The last writer and the last reader of every element of one shared storage, with epochs.

    An epoch is the number of synchronisations that a core had passed. The maps are made when first
    needed, with one stamp per ``grain`` bytes.
    """

    def __init__(self, nbytes: int, grain: int) -> None:
        self._size = -(-nbytes // grain)
        self._grain = grain
        self._writes: np.ndarray | None = None
        self._reads: np.ndarray | None = None

    def read(self, tensor: NkiTensor, core: int, epoch: int, instruction: str) -> None:
        """Note a read, and flag it if the other core's write is not ordered before it."""
        if self._writes is not None and _clashes(self._view(self._writes, tensor), core, epoch):
            self._report(UNORDERED_READ, tensor, core, instruction, "reads", "wrote")
        if self._reads is None:
            self._reads = np.full(self._size, _NEVER, np.int32)
        self._view(self._reads, tensor)[...] = 2 * epoch + core

    def write(
        self, tensor: NkiTensor, core: int, epoch: int, where: np.ndarray | None = None
    ) -> None:
        """Note a write, and flag it if the other core's accesses are not ordered before it."""
        if self._writes is None:
            self._writes = np.full(self._size, _NEVER, np.int32)
        stamps = self._view(self._writes, tensor)
        if _clashes(stamps if where is None else stamps[where], core, epoch):
            self._report(UNORDERED_WRITE, tensor, core, "", "writes", "wrote")
        elif self._reads is not None:
            reads = self._view(self._reads, tensor)
            if _clashes(reads if where is None else reads[where], core, epoch):
                self._report(UNORDERED_REUSE, tensor, core, "", "writes", "read")
        stamps[... if where is None else where] = 2 * epoch + core

    def _view(self, stamps: np.ndarray, tensor: NkiTensor) -> np.ndarray:
        width = stamps.itemsize
        strides = tuple(stride // self._grain * width for stride in tensor.strides)
        start = tensor.start // self._grain * width
        return np.ndarray(tensor.shape, np.int32, stamps, start, strides)

    @staticmethod
    def _report(
        rule: Rule, tensor: NkiTensor, core: int, instruction: str, does: str, did: str
    ) -> None:
        flag(
            rule,
            f"core {core} {does} part of `{tensor.name}` that core {1 - core} {did}, and no "
            "barrier orders the two",
            instruction=instruction,
            operand=tensor.name,
            seen=tensor.describe(),
            fix="nisa.core_barrier(data=tensor, cores=(0, 1)) between the two accesses",
        )


def _clashes(stamps: np.ndarray, core: int, epoch: int) -> bool:
    """Tell whether the other core left a stamp that no synchronisation orders before now."""
    other = (stamps != _NEVER) & ((stamps & 1) != core)
    return bool((other & (stamps >> 1 >= epoch)).any())
