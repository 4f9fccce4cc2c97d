"""Conversion between CSR entries and dense blocks, in time proportional to the entries."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsparse._patterns.conversions import ordered, united
from trnsparse._patterns.index import group_sums
from trnsparse._patterns.layouts import as_scipy_bsr, as_scipy_csr, parts_of_scipy, suits_scipy
from trnsparse._patterns.pattern import Pattern


def blocked(values: Tensor, pattern: Pattern, size: int) -> tuple[Tensor, Pattern]:
    """Return the blocks (..., nb, size, size) that contain CSR entries, and their pattern.

    Blocks of a row are in any order.
    """
    grid = (-(-pattern.rows // size), -(-pattern.columns // size))
    if pattern.entries and suits_scipy(values, pattern.indices):
        return _blocked_by_scipy(values, pattern, size, grid)
    rows, columns = pattern.row_indices.to(torch.int64), pattern.indices.to(torch.int64)
    block_rows = torch.div(rows, size, rounding_mode="floor")
    block_columns = torch.div(columns, size, rounding_mode="floor")
    blocks, places = united(block_rows * grid[1] + block_columns, grid, pattern.indices.dtype)
    inside = (rows - block_rows * size) * size + (columns - block_columns * size)
    flat = group_sums(values, places * size**2 + inside, blocks.entries * size**2)
    return flat.reshape(*values.shape[:-1], blocks.entries, size, size), blocks


def _blocked_by_scipy(
    values: Tensor, pattern: Pattern, size: int, grid: tuple[int, int]
) -> tuple[Tensor, Pattern]:
    rows, columns = grid[0] * size, grid[1] * size
    starts = pattern.pointers
    if rows > pattern.rows:  # padding rows have no entries
        starts = torch.cat([starts, starts[-1:].expand(rows - pattern.rows)])
    whole = Pattern(starts, pattern.indices, (rows, columns))
    # Without a copy, blocks of one element would share the memory of the values.
    found = as_scipy_csr(values, whole).tobsr((size, size), copy=True)
    return parts_of_scipy(found, grid, pattern.indices.dtype)


def unblocked_by_scipy(
    blocks: Tensor, pattern: Pattern, shape: tuple[int, int]
) -> tuple[Tensor, Pattern]:
    """Return the first two results of ``unblocked``, by SciPy."""
    csr = as_scipy_bsr(blocks, pattern).tocsr()
    csr.eliminate_zeros()
    csr = csr if csr.shape == shape else csr[: shape[0], : shape[1]]
    csr.sort_indices()
    return parts_of_scipy(csr, shape, pattern.indices.dtype)


def unblocked(
    blocks: Tensor, pattern: Pattern, shape: tuple[int, int]
) -> tuple[Tensor, Pattern, Tensor]:
    """Return the CSR entries of blocks, their pattern, and the position of each in ``blocks``.

    Zeros and elements outside of ``shape`` are omitted.
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
