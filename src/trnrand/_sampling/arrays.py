"""Blocks of the engines by in-place NumPy operations, for processes without numba.

Philox uses uint64, which holds the products of two words; Threefry uses uint32, which wraps. Blocks
are computed by the thousand, so the overhead of 100 to 200 NumPy calls per word is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trnrand.engines import (
    ENGINES,
    MASK,
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    THREEFRY_ROUNDS,
    EngineName,
    block_function,
)

__all__ = ["block_words", "write_blocks"]

# Up to this number of blocks Python integers are faster than arrays.
_FEW_BLOCKS = 4

_MASK, _HALF = np.uint64(MASK), np.uint64(32)

# Left and right shifts of both mixes of a round of Threefry.
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
        c0, c2 = p1 >> _HALF ^ (c1 ^ first) & _MASK, p0 >> _HALF ^ (c3 ^ second) & _MASK
        c1, c3 = p1, p0
    p0, p1 = np.empty_like(at), np.empty_like(at)
    for first, second in keys[3:]:
        np.multiply(c0, m0, p0)
        np.multiply(c2, m1, p1)
        np.bitwise_xor(c1, first, c1)
        np.bitwise_and(c1, _MASK, c1)
        np.bitwise_xor(c3, second, c3)
        np.bitwise_and(c3, _MASK, c3)
        np.right_shift(p1, _HALF, c0)
        np.bitwise_xor(c0, c1, c0)
        np.right_shift(p0, _HALF, c2)
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
    if at.min() >> _HALF == at.max() >> _HALF:
        at = at[:1]
    return at >> _HALF
