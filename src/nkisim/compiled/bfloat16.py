"""bfloat16 and float32 in registers: conversions for compiled loops.

``widen`` and ``round_off`` emit LLVM instructions for one element or for a vector of them;
``widened`` and ``rounded`` are what numba's own loops call. Importing this module imports numba.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

from nkisim.compiled.vectors import FLOAT, constant, lanes_of

__all__ = ["round_off", "rounded", "widen", "widened"]

_U16 = ir.IntType(16)
_U32 = ir.IntType(32)


def widen(builder: Any, stored: Any, lanes: int) -> Any:
    """Emit the float32 whose upper halves are stored bfloat16."""
    bits = builder.zext(stored, lanes_of(_U32, lanes))
    return builder.bitcast(builder.shl(bits, constant(_U32, lanes, 16)), lanes_of(FLOAT, lanes))


# Written in LLVM's own terms because numba computes with integers in 64 bits, which halves what a
# vector register holds.
def round_off(builder: Any, value: Any, lanes: int, *, quiet: bool = False) -> Any:
    """Emit float32 as stored bfloat16: to nearest even, NaN as the quiet NaN of its sign.

    Where it is certain that a NaN is ``quiet`` as it comes, with nothing in its lower half, that is
    spared.
    """

    def same(number: int) -> ir.Constant:
        return constant(_U32, lanes, number)

    bits = builder.bitcast(value, lanes_of(_U32, lanes))
    odd = builder.and_(builder.lshr(bits, same(16)), same(1))
    found = builder.add(builder.add(bits, same(0x7FFF)), odd)
    if not quiet:
        sign = builder.and_(bits, same(0x8000_0000))
        is_nan = builder.fcmp_unordered("uno", value, value)
        found = builder.select(is_nan, builder.or_(sign, same(0x7FC0_0000)), found)
    if lanes == 1:
        return builder.trunc(builder.lshr(found, same(16)), _U16)
    # Upper halves are every other one; to pick them takes less than to shift and narrow.
    halves = builder.bitcast(found, lanes_of(_U16, 2 * lanes))
    upper = ir.Constant(ir.VectorType(_U32, lanes), list(range(1, 2 * lanes, 2)))
    return builder.shuffle_vector(halves, halves, upper)


@intrinsic  # type: ignore[untyped-decorator]
def widened(context: Any, stored: Any) -> Any:
    """Return the float32 whose upper half is a stored bfloat16."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return widen(builder, arguments[0], 1)

    return numba.types.float32(numba.types.uint16), build


@intrinsic  # type: ignore[untyped-decorator]
def rounded(context: Any, value: Any) -> Any:
    """Return a float32 as a stored bfloat16, rounded once."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return round_off(builder, arguments[0], 1)

    return numba.types.uint16(numba.types.float32), build
