"""exp of the rows of a tile, with what comes before and after it, in one pass over the memory.

The bits are NumPy's, those of the sums of rows too.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import address_of_row
from nkisim.compiled.codes import FULL
from nkisim.compiled.exponential_formulas import (
    LANES,
    LEAST,
    MOST,
    PLAIN_NAN,
    VECTOR,
    exp_between,
    exp_of_nan,
    number,
)
from nkisim.compiled.loops import compiled_loop
from nkisim.compiled.parts import part_of, parts_of_rows, rows_of_part, together
from nkisim.compiled.rows import TILE, load_elements, store_elements
from nkisim.compiled.statistics import LEAST_PART, add_part, divide_row
from nkisim.compiled.vectors import call, spread

__all__ = ["exponentials"]

_STEPS = (4 * LANES, 16)  # elements in registers at a time
_I1, _I32, _I64 = (ir.IntType(bits) for bits in (1, 32, 64))


def _exp(builder: Any, x: Any) -> Any:
    """Emit the exponential function of a vector."""
    nan = builder.fcmp_unordered("uno", x, x)
    above = builder.fcmp_ordered(">=", x, number(MOST))
    below = builder.fcmp_ordered("<=", x, number(LEAST))
    beyond = builder.or_(nan, builder.or_(above, below))
    value = exp_between(builder, builder.select(beyond, number(0), x))
    value = builder.select(above, number(np.inf), value)
    value = builder.select(below, number(0), value)
    return builder.select(nan, exp_of_nan(builder, x), value)


def _are_usual(builder: Any, parts: list[Any]) -> Any:
    """Emit whether all elements of several vectors lie between the bounds."""
    sizes = (call(builder, f"llvm.fabs.v{LANES}f32", VECTOR, x) for x in parts)
    usual = [builder.fcmp_ordered("<", size, number(min(MOST, -LEAST))) for size in sizes]
    return call(builder, f"llvm.vector.reduce.and.v{LANES}i1", _I1, reduce(builder.and_, usual))


def _shuffled(builder: Any, a: Any, b: Any, first: int, count: int) -> Any:
    """Return elements that follow each other in two vectors, counted through."""
    order = ir.Constant(ir.VectorType(_I32, count), list(range(first, first + count)))
    return builder.shuffle_vector(a, b, order)


def _joined(builder: Any, parts: list[Any]) -> Any:
    """Return the elements of several vectors, a power of two, as one."""
    while len(parts) > 1:
        width = parts[0].type.count
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [_shuffled(builder, a, b, 0, 2 * width) for a, b in pairs]
    return parts[0]


def _step(lanes: int) -> Any:
    """Return the intrinsic that computes some elements of a row, for ``out`` and for a copy."""

    @intrinsic  # type: ignore[untyped-decorator]
    def step(
        context: Any,
        out: Any,
        out_kind: Any,
        x: Any,
        x_kind: Any,
        copy: Any,
        column: Any,
        scale: Any,
        bias: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            out, out_kind, x, x_kind, copy, column, *numbers = arguments
            scale, bias = (spread(builder, value, LANES) for value in numbers)
            loaded = load_elements(builder, x, x_kind, column, lanes)
            parts = []
            for first in range(0, lanes, LANES):
                part = _shuffled(builder, loaded, loaded, first, LANES)
                parts.append(builder.fadd(builder.fmul(part, scale), bias))
            # Mostly all are usual; then there is no NaN among the results either.
            with builder.if_else(_are_usual(builder, parts)) as ways:
                for way, function in zip(ways, (exp_between, _exp), strict=True):
                    with way:
                        values = _joined(builder, [function(builder, x) for x in parts])
                        quiet = PLAIN_NAN or function is exp_between
                        for to, kind in ((copy, ir.Constant(_I64, FULL)), (out, out_kind)):
                            store_elements(builder, to, kind, column, values, lanes, quiet=quiet)
            return context.get_dummy_value()

        return types.void(*6 * [types.int64], types.float32, types.float32), build

    return step


_many, _some = (_step(lanes) for lanes in _STEPS)
_MANY, _SOME = _STEPS


@numba.njit  # type: ignore[untyped-decorator]
def _find_exponentials_of_rows(
    number: int,
    begins: Any,
    out: Any,
    out_kind: int,
    width: int,
    x: Any,
    x_kind: int,
    scale: Any,
    bias: Any,
    totals: Any,
    room: Any,
    ends: Any,
    joins: Any,
    pieces: int,
    stacks: Any,
) -> None:
    copy, sums = address_of_row(room, number), stacks[number]
    end_row = rows_of_part(number, out.shape[0]).stop
    for row in range(begins[number], end_row):
        to, of = address_of_row(out, row), address_of_row(x, row)
        factor = scale[row if scale.size > 1 else 0]
        term = bias[row if bias.size > 1 else 0]
        first = done = count = 0
        for piece in range(pieces):
            end = ends[piece]
            while done < end:
                if done + _MANY <= width:
                    _many(to, out_kind, of, x_kind, copy, done, factor, term)
                    done += _MANY
                else:
                    _some(to, out_kind, of, x_kind, copy, done, factor, term)
                    done += _SOME
            # A processor adds this piece while it computes the next.
            if totals.size:
                count = add_part(copy, FULL, first, end, joins[piece], sums, count)
                first = end
        if totals.size:
            totals[row] = np.float32(0) + sums[0]
            if not PLAIN_NAN and np.isnan(totals[row]):
                begins[number] = row
                return
    begins[number] = end_row


def _find_exponentials(
    helper: int,
    begins: Any,
    out: Any,
    out_kind: int,
    width: int,
    x: Any,
    x_kind: int,
    scale: Any,
    bias: Any,
    totals: Any,
    room: Any,
) -> int:
    ends, joins = np.empty((2, width // LEAST_PART + 1), np.int64)
    pieces = divide_row(width, ends, joins)
    parts = parts_of_rows(out.shape[0])
    stacks = np.empty((parts, 64), np.float32)
    operands = begins, out, out_kind, width, x, x_kind, scale, bias, totals, room
    part = part_of(_find_exponentials_of_rows, (*operands, ends, joins, pieces, stacks))
    together(helper, part, parts)
    stopped = 0
    for i in range(parts):
        stopped += begins[i] < rows_of_part(i, out.shape[0]).stop
    return stopped


@cache
def exponentials() -> Any:
    """Return what writes ``exp(x * scale + bias)`` to ``out``, and the sums of its rows.

    It takes a helper; the row to begin with for every part of ``ROWS``; ``out`` with its kind, the
    width of a row in elements, a multiple of 16, ``x`` with its kind; ``scale`` and ``bias`` with
    one number or one for each row; an array for the sums, which may be empty, and one with a row of
    float32 for each part.

    It returns how many parts stopped at a row whose sum is NaN. There are different NaNs, and which
    of several their sum becomes is NumPy's to say: the row is then where the part would begin, and
    its results are in the last array.
    """
    number, column = types.int64, types.Array(types.float32, 1, "C")
    begins = types.Array(number, 1, "C")
    tiles = TILE, number, number, TILE, number
    room = types.Array(types.float32, 2, "C")
    signature = number(number, begins, *tiles, column, column, column, room)
    return compiled_loop(_find_exponentials, signature)
