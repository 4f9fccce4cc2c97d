"""Dependencies through memory: the earlier accesses that an access waits for.

A read waits for the writes of its bytes, a write for the reads and writes of what it replaces. The
accesses of one storage are kept in a grid, so that a tile that is written column by column, or a
tensor that is stored block by block, takes linear time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from nkisim.memory.written_map import Region

_FEW = 8
"""Footprints that are compared one by one; more are looked up in the grid."""


class _Footprint:
    """The bytes of a view, in rows of the storage.

    Attributes:
        region: Start, shape, strides and item size of the view.
        rows: First row, and the one after the last.
        columns: First byte in a row, and the one after the last.
        solid: Whether it covers that whole rectangle.
    """

    __slots__ = ("columns", "region", "rows", "solid")

    def __init__(self, region: Region, rows: tuple[int, int], columns: tuple[int, int]) -> None:
        self.region = region
        self.rows = rows
        self.columns = columns
        _, shape, strides, itemsize = region
        elements = 1
        for extent, stride in zip(shape, strides, strict=True):
            elements *= extent if stride else min(extent, 1)
        self.solid = elements * itemsize == (rows[1] - rows[0]) * (columns[1] - columns[0])

    def overlaps(self, other: _Footprint) -> bool:
        """Return whether both share a byte."""
        if self is other:
            return self.rows[0] < self.rows[1]
        (a, b), (c, d) = self.rows, other.rows
        if a >= d or c >= b:
            return False
        (a, b), (c, d) = self.columns, other.columns
        if a >= d or c >= b:
            return False
        return (self.solid and other.solid) or _share_bytes(self.region, other.region)

    def covers(self, other: _Footprint) -> bool:
        """Return whether every byte of the other one is in this one."""
        if self is other:
            return True
        (a, b), (c, d) = self.rows, other.rows
        (e, f), (g, h) = self.columns, other.columns
        return self.solid and a <= c and d <= b and e <= g and h <= f


class _Grid:
    """Operations by footprint; footprints near another one are found without a scan.

    Footprints of about one size share a grid whose cells are at least as large, so that each lies
    in at most four cells.
    """

    __slots__ = ("_grids", "operations")

    def __init__(self) -> None:
        self.operations: dict[_Footprint, list[int]] = {}
        self._grids: dict[tuple[int, int], dict[tuple[int, int], dict[_Footprint, None]]] = {}

    def add(self, footprint: _Footprint, number: int) -> None:
        """Add an operation."""
        found = self.operations.get(footprint)
        if found is not None:
            found.append(number)
            return
        self.operations[footprint] = [number]
        for cells, cell in self._cells(footprint):
            cells.setdefault(cell, {})[footprint] = None

    def replace(self, footprint: _Footprint, number: int) -> None:
        """Add an operation in place of those with the same footprint."""
        found = self.operations.get(footprint)
        if found is None:
            self.add(footprint, number)
        else:
            found[:] = (number,)

    def remove(self, footprint: _Footprint) -> None:
        """Remove the operations of a footprint."""
        del self.operations[footprint]
        for cells, cell in self._cells(footprint):
            del cells[cell][footprint]
            if not cells[cell]:
                del cells[cell]

    def overlapping(self, footprint: _Footprint) -> list[_Footprint]:
        """Return the footprints that share bytes with one."""
        if len(self.operations) <= _FEW:
            return [other for other in self.operations if other.overlaps(footprint)]
        found: dict[_Footprint, None] = {}
        for (tall, wide), cells in self._grids.items():
            rows, columns = _cell_range(footprint.rows, tall), _cell_range(footprint.columns, wide)
            if len(rows) * len(columns) > len(cells):
                near = list(cells.values())
            else:
                near = [cells[r, c] for r in rows for c in columns if (r, c) in cells]
            for members in near:
                found |= members
        return [other for other in found if other.overlaps(footprint)]

    def _cells(
        self, footprint: _Footprint
    ) -> Iterator[tuple[dict[tuple[int, int], dict[_Footprint, None]], tuple[int, int]]]:
        rows, columns = footprint.rows, footprint.columns
        tall = max(rows[1] - rows[0] - 1, 0).bit_length()
        wide = max(columns[1] - columns[0] - 1, 0).bit_length()
        cells = self._grids.setdefault((tall, wide), {})
        for row in _cell_range(rows, tall):
            for column in _cell_range(columns, wide):
                yield cells, (row, column)


def _cell_range(bounds: tuple[int, int], bits: int) -> range:
    """Return the cells of 2**bits that an interval overlaps."""
    return range(bounds[0] >> bits, (max(bounds[1] - 1, bounds[0]) >> bits) + 1)


class Accesses:
    """The accesses of one storage that later ones may have to wait for.

    Args:
        pitch: Bytes of a row: of a partition on chip, of the innermost dimension in HBM.
    """

    __slots__ = ("_fences", "_pitch", "_reads", "_writes")

    def __init__(self, pitch: int) -> None:
        self._pitch = max(pitch, 1)
        self._reads = _Grid()
        self._writes = _Grid()
        self._fences: dict[int, int] = {}

    def columns(self, region: Region) -> tuple[int, int]:
        """Return the first byte of a view in its rows, and the one after the last."""
        return _footprint(region, self._pitch).columns

    def read(self, region: Region, number: int, core: int) -> set[int]:
        """Record a read and return the operations that it waits for."""
        footprint = _footprint(region, self._pitch)
        found = self._found(self._writes, self._writes.overlapping(footprint), core)
        self._reads.add(footprint, number)
        return found

    def write(self, region: Region, number: int, core: int) -> set[int]:
        """Record a write and return the operations that it waits for."""
        footprint = _footprint(region, self._pitch)
        found: set[int] = set()
        for grid in (self._writes, self._reads):
            overlapping = grid.overlapping(footprint)
            found |= self._found(grid, overlapping, core)
            for other in overlapping:
                # Later accesses of those bytes wait for this write, which waits for the other.
                if other is not footprint and footprint.covers(other):
                    grid.remove(other)
        if footprint in self._reads.operations:
            self._reads.remove(footprint)
        self._writes.replace(footprint, number)
        return found

    def fence(self, number: int, core: int, core_of: list[int]) -> set[int]:
        """Record a barrier: all later accesses of a core wait for it, and it for the earlier ones.

        Args:
            number: The barrier.
            core: The core.
            core_of: Core of each operation.
        """
        found = {
            other
            for grid in (self._writes, self._reads)
            for numbers in grid.operations.values()
            for other in numbers
            if core_of[other] == core
        }
        self._fences[core] = number
        return found

    def _found(self, grid: _Grid, footprints: list[_Footprint], core: int) -> set[int]:
        found = {number for other in footprints for number in grid.operations[other]}
        if core in self._fences:
            found.add(self._fences[core])
        return found


@functools.lru_cache(maxsize=1 << 14)
def _footprint(region: Region, pitch: int) -> _Footprint:
    """Return the footprint of a view in a storage with rows of ``pitch`` bytes."""
    start, shape, strides, itemsize = region
    if 0 in shape:
        return _Footprint(region, (0, 0), (0, 0))
    above = below = high = low = 0
    for extent, stride in zip(shape, strides, strict=True):
        reach = (extent - 1) * stride
        if stride % pitch == 0:
            above += max(reach, 0) // pitch
            below += min(reach, 0) // pitch
        else:
            high += max(reach, 0)
            low += min(reach, 0)
    row, offset = divmod(start, pitch)
    if offset + low < 0 or offset + high + itemsize > pitch:  # rows that wrap: every byte between
        first = (start + below * pitch + low) // pitch
        last = (start + above * pitch + high + itemsize - 1) // pitch
        return _Footprint(region, (first, last + 1), (0, pitch))
    return _Footprint(
        region, (row + below, row + above + 1), (offset + low, offset + high + itemsize)
    )


@functools.lru_cache(maxsize=1 << 14)
def _share_bytes(a: Region, b: Region) -> bool:
    """Return whether two views of one storage share bytes."""
    first, second = (_bounds(region) for region in (a, b))
    low, high = min(first[0], second[0]), max(first[1], second[1])
    memory = np.empty(high - low, np.uint8)  # never accessed, so it takes no memory

    def view(start: int, shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> np.ndarray:
        return np.ndarray(shape, f"V{size}", memory, start - low, strides)

    return np.shares_memory(view(*a), view(*b))


def _bounds(region: Region) -> tuple[int, int]:
    """Return the first byte of a view, and the one after the last."""
    start, shape, strides, itemsize = region
    reaches = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low, high = sum(min(reach, 0) for reach in reaches), sum(max(reach, 0) for reach in reaches)
    return start + low, start + high + itemsize
