"""Block layout of an attention mask: block lists by row, tables of partial blocks, encodings.

A layout has one or several patterns, of which pattern ``b * heads + h`` belongs to batch b and head
h. Blocks are ordered by pattern, row and column. Each has the number of a table, the boolean mask
inside the block; table 0 is all true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trnsci.core.errors import ShapeError
from trnsci.core.interop import without_modes, without_transforms

HIDDEN = -3.0e38
"""Added to the scores of masked keys."""

_AT_ONCE = 256
"""Blocks per evaluation of a mask function: 32 MiB of indices for blocks of 128."""

Array = npt.NDArray[Any]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Lists:
    """Columns of blocks by row of blocks, over all patterns.

    Attributes:
        leading: Batch and heads.
        grid: Rows and columns of blocks of a pattern.
        starts: Index of the first column of each row, then the total.
        columns: The columns, ascending in each row.
    """

    leading: Pair
    grid: Pair
    starts: Array
    columns: Array

    @classmethod
    def empty(cls, leading: tuple[int, ...], grid: Pair) -> Lists:
        """Return empty lists."""
        rows = leading[0] * leading[1] * grid[0]
        return cls((leading[0], leading[1]), grid, np.zeros(rows + 1, np.int64), np.zeros(0, int))

    @property
    def rows(self) -> Array:
        """The row of each block, counted over all patterns."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


