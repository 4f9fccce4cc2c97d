"""Conversion between stored elements and the float32 values the engines compute on.

Every engine widens its operands to float32 and rounds once on the way out, so two functions serve
all instructions: ``decode`` (exact, except for 32-bit integers above 2^24) and ``encode``.

Rounding is to nearest, ties to even, and keeps subnormals. A result beyond the largest finite
value becomes an infinity of its sign, or NaN for float8_e4m3fn, which has no infinities. A NaN
becomes the quiet NaN of its sign, without payload. Integers are rounded and clamped to their range,
with 0 for NaN.

In a process that has numba or torch loaded anyway, their vector kernels, several times as fast as
NumPy's where they have any, do the 16-bit casts of large arrays; results are the same to the bit.
"""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any, cast

import numpy as np

from nkisim.compiled import repays
from nkisim.dtypes.formats import DType, bfloat16, bool_, float16, float32, tfloat32

__all__ = [
    "NUMBA_ELEMENTS",
    "TORCH_ELEMENTS",
    "TORCH_SERIAL_ELEMENTS",
    "decode",
    "encode",
    "holds",
    "suits_numba",
    "suits_torch",
    "torch_helps",
]

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Float32Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

_F32 = np.dtype(np.float32)
_U32 = np.dtype(np.uint32)

# NumPy scalars of the array's own type: a plain Python int would be inspected at every call.
_LOW_HALF = np.uint32(0xFFFF)
_HALF_BITS = np.uint32(16)
_DROPPED = np.uint32(13)  # fraction bits of float32 that tfloat32 and float16 have not
_TF32_BELOW_HALF = np.uint32(0x0FFF)
_TF32_KEPT = np.uint32(0xFFFF_E000)
_ONE = np.uint32(1)
_QUIET_NAN = np.float32(np.nan)

_MAGNITUDE = np.uint32(0x7FFF_FFFF)
_EXPONENT = np.uint32(0x7F80_0000)
_F16_SIGN = np.uint32(0x8000)
_F16_OVERFLOW = np.uint32((16 + 127) << 23)
_F16_SMALLEST_NORMAL = np.uint32((-14 + 127) << 23)
_THIRTEEN_BINADES = np.uint32(13 << 23)

# NumPy's cast to float16 takes 3 ns an element, but 100 ns where it overflows or gets subnormal.
# From this size on the cast by bit patterns, 3 ns always, is worth its dozen calls; not where the
# processor has an instruction for it.
_FLOAT16_ELEMENTS = 256

# A compiled function costs a microsecond more to call than one of NumPy's.
NUMBA_ELEMENTS = 1024

# From about here on torch's faster kernels make up for what calling them costs.
TORCH_ELEMENTS = 16384

# torch splits larger arrays over threads. Waiting for a second core that is busy elsewhere costs
# far more than it can save here, so torch is only ever given pieces of this size.
TORCH_SERIAL_ELEMENTS = 32768


def decode(stored: Array, dtype: DType, out: Float32Array | None = None) -> Float32Array:
    """Return the float32 values of ``stored``, an array of ``dtype.numpy``.

    float32 and tfloat32 come back as ``stored`` itself; ``stored`` is never written. ``out``, of
    the shape of ``stored``, is filled and returned if it is given.

    Raises:
        TypeError: ``dtype`` is an x4 pack, whose elements mean nothing without their scale.
    """
    if out is not None:
        return _decode_into(stored, dtype, out)
    if dtype is float32 or dtype is tfloat32:
        return cast(Float32Array, stored)
    if dtype.kind == "float" and dtype.itemsize == 1:
        # Every byte is a valid index, so the mode only matters for speed: "wrap" is the fastest.
        return np.asarray(_values(dtype).take(stored.view(np.uint8), mode="wrap"))
    if dtype is float16:
        return _widen_float16(stored)
    if dtype.kind == "packed":
        raise TypeError(f"decode: {dtype} elements have no value without their scale")
    return np.asarray(stored.astype(_F32))


def _decode_into(stored: Array, dtype: DType, out: Float32Array) -> Float32Array:
    if dtype.kind == "float" and dtype.itemsize == 1:
        _values(dtype).take(stored.view(np.uint8), mode="wrap", out=out)
    elif dtype is bfloat16:
        np.copyto(out, stored, casting="unsafe")
    else:
        out[...] = decode(stored, dtype)
    return out


