"""Conversion between stored elements and the float32 values the engines compute on.

Every engine widens its operands to float32 and rounds each result once, so two functions suffice
for all instructions: ``decode`` (exact, except for 32-bit integers above 2^24) and ``encode``.

Rounding is to nearest, ties to even, and keeps subnormals. A result beyond the largest finite
value becomes an infinity of its sign, or NaN for float8_e4m3fn, which has no infinities. A NaN
becomes the quiet NaN of its sign, without payload. Integers are rounded and clamped to their range,
with 0 for NaN.

float8_e8m0fnu takes the nearest power of two, the larger of two equally near ones, and its smallest
for smaller positive numbers. It has no zero and no negative numbers: both become NaN.

If numba is loaded, compiled loops round large arrays to bfloat16, and convert 8-bit floats in both
directions, with the same bits.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, cast

import numpy as np

from nkisim.compiled import compiles_exact
from nkisim.dtypes.formats import (
    DType,
    bfloat16,
    bool_,
    float8_e8m0fnu,
    float16,
    float32,
    tfloat32,
)

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Float32Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

_F32 = np.dtype(np.float32)
_U32 = np.dtype(np.uint32)

# The constants are NumPy scalars of the array's type: NumPy would inspect the value of a Python int
# in every operation.
_LOW_HALF = np.uint32(0xFFFF)
_HALF_BITS = np.uint32(16)
_DROPPED = np.uint32(13)  # fraction bits of float32 that tfloat32 does not have
_TF32_BELOW_HALF = np.uint32(0x0FFF)
_TF32_KEPT = np.uint32(0xFFFF_E000)
_ONE = np.uint32(1)
_QUIET_NAN = np.float32(np.nan)


def decode(stored: Array, dtype: DType, out: Float32Array | None = None) -> Float32Array:
    """Return the float32 values of ``stored``, an array of ``dtype.numpy``.

    float32 and tfloat32 return ``stored`` itself; ``stored`` is never written. ``out``, of
    the shape of ``stored``, is filled and returned if it is given.

    Raises:
        TypeError: ``dtype`` is an x4 pack, whose elements have no value without their scale.
    """
    if out is not None:
        return _decode_into(stored, dtype, out)
    if dtype is float32 or dtype is tfloat32:
        return cast(Float32Array, stored)
    if dtype is bfloat16:  # shifted bits raise no floating-point flag
        return np.asarray(stored.astype(_F32))
    if dtype.kind == "float" and dtype.itemsize == 1:
        return _float8_values(stored, dtype, np.empty(stored.shape, _F32))
    if dtype.kind == "packed":
        raise TypeError(f"decode: {dtype} elements have no value without their scale")
    with np.errstate(invalid="ignore"):  # raised by signalling NaNs
        return np.asarray(stored.astype(_F32))


def _decode_into(stored: Array, dtype: DType, out: Float32Array) -> Float32Array:
    if dtype.kind == "float" and dtype.itemsize == 1:
        return _float8_values(stored, dtype, out)
    if dtype is bfloat16:
        np.copyto(out, stored, casting="unsafe")
    else:
        out[...] = decode(stored, dtype)
    return out


def _float8_values(stored: Array, dtype: DType, out: Float32Array) -> Float32Array:
    patterns = stored.view(np.uint8)
    if compiles_exact(patterns.size) and out.flags.c_contiguous:
        from nkisim.compiled.conversions import float8_values

        float8_values(patterns, _values(dtype), out)
    else:
        # Every byte is a valid index, so the mode only matters for speed: "wrap" is the fastest.
        _values(dtype).take(patterns, mode="wrap", out=out)
    return out


def encode(values: Float32Array, dtype: DType, out: Array | None = None) -> Array:
    """Return the float32 ``values`` rounded once to ``dtype``, as an array of ``dtype.numpy``.

    float32 returns ``values`` itself; ``values`` is never written. ``out``, of the shape of
    ``values``, is filled and returned if it is given.

    Raises:
        TypeError: ``dtype`` is an x4 pack, whose elements cannot be rounded without a scale.
    """
    if out is not None and dtype is not bfloat16:
        out[...] = encode(values, dtype)
        return out
    if dtype is float32:
        return values
    if dtype is bfloat16:
        return _round_to_bfloat16(values, out)
    if dtype.kind == "float":
        if dtype is float16:
            return _round_to_float16(values)
        if dtype is tfloat32:
            return _round_to_tfloat32(values)
        return _round_to_float8(values, dtype)
    if dtype is bool_:
        return np.asarray(values != 0).view(np.uint8)
    if dtype.kind == "packed":
        raise TypeError(f"encode: {dtype} elements cannot be rounded without a scale")
    return _round_to_integer(values, dtype)


@cache
def _values(dtype: DType) -> Float32Array:
    """Return the 256 values of an 8-bit float format."""
    return np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(_F32)


@cache
def _patterns(dtype: DType) -> Bytes:
    """Return the 8-bit pattern nearest to each float32 whose lower 16 bits are zero."""
    upper = (np.arange(65536, dtype=np.uint32) << 16).view(_F32)
    with np.errstate(all="ignore"):
        if dtype is float8_e8m0fnu:
            return _nearest_powers(upper)
        return upper.astype(dtype.numpy).view(np.uint8)


def _nearest_powers(values: Float32Array) -> Bytes:
    """Return the bytes of float8_e8m0fnu: the nearest power of two, the larger in a tie.

    The conversion of ml_dtypes is not used: it rounds every number between 2^-127 and 2^-126 up.
    """
    fraction, exponent = np.frexp(values)  # the fraction is from 1/2 to 1
    power = exponent - (fraction < 0.75)
    byte = np.clip(power + 127, 0, 255)
    return np.where(np.isfinite(values) & (values > 0), byte, 255).astype(np.uint8)


def _round_to_float8(values: Float32Array, dtype: DType) -> Array:
    # The upper half of a float32 holds 7 fraction bits. At most 3 of them are kept, the 4th is the
    # rounding bit, and of all below it matters only whether any is set: fold the lower half into
    # the lowest bit.
    bits = np.asarray(values).view(_U32)
    if compiles_exact(bits.size):
        from nkisim.compiled.conversions import float8_patterns

        return float8_patterns(values, _patterns(dtype)).view(dtype.numpy)
    index = np.asarray(bits & _LOW_HALF)
    index += _LOW_HALF
    index |= bits
    index >>= _HALF_BITS
    return np.asarray(_patterns(dtype).take(index, mode="wrap")).view(dtype.numpy)


# Casting a signalling NaN raises the "invalid" flag, and NumPy reports it.
@np.errstate(invalid="ignore")
def _round_to_bfloat16(values: Float32Array, out: Array | None) -> Array:
    if out is None:
        out = np.empty(values.shape, bfloat16.numpy)
    if compiles_exact(values.size):
        from nkisim.compiled.conversions import to_bfloat16

        to_bfloat16(values, out.view(np.uint16))
    else:
        np.copyto(out, values, casting="unsafe")
    return out


@np.errstate(invalid="ignore", over="ignore", under="ignore")
def _round_to_float16(values: Float32Array) -> Array:
    out = np.asarray(values.astype(float16.numpy))
    nan = np.isnan(values)
    if nan.any():
        out[nan] = np.copysign(_QUIET_NAN, values[nan])
    return out


def _round_to_tfloat32(values: Float32Array) -> Float32Array:
    # The bit pattern is incremented, so that a carry goes into the exponent, and beyond the largest
    # number to infinity.
    bits = np.asarray(values).view(_U32)
    rounded = np.asarray(bits >> _DROPPED)
    rounded &= _ONE
    rounded += bits
    rounded += _TF32_BELOW_HALF
    rounded &= _TF32_KEPT
    out = rounded.view(_F32)
    nan = np.isnan(values)
    if nan.any():
        out[nan] = np.copysign(_QUIET_NAN, values[nan])
    return out


@cache
def _range(dtype: DType) -> tuple[np.float32, np.float32, int]:
    """Return the least and greatest float32 in an integer format's range, and its true maximum."""
    info = np.iinfo(cast(type[np.integer], dtype.numpy.type))
    high = np.float32(info.max)
    if int(high) > info.max:  # 2^31 - 1 and 2^32 - 1 are no float32 and were rounded up
        high = np.nextafter(high, np.float32(0))
    return np.float32(info.min), high, int(info.max)


