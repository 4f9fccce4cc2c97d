"""Geometry of the doublefloat transform: its passes, and the layout of its constants.

A transform is a chain of passes over axes. A pass contracts the first axis of an array, apart from
the batch, with a matrix, and appends the result as the last axis:

    (outer, points, inner, run) -> (outer, inner, run, points)

A length n = a b is two axes with a table of twiddles between their passes; dimensions are axes
without one. All matrices are one bfloat16 vector. That of J points has the digits of the real form:

    (2 J, slices, 2 J)      rows (part, j), columns (part, k)

All tables are one float32 vector. A table multiplies the results of a pass, (rows, points) of one
transform; it is continued periodically, so that 128 rows from any row on are contiguous:

    (rows + 127, 2, 3, points)      high and low part of the real part, the imaginary part, and
                                    its negative
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.tiles.hardware import TILE

NOWHERE = -1
"""Offset of a table that does not exist."""

EXACT_FROM = 7
"""Largest weight i + j of digits from which on errors of additions are kept."""


class Pass(NamedTuple):
    """One pass.

    Attributes:
        points: Points J of the axis, at most 256.
        inner: Product of the axes between this one and the last.
        run: Extent of the last axis.
        matrix: Offset of the digits of the matrix.
        table: Offset of the table that multiplies the results, or NOWHERE.
        exponent: Results, multiplied by the table, are at most 2**exponent in modulus.
    """

    points: int
    inner: int
    run: int
    matrix: int
    table: int
    exponent: int


class Passes(NamedTuple):
    """A transform in passes.

    Attributes:
        slices: Digits of every operand.
        first: Offset of a table that multiplies the operand, or NOWHERE.
        each: The passes.
    """

    slices: int
    first: int
    each: tuple[Pass, ...]


def table_size(rows: int, points: int) -> int:
    """Return the number of elements of a table."""
    return (rows + TILE - 1) * 6 * points


def matrix_size(points: int, slices: int) -> int:
    """Return the number of digits of a matrix."""
    return 4 * points * points * slices
