"""Accumulation state of PSUM: the elements that an accumulation group has opened.

``accumulate=None`` means that the first matmul into an element of a tensor since its allocation
overwrites and later ones add. Tensors placed at one address share bytes, but each has its own
state, which ends with the last view of the tensor. The state is stored per byte, so that
overlapping regions are correct. A table of whole regions is checked first, because nearly every
matmul writes exactly the region of an earlier one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from nkisim.memory.written_map import Grains, Region

__all__ = ["AccumulationState"]

Box = tuple[int, int, int, int]
"""First and last row, and first and last byte in a row, ends excluded."""

_MOST_LATER = 64
"""Number of writes buffered before they are marked byte by byte."""


class AccumulationState:
    """The accumulation groups of one PSUM storage, by the tensor whose matmuls opened them.

    A tensor is identified by its owner, the object that is freed with its last view. The state does
    not keep owners alive, and deletes the groups of an owner when it is freed.
    """

    __slots__ = ("_groups", "_last", "_pitch", "_size")

    def __init__(self, nbytes: int, pitch: int) -> None:
        self._size = nbytes
        self._pitch = pitch
        self._groups: WeakKeyDictionary[Any, _Groups] | None = None
        self._last: tuple[ref[Any], Region] | None = None

    @property
    def tensors(self) -> int:
        """Number of tensors with groups."""
        return 0 if self._groups is None else len(self._groups)

    def goes_on(self, owner: Any, region: Region) -> bool:
        """Return whether the last matmul wrote ``region`` and nothing touched the storage since."""
        last = self._last
        return last is not None and last[1] is region and last[0]() is owner

    def opened(self, owner: Any, region: Region) -> np.ndarray | bool:
        """Return the elements of ``region`` opened by its owner's matmuls: all, none, or a mask."""
        groups = self._of(owner)
        return False if groups is None else groups.covers(region, _box(region, self._pitch))

    def open(self, owner: Any, region: Region) -> None:
        """Note that a matmul wrote ``region``."""
        self._last = (ref(owner), region)
        if self._groups is None:
            self._groups = WeakKeyDictionary()
        own = self._groups.get(owner)
        if own is None:
            own = self._groups[owner] = _Groups(self._size)
        if region not in own.opened:
            box = _box(region, self._pitch)
            self._interrupt(box)
            own.open(region, box)
        own.interrupted.discard(region)
        own.evicted.discard(region)

    def write(self, owner: Any, region: Region) -> None:
        """Note that another engine wrote ``region``; it closes its owner's groups there."""
        self._last = None
        if not self._groups:
            return  # there is no group that it could interrupt
        self._interrupt(_box(region, self._pitch))
        own = self._groups.get(owner)
        if own is not None:
            own.close(region)

    def read(self, region: Region) -> None:
        """Note that an engine read ``region``: the groups that it touches have been evicted."""
        self._last = None
        if self._groups:
            box = _box(region, self._pitch)
            for groups in self._groups.values():
                groups.evicted.update(_meeting(groups.opened, box))

    def interrupted(self, owner: Any, region: Region) -> bool:
        """Return whether something else wrote part of ``region`` since its last matmul."""
        groups = self._of(owner)
        return groups is not None and region in groups.interrupted

    def evicted(self, owner: Any, region: Region) -> bool:
        """Return whether the open group of ``region`` was read since its last matmul."""
        groups = self._of(owner)
        return groups is not None and region in groups.evicted

    def unread(self, owner: Any, region: Region) -> bool:
        """Return whether a matmul wrote ``region`` and nothing has touched it since."""
        groups = self._of(owner)
        if groups is None or region not in groups.opened:
            return False
        return region not in groups.evicted and region not in groups.interrupted

    def _of(self, owner: Any) -> _Groups | None:
        return None if self._groups is None else self._groups.get(owner)

    def _interrupt(self, box: Box) -> None:
        """Mark the groups that overlap a box as interrupted."""
        assert self._groups is not None
        for groups in self._groups.values():
            groups.interrupted.update(_meeting(groups.opened, box))


class _Groups:
    """The accumulation groups of one tensor.

    Attributes:
        opened: Regions that a matmul wrote, and no other engine since.
        evicted: Those of them that were read since their last matmul.
        interrupted: Regions of which something else wrote a part since their last matmul.
    """

    __slots__ = ("_ever_opened", "_later", "_marks", "evicted", "interrupted", "opened")

    def __init__(self, nbytes: int) -> None:
        self.opened: dict[Region, Box] = {}
        self.evicted: set[Region] = set()
        self.interrupted: set[Region] = set()
        self._ever_opened: dict[Region, Box] = {}
        self._marks = Grains(nbytes)
        self._later: list[tuple[Region, int]] = []

    def open(self, region: Region, box: Box) -> None:
        """Note that a matmul wrote a region that is not open."""
        self.opened[region] = self._ever_opened[region] = box
        self._mark(region, 1)

    def close(self, region: Region) -> None:
        """Note that another engine wrote a region through the same tensor."""
        for closed in self.interrupted:
            self.opened.pop(closed, None)
        self.evicted -= self.interrupted
        self._mark(region, 0)

    def covers(self, region: Region, box: Box) -> np.ndarray | bool:
        """Return the open elements of a region: all, none, or a mask."""
        if region in self.opened:
            return True
        if not _meeting(self._ever_opened, box):
            return False
        self._mark_all()
        mask = np.asarray(self._marks.of_elements(*region).all(axis=-1))
        if mask.all():
            return True
        return mask if mask.any() else False

    def _mark(self, region: Region, opened: int) -> None:
        """Mark the bytes of a region as open or closed, at the next query."""
        later = self._later
        if not later or later[-1] != (region, opened):
            later.append((region, opened))
        if len(later) > _MOST_LATER:
            self._mark_all()

    def _mark_all(self) -> None:
        for region, opened in self._later:
            self._marks.of_runs(*region)[...] = opened
        self._later.clear()


def _meeting(known: dict[Region, Box], box: Box) -> list[Region]:
    """Return the entries that may share bytes with a box; an overestimate for odd strides."""
    top, bottom, left, right = box
    return [
        region
        for region, (first, last, begin, end) in known.items()
        if first < bottom and top < last and begin < right and left < end
    ]


@lru_cache(maxsize=4096)
def _box(region: Region, pitch: int) -> Box:
    """Return the first and last row, and byte in a row, that a region may reach, ends excluded."""
    start, shape, strides, itemsize = region
    row, byte = divmod(start, pitch)
    rows, columns = [row, row + 1], [byte, byte + itemsize]
    for extent, stride in zip(shape, strides, strict=True):
        span, unit = (columns, 1) if abs(stride) < pitch else (rows, pitch)
        span[stride > 0] += (extent - 1) * (stride // unit)
    return rows[0], rows[1], columns[0], columns[1]