def _round_to_integer(values: Float32Array, dtype: DType) -> Array:
    # Clamping first gives the same integers, since both bounds are integers, and keeps signalling
    # NaNs, for which rint warns, out of rint.
    low, high, largest = _range(dtype)
    clamped = np.asarray(np.maximum(values, low))
    np.minimum(clamped, high, out=clamped)
    nan = np.isnan(clamped)
    if nan.any():
        clamped[nan] = 0
    np.rint(clamped, out=clamped)
    out: Array = clamped.astype(dtype.numpy)
    if dtype.bits == 32:
        above = np.asarray(values > high)
        if above.any():
            out[above] = largest
    return out


def holds(dtype: DType, value: float) -> bool:
    """Return whether a type holds a number: no integer saturates, no finite float overflows."""
    low, high = _limits(dtype)
    if low <= value <= high:
        return True
    if not dtype.is_float or not math.isfinite(value):
        return dtype.is_float
    # A number just beyond the largest one is rounded to it.
    return bool(np.isfinite(decode(encode(np.array([value], np.float32), dtype), dtype)[0]))


@cache
def exact_up_to(dtype: DType) -> int:
    """Return the magnitude up to which a float type holds every integer exactly."""
    powers = 2 ** np.arange(1, 25, dtype=np.int64)
    odd = (powers + 1).astype(np.float32)  # 2^24 + 1 is itself rounded
    inexact = decode(encode(odd, dtype), dtype) != powers + 1
    return int(powers[inexact.argmax()])


@cache
def _limits(dtype: DType) -> tuple[float, float]:
    """Return a range of numbers that are certain to fit a type."""
    if dtype is float8_e8m0fnu:
        return 2.0**-127, 2.0**127
    if dtype.max_finite is not None:
        return -dtype.max_finite, dtype.max_finite
    if not dtype.is_integer:
        return -math.inf, math.inf
    limits: Any = np.iinfo(dtype.numpy)
    return limits.min - 0.5, limits.max + 0.5