def encode(values: Float32Array, dtype: DType) -> Array:
    """Return the float32 ``values`` rounded once to ``dtype``, as an array of ``dtype.numpy``.

    float32 comes back as ``values`` itself; ``values`` is never written.

    Raises:
        TypeError: ``dtype`` is an x4 pack, whose elements cannot be rounded without a scale.
    """
    if dtype is float32:
        return values
    if dtype is bfloat16:
        return _round_to_bfloat16(values)
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
        return upper.astype(dtype.numpy).view(np.uint8)


def _round_to_float8(values: Float32Array, dtype: DType) -> Array:
    # The upper half of a float32 holds 7 fraction bits. At most 3 of them are kept, the 4th is the
    # rounding bit, and of all below it matters only whether any is set: fold the lower half into
    # the lowest bit.
    bits = np.asarray(values).view(_U32)
    if suits_numba(bits):
        from nkisim.compiled import casts

        return casts.patterns(bits, _patterns(dtype)).view(dtype.numpy)
    index = np.asarray(bits & _LOW_HALF)
    index += _LOW_HALF
    index |= bits
    index >>= _HALF_BITS
    return np.asarray(_patterns(dtype).take(index, mode="wrap")).view(dtype.numpy)


# Casting a signalling NaN raises the "invalid" flag, and NumPy reports it.
@np.errstate(invalid="ignore")
def _round_to_bfloat16(values: Float32Array) -> Array:
    if suits_numba(values):
        from nkisim.compiled import casts

        return np.asarray(casts.rounding()(values)).view(bfloat16.numpy)
    if suits_torch(values) and _torch_agrees() and not _has_nan(values):
        return _torch_to_bfloat16(values)
    return np.asarray(values.astype(bfloat16.numpy))


@np.errstate(invalid="ignore", over="ignore", under="ignore")
def _round_to_float16(values: Float32Array) -> Array:
    if suits_torch(values) and _torch_agrees() and not _has_nan(values):
        return _torch_to_float16(values)
    if values.size < _FLOAT16_ELEMENTS or _casts_are_instructions():
        out = np.asarray(values.astype(float16.numpy))
    else:
        out = _float16_by_addition(values)
    nan = np.isnan(values)
    if nan.any():
        out[nan] = np.copysign(_QUIET_NAN, values[nan])
    return out


def _float16_by_addition(values: Float32Array) -> Array:
    """Round to float16, except for NaN, by an addition that shifts the last kept bit to the end.

    Next to 2^(e + 13) a float32 has the spacing that float16 has next to 2^e, so adding the one to
    the other rounds as wanted, and what the addition changed in the bit pattern counts the float16
    steps above 2^e. Below 2^-14 the spacing of float16, and so the addend, stays the same.
    """
    bits = values.view(_U32)
    magnitude = bits & _MAGNITUDE
    np.minimum(magnitude, _F16_OVERFLOW, out=magnitude)
    addend = magnitude & _EXPONENT
    np.maximum(addend, _F16_SMALLEST_NORMAL, out=addend)
    exponent = addend >> _DROPPED
    addend += _THIRTEEN_BINADES
    total = magnitude.view(_F32)
    total += addend.view(_F32)
    magnitude -= addend
    magnitude += exponent
    magnitude -= _F16_SMALLEST_NORMAL >> _DROPPED
    out = magnitude.astype(np.uint16)
    np.right_shift(bits, _HALF_BITS, out=magnitude)
    magnitude &= _F16_SIGN
    out |= magnitude.astype(np.uint16)
    return out.view(float16.numpy)


def _round_to_tfloat32(values: Float32Array) -> Float32Array:
    # On the bit pattern, so that a carry runs into the exponent and, past the largest, to infinity.
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
    # NaNs, of which rint complains, out of rint.
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


# Casting a signalling NaN raises the "invalid" flag where the processor has an instruction for it.
@np.errstate(invalid="ignore")
def _widen_float16(stored: Array) -> Float32Array:
    if suits_torch(stored) and _torch_agrees():
        values = _torch_from_float16(stored)
    else:
        values = np.asarray(stored.astype(_F32))
        if not _casts_are_instructions():
            return values
    if stored.size and _has_nan(values):
        nan = np.isnan(values)
        bits = stored[nan].view(np.uint16).astype(_U32)
        moved = (bits & 0x03FF) << 13 | (bits & 0x8000) << 16 | 0x7F80_0000
        values.view(_U32)[nan] = moved
    return values


