"""Arithmetic of index tensors: pointers, orders, keys; on any device, never over a dense matrix.

On a CPU SciPy's compiled loops do what they do in one pass; elsewhere torch sorts.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arrays import array_of
from trnsci.core.eager import unwatched

__all__ = [
    "INDEX_DTYPES",
    "counted",
    "expanded",
    "group_sums",
    "is_canonical",
    "keys_of",
    "loops",
    "pointers",
    "stable_order",
    "transposed_order",
]

INDEX_DTYPES = (torch.int32, torch.int64)


@cache
def loops() -> Any:
    """Return SciPy's compiled loops over compressed rows, or None where there are none."""
    try:
        from scipy.sparse import _sparsetools
    except ImportError:
        return None
    return _sparsetools


def counted(pointers: Tensor) -> Tensor:
    """Return how many entries each row has."""
    return pointers[1:] - pointers[:-1]


def pointers(rows: Tensor, size: int) -> Tensor:
    """Return where each of ``size`` rows begins among entries that are sorted by row."""
    found = torch.zeros(size + 1, dtype=rows.dtype, device=rows.device)
    counts = torch.bincount(rows, minlength=size) if rows.numel() else found[1:]
    torch.cumsum(counts, 0, out=found[1:])
    return found


def expanded(pointers: Tensor, size: int) -> Tensor:
    """Return the row of each of ``size`` entries."""
    rows = pointers.numel() - 1
    # torch.compile must not meet the loops: it is asked first whether anybody watches.
    if unwatched(pointers) and (native := loops()) is not None:
        found = torch.empty(size, dtype=pointers.dtype)
        native.expandptr(rows, array_of(pointers), array_of(found))
        return found
    names = torch.arange(rows, dtype=pointers.dtype, device=pointers.device)
    return torch.repeat_interleave(names, counted(pointers), output_size=size)


def keys_of(rows: Tensor, columns: Tensor, width: int) -> Tensor:
    """Return one number for each entry that orders entries by row, then by column."""
    return rows.to(torch.int64) * width + columns


def stable_order(keys: Tensor) -> Tensor:
    """Return the order that sorts keys and leaves equal ones as they are."""
    return torch.sort(keys, stable=True).indices


def is_canonical(pointers: Tensor, columns: Tensor) -> bool:
    """Return whether the columns of each row increase, so that none comes twice."""
    if columns.numel() < 2:
        return True
    if unwatched(columns) and (native := loops()) is not None:
        rows = pointers.numel() - 1
        return bool(native.csr_has_canonical_format(rows, array_of(pointers), array_of(columns)))
    same_row = torch.ones(columns.numel() - 1, dtype=torch.bool, device=columns.device)
    inner = pointers[1:-1]
    inner = inner[(inner > 0) & (inner < columns.numel())].to(torch.int64)
    same_row[inner - 1] = False
    return bool(((columns[1:] > columns[:-1]) | ~same_row).all())


def transposed_order(
    row_pointers: Tensor, columns: Tensor, width: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the pointers and row indices of the transpose, and the order of its entries."""
    entries = columns.numel()
    if unwatched(columns) and (native := loops()) is not None:
        rows = row_pointers.numel() - 1
        before = torch.arange(entries, dtype=columns.dtype)
        found = torch.empty(width + 1, dtype=columns.dtype)
        indices, order = torch.empty_like(columns), torch.empty_like(before)
        native.csr_tocsc(
            rows,
            width,
            *(array_of(t) for t in (row_pointers, columns, before, found, indices, order)),
        )
        return found, indices, order
    order = stable_order(columns)
    return pointers(columns, width), expanded(row_pointers, entries)[order], order


def group_sums(values: Tensor, groups: Tensor, size: int) -> Tensor:
    """Return sums over the last dimension of ``values`` by group, rounded once, differentiable."""
    if values.dtype in (torch.float16, torch.bfloat16):
        return group_sums(values.float(), groups, size).to(values.dtype)
    zeros = values.new_zeros(*values.shape[:-1], size)
    return zeros.index_add(-1, groups, values)
