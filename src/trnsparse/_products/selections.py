"""Columns of a matrix by rows, in time proportional to its entries and the chosen columns."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trnsparse._patterns.index import on_host, outside_transforms, stable_order
from trnsparse._patterns.layouts import as_scipy_csr, parts_of_scipy, suits_scipy
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import RowMatrix


def selected_columns(matrix: RowMatrix, columns: Tensor | slice) -> tuple[Tensor, Pattern]:
    """Return the entries of chosen columns, which may repeat, and their pattern.

    The entries of a row stay in the order of the matrix, as in SciPy.

    Args:
        matrix: The matrix.
        columns: Indices on its device; of a matrix on the host also a slice.
    """
    values, pattern = matrix.values, matrix.pattern
    if suits_scipy(values, pattern.indices) and _readable(columns):
        return _by_scipy(matrix.made_by(as_scipy_csr), pattern, columns)
    part, entries = _places(pattern, columns)
    return values.index_select(-1, entries), part


@outside_transforms
def _places(pattern: Pattern, columns: Tensor | slice) -> tuple[Pattern, Tensor]:
    """Return the pattern of chosen columns, and the entry at each of its places."""
    if isinstance(columns, slice) or (on_host(pattern.indices) and on_host(columns)):
        numbered = torch.arange(pattern.entries, device="cpu")
        entries, part = _by_scipy(as_scipy_csr(numbered, pattern), pattern, columns)
        return part, entries
    order = stable_order(columns)
    times = torch.bincount(columns, minlength=pattern.columns)
    first = torch.cumsum(times, 0) - times
    repeats = times[pattern.indices]
    ends = torch.cumsum(repeats, 0)
    entries = torch.repeat_interleave(torch.arange(pattern.entries, device=ends.device), repeats)
    inside = torch.arange(entries.shape[0], device=ends.device) - (ends - repeats)[entries]
    indices = order[first[pattern.indices[entries]] + inside].to(pattern.indices.dtype)
    pointers = functional.pad(ends, (1, 0))[pattern.pointers].to(indices.dtype)
    return Pattern(pointers, indices, (pattern.rows, columns.shape[0])), entries


def _readable(columns: Tensor | slice) -> bool:
    return isinstance(columns, slice) or on_host(columns)


def _by_scipy(matrix: Any, pattern: Pattern, columns: Tensor | slice) -> tuple[Tensor, Pattern]:
    part = matrix[:, columns if isinstance(columns, slice) else columns.numpy()]
    return parts_of_scipy(part, part.shape, pattern.indices.dtype)