@cache
def _casts_are_instructions() -> bool:
    """Whether NumPy casts float16 by the processor's instructions, which make NaNs quiet."""
    signalling = np.array([0x7C01], np.uint16).view(float16.numpy)
    return bool(signalling.astype(_F32).view(_U32)[0] != 0x7F80_2000)


def _has_nan(values: Float32Array) -> bool:
    # A maximum with a NaN is NaN; one pass, and no array of flags.
    return bool(np.isnan(values.max()))


def holds(dtype: DType, value: float) -> bool:
    """Tell whether a type holds a number: no integer saturates, no finite float overflows."""
    low, high = _limits(dtype)
    if low <= value <= high:
        return True
    if not dtype.is_float or not math.isfinite(value):
        return dtype.is_float
    # A number just beyond the largest one is rounded to it.
    return bool(np.isfinite(decode(encode(np.array([value], np.float32), dtype), dtype)[0]))


@cache
def _limits(dtype: DType) -> tuple[float, float]:
    """Return the range of numbers that surely fit a type."""
    if dtype.max_finite is not None:
        return -dtype.max_finite, dtype.max_finite
    if not dtype.is_integer:
        return -math.inf, math.inf
    limits: Any = np.iinfo(dtype.numpy)
    return limits.min - 0.5, limits.max + 0.5


def suits_numba(array: Array) -> bool:
    """Whether numba is loaded and ``array`` large enough for a compiled pass."""
    return array.size >= NUMBA_ELEMENTS and repays(array.size)


def torch_helps() -> bool:
    """Whether the process has torch loaded, and torch has loops for this processor's vectors."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and _has_vectors(torch)


@cache
def _has_vectors(torch: Any) -> bool:
    """Tell whether torch was compiled for more than the processors that all have in common.

    On Arm it is not, and takes up to ten times as long as NumPy.
    """
    return str(torch.backends.cpu.get_cpu_capability()).startswith("AVX")


def suits_torch(array: Array) -> bool:
    """Whether torch helps and takes ``array`` as it is: large, dense and writable."""
    if array.size < TORCH_ELEMENTS or not torch_helps():
        return False
    # torch warns when it is given memory that must not be written, although nothing here writes.
    return array.flags.c_contiguous and array.flags.writeable


def _torch_to_bfloat16(values: Float32Array) -> Array:
    torch: Any = sys.modules["torch"]
    out = np.empty(values.shape, bfloat16.numpy)
    target = torch.from_numpy(out.view(np.int16).reshape(-1)).view(torch.bfloat16)
    _copy_in_pieces(torch.from_numpy(values.reshape(-1)), target)
    return out


def _torch_to_float16(values: Float32Array) -> Array:
    torch: Any = sys.modules["torch"]
    out = np.empty(values.shape, float16.numpy)
    _copy_in_pieces(torch.from_numpy(values.reshape(-1)), torch.from_numpy(out.reshape(-1)))
    return out


def _torch_from_float16(stored: Array) -> Float32Array:
    torch: Any = sys.modules["torch"]
    out = np.empty(stored.shape, _F32)
    _copy_in_pieces(torch.from_numpy(stored.reshape(-1)), torch.from_numpy(out.reshape(-1)))
    return out


def _copy_in_pieces(source: Any, target: Any) -> None:
    """Convert one flat torch tensor into another, without torch's threads."""
    for first in range(0, len(source), TORCH_SERIAL_ELEMENTS):
        piece = slice(first, first + TORCH_SERIAL_ELEMENTS)
        target[piece].copy_(source[piece])


@cache
def _torch_agrees() -> bool:
    """Whether torch on this processor rounds as NumPy does.

    torch picks its kernels by processor, and some have instructions that flush subnormals. So
    every upper half of a float32 is tried once, with lower halves around each rounding point.
    """
    lower = [0, 1, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF]
    upper = np.arange(65536, dtype=np.uint32) << _HALF_BITS
    values = (upper | np.array(lower, np.uint32)[:, None]).view(_F32)
    values = values[:, ~np.isnan(values).any(axis=0)]
    halves = np.arange(65536, dtype=np.uint16).view(float16.numpy)
    halves = halves[~np.isnan(halves)]
    with np.errstate(over="ignore", under="ignore"):
        trials = (
            (_torch_to_bfloat16(values), values.astype(bfloat16.numpy)),
            (_torch_to_float16(values), _float16_by_addition(values)),
            (_torch_from_float16(halves), halves.astype(_F32)),
        )
    return all(ours.tobytes() == numpys.tobytes() for ours, numpys in trials)
