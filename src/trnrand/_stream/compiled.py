"""Compiled loops of large calls: blocks of an engine, 53-bit uniforms, standard float32 samples.

Importing this module imports numba. A loop is compiled at its first call, and cached on disk.
Standard samples are computed in chunks of words that fit in the cache.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from trnrand._kernels.definitions import (
    LEAST_EXPONENTIAL,
    LEAST_SQUARE,
    LOG,
    LOG_SPLIT_BITS,
    MASK,
    MINUS_TWO_LN2,
    SINE,
    TURN24,
    Kind,
)
from trnrand.engines import ENGINES, EngineName, block_numbers
from trnsci.core.backend.compiled import compiled_loop

_MASK, _HALF = np.uint64(MASK), np.uint64(32)

# Inlined by numba: functions inlined by LLVM keep checks that prevent vectorisation.
_inlined = partial(numba.njit, inline="always")
_philox_block = ENGINES["philox"].make(np.uint64, _inlined)
threefry_of_eight = ENGINES["threefry"].make(np.uint64, _inlined)


@_inlined
def philox_of_eight(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any, k2: Any, k3: Any) -> Any:
    return _philox_block(c0, c1, c2, c3, k0, k1)


@_inlined
def _fill(block: Any, out: Any, steps: Any, numbers: Any) -> None:
    low, high, c2, c3, k0, k1, k2, k3 = numbers
    for i in range(steps.size):
        at = low + np.uint64(steps[i])
        c0, c1 = at & _MASK, (high + (at >> _HALF)) & _MASK
        w0, w1, w2, w3 = block(c0, c1, c2, c3, k0, k1, k2, k3)
        out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3] = w0, w1, w2, w3


@compiled_loop
def _fill_philox(out: Any, steps: Any, numbers: Any) -> None:
    _fill(philox_of_eight, out, steps, numbers)


@compiled_loop
def _fill_threefry(out: Any, steps: Any, numbers: Any) -> None:
    _fill(threefry_of_eight, out, steps, numbers)


BLOCKS = {"philox": _fill_philox, "threefry": _fill_threefry}
"""``fill(out, steps, numbers)`` by engine.

Words 4 i to 4 i + 3 of ``out`` (uint32) become the block ``steps[i]`` after the one that
``numbers`` describes, as ``engines.block_numbers`` returns them.
"""


# -- 53-bit uniforms -------------------------------------------------------------------------------


@_inlined
def unit53(pair: Any) -> Any:
    """Return the uniform of a pair of words, in [0, 1)."""
    return np.float64((pair & 0xFFFF_FFE0) << 21 | pair >> 38 & 0x3FF_FFFF) * 2.0**-53


@partial(compiled_loop, error_model="numpy")
def units(pairs: Any, out: Any) -> None:
    """Write the uniforms of contiguous pairs of words, int64."""
    for i in range(pairs.size):
        out[i] = unit53(pairs[i])


# -- standard samples in float32 -------------------------------------------------------------------

# Blocks per chunk: 128 KiB of words fit in the level-2 cache of a core.
_BLOCKS = 1 << 13

_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8, _L9 = (np.float32(c) for c in LOG)
_S0, _S1, _S2, _S3 = (np.float32(c) for c in SINE)
_LN2, _TURN, _LEAST = np.float32(MINUS_TWO_LN2), np.float32(TURN24), np.float32(LEAST_SQUARE)
_ONE, _LEAST_EXPONENTIAL = np.float32(1.0), np.float32(LEAST_EXPONENTIAL)
_TWO16, _UNIT = np.float32(2.0**16), np.float32(2.0**-32)
_QUARTER, _HALF_TURN = np.float32(2.0**22), np.float32(2.0**23)

_INT, _FLOAT = ir.IntType(32), ir.FloatType()


# numba promotes integers to 64 bits, which halves the vector width: operations on 32 bits are
# therefore written as LLVM intrinsics.


def _number(value: int) -> ir.Constant:
    return ir.Constant(_INT, value)


@intrinsic  # type: ignore[untyped-decorator]
def _above(context: Any, word: Any, shift: Any) -> Any:
    """Return a word without its lowest bits, at least one of them, as a float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, shift = arguments
        return builder.sitofp(builder.lshr(word, shift), _FLOAT)

    return types.float32(types.uint32, types.uint32), build


@intrinsic  # type: ignore[untyped-decorator]
def _low16(context: Any, word: Any) -> Any:
    """Return the lower half of a word as a float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.sitofp(builder.and_(arguments[0], _number(0xFFFF)), _FLOAT)

    return types.float32(types.uint32), build


def _exponent_of(builder: Any, value: Any) -> tuple[Any, Any]:
    bits = builder.bitcast(value, _INT)
    return bits, builder.ashr(builder.sub(bits, _number(LOG_SPLIT_BITS)), _number(23))


@intrinsic  # type: ignore[untyped-decorator]
def _exponent(context: Any, value: Any) -> Any:
    """Return e of m 2**e, with m from LOG_SPLIT to twice that, as a float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.sitofp(_exponent_of(builder, arguments[0])[1], _FLOAT)

    return types.float32(types.float32), build


