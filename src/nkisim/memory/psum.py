"""What the Tensor engine knows about PSUM: which elements an accumulation group has opened.

``accumulate=None`` means that the first matmul into an element since its allocation overwrites and
later ones add. The state is kept per byte so that overlapping regions are right, behind a table of
whole regions, because nearly every matmul returns to exactly the region it wrote before; the bytes
are only looked at when that table has no answer.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from nkisim.dtypes import UNSIGNED

__all__ = ["AccumulationState", "Region"]

Region = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""Byte start, shape, byte strides and item size of a view."""

_NEVER, _OTHER, _OPENED = 0, 1, 2
_SPREAD = {1: 0x01, 2: 0x0101, 4: 0x01010101}


class AccumulationState:
    """Who wrote which bytes of one PSUM storage: nobody, another engine, or a matmul.

    Attributes:
        current: The region of the last matmul, while nothing else touched the storage. Sums go on
            there time and again, and to compare it is cheaper than to ask.
    """

    __slots__ = (
        "_bytes",
        "_ever_opened",
        "_evicted",
        "_interrupted",
        "_opened",
        "_pitch",
        "_replay",
        "_size",
        "current",
    )

    def __init__(self, nbytes: int, pitch: int) -> None:
        self._size = nbytes
        self._pitch = pitch
        self._bytes: np.ndarray | None = None
        self._replay: list[tuple[Region, int]] = []
        self._opened: set[Region] = set()
        self._ever_opened: set[Region] = set()
        self._evicted: set[Region] = set()
        self._interrupted: set[Region] = set()
        self.current: Region | None = None

    def opened(self, region: Region) -> np.ndarray | bool:
        """Tell which elements of ``region`` a matmul has opened: all, none, or a mask."""
        if region in self._opened:
            return True
        if not any(self._touch(known, region) for known in self._ever_opened):
            return False
        mask: np.ndarray = self._view(region) == _OPENED * _SPREAD[region[3]]
        if mask.all():
            return True
        return mask if mask.any() else False

    def open(self, region: Region) -> None:
        """Note that a matmul wrote ``region``."""
        self.current = region
        if region not in self._opened:
            self._interrupt(region)
            self._replay.append((region, _OPENED))
            self._opened.add(region)
            self._ever_opened.add(region)
        self._interrupted.discard(region)
        self._evicted.discard(region)

    def write(self, region: Region) -> None:
        """Note that another engine wrote ``region``."""
        self.current = None
        if not self._ever_opened:
            return  # there is no group that it could interrupt
        if self._replay and self._replay[-1] == (region, _OTHER):
            return
        self._replay.append((region, _OTHER))
        self._interrupt(region)
        self._opened -= self._interrupted
        self._evicted -= self._interrupted

    def read(self, region: Region) -> None:
        """Note that an engine read ``region``: the groups that it touches have been evicted."""
        self.current = None
        if self._opened:
            self._evicted.update(known for known in self._opened if self._touch(known, region))

    def _interrupt(self, region: Region) -> None:
        """Note that the groups which ``region`` touches no longer hold what their matmuls left."""
        self._interrupted.update(known for known in self._opened if self._touch(known, region))

    def interrupted(self, region: Region) -> bool:
        """Tell whether something else wrote part of ``region`` since its last matmul."""
        return region in self._interrupted

    def evicted(self, region: Region) -> bool:
        """Tell whether the open group of ``region`` was read since its last matmul."""
        return region in self._evicted

    def _view(self, region: Region) -> np.ndarray:
        if self._bytes is None:
            self._bytes = np.zeros(self._size, np.uint8)
        for known, state in self._replay:
            start, shape, strides, itemsize = known
            marks = np.ndarray(shape, UNSIGNED[itemsize], self._bytes, start, strides)
            marks[...] = state * _SPREAD[itemsize]
        self._replay.clear()
        start, shape, strides, itemsize = region
        return np.ndarray(shape, UNSIGNED[itemsize], self._bytes, start, strides)

    def _touch(self, a: Region, b: Region) -> bool:
        """Tell whether two regions may share bytes; generous for odd strides."""
        if a == b:
            return True
        pitch = self._pitch
        (a_rows, a_bytes), (b_rows, b_bytes) = _box(a, pitch), _box(b, pitch)
        return _meet(a_rows, b_rows) and _meet(a_bytes, b_bytes)


@lru_cache(maxsize=4096)
def _box(region: Region, pitch: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the first and last rows and bytes in a row that a region may reach, ends excluded."""
    start, shape, strides, itemsize = region
    row, first = divmod(start, pitch)
    rows, reach = 0, 0
    for extent, stride in zip(shape, strides, strict=True):
        if stride >= pitch:
            rows += (extent - 1) * (stride // pitch)
        else:
            reach += (extent - 1) * stride
    return (row, row + rows + 1), (first, first + reach + itemsize)


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]
