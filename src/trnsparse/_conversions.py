"""From one arrangement of entries to another, in time that grows with the entries alone.

Where nobody watches the values, SciPy's loops move them together with the indices in one pass.
Elsewhere the order is found first and the values follow by it, which torch can differentiate.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arrays import array_of
from trnsci.core.eager import readable
from trnsparse._index import expanded, group_sums, keys_of, loops, pointers, stable_order
from trnsparse._patterns import Pattern

__all__ = [
    "compressed",
    "densified",
    "movable",
    "ordered",
    "row_places",
    "turned",
    "united",
    "written_out",
]

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
    if not movable(values, rows) or (native := loops()) is None:
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
    known = not torch.compiler.is_compiling() and "transposed" in vars(pattern)
    if known or not movable(values, pattern.indices) or (native := loops()) is None:
        flipped, order = pattern.transposed
        return values.index_select(-1, order), flipped
    found = torch.empty(pattern.columns + 1, dtype=pattern.pointers.dtype)
    indices, moved = torch.empty_like(pattern.indices), values.new_empty(values.shape)
    out = (array_of(t) for t in (found, indices, moved))
    native.csr_tocsc(*pattern.shape, *pattern.arrays, array_of(values.contiguous()), *out)
    return moved, Pattern(found, indices, (pattern.columns, pattern.rows))


def densified(values: Tensor, pattern: Pattern) -> Tensor:
    """Return the dense matrix of entries by rows; those that come twice are added."""
    found = written_out(values, pattern.pointers, pattern.indices, pattern.shape)
    if found is not None:
        return found
    flat = values.new_zeros(*values.shape[:-1], pattern.rows * pattern.columns)
    return flat.index_add(-1, pattern.keys, values).reshape(*values.shape[:-1], *pattern.shape)


def written_out(
    values: Tensor, pointers: Tensor, indices: Tensor, shape: tuple[int, int]
) -> Tensor | None:
    """Return the dense matrix of entries by rows in one pass, or None where somebody watches.

    It asks for no pattern: the pass leaves nothing in the cache, where Python's steps are slow.
    """
    if not movable(values, indices) or (native := loops()) is None:
        return None
    data = array_of(values.contiguous())
    dense = np.zeros(shape, data.dtype)  # memory that the system has cleared already
    native.csr_todense(*shape, pointers.numpy(), indices.numpy(), data, dense)
    return torch.from_numpy(dense)


def movable(values: Tensor, indices: Tensor) -> bool:
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
