"""Incomplete Cholesky and LU factors without fill-in, IC(0) and ILU(0), by levels.

An entry of a factor is that of the matrix minus products of entries to its left and above it,
divided by a pivot. Rows whose dependencies are computed form a level; entries at the same position
in the rows of a level are one step of array operations. A grid of m by m points has 2 m levels of
rows, with three steps each for a triangle; a tridiagonal matrix has one level for each row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]


class _Level(NamedTuple):
    """Entries that are computed together.

    Attributes:
        entries: Their positions.
        divisors: Positions of the pivots that they are divided by; their own for no division.
        target: For each product, the place of its entry in ``entries``.
        left: Positions of the first factors of the products.
        right: Positions of the second factors.
    """

    entries: Index
    divisors: Index
    target: Index
    left: Index
    right: Index


Levels = list[_Level]


def cholesky_levels(pointers: Index, columns: Index) -> Levels:
    """Return the levels of ``L_ij = (A_ij - sum_k L_ik conj(L_jk)) / L_jj``.

    Args:
        pointers: Row pointers of the lower triangle in CSR format.
        columns: Sorted columns; the last of each row is its diagonal.
    """
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    diagonal = pointers[1:] - 1
    # For each (i, j), and each (j, k) left of the diagonal: the position of (i, k).
    target, right = _pairs(pointers[columns], diagonal[columns])
    left, found = _positions(rows, columns, rows[target], columns[right])
    return _levels(rows, columns, target[found], left, right[found], diagonal[columns])


def lu_levels(pointers: Index, columns: Index, diagonal: Index) -> Levels:
    """Return the levels of ``L_ij = (A_ij - sum_k L_ik U_kj) / U_jj`` and of U, not divided.

    Args:
        pointers: Row pointers of the matrix in CSR format.
        columns: Sorted columns.
        diagonal: Positions of the diagonal entries.
    """
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    below = np.flatnonzero(columns < rows)
    # For each (i, k) below the diagonal, and each (k, j) right of it: the position of (i, j).
    left, right = _pairs(diagonal[columns[below]] + 1, pointers[columns[below] + 1])
    left = below[left]
    target, found = _positions(rows, columns, rows[left], columns[right])
    divisors = np.arange(len(columns))
    divisors[below] = diagonal[columns[below]]
    return _levels(rows, columns, target, left[found], right[found], divisors)


def cholesky_factor(levels: Levels, values: NDArray[Any]) -> NDArray[Any] | None:
    """Return the entries of the lower factor, or None if a pivot is not positive."""
    factor = values.copy()
    with np.errstate(all="ignore"):
        for level in levels:
            mine = factor[level.entries]
            if len(level.target):
                np.subtract.at(mine, level.target, factor[level.left] * factor[level.right].conj())
            pivots = level.entries == level.divisors
            # The root of a pivot that is not positive makes NaN out of it, and of what follows.
            mine /= np.where(pivots, np.sqrt(mine.real), factor[level.divisors].real)
            factor[level.entries] = mine
    return factor if np.isfinite(factor).all() else None


def lu_factors(levels: Levels, values: NDArray[Any]) -> NDArray[Any] | None:
    """Return the entries of L, without its diagonal of ones, and U, or None if a pivot is zero."""
    factor = values.copy()
    for level in levels:
        mine = factor[level.entries]
        if len(level.target):
            np.subtract.at(mine, level.target, factor[level.left] * factor[level.right])
        divided = level.entries != level.divisors
        pivots = np.where(divided, factor[level.divisors], 1.0)
        if not pivots.all():
            return None
        factor[level.entries] = mine / pivots
    return factor


def _pairs(starts: Index, ends: Index) -> tuple[Index, Index]:
    """Return the number of a range and a position within it, for all positions of all ranges."""
    lengths = ends - starts
    which = np.repeat(np.arange(len(lengths)), lengths)
    before = np.cumsum(lengths) - lengths
    return which, starts[which] + np.arange(len(which)) - before[which]


def _positions(
    rows: Index, columns: Index, wanted_rows: Index, wanted_columns: Index
) -> tuple[Index, NDArray[np.bool_]]:
    """Return the positions of those wanted entries that are stored, and which these are."""
    order = int(rows[-1]) + 1 if len(rows) else 0
    keys, wanted = rows * order + columns, wanted_rows * order + wanted_columns
    places = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    found = keys[places] == wanted if len(keys) else np.zeros(0, dtype=np.bool_)
    return places[found], found


def _levels(
    rows: Index, columns: Index, target: Index, left: Index, right: Index, divisors: Index
) -> Levels:
    """Return entries in order of the levels of their rows, then of their positions in the rows."""
    count = len(rows)
    if not count:
        return []
    starts = np.searchsorted(rows, np.arange(int(rows[-1]) + 1))
    position = np.arange(count) - starts[rows]
    below = columns < rows
    depths = _depths(columns[below], rows[below], len(starts))
    steps = depths[rows] * (int(position.max()) + 1) + position
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    begins, ends = np.concatenate([[0], cuts]), np.concatenate([cuts, [count]])
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count) - np.repeat(begins, ends - begins)
    of_products = steps[target]
    products = np.argsort(of_products, kind="stable")
    cut = np.searchsorted(of_products[products], np.append(ordered[begins], ordered[-1] + 1))
    entries, divisors = order, divisors[order]
    where, left, right = place[target[products]], left[products], right[products]
    return [
        _Level(entries[a:b], divisors[a:b], where[c:d], left[c:d], right[c:d])
        for a, b, c, d in zip(begins, ends, cut[:-1], cut[1:], strict=True)
    ]


def _depths(needed: Index, by: Index, count: int) -> Index:
    """Return the length of the longest chain of dependencies that ends at each row."""
    dependents = by[np.argsort(needed, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(needed, minlength=count))])
    missing = np.bincount(by, minlength=count)
    depths, last = np.zeros(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    ready, depth = np.flatnonzero(missing == 0), 0
    while len(ready):
        depths[ready] = depth
        _, places = _pairs(starts[ready], starts[ready + 1])
        reached = dependents[places]
        np.subtract.at(missing, reached, 1)
        reached = reached[missing[reached] == 0]
        numbers = np.arange(len(reached))
        last[reached] = numbers
        ready = reached[last[reached] == numbers]  # each row once
        depth += 1
    return depths
