"""Blocks of the engines and standard samples in float32 by in-place NumPy operations.

They serve small calls, and processes without numba. Philox uses uint64, which holds the products of
two words; Threefry uses uint32, which wraps. The four words of a block are separate arrays until
samples are written. A chunk has some thousand blocks: it fits in the cache of a core, and takes
much longer than the overhead of its 200 NumPy calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trnrand._kernels.definitions import (
    LEAST_EXPONENTIAL,
    LEAST_SQUARE,
    LOG,
    LOG_SPLIT_BITS,
    MASK,
    MINUS_TWO_LN2,
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
    SINE,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    THREEFRY_ROUNDS,
    TURN24,
    Kind,
)
from trnrand.engines import ENGINES, EngineName, block_function

# Up to this number of blocks Python integers are faster than arrays.
_FEW_BLOCKS = 4

_MASK, _HALF_BITS = np.uint64(MASK), np.uint64(32)

# For each round of Threefry: left and right shift of its two mixes.
_SHIFTS = [[(np.uint32(n), np.uint32(32 - n)) for n in pair] for pair in THREEFRY_ROTATIONS]


def write_blocks(
    engine: EngineName,
    seed: int,
    first: int,
    steps: NDArray[np.int64],
    domain: int,
    out: NDArray[Any],
) -> None:
    """Write the blocks at ``first + steps``, modulo 2**64, into the rows of ``out``."""
    for i, word in enumerate(block_words(engine, seed, first, steps, domain)):
        out[:, i] = word


def block_words(
    engine: EngineName, seed: int, first: int, steps: NDArray[np.int64], domain: int
) -> Sequence[NDArray[Any]]:
    """Return the four words of the blocks at ``first + steps``, modulo 2**64, in the low 32 bits.

    Higher bits are undefined.
    """
    key = ENGINES[engine].key(seed)
    if len(steps) <= _FEW_BLOCKS:
        places = (first + step for step in steps.tolist())
        block = block_function(engine)
        rows = [block(at & MASK, at >> 32 & MASK, domain, 0, *key) for at in places]
        return tuple(np.array(rows, np.uint64).reshape(-1, 4).T)
    at = steps.view(np.uint64) + np.uint64(first)
    return _philox(at, domain, *key) if engine == "philox" else _threefry(at, domain, key)


def _philox(at: NDArray[np.uint64], domain: int, k0: int, k1: int) -> Sequence[NDArray[np.uint64]]:
    keys = [
        (np.uint64((k0 + r * PHILOX_W0) & MASK), np.uint64((k1 + r * PHILOX_W1) & MASK))
        for r in range(PHILOX_ROUNDS)
    ]
    m0, m1 = np.uint64(PHILOX_M0), np.uint64(PHILOX_M1)
    # Words that are equal in all blocks stay arrays of one element until they are mixed.
    c0, c1, c2, c3 = at & _MASK, _upper(at), np.full_like(at[:1], domain), np.zeros_like(at[:1])
    for first, second in keys[:3]:
        p0, p1 = c0 * m0, c2 * m1
        c0, c2 = p1 >> _HALF_BITS ^ (c1 ^ first) & _MASK, p0 >> _HALF_BITS ^ (c3 ^ second) & _MASK
        c1, c3 = p1, p0
    p0, p1 = np.empty_like(at), np.empty_like(at)
    for first, second in keys[3:]:
        np.multiply(c0, m0, p0)
        np.multiply(c2, m1, p1)
        np.bitwise_xor(c1, first, c1)
        np.bitwise_and(c1, _MASK, c1)
        np.bitwise_xor(c3, second, c3)
        np.bitwise_and(c3, _MASK, c3)
        np.right_shift(p1, _HALF_BITS, c0)
        np.bitwise_xor(c0, c1, c0)
        np.right_shift(p0, _HALF_BITS, c2)
        np.bitwise_xor(c2, c3, c2)
        # The lower halves of the products; the old c1 and c3 are buffers for the next ones.
        c1, p1 = p1, c1
        c3, p0 = p0, c3
    return c0, c1, c2, c3


def _threefry(
    at: NDArray[np.uint64], domain: int, key: tuple[int, ...]
) -> Sequence[NDArray[np.uint32]]:
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    # Words that are equal in all blocks stay arrays of one element for the first two rounds.
    same = np.array([[word] for word in key], np.uint32)
    x0 = at.astype(np.uint32)
    x0 += same[0]
    x1, x2, x3 = _upper(at).astype(np.uint32) + same[1], same[2] + np.uint32(domain), same[3]
    x0, x1 = _mixed(x0, x1, 0, 0)
    x2, x3 = _mixed(x2, x3, 0, 1)
    x0, x3 = _mixed(x0, x3, 1, 0)
    x2, x1 = _mixed(x2, x1, 1, 1)
    low_bits = np.empty_like(x0)
    for r in range(2, THREEFRY_ROUNDS):
        # Rounds pair x0 and x2 alternately with x1 and x3, by swapping these two.
        for a, b, (left, right) in zip((x0, x2), (x1, x3), _SHIFTS[r % 8], strict=True):
            np.add(a, b, a)
            np.right_shift(b, right, low_bits)
            np.left_shift(b, left, b)
            np.bitwise_or(b, low_bits, b)
            np.bitwise_xor(b, a, b)
        x1, x3 = x3, x1
        if r % 4 == 3:
            times = r // 4 + 1
            for i, x in enumerate((x0, x1, x2, x3)):
                injected = keys[(times + i) % 5] + (times if i == 3 else 0)
                np.add(x, np.uint32(injected & MASK), x)
    return x0, x1, x2, x3


def _mixed(
    a: NDArray[np.uint32], b: NDArray[np.uint32], r: int, pair: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return two words after a round of Threefry; each has one element, or one per block."""
    left, right = _SHIFTS[r][pair]
    a = a + b
    return a, (b << left | b >> right) ^ a


def _upper(at: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the upper halves of indices, as one element if all are equal."""
    if at.min() >> _HALF_BITS == at.max() >> _HALF_BITS:
        at = at[:1]
    return at >> _HALF_BITS


# -- standard samples ------------------------------------------------------------------------------

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
_ONE, _HALF, _LEAST_EXPONENTIAL = (np.float32(x) for x in (1.0, 0.5, LEAST_EXPONENTIAL))
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
        np.maximum(values, _LEAST_EXPONENTIAL, out=out[:, i])


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
    """Return -2 log(u / 2**scaled), overwriting u, as ``definitions`` describes it."""
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
    """Return the sine of up to a quarter turn, in steps, as ``definitions`` describes it."""
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
