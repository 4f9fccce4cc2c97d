"""exp of the rows of a tile, with what comes before and after it, in one pass over the memory.

NumPy computes exp of float32 by a quotient of two polynomials on the remainder of a division by
log 2; on processors with AVX-512 these are its operations, in its order, so the bits are its own.
Callers make sure of that before they use it. Sums of rows are NumPy's too.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import address_of_row
from nkisim.compiled.bfloat16 import FLOAT, constant, spread
from nkisim.compiled.codes import FULL
from nkisim.compiled.loops import compiled_loop
from nkisim.compiled.rows import TILE, load_elements, store_elements
from nkisim.compiled.statistics import LEAST_PART, add_part, divide_row
from nkisim.compiled.tile_product import call

__all__ = ["exponentials"]

_LANES = 16  # float32 in a register
_STEPS = (64, 16)  # elements in registers at a time
_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
_VECTOR = ir.VectorType(FLOAT, _LANES)

_LEAST, _MOST = -103.97208404541015625, 88.72283935546875  # beyond them exp is 0 and infinite
_TO_INTEGER = float.fromhex("0x1.8p+23")  # adding and subtracting it rounds to an integer
_LOG2_E = 1.442695040888963407359924681001892137
_LOG_2 = (-6.93145752e-1, -1.42860677e-6)  # negative, in two parts
_NUMERATOR = (
    5.082762527590693718096e-04,
    6.757896990527504603057e-03,
    5.114512081637298353406e-02,
    2.473615434895520810817e-01,
    7.257664613233124478488e-01,
    9.999999999980870924916e-01,
)
_DENOMINATOR = (2.159509375685829852307e-02, -2.742335390411667452936e-01, 1.0)
_CURRENT_ROUNDING = 4


def _number(value: float) -> ir.Constant:
    return constant(FLOAT, _LANES, float(np.float32(value)))


def _fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    return call(builder, "llvm.fma.v16f32", _VECTOR, a, b, c)


def _polynomial(builder: Any, coefficients: tuple[float, ...], x: Any) -> Any:
    value = _number(coefficients[0])
    for coefficient in coefficients[1:]:
        value = _fused(builder, value, x, _number(coefficient))
    return value


def _quotient(builder: Any, x: Any) -> Any:
    """Emit the exponential function of 16 elements that are neither NaN nor beyond the bounds."""
    power = builder.fmul(x, _number(_LOG2_E))
    power = builder.fsub(builder.fadd(power, _number(_TO_INTEGER)), _number(_TO_INTEGER))
    rest = x
    for part in _LOG_2:
        rest = _fused(builder, power, _number(part), rest)
    value = builder.fdiv(
        _polynomial(builder, _NUMERATOR, rest), _polynomial(builder, _DENOMINATOR, rest)
    )
    every = ir.Constant(_I16, -1)
    rounding = ir.Constant(_I32, _CURRENT_ROUNDING)
    name = "llvm.x86.avx512.mask.scalef.ps.512"
    return call(builder, name, _VECTOR, value, power, value, every, rounding)


def _exp(builder: Any, x: Any) -> Any:
    """Emit the exponential function of 16 elements."""
    nan = builder.fcmp_unordered("uno", x, x)
    above = builder.fcmp_ordered(">=", x, _number(_MOST))
    below = builder.fcmp_ordered("<=", x, _number(_LEAST))
    beyond = builder.or_(nan, builder.or_(above, below))
    value = _quotient(builder, builder.select(beyond, _number(0), x))
    value = builder.select(above, _number(np.inf), value)
    value = builder.select(below, _number(0), value)
    return builder.select(nan, _number(np.nan), value)


def _exponentials(builder: Any, parts: list[Any]) -> list[Any]:
    """Emit the exponential function of several vectors; mostly all of their elements are usual."""
    bounds = (("<", _MOST), (">", _LEAST))
    usual = [builder.fcmp_ordered(sign, x, _number(y)) for x in parts for sign, y in bounds]
    every = builder.bitcast(reduce(builder.and_, usual), _I16)
    found = []
    with builder.if_else(builder.icmp_signed("==", every, ir.Constant(_I16, -1))) as ways:
        for way, function in zip(ways, (_quotient, _exp), strict=True):
            with way:
                values = [function(builder, x) for x in parts]
                found.append((values, builder.block))
    results = [builder.phi(_VECTOR) for _ in parts]
    for values, block in found:
        for result, value in zip(results, values, strict=True):
            result.add_incoming(value, block)
    return results


def _shuffled(builder: Any, a: Any, b: Any, first: int, count: int) -> Any:
    """Return elements that follow each other in two vectors, counted through."""
    order = ir.Constant(ir.VectorType(_I32, count), list(range(first, first + count)))
    return builder.shuffle_vector(a, b, order)


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
            scale, bias = (spread(builder, number, _LANES) for number in numbers)
            loaded = load_elements(builder, x, x_kind, column, lanes)
            parts = []
            for first in range(0, lanes, _LANES):
                part = _shuffled(builder, loaded, loaded, first, _LANES)
                parts.append(builder.fadd(builder.fmul(part, scale), bias))
            parts = _exponentials(builder, parts)
            while len(parts) > 1:
                width = parts[0].type.count
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [_shuffled(builder, a, b, 0, 2 * width) for a, b in pairs]
            (values,) = parts
            for to, kind in ((copy, ir.Constant(_I64, FULL)), (out, out_kind)):
                store_elements(builder, to, kind, column, values, lanes, quiet=True)
            return context.get_dummy_value()

        return types.void(*6 * [types.int64], types.float32, types.float32), build

    return step


_many, _some = (_step(lanes) for lanes in _STEPS)
_MANY, _SOME = _STEPS


def _find_exponentials(
    out: Any, out_kind: int, width: int, x: Any, x_kind: int, scale: Any, bias: Any, totals: Any
) -> None:
    ends, joins = np.empty((2, width // LEAST_PART + 1), np.int64)
    parts = divide_row(width, ends, joins)
    sums = np.empty(64, np.float32)
    room = np.empty((1, width), np.float32)
    copy = address_of_row(room, 0)
    for row in range(out.shape[0]):
        to, of = address_of_row(out, row), address_of_row(x, row)
        factor = scale[row if scale.size > 1 else 0]
        term = bias[row if bias.size > 1 else 0]
        first = done = count = 0
        for part in range(parts):
            end = ends[part]
            while done < end:
                if done + _MANY <= width:
                    _many(to, out_kind, of, x_kind, copy, done, factor, term)
                    done += _MANY
                else:
                    _some(to, out_kind, of, x_kind, copy, done, factor, term)
                    done += _SOME
            # A processor adds this part while it computes the next.
            if totals.size:
                count = add_part(copy, FULL, first, end, joins[part], sums, count)
                first = end
        if totals.size:
            totals[row] = np.float32(0) + sums[0]


@cache
def exponentials() -> Any:
    """Return what writes ``exp(x * scale + bias)`` to ``out``, and the sums of its rows.

    It takes ``out`` with its kind, the width of a row in elements, a multiple of 16, ``x`` with its
    kind, ``scale`` and ``bias`` with one number or one for each row, and an array for the sums,
    which may be empty.
    """
    number, column = types.int64, types.Array(types.float32, 1, "C")
    signature = types.void(TILE, number, number, TILE, number, column, column, column)
    return compiled_loop(_find_exponentials, signature)
