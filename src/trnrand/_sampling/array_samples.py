"""Standard samples in float32 by in-place NumPy operations, for processes without numba.

The four words of a block are separate arrays until samples are written. Work is done in chunks of
some thousand blocks, which fit in the cache of a core.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trnrand._sampling.arrays import block_words
from trnrand._sampling.laws import (
    LEAST_SQUARE,
    LOG,
    LOG_SPLIT_BITS,
    MINUS_TWO_LN2,
    SINE,
    TURN24,
    Kind,
)
from trnrand.engines import EngineName

__all__ = ["fill_samples"]

Floats = NDArray[np.float32]

# Blocks per chunk: they fit in the cache, and amortise 200 NumPy calls. Philox has half as many,
# since its words take 64 bits; the conversion to samples uses chunks of that size, too.
_BLOCKS = {"philox": 1 << 14, "threefry": 1 << 15}
_CONVERTED = 1 << 14

_LIMIT = 1 << 64
_LOG, _SINE = ([np.float32(c) for c in series] for series in (LOG, SINE))
_LN2, _TURN, _LEAST = np.float32(MINUS_TWO_LN2), np.float32(TURN24), np.float32(LEAST_SQUARE)
# Words w >= _NEAR_ONE: float32 rounds w + 1 to 2**32.
_NEAR_ONE, _LAST_BUT_ONE = np.uint32(0xFFFF_FF7F), np.uint32(0xFFFF_FFFE)
_ONE, _HALF, _ZERO = np.float32(1.0), np.float32(0.5), np.float32(0.0)
_QUARTER_TURN, _HALF_TURN, _TURN_STEPS = (np.float32(2.0**n) for n in (22, 23, 24))
_FRACTION, _EXPONENT = np.int32((1 << 23) - 1), np.int32(23)


@cache
def _steps() -> NDArray[np.int64]:
    return np.arange(max(_BLOCKS.values()))


def fill_samples(
    kind: Kind, engine: EngineName, seed: int, start: int, domain: int, out: Floats, bits: int
) -> None:
    """Fill a dense float32 array with standard samples from ``start`` on.

    A uniform has the top ``bits`` of its word.
    """
    skipped = start % 4
    total, most = (skipped + out.size + 3) // 4, _BLOCKS[engine]
    for first in range(0, total, most):
        count = min(most, total - first)
        words = block_words(engine, seed, (start // 4 + first) % _LIMIT, _steps()[:count], domain)
        for i in range(0, count, _CONVERTED):
            part = [word[i : i + _CONVERTED] for word in words]
            _write(kind, part, bits, out, 4 * (first + i) - skipped)


def _write(kind: Kind, words: Sequence[NDArray[Any]], bits: int, out: Floats, begin: int) -> None:
    """Write the samples of some blocks from ``begin`` on, clipped to ``out``."""
    count = len(words[0])
    end = begin + 4 * count
    whole = begin >= 0 and end <= out.size
    part = out[begin:end] if whole else np.empty(4 * count, np.float32)
    _CONVERT[kind](words, bits, part.reshape(count, 4))
    if not whole:
        # Only a part of the first or the last block is written.
        left, right = max(begin, 0), min(end, out.size)
        out[left:right] = part[left - begin : right - begin]


def _uniforms(words: Sequence[NDArray[Any]], bits: int, out: Floats) -> None:
    scale = np.float32(2.0**-bits)
    for i, word in enumerate(words):
        np.multiply(_above(word.astype(np.uint32), 32 - bits), scale, out=out[:, i])


def _exponentials(words: Sequence[NDArray[Any]], bits: int, out: Floats) -> None:
    for i, word in enumerate(words):
        rest = _above(word.astype(np.uint32), 8)
        np.subtract(_TURN_STEPS, rest, out=rest)
        values = _minus_two_log(rest, 24)
        values *= _HALF
        np.add(values, _ZERO, out=out[:, i])  # turns -0 into 0


def _normals(words: Sequence[NDArray[Any]], bits: int, out: Floats) -> None:
    count = len(out)
    both = np.empty((2, count), np.uint32)
    both[0], both[1] = words[0], words[2]
    # u = (word + 1) / 2**32 is never 0: exact, then rounded once.
    near_one = both.max() >= _NEAR_ONE  # true for one chunk of a thousand
    if near_one:
        np.minimum(both, _LAST_BUT_ONE, out=both)  # w + 1 must not wrap; it rounds to 2**32, too
    both += np.uint32(1)
    radius = _minus_two_log(both.astype(np.float32), 32)
    if near_one:
        np.maximum(radius, _LEAST, out=radius)
    np.sqrt(radius, out=radius)
    both[0], both[1] = words[1], words[3]
    steps = _above(both, 8)
    # Angles in steps, all exact: relative to half a turn, then reduced to quarter turns.
    before = _HALF_TURN - steps
    angles = np.empty((2, 2, count), np.float32)
    cosine, sine = angles
    np.absolute(before, out=cosine)
    cosine -= _QUARTER_TURN
    np.minimum(before, steps, out=sine)
    steps -= _TURN_STEPS
    np.maximum(sine, steps, out=sine)
    values = _sine(angles)
    for pair in (0, 1):
        for part in (0, 1):
            np.multiply(values[part, pair], radius[pair], out=out[:, 2 * pair + part])


def _above(words: NDArray[np.uint32], shift: int) -> Floats:
    """Return words shifted right as float32, overwriting them."""
    words >>= np.uint32(shift)
    return words.view(np.int32).astype(np.float32)


def _minus_two_log(u: Floats, scaled: int) -> Floats:
    """Return -2 log(u / 2**scaled), overwriting u, as ``_sampling.laws`` defines it."""
    bits = u.view(np.int32)
    bits -= np.int32(LOG_SPLIT_BITS + (scaled << 23))
    exponent = (bits >> _EXPONENT).astype(np.float32)
    bits &= _FRACTION
    bits += np.int32(LOG_SPLIT_BITS)
    u -= _ONE
    g = u * _LOG[0]
    g += _LOG[1]
    for coefficient in _LOG[2:]:
        g *= u
        g += coefficient
    g *= u
    exponent *= _LN2
    exponent += g
    return exponent


def _sine(steps: Floats) -> Floats:
    """Return the sine of up to a quarter turn, in steps, as ``_sampling.laws`` defines it."""
    steps *= _TURN
    square = steps * steps
    p = square * _SINE[0]
    p += _SINE[1]
    for coefficient in _SINE[2:]:
        p *= square
        p += coefficient
    p *= square
    p *= steps
    p += steps
    return p


_CONVERT = {"uniform": _uniforms, "normal": _normals, "exponential": _exponentials}
