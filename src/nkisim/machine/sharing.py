"""Data races in shared memory: unordered accesses of two cores.

Only synchronisations order the cores. An access after a core's n-th synchronisation happens after
all accesses of the other core before that core's n-th synchronisation, and after no others. Races
are therefore found under any schedule, without false positives.

If both cores write the same bytes, the result is the same in any order and both may read it, so the
finding is a note. A write that does not change memory does not affect readers. A run without values
cannot compare bytes: two writes are then a warning, and both writers may read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Place, Rule, Severity, declare, flag, user_line, user_place
from nkisim.dtypes import UNSIGNED
from nkisim.memory.storage import Guards
from nkisim.memory.tensor import NkiTensor
from nkisim.memory.written_map import Runs

UNORDERED_READ = declare(
    "C007",
    "unordered-read",
    "A core reads shared HBM that the other core wrote, with no barrier between.",
    "the read may come first and see old data",
    silent=True,
)
UNORDERED_WRITE = declare(
    "C008",
    "unordered-write",
    "Both cores write the same part of a shared tensor, with no barrier between.",
    "which write comes last is not specified",
    on_values=True,
    silent=True,
)

UNORDERED_REUSE = declare(
    "C012",
    "unordered-reuse",
    "A core writes a part of a shared tensor that the other core reads, with no barrier between.",
    "the write may come first, and the read see the next round's data",
    silent=True,
)
SAME_WRITE = declare(
    "C034",
    "same-write",
    "Both cores write the same bytes to the same part of a shared tensor, with no barrier between.",
    "the result is the same in any order, the transfer is made twice",
    severity="note",
    on_values=True,
)

OTHER_BARRIER = declare(
    "C036",
    "other-barrier",
    "A core reads what the other core wrote, and the barriers between name other tensors.",
    "core_barrier orders accesses of the tensor it names; no page states that it orders others",
    severity="note",
)

_NEVER = -1

Grains = tuple[tuple[int, ...], tuple[int, ...]]
"""Extents and steps of a view in grains; the last dimension runs along contiguous bytes."""


class _Access(NamedTuple):
    """One recorded access; a stamp is the number of an access.

    Attributes:
        core: Number of the core.
        epoch: Its number of synchronisations so far.
        line: File and line.
        hidden: Whether the other core may read the written bytes: the write did not change them, or
            the other core wrote the same bytes.
        twice: Whether the other core wrote the same bytes.
    """

    core: int
    epoch: int
    line: tuple[str, int]
    hidden: bool = False
    twice: bool = False

    def as_plain(self) -> _Access:
        """Return the access without ``hidden`` and ``twice``."""
        return self._replace(hidden=False, twice=False)

    def may_be_read(self, core: int) -> bool:
        """Return whether a core may read the written bytes in either order."""
        return self.hidden or self.core == core

    def may_be_overwritten(self, core: int) -> bool:
        """Return whether a core may overwrite the written bytes in either order."""
        return self.core == core and not self.twice


class SharedAccess:
    """The last write and each core's last read of every element of one shared storage.

    An epoch is the number of synchronisations that a core had passed. The maps hold stamps (numbers
    of accesses) and are allocated on first use. One stamp covers a grain of bytes. Grains begin as
    large as the storage, because most views consist of long contiguous runs; a view that ends
    inside a grain splits all grains.

    Args:
        nbytes: Size of the storage.
        written: Whether all bytes were written before the cores began.
        values: Whether values are computed.
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

    def read(
        self, tensor: NkiTensor, core: int, epoch: int, instruction: str, guards: Guards
    ) -> None:
        """Record a read, and flag it if the other core's write is not ordered before it."""
        if not tensor.size:
            return
        grains = self._layout(tensor.runs)
        mine = _Access(core, epoch, user_line())
        if self._writes is not None:
            stamps = self._view(self._writes, tensor, grains)
            clash = self._unordered(stamps, epoch, lambda write: not write.may_be_read(core))
            if clash is not None:
                theirs = self._accesses[stamps[clash][0]]
                self._report(UNORDERED_READ, tensor, mine, theirs, instruction)
            elif epoch:
                self._check_barriers(stamps, tensor, mine, instruction, guards)
        reads = self._reads[core]
        if reads is None:
            reads = self._reads[core] = self._fresh()
        self._view(reads, tensor, grains)[...] = self._number(mine)

    def _check_barriers(
        self,
        stamps: np.ndarray,
        tensor: NkiTensor,
        mine: _Access,
        instruction: str,
        guards: Guards,
    ) -> None:
        """Flag a read of what the other core wrote, if only barriers of other tensors order it."""
        low, high = int(stamps.min()), int(stamps.max())
        for number in [low] if low == high else np.unique(stamps).tolist():
            theirs = mine if number == _NEVER else self._accesses[number]
            if theirs.core == mine.core or theirs.epoch >= mine.epoch:
                continue
            named = guards(range(theirs.epoch, mine.epoch))
            if all(storage is not None and storage is not tensor._storage for storage in named):
                flag(
                    OTHER_BARRIER,
                    f"core {mine.core} reads part of `{tensor.name}` that core {theirs.core} "
                    "writes, and the barriers between name other tensors",
                    instruction=instruction,
                    operand=tensor.name,
                    seen=tensor.describe(),
                    fix=f"pass data={tensor.name} to the barrier",
                    notes=(f"core {theirs.core} writes it at {self._place(theirs)}",),
                    data={"who": f"core {mine.core}"},
                )
                return

    def write(
        self, tensor: NkiTensor, core: int, epoch: int, where: np.ndarray | None = None
    ) -> None:
        """Record a finished write, and flag it if the other core's accesses are not ordered."""
        if not tensor.size or (where is not None and not where.any()):
            return
        grains = self._layout(tensor.runs if where is None else _elements_of(tensor))
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
            if clash is not None and not self._values:
                self._report(
                    UNORDERED_WRITE,
                    tensor,
                    mine,
                    self._accesses[stamps[clash][0]],
                    severity="warning",
                )
                changed &= ~clash
                late = late & ~clash if late is not None else None
            elif clash is not None:
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
            _bits(self._before, tensor)[chosen] = _bits(tensor._storage.data, tensor)[chosen]

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
            # Nothing was written before: the read should have waited for this write.
            self._report(UNORDERED_READ, tensor, theirs, mine, place=self._place(theirs))

    def _place(self, access: _Access) -> Place:
        """Return the place of the first such access, with its loop indices."""
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
        severity: Severity | None = None,
    ) -> None:
        """Flag an access, with the line of the other core's access."""
        other, (does, they_do) = 1 - mine.core, _DOES[rule]
        unknown = "" if severity is None else "; without values equal bytes are not recognised"
        flag(
            rule,
            f"core {mine.core} {does} part of `{tensor.name}` that core {other} {they_do}, and no "
            f"barrier orders the two{unknown}",
            instruction=instruction,
            operand=tensor.name,
            seen=tensor.describe(),
            fix="nisa.core_barrier(data=tensor, cores=(0, 1)) between the two accesses",
            notes=(f"core {other} {they_do} it at {self._place(theirs)}",),
            data={"who": f"core {mine.core}"},
            place=place,
            severity=severity,
        )

    def _may_hide(self, mine: _Access, stamps: np.ndarray) -> bool:
        """Return whether ``_stamped`` must distinguish changed from unchanged bytes of a write."""
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
        """Return the mask, in the shape of its stamps, of bytes that a write has changed."""
        if self._before is None:
            return np.ones(stamps.shape, bool)
        extents, steps = (*grains[0], self._grain), (*(n * self._grain for n in grains[1]), 1)
        old, new = (
            np.ndarray(extents, np.uint8, data, tensor.start, steps)[chosen]
            for data in (self._before, tensor._storage.data)
        )
        return np.asarray((old != new).any(axis=-1) | (stamps == _NEVER))

    def _stamped(
        self, mine: _Access, stamps: np.ndarray, changed: np.ndarray, clash: np.ndarray | None
    ) -> np.ndarray:
        """Return the stamps after a write that leaves some bytes unchanged."""
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
        """Return the stamp of an access."""
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
        """Return the mask of stamps of unordered accesses that ``counts`` accepts, or None."""
        if epoch >= len(self._since):
            return None
        first = self._since[epoch]  # earlier accesses are ordered
        bad = [access.epoch >= epoch and counts(access) for access in self._accesses[first:]]
        if not any(bad):
            return None
        low, high = int(stamps.min()), int(stamps.max())
        if high < first or (low == high and not bad[low - first]):
            return None
        if low == high:
            return np.ones(stamps.shape, bool)
        # Index 0 represents all ordered accesses.
        mask: np.ndarray = np.array([False, *bad]).take(stamps - (first - 1), mode="clip")
        return mask if mask.any() else None

    def _fresh(self) -> np.ndarray:
        return np.full(self._nbytes // self._grain, _NEVER, np.int32)

    def _layout(self, runs: Runs) -> Grains:
        """Return the layout of a view in grains; split the grains if the view ends inside one."""
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
    unit = math.gcd(itemsize, tensor.start, *tensor.form.strides)
    steps = (*(stride // unit for stride in tensor.form.strides), 1)
    nbytes = tensor.size * itemsize
    return Runs(unit, (*tensor.shape, itemsize // unit), steps, nbytes, dense=False)


def _bits(data: np.ndarray, tensor: NkiTensor) -> np.ndarray:
    """Return the bits of a view's elements in its storage, or in a copy of it."""
    return np.ndarray(
        tensor.shape, UNSIGNED[tensor.itemsize], data, tensor.start, tensor.form.strides
    )


_DOES = {
    UNORDERED_READ: ("reads", "writes"),
    UNORDERED_WRITE: ("writes", "writes"),
    UNORDERED_REUSE: ("writes", "reads"),
    SAME_WRITE: ("writes", "writes"),
}
