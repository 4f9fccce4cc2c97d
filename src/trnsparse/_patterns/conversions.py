"""Sorting, merging and transposing of entries, in time proportional to their number.

SciPy converts values on a CPU that are neither transformed nor differentiated, together with their
indices. Otherwise the permutation is computed first and applied to the values, which torch can
differentiate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import shapes_are_static
from trnsparse._patterns.index import (
    expanded,
    first_of_each,
    group_sums,
    keys_of,
    outside_transforms,
    pointers,
    stable_order,
)
from trnsparse._patterns.layouts import as_scipy_csc, as_scipy_csr, parts_of_scipy, suits_scipy
from trnsparse._patterns.pattern import Pattern


@outside_transforms
def united(keys: Tensor, shape: tuple[int, int], dtype: torch.dtype) -> tuple[Pattern, Tensor]:
    """Return the pattern of the distinct keys of ``keys_of``, and the index of each key in it.

    Shapes in a graph of torch.compile do not depend on values: there the pattern has an entry for
    each key, in order, and the index of a key is that of the first one that is equal to it. So
    sums by index (``group_sums``) have their value at the first of equal entries, and zeros at the
    others.
    """
    order = stable_order(keys)
    found = keys[order]
    if shapes_are_static():
        kept, groups = found, torch.searchsorted(found, keys)
    else:
        first = first_of_each(found)
        kept, groups = found[first], torch.empty_like(order)
        groups[order] = torch.cumsum(first, 0) - 1
    rows = torch.div(kept, max(shape[1], 1), rounding_mode="floor")
    columns = (kept - rows * shape[1]).to(dtype)
    return Pattern(pointers(rows, shape[0]).to(dtype), columns, shape), groups


@outside_transforms
def ordered(rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> tuple[Pattern, Tensor]:
    """Return the CSR pattern of coordinates, columns in order, and the permutation of entries."""
    order = stable_order(keys_of(rows, columns, shape[1]))
    return Pattern(pointers(rows, shape[0]), columns[order], shape), order


def merged(values: Tensor, pattern: Pattern) -> tuple[Tensor, Pattern]:
    """Return entries with columns in order and duplicates summed; the same if they are."""
    if pattern.canonical:
        return values, pattern
    found, groups = united(pattern.keys, pattern.shape, pattern.indices.dtype)
    return group_sums(values, groups, found.entries), found


def compressed(
    values: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, int]
) -> tuple[Tensor, Pattern]:
    """Return the CSR form of coordinates, columns in order; duplicates are summed."""
    if not suits_scipy(values, rows):
        pattern, groups = united(keys_of(rows, columns, shape[1]), shape, columns.dtype)
        return group_sums(values, groups, pattern.entries), pattern
    csr = _as_scipy_coo(values, rows, columns, shape).tocsr()
    moved, pattern = parts_of_scipy(csr, shape, columns.dtype)
    pattern.known_canonical = True
    return moved, pattern


def _as_scipy_coo(values: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, int]) -> Any:
    from scipy.sparse import coo_array

    data, *places = (array_of(t.detach()) for t in (values, rows, columns))
    return coo_array((data, tuple(places)), shape)


def transposed(values: Tensor, pattern: Pattern) -> tuple[Tensor, Pattern]:
    """Return the entries of the transpose, and its pattern."""
    if not suits_scipy(values, pattern.indices):
        flipped, order = pattern.transposed
        return values.index_select(-1, order), flipped
    by_columns = as_scipy_csr(values, pattern).tocsc()
    shape = (pattern.columns, pattern.rows)
    moved, flipped = parts_of_scipy(by_columns, shape, pattern.indices.dtype)
    flipped.known_canonical = pattern.known_canonical or None  # tocsc keeps duplicates
    return moved, flipped


def densified(values: Tensor, pattern: Pattern) -> Tensor:
    """Return the dense matrix of CSR entries; duplicates are summed."""
    if suits_scipy(values, pattern.indices):
        return torch.from_numpy(as_scipy_csr(values, pattern).toarray())
    flat = values.new_zeros(*values.shape[:-1], pattern.rows * pattern.columns)
    return flat.index_add(-1, pattern.keys, values).reshape(*values.shape[:-1], *pattern.shape)


def densified_columns(values: Tensor, by_columns: Pattern) -> Tensor:
    """Return the dense matrix of CSC entries; duplicates are summed."""
    if suits_scipy(values, by_columns.indices):
        return torch.from_numpy(as_scipy_csc(values, by_columns).toarray())
    by_rows, order = by_columns.transposed
    return densified(values.index_select(-1, order), by_rows)


def densified_places(
    values: Tensor, rows: Tensor, columns: Tensor, shape: tuple[int, int]
) -> Tensor:
    """Return the dense matrix of COO entries; duplicates are summed."""
    if suits_scipy(values, rows):
        return torch.from_numpy(_as_scipy_coo(values, rows, columns, shape).toarray())
    keys = keys_of(rows, columns, shape[1])
    return group_sums(values, keys, shape[0] * shape[1]).reshape(*values.shape[:-1], *shape)


def row_places(pattern: Pattern) -> Tensor:
    """Return the position of each entry within its row."""
    starts = expanded(pattern.pointers, pattern.entries)
    return torch.arange(pattern.entries, device=starts.device) - pattern.pointers[starts]
