"""Map of written bytes, at the coarsest granularity that the written views allow.

A mark covers ``grain`` bytes. Tiles are mostly written in long dense runs, so the grain starts as
the run of the first view; when a later view ends inside a grain, all marks are split to a smaller
grain that fits both.

A mark is 0 for unwritten bytes, 1 for written ones, and above 1 for bytes computed from garbage:
the uninitialised elements that a numbered finding has read.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Region = tuple[int, tuple[int, ...], tuple[int, ...], int]
"""Byte start, shape, byte strides and item size of a view."""

_MOST_LATER = 64
"""Number of views buffered before they are marked."""

_BYTE = np.dtype(np.uint8)
_NO_BYTES = np.empty(0, _BYTE)

MOST_ORIGINS = 254
"""The highest number of a finding that a mark can hold."""


class Grains:
    """A value per byte of a block of memory, stored at the coarsest granularity possible.

    Args:
        nbytes: Size of the block.
        first: Initial value of all bytes.
        dtype: Type of the marks.
    """

    __slots__ = ("_dtype", "_first", "_grain", "_marks", "_size")

    def __init__(self, nbytes: int, first: int = 0, dtype: Any = _BYTE) -> None:
        self._size = nbytes
        self._grain = 0
        self._first = first
        self._dtype = np.dtype(dtype)
        self._marks: np.ndarray = _NO_BYTES

    @property
    def marks(self) -> np.ndarray:
        """All marks in byte order; empty before the first view."""
        return self._marks

    def of_runs(
        self, start: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
    ) -> np.ndarray:
        """Return the marks of a view as an array whose last dimension has one contiguous run."""
        return self._of(start, runs_of(start, shape, strides, itemsize))

    def _of(self, start: int, runs: Runs) -> np.ndarray:
        unit, extents, steps, *_ = runs
        if not unit:
            return np.empty(0, self._dtype)
        grain = self._refine(unit)
        if grain != unit:
            factor = unit // grain
            extents = (*extents[:-1], extents[-1] * factor)
            steps = (*(step * factor for step in steps[:-1]), 1)
        return self._view(extents, start // grain, steps)

    def of_elements(
        self, start: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
    ) -> np.ndarray:
        """Return the marks of a view; the bytes of an element are along the last dimension."""
        grain = self._refine(math.gcd(itemsize, start, *strides))
        steps = (*(stride // grain for stride in strides), 1)
        return self._view((*shape, itemsize // grain), start // grain, steps)

    def _view(self, extents: tuple[int, ...], first: int, steps: tuple[int, ...]) -> np.ndarray:
        width = self._dtype.itemsize
        if width != 1:
            first, steps = first * width, tuple(step * width for step in steps)
        return np.ndarray(extents, self._dtype, self._marks, first, steps)

    def _refine(self, unit: int) -> int:
        """Return the grain; split the marks first if it does not divide ``unit`` bytes."""
        unit = math.gcd(unit, self._size)
        if not self._grain:
            self._grain = unit
            self._marks = self._unmarked(unit)
        elif unit % self._grain:
            finer = math.gcd(unit, self._grain)
            marks, factor = self._unmarked(finer), self._grain // finer
            # Placed tensors use a small part of the memory: only the range of changed marks is
            # copied.
            marked = np.flatnonzero(self._marks != self._first)
            if marked.size:
                low, high = marked[0], marked[-1] + 1
                marks[low * factor : high * factor] = np.repeat(self._marks[low:high], factor)
            self._marks, self._grain = marks, finer
        return self._grain

    def _unmarked(self, grain: int) -> np.ndarray:
        count = self._size // grain
        if not self._first:
            return np.zeros(count, self._dtype)  # pages are touched only when marked
        return np.full(count, self._first, self._dtype)


class Marks(Grains):
    """The written bytes of one block of memory; initially none, or all of them.

    Tiles are mostly written part by part and then read whole. So written views are buffered and
    marked only at the next query, and not at all if they tile the block completely.
    """

    __slots__ = ("_later", "_pending")

    def __init__(self, nbytes: int, *, written: bool = False) -> None:
        super().__init__(nbytes, int(written))
        self._later: list[tuple[int, Runs]] = []
        self._pending = nbytes

    @property
    def missing_bytes(self) -> int:
        """Number of bytes that were not written or hold garbage."""
        if not self._grain and self._later and self._fill_all():
            return 0
        self._mark()
        if not self._grain:
            return 0 if self._first else self._size
        return self._size - int(np.count_nonzero(self._marks == 1)) * self._grain

    def add(self, start: int, runs: Runs) -> bool:
        """Mark every element of a view; return whether no byte is missing now."""
        self._later.append((start, runs))
        if len(self._later) == _MOST_LATER:
            self._mark()
        self._pending -= runs.nbytes
        if self._pending <= 0:
            self._pending = self.missing_bytes
        return self._pending == 0

    def _mark(self) -> None:
        later, self._later = self._later, []
        for start, runs in later:
            self._of(start, runs)[...] = 1

    def _refine(self, unit: int) -> int:
        self._mark()
        return super()._refine(unit)

    def _fill_all(self) -> bool:
        """Return whether the written views are adjacent, have equal runs and cover the block."""
        lines = self._later[0][1].lines
        if lines is None:
            return False
        starts = []
        for start, runs in self._later:
            if runs.lines != lines:
                return False
            starts.append(start)
        rows, run, pitch = lines
        return rows * pitch == self._size and sorted(starts) == list(range(0, pitch, run))

    def add_where(
        self, mask: np.ndarray, start: int, strides: tuple[int, ...], itemsize: int
    ) -> None:
        """Mark the elements of a view where ``mask`` is true."""
        self.of_elements(start, mask.shape, strides, itemsize)[mask] = 1

    def add_garbage(
        self, origins: np.ndarray, start: int, strides: tuple[int, ...], itemsize: int
    ) -> None:
        """Mark garbage elements of a view with the number of their source finding, 0 for none."""
        where = origins > 0
        marks = self.of_elements(start, origins.shape, strides, itemsize)
        marks[where] = (origins[where] + 1)[:, None]
        self._pending = self.missing_bytes

    def garbage(self, region: Region) -> np.ndarray | None:
        """Return the source finding's number per garbage element, else 0; None without garbage."""
        if self.of_runs(*region).max(initial=0) <= 1:
            return None
        marks = self.of_elements(*region).max(axis=-1)
        return np.asarray(np.where(marks > 1, marks - 1, 0), np.uint8)

    def sound(self, region: Region) -> bool:
        """Return whether every element of a view was written, and none with garbage."""
        return bool((self.of_runs(*region) == 1).all())

    def missing(self, region: Region) -> np.ndarray | None:
        """Return a mask of the elements of a view with unmarked bytes, None if there are none."""
        if self.of_runs(*region).all():
            return None
        return np.asarray(~self.of_elements(*region).all(axis=-1))


class Runs(NamedTuple):
    """The dense runs of a view in memory.

    Attributes:
        unit: The largest grain that divides the runs; 0 for a view without elements. extents,
        steps: Extents and steps of the view in grains; the last dimension is along its runs.
        nbytes: Bytes of all elements.
        dense: Whether it is a single run.
        lines: Number, bytes and distance of the runs if they form one dimension, else None.
    """

    unit: int
    extents: tuple[int, ...]
    steps: tuple[int, ...]
    nbytes: int
    dense: bool
    lines: tuple[int, int, int] | None = None


@lru_cache(maxsize=4096)
def runs_of(start: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> Runs:
    """Return the runs of a view."""
    run, outer = itemsize, len(shape)
    while outer and (strides[outer - 1] == run or shape[outer - 1] == 1):
        outer -= 1
        run *= shape[outer]
    nbytes = run * math.prod(shape[:outer])
    if not run:
        return Runs(0, (), (), 0, True)
    unit = math.gcd(run, start, *strides[:outer])
    steps = (*(stride // unit for stride in strides[:outer]), 1)
    lines = (shape[0], run, strides[0]) if outer == 1 else None
    return Runs(unit, (*shape[:outer], run // unit), steps, nbytes, not outer, lines)
