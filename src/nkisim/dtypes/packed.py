"""The x4 packs: four 8-bit or 4-bit floats in one stored word.

Element 0 is in the lowest bits. A pack of float8 is a 32-bit word, a pack of float4 a 16-bit one.
``pack`` and ``unpack`` are for host code that prepares inputs of a kernel or reads its outputs; the
last axis of the elements is four times as long as the last axis of the words.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

from nkisim.dtypes.convert import encode
from nkisim.dtypes.formats import (
    DTYPES,
    DType,
    as_dtype,
    float4_e2m1fn_x4,
    float8_e4m3fn,
    float8_e4m3fn_x4,
    float8_e5m2,
    float8_e5m2_x4,
)

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Float32Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]

PACKED = 4
"""Elements in a word."""

ELEMENT_TYPES: dict[DType, np.dtype[np.generic]] = {
    float8_e4m3fn_x4: float8_e4m3fn.numpy,
    float8_e5m2_x4: float8_e5m2.numpy,
    float4_e2m1fn_x4: np.dtype(ml_dtypes.float4_e2m1fn),
}
"""The NumPy type of one element, by pack."""

_LOWER, _HALF = np.uint8(0xF), np.uint8(4)
_FLOATS = tuple(DTYPES[name].numpy for name in ("float16", "bfloat16", "float32"))


def pack(elements: Array, dtype: str) -> Array:
    """Return an array of words of type ``dtype``, made of four consecutive elements each.

    Args:
        elements: Array (..., 4n) of the pack's own element type, which is taken bit by bit, or of
            float16, bfloat16 or float32, which is rounded to nearest, ties to even. Beyond the
            largest value float4 saturates, float8_e5m2 gives infinity and float8_e4m3fn NaN.
        dtype: Name of the pack, such as ``"float8_e4m3fn_x4"`` or ``nl.float8_e4m3fn_x4``.

    Returns:
        Array (..., n) that a kernel sees as a tensor of ``dtype``.

    Raises:
        TypeError: ``dtype`` is no pack, or the elements are of another type.
        ValueError: The last axis is not a multiple of four, or float4, which has no NaN, gets one.

    Example:
        >>> import numpy as np
        >>> words = pack(np.float32([1, 2, 3, 4]), "float4_e2m1fn_x4")
        >>> [hex(word) for word in words]
        ['0x6542']
    """
    kind = _packed("pack", dtype)
    found = np.asarray(elements)
    element = ELEMENT_TYPES[kind]
    if found.dtype != element:
        found = _rounded(found, kind)
    if found.ndim == 0 or found.shape[-1] % PACKED:
        raise ValueError(
            f"pack: the last axis must be a multiple of {PACKED}, got shape {found.shape}"
        )
    patterns = np.ascontiguousarray(found).view(np.uint8)
    if kind is float4_e2m1fn_x4:
        pairs = patterns.reshape(*found.shape[:-1], found.shape[-1] // 2, 2) & _LOWER
        patterns = np.bitwise_or(pairs[..., 0], np.left_shift(pairs[..., 1], _HALF))
    return patterns.view(np.dtype(str(kind)))


def unpack(packed: Array, dtype: str | None = None) -> Array:
    """Return the elements of packed words, as an array of the pack's own element type.

    Args:
        packed: Array (..., n) of words, or the same bytes as another type.
        dtype: Name of the pack; None takes the array's own.

    Returns:
        Array (..., 4n) of float8_e4m3fn, float8_e5m2 or float4_e2m1fn. Use ``astype`` to compute
        with it.

    Raises:
        TypeError: The pack is neither given nor determined by the array.
        ValueError: The last axis does not hold whole words.
    """
    found = np.asarray(packed)
    kind = _packed("unpack", found.dtype if dtype is None else dtype)
    if found.ndim == 0 or found.shape[-1] * found.dtype.itemsize % kind.itemsize:
        raise ValueError(
            f"unpack: the last axis must hold whole {kind} words, got {found.dtype} {found.shape}"
        )
    patterns = np.ascontiguousarray(found).view(np.uint8)
    if kind is float4_e2m1fn_x4:
        patterns = _nibbles(patterns).reshape(*patterns.shape[:-1], 2 * patterns.shape[-1])
    return patterns.view(ELEMENT_TYPES[kind])


def unpack_planes(words: Array, dtype: DType) -> Float32Array:
    """Return the float32 values of stored words, elements first: shape (4, *words.shape)."""
    patterns = np.ascontiguousarray(words).view(np.uint8)
    if dtype is float4_e2m1fn_x4:
        patterns = _nibbles(patterns).reshape(*words.shape, PACKED)
    else:
        patterns = patterns.reshape(*words.shape, PACKED)
    return np.asarray(_values(dtype).take(np.moveaxis(patterns, -1, 0), mode="wrap"))


def _packed(function: str, dtype: object) -> DType:
    found = as_dtype(dtype)
    if found is None or found not in ELEMENT_TYPES:
        names = ", ".join(ELEMENT_TYPES)
        raise TypeError(f"{function}: dtype must be one of {names}, got {dtype}")
    return found


def _rounded(values: Array, kind: DType) -> Array:
    """Return float values rounded to the element type of a pack."""
    element = ELEMENT_TYPES[kind]
    if values.dtype not in _FLOATS:
        raise TypeError(
            f"pack: elements of {kind} must be {element}, float16, bfloat16 or float32, "
            f"got {values.dtype}"
        )
    wide = values.astype(np.float32)
    if kind is not float4_e2m1fn_x4:
        return encode(wide, DTYPES[element.name])
    if np.isnan(wide).any():
        raise ValueError("pack: float4_e2m1fn has no NaN")
    return wide.astype(element)


def _nibbles(patterns: Bytes) -> Bytes:
    """Return the lower and the upper half of each byte along a new last axis."""
    return np.stack([patterns & _LOWER, np.right_shift(patterns, _HALF)], axis=-1)


@cache
def _values(dtype: DType) -> Float32Array:
    """Return the value of every pattern of a pack's element type."""
    count = 16 if dtype is float4_e2m1fn_x4 else 256
    return np.arange(count, dtype=np.uint8).view(ELEMENT_TYPES[dtype]).astype(np.float32)
