"""Device memory one byte at a time: a dictionary of cells, and views that list their cells.

A cell is one byte, named by (partition, byte in the partition); HBM is one long partition. A view
is nothing but a table: for every index, the cell in which that element begins. Every way to make a
view is spelled out as a loop over its elements, as the access-pattern guide writes it:

    for w in range(w_num): for x in range(x_num): cell of element offset + w * w_step + x * x_step
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

Cell = tuple[int, int]
Index = tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """``size`` positions from ``start``: what ``nl.ds`` selects."""

    start: int
    size: int


def indices(shape: tuple[int, ...]) -> Iterator[Index]:
    """Every index of ``shape``, last dimension fastest."""
    if not shape:
        yield ()
        return
    for first in range(shape[0]):
        for rest in indices(shape[1:]):
            yield (first, *rest)


@dataclass
class Memory:
    """The cells that have been written; a cell that is not here was never written."""

    cells: dict[Cell, int] = field(default_factory=dict)

    def tensor(self, shape, dtype, *, on_chip, partition=0, byte=0) -> View:
        """A whole tensor whose first element begins at (partition, byte)."""
        dtype = np.dtype(dtype)
        rows = shape[0] if on_chip else 1
        count = 1
        for extent in shape:
            count *= extent
        base = Base(self, on_chip, partition, byte, count // rows * dtype.itemsize)
        places = {}
        for position, index in enumerate(indices(shape)):
            places[index] = base.cell(position, dtype.itemsize)
        return View(base, tuple(shape), dtype, places)


@dataclass(frozen=True)
class Base:
    """Where a tensor lies: its memory, its first cell and its bytes in one partition."""

    memory: Memory
    on_chip: bool
    partition: int
    byte: int
    row_bytes: int

    def cell(self, position: int, itemsize: int) -> Cell:
        """The cell in which element ``position`` of the flattened tensor begins."""
        per_row = self.row_bytes // itemsize
        row, column = (position // per_row, position % per_row) if self.on_chip else (0, position)
        return self.partition + row, self.byte + column * itemsize

    def position(self, cell: Cell, itemsize: int) -> int:
        """The element of the flattened tensor that begins at ``cell``."""
        partition, byte = cell
        return (partition - self.partition) * (self.row_bytes // itemsize) + (
            byte - self.byte
        ) // itemsize


@dataclass
class View:
    """Some elements of a tensor, in some order, as some type."""

    base: Base
    shape: tuple[int, ...]
    dtype: np.dtype
    places: dict[Index, Cell]

    def write(self, values) -> None:
        """Store an array of this shape and dtype."""
        values = np.asarray(values)
        assert values.shape == self.shape
        assert values.dtype == self.dtype
        for index in indices(self.shape):
            partition, byte = self.places[index]
            for k, one in enumerate(values[index].tobytes()):
                self.base.memory.cells[partition, byte + k] = one

    def read(self) -> np.ndarray:
        """The elements; every byte of them must have been written."""
        assert not self.unwritten().any()
        cells = self.base.memory.cells
        data = bytearray()
        for index in indices(self.shape):
            partition, byte = self.places[index]
            for k in range(self.dtype.itemsize):
                data.append(cells[partition, byte + k])
        return np.frombuffer(bytes(data), self.dtype).reshape(self.shape)

    def unwritten(self) -> np.ndarray:
        """True where an element has a byte that nobody wrote."""
        found = np.zeros(self.shape, bool)
        for index in indices(self.shape):
            partition, byte = self.places[index]
            for k in range(self.dtype.itemsize):
                if (partition, byte + k) not in self.base.memory.cells:
                    found[index] = True
        return found

    @property
    def offset(self) -> int:
        """The first element of the view, as an element of the flattened tensor."""
        first = self.places[(0,) * len(self.shape)]
        return self.base.position(first, self.dtype.itemsize)

    def get_pattern(self) -> list[tuple[int | None, int]]:
        """The (step, count) of every dimension; a dimension of one element shows no step."""
        origin = (0,) * len(self.shape)
        found: list[tuple[int | None, int]] = []
        for dim, extent in enumerate(self.shape):
            if extent == 1:
                found.append((None, 1))
                continue
            neighbour = (*origin[:dim], 1, *origin[dim + 1 :])
            there = self.base.position(self.places[neighbour], self.dtype.itemsize)
            found.append((there - self.offset, extent))
        return found

    def __getitem__(self, entries) -> View:
        entries = list(entries) if isinstance(entries, tuple) else [entries]
        missing = len(self.shape) - sum(entry is not Ellipsis for entry in entries)
        if Ellipsis not in entries:
            entries.append(Ellipsis)
        at = entries.index(Ellipsis)
        entries[at : at + 1] = [slice(None)] * missing

        picked: list[list[int]] = []
        kept: list[int] = []
        for dim, entry in enumerate(entries):
            extent = self.shape[dim]
            if isinstance(entry, slice):
                picked.append(list(range(extent))[entry])
                kept.append(dim)
            elif isinstance(entry, int):
                picked.append([entry])
            else:
                picked.append(list(range(entry.start, entry.start + entry.size)))
                kept.append(dim)

        # On chip a result has at least two dimensions: a removed partition dimension comes back in
        # front, and what is then still missing is a free dimension of one element.
        if self.base.on_chip and len(kept) < 2 and 0 not in kept:
            kept.insert(0, 0)
        tail = (0,) if self.base.on_chip and len(kept) < 2 else ()

        places = {}
        for index in indices(tuple(len(positions) for positions in picked)):
            old = tuple(picked[dim][index[dim]] for dim in range(len(picked)))
            places[tuple(index[dim] for dim in kept) + tail] = self.places[old]
        shape = tuple(len(picked[dim]) for dim in kept) + (1,) * len(tail)
        return View(self.base, shape, self.dtype, places)

    def reshape(self, shape) -> View:
        places = dict(
            zip(indices(shape), [self.places[i] for i in indices(self.shape)], strict=True)
        )
        return View(self.base, tuple(shape), self.dtype, places)

    def view(self, dtype) -> View:
        dtype = np.dtype(dtype)
        *outer, last = self.shape
        row_bytes = last * self.dtype.itemsize
        assert row_bytes % dtype.itemsize == 0
        places = {}
        for index in indices(tuple(outer)):
            partition, byte = self.places[(*index, 0)]
            for k in range(last):
                assert self.places[(*index, k)] == (partition, byte + k * self.dtype.itemsize)
            for k in range(row_bytes // dtype.itemsize):
                places[(*index, k)] = (partition, byte + k * dtype.itemsize)
        return View(self.base, (*outer, row_bytes // dtype.itemsize), dtype, places)

    def ap(self, pattern, offset=0, dtype=None) -> View:
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        shape = tuple(count for _, count in pattern)
        places = {}
        for index in indices(shape):
            position = offset
            for dim in range(len(shape)):
                position += index[dim] * pattern[dim][0]
            places[index] = self.base.cell(position, dtype.itemsize)
        return View(self.base, shape, dtype, places)


def frozen(value):
    """Lists as tuples, all the way down: a kernel takes no list as an argument."""
    return tuple(frozen(part) for part in value) if isinstance(value, list | tuple) else value


def follow(tensor, steps, ds, dtypes):
    """Make one view after another of anything that is indexed like a tensor.

    A step is ("index", entry, ...), ("reshape", shape), ("view", type name) or
    ("ap", pattern, offset, type name or None); an entry is ("at", i), ("slice", start, stop, step),
    ("ds", start, size) or ("...",). ``ds`` and ``dtypes`` are what the tensor's world calls spans
    and types.
    """
    for step in steps:
        if step[0] == "index":
            entries = []
            for entry in step[1:]:
                if entry[0] == "at":
                    entries.append(entry[1])
                elif entry[0] == "slice":
                    entries.append(slice(entry[1], entry[2], entry[3]))
                elif entry[0] == "ds":
                    entries.append(ds(entry[1], entry[2]))
                else:
                    entries.append(...)
            tensor = tensor[tuple(entries)]
        elif step[0] == "reshape":
            tensor = tensor.reshape(step[1])
        elif step[0] == "view":
            tensor = tensor.view(dtypes[step[1]])
        elif step[3] is None:
            tensor = tensor.ap(pattern=step[1], offset=step[2])
        else:
            tensor = tensor.ap(pattern=step[1], offset=step[2], dtype=dtypes[step[3]])
    return tensor
