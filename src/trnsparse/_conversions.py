"""From one arrangement of entries to another, in time that grows with the entries alone.

Where nobody watches the values, SciPy's loops move them together with the indices in one pass.
Elsewhere the order is found first and the values follow by it, which torch can differentiate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.arrays import array_of
from trnsci.core.eager import readable
from trnsparse._index import expanded, group_sums, keys_of, loops, pointers, stable_order
from trnsparse._patterns import Pattern

__all__ = ["blocked", "compressed", "ordered", "row_places", "turned", "unblocked", "united"]

_NATIVE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def united(keys: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> tuple[Pattern, Tensor]:
    """Return the pattern of the different keys, and the entry that each key is.

    Args:
        keys: One number for each entry, as ``keys_of`` has them.
        shape: Of the matrix.
        dtype: Of the indices of the pattern.
    """
    order = stable_order(keys)
    found = keys[order]
    first = torch.ones_like(found, dtype=torch.bool)
    first[1:] = found[1:] != found[:-1]
    groups = torch.empty_like(order)
    groups[order] = torch.cumsum(first, 0) - 1
    kept = found[first]
    rows = torch.div(kept, max(shape[1], 1), rounding_mode="floor")
    columns = (kept - rows * shape[1]).to(dtype)
    return Pattern(pointers(rows, shape[0]).to(dtype), columns, shape), groups


def ordered(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> tuple[Pattern, Tensor]:
    """Return coordinates by rows, columns in order, and the order of the entries."""
    order = stable_order(keys_of(rows, columns, shape[1]))
    return Pattern(pointers(rows, shape[0]), columns[order], shape), order


def compressed(
    values: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, int]
) -> tuple[Tensor, Pattern]:
    """Return coordinates by rows, columns in order; entries that come twice are added."""
    native = loops()
    if native is None or not _movable(values, rows):
        pattern, groups = united(keys_of(rows, columns, shape[1]), shape, columns.dtype)
        return group_sums(values, groups, pattern.entries), pattern
    entries = values.shape[0]
    found = torch.empty(shape[0] + 1, dtype=rows.dtype)
    indices, moved = torch.empty_like(columns), values.new_empty(entries)
    given = (array_of(t) for t in (rows.contiguous(), columns.contiguous(), values.contiguous()))
    out = tuple(array_of(t) for t in (found, indices, moved))
    native.coo_tocsr(*shape, entries, *given, *out)
    if not native.csr_has_canonical_format(shape[0], *out[:2]):
        if not native.csr_has_sorted_indices(shape[0], *out[:2]):
            native.csr_sort_indices(shape[0], *out)
        native.csr_sum_duplicates(*shape, *out)
        entries = int(found[-1])
        indices, moved = indices[:entries].clone(), moved[:entries].clone()
    pattern = Pattern(found, indices, shape)
    pattern.canonical = True
    return moved, pattern


def turned(values: Tensor, pattern: Pattern) -> tuple[Tensor, Pattern]:
    """Return the entries of the transpose, and its pattern."""
    native = loops()
    if native is None or "transposed" in vars(pattern) or not _movable(values, pattern.indices):
        flipped, order = pattern.transposed
        return values.index_select(-1, order), flipped
    found = torch.empty(pattern.columns + 1, dtype=pattern.pointers.dtype)
    indices, moved = torch.empty_like(pattern.indices), values.new_empty(values.shape)
    out = (array_of(t) for t in (found, indices, moved))
    native.csr_tocsc(*pattern.shape, *pattern.arrays, array_of(values.contiguous()), *out)
    return moved, Pattern(found, indices, (pattern.columns, pattern.rows))


def blocked(values: Tensor, pattern: Pattern, size: int) -> tuple[Tensor, Pattern]:
    """Return the blocks (..., nb, size, size) that entries by rows lie in, and where these are."""
    grid = (-(-pattern.rows // size), -(-pattern.columns // size))
    native = loops()
    if native is not None and pattern.entries and _movable(values, pattern.indices):
        return _blocked_by_scipy(native, values, pattern, size, grid)
    rows, columns = pattern.row_indices.to(torch.int64), pattern.indices.to(torch.int64)
    block_rows = torch.div(rows, size, rounding_mode="floor")
    block_columns = torch.div(columns, size, rounding_mode="floor")
    blocks, places = united(
        keys_of(block_rows, block_columns, grid[1]), grid, pattern.indices.dtype
    )
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
    found = torch.zeros(grid[0] + 1, dtype=starts.dtype)
    block_columns = torch.zeros(count, dtype=starts.dtype)
    blocks = values.new_zeros(count, size, size)
    places = tuple(array_of(t) for t in (found, block_columns))
    data = array_of(values.contiguous())
    native.csr_tobsr(
        rows, columns, size, size, begin, indices, data, *places, array_of(blocks).ravel()
    )
    if not native.csr_has_sorted_indices(grid[0], *places):
        order = torch.arange(count, dtype=starts.dtype)
        native.csr_sort_indices(grid[0], *places, array_of(order))
        blocks = blocks.index_select(0, order)
    return blocks, Pattern(found, block_columns, grid)


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


def _movable(values: Tensor, indices: Tensor) -> bool:
    """Return whether values may move outside of torch's sight."""
    return (
        values.ndim == 1
        and values.dtype in _NATIVE
        and readable(values, indices)
        and not values.is_conj()
    )


def row_places(pattern: Pattern) -> Tensor:
    """Return the place of each entry within its row."""
    starts = expanded(pattern.pointers, pattern.entries)
    return torch.arange(pattern.entries, device=starts.device) - pattern.pointers[starts]
