"""Blocks of the engines on NumPy arrays, in place: what makes words where numba is not there.

Philox works on uint64, which holds the products of two words; Threefry on uint32, which wraps by
itself. Blocks come by the thousand, so that calling NumPy 100 or 200 times costs little per word.
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

# Up to here Python's own integers are faster than arrays.
_FEW_BLOCKS = 4

_MASK, _HALF = np.uint64(MASK), np.uint64(32)


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

    What is above those has no meaning.
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
    # What all blocks have in common is one number until the rounds have mixed it with the rest.
    c0, c1, c2, c3 = at & _MASK, at >> _HALF, np.full_like(at[:1], domain), np.zeros_like(at[:1])
    if (c1 == c1[0]).all():
        c1 = c1[:1]
    for first, second in keys[:3]:
        p0, p1 = c0 * m0, c2 * m1
        c0, c2 = p1 >> _HALF ^ (c1 ^ first) & _MASK, p0 >> _HALF ^ (c3 ^ second) & _MASK
        c1, c3 = p1, p0
    p0, p1 = np.empty_like(at), np.empty_like(at)
    for first, second in keys[3:]:
        np.multiply(c0, m0, out=p0)
        np.multiply(c2, m1, out=p1)
        c1 ^= first
        c1 &= _MASK
        c3 ^= second
        c3 &= _MASK
        np.right_shift(p1, _HALF, out=c0)
        c0 ^= c1
        np.right_shift(p0, _HALF, out=c2)
        c2 ^= c3
        # The lower halves of the products; what c1 and c3 were in is free for the next ones.
        c1, p1 = p1, c1
        c3, p0 = p0, c3
    return c0, c1, c2, c3


def _threefry(
    at: NDArray[np.uint64], domain: int, key: tuple[int, ...]
) -> Sequence[NDArray[np.uint32]]:
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    x = [at.astype(np.uint32), (at >> _HALF).astype(np.uint32)]
    x += [np.full_like(x[0], domain), np.zeros_like(x[0])]
    turned = np.empty_like(x[0])
    for i in range(4):
        x[i] += np.uint32(keys[i])
    for r in range(THREEFRY_ROUNDS):
        # Even rounds mix x0 with x1 and x2 with x3, odd ones x0 with x3 and x2 with x1.
        pairs = ((0, 1), (2, 3)) if r % 2 == 0 else ((0, 3), (2, 1))
        for (a, b), left in zip(pairs, THREEFRY_ROTATIONS[r % 8], strict=True):
            x[a] += x[b]
            np.right_shift(x[b], np.uint32(32 - left), out=turned)
            x[b] <<= np.uint32(left)
            x[b] |= turned
            x[b] ^= x[a]
        if r % 4 == 3:
            times = r // 4 + 1
            for i in range(4):
                injected = keys[(times + i) % 5] + (times if i == 3 else 0)
                x[i] += np.uint32(injected & MASK)
    return x
