"""Indexing ``A[key]``: rows, parts of rows, or single elements; differentiable by the values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import DimensionError, ShapeError
from trnsparse._patterns.index import on_host
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.selections import selected_columns
from trnsparse.formats._storage.csr import CSRStorage


def select(matrix: CSRStorage, key: Any) -> Any:
    """Return ``matrix[key]``.

    A key is a slice, integer, list, index tensor or mask. The first key selects rows, a second key
    selects columns. An integer removes its dimension, as in torch and NumPy: results with two
    dimensions are sparse, a row, a column or an element is a dense tensor. Two index tensors select
    the elements at pairs (row, column).
    """
    if not isinstance(key, tuple):
        key = (key,)
    if sum(k is Ellipsis for k in key) == 1:  # replaces the omitted dimensions
        place = key.index(Ellipsis)
        key = key[:place] + (slice(None),) * (3 - len(key)) + key[place + 1 :]
    if not 1 <= len(key) <= 2:
        raise DimensionError(f"a matrix is indexed by rows and columns, got {len(key)} indices")
    rows, columns = (*key, slice(None))[:2]
    if not isinstance(rows, slice) and not isinstance(columns, slice):
        both_numbers = _is_number(rows) and _is_number(columns)
        found = _elements(matrix, *(_chosen(k, n) for k, n in zip(key, matrix.shape, strict=True)))
        return found.squeeze(-1) if both_numbers else found
    part = matrix if _is_all(rows) else _rows(matrix, rows)
    part = part if _is_all(columns) else _columns(part, columns)
    if _is_number(rows):
        return part.to_dense().squeeze(-2)
    return part.to_dense().squeeze(-1) if _is_number(columns) else part


def _is_all(key: Any) -> bool:
    return isinstance(key, slice) and key == slice(None)


def _is_number(key: Any) -> bool:
    return hasattr(key, "__index__") and not getattr(key, "ndim", 0)


def _rows(matrix: CSRStorage, key: Any) -> CSRStorage:
    pattern = matrix.pattern
    rows = _chosen(key, pattern.rows).to(pattern.indices.device)
    starts = pattern.pointers.index_select(0, rows)
    lengths = pattern.pointers.index_select(0, rows + 1) - starts
    pointers = torch.zeros(rows.shape[0] + 1, dtype=lengths.dtype, device=rows.device)
    torch.cumsum(lengths, 0, out=pointers[1:])
    total = int(pointers[-1])
    # Positions of entries increase by one within a row, and jump at the first entry of a row.
    jumps = starts - pointers[:-1]
    jumps[1:] -= jumps[:-1].clone()
    places = torch.ones(total + 1, dtype=jumps.dtype, device=rows.device)
    places[0] = 0
    places = places.index_add_(0, pointers[:-1], jumps)[:total].cumsum(0, dtype=jumps.dtype)
    indices = pattern.indices.index_select(0, places)
    part = Pattern(pointers, indices, (rows.shape[0], pattern.columns))
    return type(matrix)._of(matrix.values.index_select(-1, places), part)


def _columns(matrix: CSRStorage, key: Any) -> CSRStorage:
    indices = matrix.pattern.indices
    as_it_is = isinstance(key, slice) and on_host(indices)  # SciPy is faster with a slice
    columns = key if as_it_is else _chosen(key, matrix.pattern.columns).to(indices.device)
    return type(matrix)._of(*selected_columns(matrix._matrix, columns))


def _elements(matrix: CSRStorage, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the elements at pairs of indices, zero where nothing is stored."""
    canonical = matrix.sum_duplicates()
    pattern = canonical.pattern
    keys = rows.to(pattern.indices.device) * pattern.columns + columns.to(pattern.indices.device)
    if not pattern.entries:
        return matrix.values.new_zeros(*matrix.batch_shape, keys.shape[0])
    place = torch.searchsorted(pattern.keys, keys).clamp(max=pattern.entries - 1)
    stored = pattern.keys[place] == keys
    return canonical.values.index_select(-1, place).masked_fill(~stored, 0.0)


def _chosen(key: Any, size: int) -> Tensor:
    """Return the indices that a key selects out of ``size``, all in range."""
    if isinstance(key, slice):
        chosen = range(size)[key]
        end = chosen.start + len(chosen) * chosen.step
        return torch.arange(chosen.start, end, chosen.step, device="cpu")
    try:
        found = key if isinstance(key, Tensor) else torch.as_tensor(key, device="cpu")
    except (RuntimeError, TypeError, ValueError):  # neither a number nor a list of numbers
        raise DimensionError(_expected(key)) from None
    if found.dtype is torch.bool:
        if found.shape != (size,):
            raise ShapeError(f"a mask must have shape ({size},), got {tuple(found.shape)}")
        return found.nonzero().squeeze(-1)
    whole = not (found.is_floating_point() or found.is_complex()) and found.ndim <= 1
    if not whole and found.numel():  # an empty list is float32
        raise DimensionError(_expected(key))
    found = found.reshape(-1).to(torch.int64)
    if not found.numel():
        return found
    least, most = (int(end) for end in torch.aminmax(found))
    if least < -size or most >= size:
        raise DimensionError(f"an index is outside of {size} elements: {key!r}")
    return found if least >= 0 else torch.where(found < 0, found + size, found)


def _expected(key: Any) -> str:
    return f"an index must be a slice, an integer, a list of integers or a mask, got {key!r}"
