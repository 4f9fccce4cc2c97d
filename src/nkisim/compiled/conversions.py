"""Conversions between float32 and bfloat16 or 8-bit floats in one pass; exact. Imports numba.

Bit patterns are uint32. numba computes with 64-bit integers, which halves the elements of a vector
register, so every step below is truncated to 32 bits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from nkisim.compiled.loops import compiled_loop, compiled_ufunc

_ONE, _HALF_BITS = np.uint32(1), np.uint32(16)
_BELOW_HALF = np.uint32(0x7FFF)
_SIGN, _QUIET_NAN = np.uint32(0x8000_0000), np.uint32(0x7FC0_0000)
_LOW_HALF = np.uint32(0xFFFF)


def to_bfloat16(values: np.ndarray, out: np.ndarray) -> None:
    """Write float32 values as bfloat16 patterns (uint16): nearest, ties to even, NaN quiet."""
    _rounding()(values, out=out)


def float8_patterns(values: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the 8-bit pattern of each float32 value.

    ``table`` has the pattern of every float32 whose lower half is zero. A nonzero lower half is
    folded into the lowest bit of the upper half (sticky bit).
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    out = np.empty(bits.shape, np.uint8)
    _looking_up()(bits.reshape(-1), table, out.reshape(-1))
    return out


def float8_values(patterns: np.ndarray, table: np.ndarray, out: np.ndarray) -> None:
    """Write the float32 value of each 8-bit pattern to a dense array; ``table`` has all 256."""
    _taking()(np.ascontiguousarray(patterns).reshape(-1), table, out.reshape(-1))


@numba.njit  # type: ignore[untyped-decorator]
def widened(pattern: Any) -> Any:
    """Return the float32 whose upper half is a bfloat16 pattern (uint16)."""
    return np.uint32(np.uint32(pattern) << _HALF_BITS).view(np.float32)


@numba.njit  # type: ignore[untyped-decorator]
def rounded(value: Any) -> Any:
    """Return the bfloat16 pattern (uint16) of a float32."""
    bits = np.float32(value).view(np.uint32)
    odd = np.uint32(np.uint32(bits >> _HALF_BITS) & _ONE)
    nearest = np.uint32(np.uint32(bits + _BELOW_HALF) + odd)
    quiet = np.uint32(np.uint32(bits & _SIGN) | _QUIET_NAN)
    return np.uint16(np.uint32(nearest if value == value else quiet) >> _HALF_BITS)


def _look_up(bits: Any, table: Any, out: Any) -> None:
    for i in range(bits.size):
        sticky = np.uint32(np.uint32(bits[i] & _LOW_HALF) + _LOW_HALF)
        out[i] = table[np.uint32(bits[i] | sticky) >> _HALF_BITS]


def _take(patterns: Any, table: Any, out: Any) -> None:
    for i in range(patterns.size):
        out[i] = table[patterns[i]]


def _round(value: Any) -> Any:
    return rounded(value)


@cache
def _rounding() -> Any:
    return compiled_ufunc(_round, "uint16(float32)")


@cache
def _looking_up() -> Any:
    return compiled_loop(_look_up)


@cache
def _taking() -> Any:
    return compiled_loop(_take)
