"""Who wrote shared memory, and when: accesses of two cores that nothing orders.

Cores are ordered only by the synchronisations that both pass. An access after a core's n-th one
comes after everything that the other did before its own n-th, and after nothing else. A clash can
be missed where a core's later write hides an earlier one; none is invented.
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

_NEVER = -1


class SharedAccess:
    """The last writer of every element of one shared storage, with its epoch.

    An epoch is the number of synchronisations that a core had passed. The map is made at the first
    write, with one stamp per ``grain`` bytes.
    """

    def __init__(self, nbytes: int, grain: int) -> None:
        self._size = -(-nbytes // grain)
        self._grain = grain
        self._stamps: np.ndarray | None = None

    def read(self, tensor: NkiTensor, core: int, epoch: int, instruction: str) -> None:
        """Note a read, and flag it if the other core's write is not ordered before it."""
        if self._stamps is not None and self._clashes(self._view(tensor), core, epoch):
            self._report(UNORDERED_READ, tensor, core, instruction, "reads")

    def write(
        self, tensor: NkiTensor, core: int, epoch: int, where: np.ndarray | None = None
    ) -> None:
        """Note a write, and flag it if the other core's write is not ordered before it."""
        if self._stamps is None:
            self._stamps = np.full(self._size, _NEVER, np.int32)
        stamps = self._view(tensor)
        chosen = stamps if where is None else stamps[where]
        if self._clashes(chosen, core, epoch):
            self._report(UNORDERED_WRITE, tensor, core, "", "writes")
        stamps[... if where is None else where] = 2 * epoch + core

    @staticmethod
    def _clashes(stamps: np.ndarray, core: int, epoch: int) -> bool:
        other = (stamps != _NEVER) & ((stamps & 1) != core)
        return bool((other & (stamps >> 1 >= epoch)).any())

    def _view(self, tensor: NkiTensor) -> np.ndarray:
        assert self._stamps is not None
        width = self._stamps.itemsize
        strides = tuple(stride // self._grain * width for stride in tensor.strides)
        start = tensor.start // self._grain * width
        return np.ndarray(tensor.shape, np.int32, self._stamps, start, strides)

    @staticmethod
    def _report(rule: Rule, tensor: NkiTensor, core: int, instruction: str, verb: str) -> None:
        flag(
            rule,
            f"core {core} {verb} part of `{tensor.name}` that core {1 - core} wrote, and no "
            "barrier orders the two",
            instruction=instruction,
            operand=tensor.name,
            seen=tensor.describe(),
            fix="nisa.core_barrier(data=tensor, cores=(0, 1)) between the two accesses",
        )
