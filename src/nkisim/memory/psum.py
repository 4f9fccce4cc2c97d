"""What the Tensor engine knows about PSUM: which elements an accumulation group has opened.

``accumulate=None`` means that the first matmul into an element of a tensor since its allocation
overwrites and later ones add. Tensors that were placed at one address share bytes, but each has a
history of its own. It is kept per byte so that overlapping regions are right, behind a table of
whole regions, because nearly every matmul returns to exactly the region it wrote before; the bytes
are only looked at when that table has no answer.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from typing import Any
from weakref import ref

import numpy as np

from nkisim.dtypes import UNSIGNED

__all__ = ["AccumulationState", "Region"]

Region = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""Byte start, shape, byte strides and item size of a view."""

Owner = ref[Any]
Group = tuple[Owner, Region]
Box = tuple[int, int, int, int]

_NEVER, _OTHER, _OPENED = 0, 1, 2
_SPREAD = {1: 0x01, 2: 0x0101, 4: 0x01010101}


class AccumulationState:
    """Who wrote which bytes of one PSUM storage: nobody, another engine, or a matmul.

    Groups belong to an owner, which stands for the allocation that their matmuls wrote to.
    """

    __slots__ = (
        "_bytes",
        "_ever_opened",
        "_evicted",
        "_interrupted",
        "_last",
        "_opened",
        "_pitch",
        "_replay",
        "_room",
        "_size",
    )

    def __init__(self, nbytes: int, pitch: int) -> None:
        self._size = nbytes
        self._pitch = pitch
        self._bytes: dict[Owner, np.ndarray] = {}
        self._replay: list[tuple[Owner, Region, int]] = []
        self._opened: dict[Group, Box] = {}
        self._ever_opened: dict[Owner, dict[Region, Box]] = defaultdict(dict)
        self._evicted: set[Group] = set()
        self._interrupted: set[Group] = set()
        self._room = 64
        self._last: Group | None = None

    def goes_on(self, owner: Any, region: Region) -> bool:
        """Tell whether the last matmul wrote ``region`` and nothing touched the storage since."""
        last = self._last
        return last is not None and last[1] is region and last[0] is ref(owner)

    def opened(self, owner: Any, region: Region) -> np.ndarray | bool:
        """Tell which elements of ``region`` a matmul of its owner has opened: all, none, a mask."""
        who = ref(owner)
        if (who, region) in self._opened:
            return True
        known = self._ever_opened.get(who)
        if known is None or not _meeting(known, _box(region, self._pitch)):
            return False
        mask: np.ndarray = self._view(who, region) == _OPENED * _SPREAD[region[3]]
        if mask.all():
            return True
        return mask if mask.any() else False

    def open(self, owner: Any, region: Region) -> None:
        """Note that a matmul wrote ``region``."""
        self._last = group = (ref(owner), region)
        if group not in self._opened:
            if len(self._opened) > self._room:
                self._forget_the_dead()
            self._interrupt(region)
            self._replay.append((*group, _OPENED))
            box = _box(region, self._pitch)
            self._opened[group] = self._ever_opened[group[0]][region] = box
        if self._interrupted:
            self._interrupted.discard(group)
        if self._evicted:
            self._evicted.discard(group)

    def write(self, owner: Any, region: Region) -> None:
        """Note that another engine wrote ``region``; it closes its owner's groups there."""
        self._last = None
        if not self._ever_opened:
            return  # there is no group that it could interrupt
        who = ref(owner)
        if self._replay and self._replay[-1] == (who, region, _OTHER):
            return
        self._replay.append((who, region, _OTHER))
        self._interrupt(region)
        closed = {group for group in self._interrupted if group[0] == who}
        self._opened = {g: box for g, box in self._opened.items() if g not in closed}
        self._evicted -= closed

    def read(self, region: Region) -> None:
        """Note that an engine read ``region``: the groups that it touches have been evicted."""
        self._last = None
        if self._opened:
            self._evicted.update(_meeting(self._opened, _box(region, self._pitch)))

    def _interrupt(self, region: Region) -> None:
        """Note that the groups which ``region`` touches no longer hold what their matmuls left."""
        self._interrupted.update(_meeting(self._opened, _box(region, self._pitch)))

    def interrupted(self, owner: Any, region: Region) -> bool:
        """Tell whether something else wrote part of ``region`` since its last matmul."""
        return (ref(owner), region) in self._interrupted

    def evicted(self, owner: Any, region: Region) -> bool:
        """Tell whether the open group of ``region`` was read since its last matmul."""
        return (ref(owner), region) in self._evicted

    def unread(self, owner: Any, region: Region) -> bool:
        """Tell whether a matmul wrote ``region`` and nothing has touched it since."""
        group = (ref(owner), region)
        if group not in self._opened:
            return False
        return group not in self._evicted and group not in self._interrupted

    def _forget_the_dead(self) -> None:
        """Drop the groups of tensors that no longer exist."""
        dead = {who for who in self._ever_opened if who() is None}
        self._opened = {g: box for g, box in self._opened.items() if g[0] not in dead}
        for groups in (self._evicted, self._interrupted):
            groups -= {group for group in groups if group[0] in dead}
        for who in dead:
            del self._ever_opened[who]
            self._bytes.pop(who, None)
        self._replay = [entry for entry in self._replay if entry[0] not in dead]
        self._room = 64 + 2 * len(self._opened)

    def _view(self, who: Owner, region: Region) -> np.ndarray:
        for writer, (start, shape, strides, itemsize), state in self._replay:
            marks = np.ndarray(shape, UNSIGNED[itemsize], self._map(writer), start, strides)
            marks[...] = state * _SPREAD[itemsize]
        self._replay.clear()
        start, shape, strides, itemsize = region
        return np.ndarray(shape, UNSIGNED[itemsize], self._map(who), start, strides)

    def _map(self, who: Owner) -> np.ndarray:
        if who not in self._bytes:
            self._bytes[who] = np.zeros(self._size, np.uint8)
        return self._bytes[who]


def _meeting(known: dict[Any, Box], box: Box) -> list[Any]:
    """Return what may share bytes with a box; generous for odd strides."""
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
