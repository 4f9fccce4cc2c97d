"""Largest and smallest elements along lines of a matrix; elements that are not stored are zeros.

A line is a row of a pattern: of the matrix, of its transpose, or the one row of all elements. All
functions take patterns after ``merged``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.errors import DimensionError, DTypeError, FlagError
from trnsci.core.numbers.values import inert, shapes_are_static
from trnsparse._patterns.conversions import merged, row_places, transposed
from trnsparse._patterns.index import counted
from trnsparse._patterns.pattern import Pattern


def axis_of(function: str, dim: int | None) -> int | None:
    """Return ``dim`` as None, 0 or 1."""
    if dim not in (None, -2, -1, 0, 1) or isinstance(dim, bool):
        raise FlagError(f"{function}: dim must be None, 0 or 1, got {dim!r}")
    return None if dim is None else dim % 2


def lines_of(
    function: str, values: Tensor, pattern: Pattern, dim: int | None
) -> tuple[Tensor, Pattern]:
    """Return entries by lines along ``dim``, without duplicates, and their pattern.

    Raises:
        DTypeError: The entries are complex.
        FlagError: There is no such dimension.
        DimensionError: The lines have no elements.
    """
    axis = axis_of(function, dim)
    if values.is_complex():
        raise DTypeError(f"{function}: the entries must be real, got {values.dtype}")
    values, pattern = merged(values, pattern)
    if axis is None:
        ends = torch.tensor([0, pattern.entries], device=pattern.indices.device)
        whole = Pattern(ends, pattern.keys, (1, pattern.rows * pattern.columns))
        whole.known_canonical = pattern.known_canonical
        pattern = whole
    elif axis == 0:
        values, pattern = transposed(values, pattern)
    if not pattern.columns:
        raise DimensionError(f"{function}: there is no element to choose from along dim {dim}")
    return values, pattern


def extremes(values: Tensor, pattern: Pattern, largest: bool) -> Tensor:
    """Return the largest or smallest element of each line, (..., lines).

    A gradient is divided between all equal elements, those that are not stored included, as by
    ``torch.amax`` of the dense matrix.
    """
    worst, stored = -torch.inf if largest else torch.inf, counted(pattern.pointers)
    if shapes_are_static():  # duplicates are still stored, after the sum of their place
        first = pattern.first
        stored = torch.zeros_like(stored).index_add(0, _lines(pattern), first.to(stored.dtype))
        values = torch.where(first, values, worst)
    missing = pattern.columns - stored
    if not inert(values):
        values = _shared(values, _lines(pattern), missing)
    start = torch.where(missing > 0, 0.0, worst).to(values.dtype)
    return _reduced(start, pattern, values, "amax" if largest else "amin")


def _lines(pattern: Pattern) -> Tensor:
    return pattern.row_indices.to(torch.int64)


def _shared(values: Tensor, lines: Tensor, missing: Tensor) -> Tensor:
    """Return the same values, with the gradients of zeros for the number of missing ones.

    A reduction counts all missing zeros of a line as one.
    """
    zero = values.detach() == 0
    ties = torch.zeros(*zero.shape[:-1], missing.shape[0], dtype=values.dtype, device=values.device)
    ties = ties.index_add(-1, lines, zero.to(values.dtype))
    share = torch.where(missing > 0, (ties + 1) / (ties + missing.clamp(min=1)), 1.0)
    return torch.where(zero, values * share.to(values.dtype)[..., lines], values)


def _reduced(start: Tensor, pattern: Pattern, values: Tensor, kind: str) -> Tensor:
    """Return the extremes of each line and its start."""
    start = start.expand(*values.shape[:-1], pattern.rows)
    if pattern.rows == 1:  # much faster than the scatter
        whole = torch.cat([values, start], -1)
        return (torch.amax if kind == "amax" else torch.amin)(whole, -1, keepdim=True)
    return start.scatter_reduce(-1, _lines(pattern).expand(values.shape), values, kind)


def positions(values: Tensor, pattern: Pattern, largest: bool) -> Tensor:
    """Return the place of the first largest or smallest element of each line, int64."""
    values = values.detach()
    best = extremes(values, pattern, largest)
    chosen = best if pattern.rows == 1 else best[..., _lines(pattern)]
    found = (values == chosen) | (values.isnan() & chosen.isnan())
    columns = pattern.indices.to(torch.int64)
    earliest = _least(torch.where(found, columns, pattern.columns), pattern)
    # Without gaps the columns of a line are 0, 1, ...: the first gap is at the first that is not.
    places = row_places(pattern)
    gaps = _least(torch.where(columns != places, places, pattern.columns), pattern)
    gaps = torch.minimum(gaps, counted(pattern.pointers))
    is_gap = (best == 0) & (gaps < pattern.columns)
    return torch.where(is_gap, torch.minimum(gaps, earliest), earliest)


def _least(places: Tensor, pattern: Pattern) -> Tensor:
    most = torch.iinfo(torch.int64).max
    start = torch.full((pattern.rows,), most, device=places.device)
    return _reduced(start, pattern, places, "amin")
