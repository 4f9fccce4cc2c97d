"""bfloat16 in one compiled pass over the memory, for processes that have numba loaded.

NumPy needs a pass for each of widening, computing and rounding; here the loop that LLVM makes of a
ufunc does all of it in registers. Importing this module imports numba, so callers ask
``suits_numba`` first. A ufunc is compiled when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

__all__ = ["OPERATIONS", "operation", "rounding"]

_U16 = ir.IntType(16)
_U32 = ir.IntType(32)
_F32 = ir.FloatType()


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_U32, value)


@intrinsic  # type: ignore[untyped-decorator]
def _widened(context: Any, stored: Any) -> Any:
    """Return the float32 whose upper half is a stored bfloat16."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        upper = builder.shl(builder.zext(arguments[0], _U32), _constant(16))
        return builder.bitcast(upper, _F32)

    return numba.types.float32(numba.types.uint16), build


# Written in LLVM's own terms because numba computes with integers in 64 bits, which halves what a
# vector register holds.
@intrinsic  # type: ignore[untyped-decorator]
def _rounded(context: Any, value: Any) -> Any:
    """Return a float32 as a stored bfloat16: to nearest even, NaN as the quiet NaN of its sign."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (value,) = arguments
        bits = builder.bitcast(value, _U32)
        odd = builder.and_(builder.lshr(bits, _constant(16)), _constant(1))
        nearest = builder.add(builder.add(bits, _constant(0x7FFF)), odd)
        sign = builder.and_(bits, _constant(0x8000_0000))
        quiet = builder.or_(sign, _constant(0x7FC0_0000))
        is_nan = builder.fcmp_unordered("uno", value, value)
        chosen = builder.select(is_nan, quiet, nearest)
        return builder.trunc(builder.lshr(chosen, _constant(16)), _U16)

    return numba.types.uint16(numba.types.float32), build


def _add(a: float, b: float) -> float:
    return a + b


def _subtract(a: float, b: float) -> float:
    return a - b


def _multiply(a: float, b: float) -> float:
    return a * b


# Of two zeros the second, as NumPy's vector kernels have it.
def _maximum(a: float, b: float) -> float:
    return a if a > b or a != a else b


def _minimum(a: float, b: float) -> float:
    return a if a < b or a != a else b


OPERATIONS: dict[str, Callable[[float, float], float]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "maximum": _maximum,
    "minimum": _minimum,
}
"""What is computed in float32 between widening and rounding."""


@cache
def operation(name: str) -> np.ufunc:
    """Return the ufunc that combines stored bfloat16 (as uint16) by an operation."""
    combine = numba.njit(OPERATIONS[name], inline="always")

    def on_stored(a: Any, b: Any) -> Any:
        return _rounded(combine(_widened(a), _widened(b)))

    return numba.vectorize(["uint16(uint16, uint16)"])(on_stored)


@cache
def rounding() -> np.ufunc:
    """Return the ufunc that rounds float32 to stored bfloat16 (as uint16)."""

    def stored(value: Any) -> Any:
        return _rounded(value)

    return numba.vectorize(["uint16(float32)"])(stored)
