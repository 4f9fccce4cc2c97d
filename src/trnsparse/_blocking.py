"""Between entries by rows and dense blocks, in time that grows with the entries alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arrays import array_of
from trnsparse._conversions import movable, ordered, united
from trnsparse._index import group_sums, loops
from trnsparse._patterns import Pattern

__all__ = ["blocked", "unblocked"]


def blocked(values: Tensor, pattern: Pattern, size: int) -> tuple[Tensor, Pattern]:
    """Return the blocks (..., nb, size, size) that entries by rows lie in, and where these are.

    Blocks of a row come in any order.
    """
    grid = (-(-pattern.rows // size), -(-pattern.columns // size))
    movable_ones = pattern.entries and movable(values, pattern.indices)
    if movable_ones and (native := loops()) is not None:
        return _blocked_by_scipy(native, values, pattern, size, grid)
    rows, columns = pattern.row_indices.to(torch.int64), pattern.indices.to(torch.int64)
    block_rows = torch.div(rows, size, rounding_mode="floor")
    block_columns = torch.div(columns, size, rounding_mode="floor")
    blocks, places = united(block_rows * grid[1] + block_columns, grid, pattern.indices.dtype)
    inside = (rows - block_rows * size) * size + (columns - block_columns * size)
    flat = group_sums(values, places * size**2 + inside, blocks.entries * size**2)
    return flat.reshape(*values.shape[:-1], blocks.entries, size, size), blocks


def _blocked_by_scipy(
    native: Any, values: Tensor, pattern: Pattern, size: int, grid: tuple[int, int]
) -> tuple[Tensor, Pattern]:
    rows, columns = grid[0] * size, grid[1] * size
    starts = pattern.pointers
    if rows > pattern.rows:  # rows that are not there have no entries
        starts = torch.cat([starts, starts[-1:].expand(rows - pattern.rows)])
    begin, indices = array_of(starts), array_of(pattern.indices)
    count = native.csr_count_blocks(rows, columns, size, size, begin, indices)
    dtype = begin.dtype
    if count * size**2 > np.iinfo(dtype).max:  # the loop counts elements of blocks in this dtype
        begin, indices = begin.astype(np.int64), indices.astype(np.int64)
    found, block_columns = np.empty(grid[0] + 1, begin.dtype), np.empty(count, begin.dtype)
    data = array_of(values.contiguous())
    blocks = np.zeros((count, size, size), data.dtype)  # memory that the system has cleared already
    native.csr_tobsr(
        rows, columns, size, size, begin, indices, data, found, block_columns, blocks.reshape(-1)
    )
    if found.dtype != dtype:
        found, block_columns = found.astype(dtype), block_columns.astype(dtype)
    starts, places = torch.from_numpy(found), torch.from_numpy(block_columns)
    return torch.from_numpy(blocks), Pattern(starts, places, grid)


def unblocked(
    blocks: Tensor, pattern: Pattern, shape: tuple[int, int]
) -> tuple[Tensor, Pattern, Tensor]:
    """Return the entries of blocks by rows, their pattern, and where in ``blocks`` each was.

    Zeros are left out, and so is what lies outside of ``shape``.
    """
    size = blocks.shape[-1]
    place = blocks.detach().reshape(-1).ne(0).nonzero().squeeze(-1)
    block = torch.div(place, size * size, rounding_mode="floor")
    inside = place - block * size * size
    row = torch.div(inside, size, rounding_mode="floor")
    rows = pattern.row_indices[block] * size + row
    columns = pattern.indices[block] * size + (inside - row * size)
    kept = (rows < shape[0]) & (columns < shape[1])
    if not bool(kept.all()):
        place, rows, columns = place[kept], rows[kept], columns[kept]
    dtype = pattern.indices.dtype
    found, order = ordered(rows.to(dtype), columns.to(dtype), shape)
    place = place[order]
    return blocks.reshape(-1).index_select(0, place), found, place