def block_counts(lengths: Pair, sizes: Pair) -> Pair:
    """Return rows and columns of blocks."""
    return -(-lengths[0] // sizes[0]), -(-lengths[1] // sizes[1])


def from_lists(chosen: Array) -> Lists:
    """Return the lists of a (batch, heads, rows, columns) array of booleans."""
    batch, heads, rows, columns = chosen.shape
    flat = chosen.reshape(batch * heads * rows, columns)
    starts = np.concatenate([[0], np.cumsum(flat.sum(1))])
    return Lists((batch, heads), (rows, columns), starts, np.nonzero(flat)[1])


def to_lists(name: str, counts: Tensor, indices: Tensor, grid: Pair) -> Lists:
    """Return the lists of per-row counts and padded column indices.

    Raises:
        ShapeError: They do not fit each other or the grid.
    """
    many = counts.detach().cpu().numpy().astype(np.int64)
    where = indices.detach().cpu().numpy().astype(np.int64)
    if where.ndim != many.ndim + 1 or where.shape[:-1] != many.shape or many.ndim not in (1, 3):
        raise ShapeError(
            f"AttentionMask: {name}_num_blocks must be (rows,) or (batch, heads, rows) and "
            f"{name}_indices have one dimension more, got {many.shape} and {where.shape}"
        )
    if many.shape[-1] != grid[0]:
        raise ShapeError(
            f"AttentionMask: {name}_num_blocks must count {grid[0]} rows, got {many.shape[-1]}"
        )
    leading = (1, 1) if many.ndim == 1 else (many.shape[0], many.shape[1])
    many, where = many.reshape(-1), where.reshape(-1, where.shape[-1])
    if many.size and (many.min() < 0 or many.max() > where.shape[1]):
        raise ShapeError(
            f"AttentionMask: {name}_num_blocks must be 0 to {where.shape[1]}, "
            f"got {many.min()} to {many.max()}"
        )
    read = np.arange(where.shape[1]) < many[:, None]
    columns = np.where(read, where, np.iinfo(np.int64).max)
    columns.sort(axis=1)
    flat = columns[read]
    if flat.size and (flat.min() < 0 or flat.max() >= grid[1]):
        raise ShapeError(
            f"AttentionMask: {name}_indices must be 0 to {grid[1] - 1}, "
            f"got {flat.min()} to {flat.max()}"
        )
    if ((columns[:, 1:] == columns[:, :-1]) & read[:, 1:]).any():
        raise ShapeError(f"AttentionMask: {name}_indices has a block twice in one row")
    return Lists(leading, grid, np.concatenate([[0], np.cumsum(many)]), flat)


def evaluated(
    mask_mod: Callable[..., Tensor],
    lists: Lists,
    sizes: Pair,
    device: torch.device | str = "cpu",
) -> Array:
    """Return the values of a mask function in each listed block, evaluated on a device.

    A mask is a constant under differentiation and ``vmap``.
    """
    with without_modes(), without_transforms(), torch.no_grad():
        return _evaluated(mask_mod, lists, sizes, device)


def _evaluated(
    mask_mod: Callable[..., Tensor], lists: Lists, sizes: Pair, device: torch.device | str
) -> Array:
    pattern, row = np.divmod(lists.rows, lists.grid[0])
    batch, head = np.divmod(pattern, lists.leading[1])
    places = [torch.from_numpy(x).to(device) for x in (batch, head, row, lists.columns)]
    by_key = torch.vmap(mask_mod, (None, None, None, 0))
    by_query = torch.vmap(by_key, (None, None, 0, None))
    inside = [torch.arange(size, device=device) for size in sizes]
    found = np.zeros((len(lists.columns), *sizes), bool)
    for first in range(0, len(found), _AT_ONCE):
        b, h, i, j = (x[first : first + _AT_ONCE] for x in places)
        q, k = i[:, None] * sizes[0] + inside[0], j[:, None] * sizes[1] + inside[1]
        shown = torch.vmap(by_query)(b, h, q, k).broadcast_to(len(b), *sizes)
        found[first : first + _AT_ONCE] = shown.to(torch.bool).cpu().numpy()
    return found


@dataclass(frozen=True)
class Layout:
    """The complete contents of a mask.

    Attributes:
        leading: Batch and heads; 1 broadcasts.
        lengths: Queries and keys.
        sizes: Rows and columns of a block.
        starts: Index of the first block of each row of each pattern, then the total.
        columns: The column of each block, ascending in a row.
        which: The table of each block.
        tables: Masks inside blocks, (tables, rows, columns) booleans; the first is all true.
    """

    leading: Pair
    lengths: Pair
    sizes: Pair
    starts: Array
    columns: Array
    which: Array
    tables: Array

    @property
    def grid(self) -> Pair:
        """Rows and columns of blocks."""
        return block_counts(self.lengths, self.sizes)

    @property
    def patterns(self) -> int:
        """The number of patterns."""
        return self.leading[0] * self.leading[1]

    @property
    def rows(self) -> Array:
        """The row of each block, counted over all patterns."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def table_grid(self) -> Array:
        """Return the table of every block of the grid; ``len(tables)`` where no block is stored."""
        full = np.full((self.patterns * self.grid[0], self.grid[1]), len(self.tables), np.int64)
        full[self.rows, self.columns] = self.which
        return full.reshape(*self.leading, *self.grid)

    def picture(self, pattern: int) -> Array:
        """Return 0 for no block, 1 for a partial one, 2 for a full one."""
        full = np.zeros((self.patterns * self.grid[0], self.grid[1]), np.int64)
        full[self.rows, self.columns] = np.where(self.which == 0, 2, 1)
        found: Array = full.reshape(self.patterns, *self.grid)[pattern]
        return found

    def dense(self) -> Array:
        """Return (batch, heads, queries, keys) booleans."""
        (rows, columns), grid = self.sizes, self.grid
        cut = np.zeros((self.patterns * grid[0], grid[1], rows, columns), bool)
        cut[self.rows, self.columns] = self.tables[self.which]
        whole = cut.reshape(*self.leading, *grid, rows, columns).transpose(0, 1, 2, 4, 3, 5)
        flat = whole.reshape(*self.leading, grid[0] * rows, grid[1] * columns)
        return np.ascontiguousarray(flat[:, :, : self.lengths[0], : self.lengths[1]])

    def four(self) -> tuple[Array, Array, Array, Array]:
        """Return counts and padded indices of partial blocks and of full ones."""
        found: list[Array] = []
        inside = self._inside()
        for chosen in (~inside, inside):
            rows, columns = self.rows[chosen], self.columns[chosen]
            counts = np.bincount(rows, minlength=self.patterns * self.grid[0])
            first = np.concatenate([[0], np.cumsum(counts)])[:-1]
            indices = np.zeros((len(counts), max(self.grid[1], 1)), np.int32)
            indices[rows, np.arange(len(rows)) - first[rows]] = columns
            shape = (*self.leading, self.grid[0])
            found += [counts.astype(np.int32).reshape(shape), indices.reshape(*shape, -1)]
        return found[0], found[1], found[2], found[3]

    def transposed(self) -> Layout:
        """Return the layout with queries and keys exchanged."""
        rows, columns = self.grid
        pattern, row = np.divmod(self.rows, rows)
        order = np.argsort(pattern * columns + self.columns, kind="stable")
        flat = (pattern * columns + self.columns)[order]
        counts = np.bincount(flat, minlength=self.patterns * columns)
        return Layout(
            self.leading,
            self.lengths[::-1],
            self.sizes[::-1],
            np.concatenate([[0], np.cumsum(counts)]),
            row[order],
            self.which[order],
            np.ascontiguousarray(self.tables.transpose(0, 2, 1)),
        )

    def encoded(self, batch: int, heads: int) -> tuple[int, ...]:
        """Return all but the tables as integers, with the pattern of each head."""
        own = [
            (b if self.leading[0] > 1 else 0) * self.leading[1] + (h if self.leading[1] > 1 else 0)
            for b in range(batch)
            for h in range(heads)
        ]
        head = (*self.lengths, *self.sizes, self.patterns, len(own), len(self.columns))
        arrays = (self.starts, self.columns, self.which)
        return (*head, *own, *(int(x) for array in arrays for x in array))

    def _inside(self) -> Array:
        """Return a mask of the blocks that are full up to the end of the keys."""
        edge = self.lengths[1] % self.sizes[1]
        inside = self.which == 0
        if edge:
            tail = np.ones(self.sizes, bool)
            tail[:, edge:] = False
            same = (self.tables == tail).all((1, 2))
            inside |= same[self.which] & (self.columns == self.grid[1] - 1)
        return inside


def joined(partial: Lists, full: Lists, shown: Array | None, lengths: Pair, sizes: Pair) -> Layout:
    """Return the layout of partial and full blocks; a block in both lists is partial.

    Partial blocks without masked keys become full, fully masked ones are dropped, and keys past
    the end of the sequence are masked.
    """
    if partial.leading != full.leading:
        leading = np.broadcast_shapes(partial.leading, full.leading)
        partial, full = (_spread(x, leading) for x in (partial, full))
    if shown is not None and len(shown) != len(partial.columns):
        raise ShapeError("AttentionMask: batch and heads of partial and full blocks must agree")
    grid = partial.grid
    rows = np.concatenate([partial.rows, full.rows])
    columns = np.concatenate([partial.columns, full.columns])
    if shown is None:
        shown = np.ones((len(partial.columns), *sizes), bool)
    keys, first = np.unique(rows * max(grid[1], 1) + columns, return_index=True)
    which, tables = tables_of(shown)
    number = np.concatenate([which, np.zeros(len(full.columns), int)])[first]
    columns = keys % max(grid[1], 1)
    number, tables = _ending(number, columns, tables, lengths, sizes)
    kept = number >= 0
    rows, columns, number = (keys // max(grid[1], 1))[kept], columns[kept], number[kept]
    counts = np.bincount(rows, minlength=len(partial.starts) - 1)
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Layout(partial.leading, lengths, sizes, starts, columns, number, tables)


def tables_of(shown: Array) -> tuple[Array, Array]:
    """Return the table number of each block, and the distinct tables.

    Table 0 is all true; -1 is all false and has no table.
    """
    tables = [np.ones(shown.shape[1:], bool)]
    known = {tables[0].tobytes(): 0, np.zeros_like(tables[0]).tobytes(): -1}
    numbers = np.empty(len(shown), np.int64)
    for place, block in enumerate(np.ascontiguousarray(shown)):
        content = block.tobytes()
        if content not in known:
            known[content] = len(tables)
            tables.append(block)
        numbers[place] = known[content]
    return numbers, np.stack(tables)


def _ending(
    number: Array, columns: Array, tables: Array, lengths: Pair, sizes: Pair
) -> tuple[Array, Array]:
    """Return tables that mask keys past the end in the last column of blocks."""
    edge = lengths[1] % sizes[1]
    last = columns == lengths[1] // sizes[1]
    if not edge or not last.any():
        return number, tables
    cut = tables.copy()
    cut[:, :, edge:] = False
    extra = len(tables)
    number = np.where(last & (number >= 0), number + extra, number)
    both = np.concatenate([tables, cut])
    empty: Array = ~np.any(both, axis=(1, 2))
    number = np.where((number >= 0) & empty[np.maximum(number, 0)], -1, number)
    used, again = np.unique(np.concatenate([[0], number[number >= 0]]), return_inverse=True)
    renumbered = number.copy()
    renumbered[number >= 0] = again[1:]
    return renumbered, both[used]


def _spread(lists: Lists, leading: tuple[int, ...]) -> Lists:
    """Return the lists broadcast over batch and heads."""
    rows, columns = lists.grid
    dense = np.zeros((*lists.leading, rows, columns), bool)
    dense.reshape(-1, columns)[lists.rows, lists.columns] = True
    return from_lists(np.broadcast_to(dense, (*leading, rows, columns)))