@intrinsic  # type: ignore[untyped-decorator]
def _significand(context: Any, value: Any) -> Any:
    """Return m of m 2**e."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits, exponent = _exponent_of(builder, arguments[0])
        moved = builder.sub(bits, builder.shl(exponent, _number(23)))
        return builder.bitcast(moved, _FLOAT)

    return types.float32(types.float32), build


@_inlined
def _minus_two_log(u: Any) -> Any:
    f = _significand(u) - _ONE
    g = _L0 * f + _L1
    g = g * f + _L2
    g = g * f + _L3
    g = g * f + _L4
    g = g * f + _L5
    g = g * f + _L6
    g = g * f + _L7
    g = g * f + _L8
    g = g * f + _L9
    return _exponent(u) * _LN2 + g * f


@_inlined
def _radius(word: Any) -> Any:
    u = (_above(word, np.uint32(16)) * _TWO16 + (_low16(word) + _ONE)) * _UNIT
    square = _minus_two_log(u)
    return np.sqrt(square if square > _LEAST else _LEAST)


@_inlined
def _sine(steps: Any) -> Any:
    x = steps * _TURN
    q = x * x
    p = _S0 * q + _S1
    p = p * q + _S2
    p = p * q + _S3
    return p * q * x + x


@_inlined
def _cosine_of_word(word: Any) -> Any:
    beyond = _above(word, np.uint32(8)) - _HALF_TURN
    return _sine(abs(beyond) - _QUARTER)


@_inlined
def _sine_of_word(word: Any) -> Any:
    before = _HALF_TURN - _above(word, np.uint32(8))
    folded = _HALF_TURN - before
    folded = before if before < folded else folded
    lower = -_HALF_TURN - before
    return _sine(folded if folded > lower else lower)


@compiled_loop
def _uniforms(words: Any, shift: Any, scale: Any, out: Any) -> None:
    for i in range(out.size // 4):
        out[4 * i] = _above(words[0, i], shift) * scale
        out[4 * i + 1] = _above(words[1, i], shift) * scale
        out[4 * i + 2] = _above(words[2, i], shift) * scale
        out[4 * i + 3] = _above(words[3, i], shift) * scale


@compiled_loop
def _normals(words: Any, shift: Any, scale: Any, out: Any) -> None:
    for i in range(out.size // 4):
        first, second = _radius(words[0, i]), _radius(words[2, i])
        out[4 * i] = first * _cosine_of_word(words[1, i])
        out[4 * i + 1] = first * _sine_of_word(words[1, i])
        out[4 * i + 2] = second * _cosine_of_word(words[3, i])
        out[4 * i + 3] = second * _sine_of_word(words[3, i])


@_inlined
def _exponential(word: Any) -> Any:
    rest = (np.float32(2.0**24) - _above(word, np.uint32(8))) * np.float32(2.0**-24)
    value = _minus_two_log(rest) * np.float32(0.5)
    return value if value > _LEAST_EXPONENTIAL else _LEAST_EXPONENTIAL


@compiled_loop
def _exponentials(words: Any, shift: Any, scale: Any, out: Any) -> None:
    for i in range(out.size // 4):
        out[4 * i] = _exponential(words[0, i])
        out[4 * i + 1] = _exponential(words[1, i])
        out[4 * i + 2] = _exponential(words[2, i])
        out[4 * i + 3] = _exponential(words[3, i])


@_inlined
def _words(block: Any, words: Any, count: Any, numbers: Any) -> None:
    low, high, c2, c3, k0, k1, k2, k3 = numbers
    for i in range(count):
        at = low + np.uint64(i)
        c0, c1 = at & _MASK, (high + (at >> _HALF)) & _MASK
        w0, w1, w2, w3 = block(c0, c1, c2, c3, k0, k1, k2, k3)
        words[0, i], words[1, i], words[2, i], words[3, i] = w0, w1, w2, w3


@compiled_loop
def _philox(words: Any, count: Any, numbers: Any) -> None:
    _words(philox_of_eight, words, count, numbers)


@compiled_loop
def _threefry(words: Any, count: Any, numbers: Any) -> None:
    _words(threefry_of_eight, words, count, numbers)


_WORDS = {"philox": _philox, "threefry": _threefry}
_CONVERT = {"uniform": _uniforms, "normal": _normals, "exponential": _exponentials}


def fill_samples(
    kind: Kind, engine: EngineName, seed: int, start: int, domain: int, out: Any, bits: int
) -> None:
    """Fill a dense float32 array with standard samples from ``start`` on.

    A uniform has the top ``bits`` of its word.
    """
    make_words, convert = _WORDS[engine], _CONVERT[kind]
    shift, scale = np.uint32(32 - bits), np.float32(2.0**-bits)
    skipped = start % 4
    total = (skipped + out.size + 3) // 4
    words = np.empty((4, min(total, _BLOCKS)), np.uint32)
    for first in range(0, total, _BLOCKS):
        count = min(_BLOCKS, total - first)
        make_words(words, count, block_numbers(engine, seed, start // 4 + first, domain))
        begin, end = 4 * first - skipped, 4 * (first + count) - skipped
        if begin >= 0 and end <= out.size:
            convert(words, shift, scale, out[begin:end])
        else:
            # Only a part of the first or the last block is written.
            edge = np.empty(4 * count, np.float32)
            convert(words, shift, scale, edge)
            left, right = max(begin, 0), min(end, out.size)
            out[left:right] = edge[left - begin : right - begin]
