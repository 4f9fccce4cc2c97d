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
)

__all__ = ["write_blocks"]

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
    at = steps.view(np.uint64) + np.uint64(first)
    words = (at & _MASK, at >> _HALF, np.full_like(at, domain), np.zeros_like(at))
    key = ENGINES[engine].key(seed)
    found: Sequence[Any]
    found = _philox(*words, *key) if engine == "philox" else _threefry(*words, key)
    for i, word in enumerate(found):
        out[:, i] = word


def _philox(
    c0: NDArray[np.uint64],
    c1: NDArray[np.uint64],
    c2: NDArray[np.uint64],
    c3: NDArray[np.uint64],
    k0: int,
    k1: int,
) -> tuple[NDArray[np.uint64], ...]:
    """Return words whose upper halves are of no meaning."""
    p0, p1 = np.empty_like(c0), np.empty_like(c0)
    m0, m1 = np.uint64(PHILOX_M0), np.uint64(PHILOX_M1)
    for r in range(PHILOX_ROUNDS):
        np.multiply(c0, m0, out=p0)
        np.multiply(c2, m1, out=p1)
        np.right_shift(p1, _HALF, out=c0)
        c0 ^= c1
        c0 ^= np.uint64((k0 + r * PHILOX_W0) & MASK)
        c0 &= _MASK
        np.right_shift(p0, _HALF, out=c2)
        c2 ^= c3
        c2 ^= np.uint64((k1 + r * PHILOX_W1) & MASK)
        c2 &= _MASK
        # The lower halves of the products; what c1 and c3 were in is free for the next ones.
        c1, p1 = p1, c1
        c3, p0 = p0, c3
    return c0, c1, c2, c3


def _threefry(
    c0: NDArray[np.uint64],
    c1: NDArray[np.uint64],
    c2: NDArray[np.uint64],
    c3: NDArray[np.uint64],
    key: tuple[int, ...],
) -> list[NDArray[np.uint32]]:
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    x = [c.astype(np.uint32) for c in (c0, c1, c2, c3)]
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
