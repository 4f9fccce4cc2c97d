"""Who wrote and read shared memory, and when: accesses of two cores that nothing orders.

Cores are ordered only by the synchronisations that both pass. An access after a core's n-th one
comes after everything that the other did before its own n-th, and after nothing else. Whatever the
schedule, a clash of two cores is found, and none is invented.

Two writes of the same bytes leave these bytes in any order, and whoever wrote them may read them:
that is only a warning. A write of what was there before disturbs no reader. A run without values
cannot tell and takes all bytes for different.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Place, Rule, declare, flag, user_line, user_place
from nkisim.dtypes import UNSIGNED
from nkisim.memory.tensor import NkiTensor
from nkisim.memory.written_map import Runs

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
    on_values=True,
)

UNORDERED_REUSE = declare(
    "C012",
    "unordered-reuse",
    "error",
    "A core writes a part of a shared tensor that the other core reads, with no barrier between.",
    "the write may come first, and the read see the next round's data",
)
SAME_WRITE = declare(
    "C034",
    "same-write",
    "warning",
    "Both cores write the same bytes to the same part of a shared tensor, with no barrier between.",
    "the result is the same in any order, the transfer is made twice",
    on_values=True,
)

_NEVER = -1

Grains = tuple[tuple[int, ...], tuple[int, ...]]
"""Extents and steps of a view in grains; the last dimension is along its dense runs."""


class _Access(NamedTuple):
    """What stamps stand for.

    Attributes:
        core: Who came.
        epoch: How many synchronisations it had passed.
        line: File and line.
        hidden: Whether the other core may read what was written: it is what was there before, or
            what that core wrote itself.
        twice: Whether that core wrote it itself.
    """

    core: int
    epoch: int
    line: tuple[str, int]
    hidden: bool = False
    twice: bool = False

    def as_plain(self) -> _Access:
        """Return the access whatever it left for the other core."""
        return self._replace(hidden=False, twice=False)

    def may_be_read(self, core: int) -> bool:
        """Tell whether a core may read what it wrote, whoever came first."""
        return self.hidden or self.core == core

    def may_be_overwritten(self, core: int) -> bool:
        """Tell whether a core may write where it wrote, whoever came first."""
        return self.core == core and not self.twice


class SharedAccess:
    """The last write and each core's last read of every element of one shared storage.

    An epoch is the number of synchronisations that a core had passed. The maps are made when first
    needed, of stamps that are numbers of accesses. Most views are made of long dense runs, so a
    stamp stands for as many bytes as the first view allows; one that ends inside splits them.

    Args:
        nbytes: Size of the storage.
        written: Whether they were all written before the cores began.
        values: Whether the bytes mean anything.
    """

    def __init__(self, nbytes: int, *, written: bool = False, values: bool = True) -> None:
        self._nbytes = nbytes
        self._grain = nbytes
        self._written = written
        self._values = values
        self._before: np.ndarray | None = None
        self._writes: np.ndarray | None = None
        self._reads: list[np.ndarray | None] = [None, None]
        self._accesses: list[_Access] = []
        self._numbers: dict[_Access, int] = {}
        self._places: dict[_Access, Place] = {}
        self._since: list[int] = []

    def read(self, tensor: NkiTensor, core: int, epoch: int, instruction: str) -> None:
        """Note a read, and flag it if the other core's write is not ordered before it."""
        if not tensor.size:
            return
        grains = self._suit(tensor.runs)
        mine = _Access(core, epoch, user_line())
        if self._writes is not None:
            stamps = self._view(self._writes, tensor, grains)
            clash = self._unordered(stamps, epoch, lambda write: not write.may_be_read(core))
            if clash is not None:
                theirs = self._accesses[stamps[clash][0]]
                self._report(UNORDERED_READ, tensor, mine, theirs, instruction)
        reads = self._reads[core]
        if reads is None:
            reads = self._reads[core] = self._fresh()
        self._view(reads, tensor, grains)[...] = self._number(mine)

    def write(
        self, tensor: NkiTensor, core: int, epoch: int, where: np.ndarray | None = None
    ) -> None:
        """Note a write that was made, and flag it if the other core's accesses are not ordered."""
        if not tensor.size or (where is not None and not where.any()):
            return
        grains = self._suit(tensor.runs if where is None else _elements_of(tensor))
        if self._writes is None:
            self._writes = self._fresh()
        chosen: Any = ... if where is None else where
        all_stamps = self._view(self._writes, tensor, grains)
        stamps = all_stamps[chosen]
        mine = _Access(core, epoch, user_line())
        clash = self._unordered(stamps, epoch, lambda write: not write.may_be_overwritten(core))
        theirs, late = self._reads[1 - core], None
        if theirs is not None:
            reads = self._view(theirs, tensor, grains)[chosen]
            late = self._unordered(reads, epoch, lambda read: read.core != core)
        now: Any = self._number(mine)
        if clash is not None or late is not None or self._may_hide(mine, stamps):
            changed = self._changed(tensor, grains, stamps, chosen)
            if clash is not None:
                worse = clash & changed
                rule, worst = (UNORDERED_WRITE, worse) if worse.any() else (SAME_WRITE, clash)
                self._report(rule, tensor, mine, self._accesses[stamps[worst][0]])
                late = late & ~clash if late is not None else None
            if late is not None and (late & changed).any():
                self._report_read(tensor, mine, reads, stamps, late & changed)
            if not changed.all():
                now = self._stamped(mine, stamps, changed, clash)
        all_stamps[chosen] = now
        if self._values:
            if self._before is None:
                self._before = np.empty(self._nbytes, np.uint8)
            _bits(self._before, tensor)[chosen] = _bits(tensor.storage.data, tensor)[chosen]

    def _report_read(
        self,
        tensor: NkiTensor,
        mine: _Access,
        reads: np.ndarray,
        writes: np.ndarray,
        clash: np.ndarray,
    ) -> None:
        """Flag a write that is not ordered after the other core's reads, or one of these reads."""
        theirs = self._accesses[reads[clash][0]]
        if self._written or (writes[clash] != _NEVER).all():
            self._report(UNORDERED_REUSE, tensor, mine, theirs)
        else:
            # There was nothing to read yet: this write is what the read should have waited for.
            self._report(UNORDERED_READ, tensor, theirs, mine, place=self._place(theirs))

    def _place(self, access: _Access) -> Place:
        """Return where an access was made first, with its loop indices."""
        found = self._places.get(access.as_plain())
        return Place(*access.line) if found is None else found

    def _report(
        self,
        rule: Rule,
        tensor: NkiTensor,
        mine: _Access,
        theirs: _Access,
        instruction: str = "",
        place: Place | None = None,
    ) -> None:
        """Flag an access, with the other core's line beside it."""
        other, (does, they_do) = 1 - mine.core, _DOES[rule]
        flag(
            rule,
            f"core {mine.core} {does} part of `{tensor.name}` that core {other} {they_do}, and no "
            "barrier orders the two",
            instruction=instruction,
            operand=tensor.name,
            seen=tensor.describe(),
            fix="nisa.core_barrier(data=tensor, cores=(0, 1)) between the two accesses",
            notes=(f"core {other} {they_do} it at {self._place(theirs)}",),
            place=place,
        )

    def _may_hide(self, mine: _Access, stamps: np.ndarray) -> bool:
        """Tell whether a write may have left bytes that the other core can count on."""
        if self._before is None:
            return False
        low, high = int(stamps.min()), int(stamps.max())
        if low != high:
            return True
        last = mine if low == _NEVER else self._accesses[low]
        return last.hidden or last[:2] != mine[:2]

    def _changed(
        self, tensor: NkiTensor, grains: Grains, stamps: np.ndarray, chosen: Any
    ) -> np.ndarray:
        """Return where a write left other bytes than the last one, a mask like its stamps."""
        if self._before is None:
            return np.ones(stamps.shape, bool)
        extents, steps = (*grains[0], self._grain), (*(n * self._grain for n in grains[1]), 1)
        old, new = (
            np.ndarray(extents, np.uint8, data, tensor.start, steps)[chosen]
            for data in (self._before, tensor.storage.data)
        )
        return np.asarray((old != new).any(axis=-1) | (stamps == _NEVER))

    def _stamped(
        self, mine: _Access, stamps: np.ndarray, changed: np.ndarray, clash: np.ndarray | None
    ) -> np.ndarray:
        """Return the stamps after a write that leaves some bytes as they were."""
        ordered = mine._replace(hidden=True)
        now = np.where(changed, self._number(mine), self._number(ordered))
        own = self._unordered(stamps, mine.epoch, lambda write: write.core == mine.core)
        if own is not None:
            np.copyto(now, stamps, where=own & ~changed)
        if clash is not None:
            twice = self._number(ordered._replace(twice=True))
            np.copyto(now, twice, where=clash & ~changed)
        return now

    def _number(self, access: _Access) -> int:
        """Return the number that stands for an access."""
        number = self._numbers.get(access)
        if number is None:
            number = self._numbers[access] = len(self._accesses)
            self._accesses.append(access)
            self._places.setdefault(access.as_plain(), user_place())
            while len(self._since) <= access.epoch:
                self._since.append(number)
        return number

    def _unordered(
        self, stamps: np.ndarray, epoch: int, counts: Callable[[_Access], bool]
    ) -> np.ndarray | None:
        """Return where accesses that count are not ordered before now; None for nowhere."""
        if epoch >= len(self._since):
            return None
        first = self._since[epoch]  # all before are ordered
        bad = [access.epoch >= epoch and counts(access) for access in self._accesses[first:]]
        if not any(bad):
            return None
        low, high = int(stamps.min()), int(stamps.max())
        if high < first or (low == high and not bad[low - first]):
            return None
        if low == high:
            return np.ones(stamps.shape, bool)
        # Index 0 stands for all that are ordered.
        mask: np.ndarray = np.array([False, *bad]).take(stamps - (first - 1), mode="clip")
        return mask if mask.any() else None

    def _fresh(self) -> np.ndarray:
        return np.full(self._nbytes // self._grain, _NEVER, np.int32)

    def _suit(self, runs: Runs) -> Grains:
        """Return how a view lies in grains, after splitting those in which it ends."""
        unit, extents, steps = runs[:3]
        grain = math.gcd(unit, self._grain)
        if grain != self._grain:
            by = self._grain // grain
            self._writes = None if self._writes is None else np.repeat(self._writes, by)
            self._reads = [None if reads is None else np.repeat(reads, by) for reads in self._reads]
            self._grain = grain
        more = unit // grain
        if more == 1:
            return extents, steps
        return (*extents[:-1], extents[-1] * more), (*(step * more for step in steps[:-1]), 1)

    def _view(self, stamps: np.ndarray, tensor: NkiTensor, grains: Grains) -> np.ndarray:
        """Return the stamps of a view."""
        width = stamps.itemsize
        steps = tuple(step * width for step in grains[1])
        return np.ndarray(grains[0], np.int32, stamps, tensor.start // self._grain * width, steps)


def _elements_of(tensor: NkiTensor) -> Runs:
    """Return a view as runs of one element each."""
    itemsize = tensor.itemsize
    unit = math.gcd(itemsize, tensor.start, *tensor.strides)
    steps = (*(stride // unit for stride in tensor.strides), 1)
    nbytes = tensor.size * itemsize
    return Runs(unit, (*tensor.shape, itemsize // unit), steps, nbytes, dense=False)


def _bits(data: np.ndarray, tensor: NkiTensor) -> np.ndarray:
    """Return the bits of a view's elements in its storage, or in a copy of it."""
    return np.ndarray(tensor.shape, UNSIGNED[tensor.itemsize], data, tensor.start, tensor.strides)


_DOES = {
    UNORDERED_READ: ("reads", "writes"),
    UNORDERED_WRITE: ("writes", "writes"),
    UNORDERED_REUSE: ("writes", "reads"),
    SAME_WRITE: ("writes", "writes"),
}
