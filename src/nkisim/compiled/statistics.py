"""Sums of rows, and means and squared deviations of their even and odd elements.

The order of the additions, and so every bit, is NumPy's: it adds at most 128 numbers in eight
interleaved sums, which it joins in pairs, and halves what is longer. The interleaved sums are the
lanes of a vector here; taken over even and odd elements at once they are sixteen.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import address_of_row
from nkisim.compiled.loops import compiled_loop
from nkisim.compiled.parts import part_of, parts_of_rows, rows_of_part, together
from nkisim.compiled.rows import TILE, load_elements
from nkisim.compiled.vectors import FLOAT

__all__ = ["LEAST_PART", "add_part", "deviations", "divide_row", "sums"]

_SUMS = 8  # interleaved sums of NumPy
_TOGETHER = 128  # numbers that it adds without halving them
LEAST_PART = _TOGETHER // 2  # numbers that a half of more has at least
_LANES = 2 * _SUMS
_I64 = ir.IntType(64)


def _adding(
    builder: Any, lanes: int, kind: Any, first: Any, end: Any, values: Callable[[Any], Any]
) -> Any:
    """Emit the loop that adds vectors of a row, from one column to another; returns the sums."""
    before = builder.block
    loop, after = (builder.append_basic_block() for _ in range(2))
    builder.branch(loop)
    builder.position_at_end(loop)
    vector = ir.VectorType(kind, lanes)
    column, total = builder.phi(_I64), builder.phi(vector)
    column.add_incoming(first, before)
    total.add_incoming(ir.Constant(vector, [0.0] * lanes), before)
    added = builder.fadd(total, values(column))
    following = builder.add(column, ir.Constant(_I64, lanes))
    column.add_incoming(following, builder.block)
    total.add_incoming(added, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, end), loop, after)
    builder.position_at_end(after)
    return added


def _joined(builder: Any, sums: Any, lanes: list[int]) -> Any:
    """Emit the sum of some lanes, neighbours first."""
    parts = [builder.extract_element(sums, ir.Constant(ir.IntType(32), lane)) for lane in lanes]
    while len(parts) > 1:
        parts = [builder.fadd(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


@intrinsic  # type: ignore[untyped-decorator]
def _sum(context: Any, row: Any, kind: Any, first: Any, end: Any) -> Any:
    """Return the float32 sum of the elements from one column of a row to another, at most 128.

    ``row`` is where the row begins and ``kind`` that of its elements.
    """

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, kind, first, end = arguments

        def values(column: Any) -> Any:
            return load_elements(builder, row, kind, column, _SUMS)

        sums = _adding(builder, _SUMS, FLOAT, first, end, values)
        return _joined(builder, sums, list(range(_SUMS)))

    return types.float32(*[types.int64] * 4), build


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def divide_row(width: int, ends: Any, joins: Any) -> int:
    """Find the parts of a row that are added up one by one; returns how many there are.

    Args:
        width: Elements of the row.
        ends: Takes the column at which each part ends.
        joins: Takes how many halves are whole with it, whose sum is to be joined with that of the
            half before.
    """
    found, depth, first, end = 0, 0, 0, width
    outer = np.empty(64, np.int64)  # as often as any width can be halved
    is_right = np.empty(64, np.bool_)
    while True:
        while end - first > _TOGETHER:
            depth += 1
            outer[depth] = end
            is_right[depth] = False
            half = (end - first) // 2
            end = first + half - half % _SUMS
        ends[found], joins[found] = end, 0
        while depth and is_right[depth]:
            joins[found] += 1
            depth -= 1
        found += 1
        if not depth:
            return found
        is_right[depth] = True
        first, end = end, outer[depth]


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def add_part(row: int, kind: int, first: int, end: int, joins: int, sums: Any, count: int) -> int:
    """Add up a part of a row, join what is whole with it, and put it on a stack of ``count`` sums.

    Returns how many sums there are then.
    """
    total = _sum(row, kind, first, end)
    for _ in range(joins):
        count -= 1
        total = sums[count] + total
    sums[count] = total
    return count + 1


def _find_sums(x: Any, kind: int, width: int, out: Any) -> int:
    ends, joins = np.empty((2, width // LEAST_PART + 1), np.int64)
    parts = divide_row(width, ends, joins)
    totals = np.empty(64, np.float32)
    unsure = 0
    for row in range(x.shape[0]):
        of, first, count = address_of_row(x, row), 0, 0
        for part in range(parts):
            count = add_part(of, kind, first, ends[part], joins[part], totals, count)
            first = ends[part]
        # NumPy adds to 0 at last, which makes -0 positive.
        out[row] = np.float32(0) + totals[0]
        unsure += np.isnan(out[row])
    return unsure


@cache
def sums() -> Any:
    """Return what adds up every row of a tile in float32.

    It takes the tile, its kind, the width of a row in elements, a multiple of 8, and an array for
    the sums. It returns how many of them are NaN.
    """
    number = types.int64
    found = types.Array(types.float32, 1, "C")
    return compiled_loop(_find_sums, number(TILE, number, number, found))


def _deviating(squared: bool) -> Any:
    """Return the intrinsic that adds elements, or their squared distances from two centres."""

    @intrinsic  # type: ignore[untyped-decorator]
    def both(context: Any, row: Any, kind: Any, first: Any, end: Any, even: Any, odd: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            row, kind, first, end, *centres = arguments
            double = ir.DoubleType()
            vector = ir.VectorType(double, _LANES)
            centre = ir.Constant(vector, ir.Undefined)
            for lane in range(_LANES):
                at = ir.Constant(ir.IntType(32), lane)
                centre = builder.insert_element(centre, centres[lane % 2], at)

            def values(column: Any) -> Any:
                elements = load_elements(builder, row, kind, column, _LANES)
                distance = builder.fpext(elements, vector)
                if squared:
                    distance = builder.fsub(distance, centre)
                    distance = builder.fmul(distance, distance)
                return distance

            total = _adding(builder, _LANES, double, first, end, values)
            joined = [_joined(builder, total, list(range(p, _LANES, 2))) for p in range(2)]
            return context.make_tuple(builder, signature.return_type, joined)

        number, real = types.int64, types.float64
        result = types.UniTuple(real, 2)
        return result(number, number, number, number, real, real), build

    return both


_added, _squared = _deviating(False), _deviating(True)


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _find_deviations_of_rows(number: int, x: Any, kind: int, width: int, out: Any) -> None:
    count = width // 2
    half = width // 2 if width > 2 * _TOGETHER else width
    for row in rows_of_part(number, x.shape[0]):
        of = address_of_row(x, row)
        even, odd = _added(of, kind, 0, half, 0.0, 0.0)
        if half < width:
            more_even, more_odd = _added(of, kind, half, width, 0.0, 0.0)
            even, odd = even + more_even, odd + more_odd
        even, odd = (0.0 + even) / count, (0.0 + odd) / count
        spread, odd_spread = _squared(of, kind, 0, half, even, odd)
        if half < width:
            more_even, more_odd = _squared(of, kind, half, width, even, odd)
            spread, odd_spread = spread + more_even, odd_spread + more_odd
        out[row, 0], out[row, 1], out[row, 2], out[row, 3] = even, spread, odd, odd_spread


def _find_deviations(helper: int, x: Any, kind: int, width: int, out: Any) -> None:
    part = part_of(_find_deviations_of_rows, (x, kind, width, out))
    together(helper, part, parts_of_rows(x.shape[0]))


@cache
def deviations() -> Any:
    """Return what finds mean and summed squared deviation of even and of odd elements of rows.

    It takes a helper, a tile, its kind, the width of a row in elements and a float64 array of four
    columns for the results. The width is a multiple of 16 up to 256, or of 32 up to 512.
    """
    found = types.Array(types.float64, 2, "C")
    signature = types.void(types.int64, TILE, types.int64, types.int64, found)
    return compiled_loop(_find_deviations, signature)
