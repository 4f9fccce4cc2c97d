"""Philox-4x32-10 and Threefry-4x32-20 from their definition, and samples of their words.

The blocks follow Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC'11), in uint64 arithmetic that is masked to 32 bits; nothing is precomputed. The samples are
evaluated in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray

_MASK = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def philox_block(counter: Sequence[Array], key: int, rounds: int = 10) -> list[Array]:
    """Return the four words of blocks whose counter words are uint64 arrays; 64-bit key."""
    c = list(counter)
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(rounds):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> _32) ^ c[1] ^ np.uint64(k[0]),
            p1 & _MASK,
            (p0 >> _32) ^ c[3] ^ np.uint64(k[1]),
            p0 & _MASK,
        ]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def threefry_block(counter: Sequence[Array], key: int, rounds: int = 20) -> list[Array]:
    """Return the four words of blocks whose counter words are uint64 arrays; 128-bit key."""
    k = [np.uint64(key >> 32 * i & 0xFFFFFFFF) for i in range(4)]
    k.append(k[0] ^ k[1] ^ k[2] ^ k[3] ^ np.uint64(0x1BD11BDA))
    turns = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    x = [(c + w) & _MASK for c, w in zip(counter, k[:4], strict=True)]
    for r in range(rounds):
        for a, b, turn in (
            (0, 1 + r % 2 * 2, turns[r % 8][0]),
            (2, 3 - r % 2 * 2, turns[r % 8][1]),
        ):
            x[a] = (x[a] + x[b]) & _MASK
            x[b] = ((x[b] << np.uint64(turn) | x[b] >> np.uint64(32 - turn)) & _MASK) ^ x[a]
        if r % 4 == 3:
            s = r // 4 + 1
            x = [(x[i] + k[(s + i) % 5]) & _MASK for i in range(4)]
            x[3] = (x[3] + np.uint64(s)) & _MASK
    return x


BLOCKS = {"philox": philox_block, "threefry": threefry_block}


def stream_words(
    engine: str, key: int, start: int, count: int, domain: int = 0, stream: int = 0
) -> Array:
    """Return ``count`` words of a stream from block ``start`` on, as uint32."""
    blocks = -(-count // 4)
    with np.errstate(over="ignore"):  # the index of a block wraps at 2^64
        index = np.arange(blocks, dtype=np.uint64) + np.uint64(start)
    constants = [np.full_like(index, word) for word in (domain, stream)]
    words = BLOCKS[engine]([index & _MASK, index >> _32, *constants], key)
    return np.stack(words, axis=-1).reshape(-1)[:count].astype(np.uint32)


def uniform_of(words: Array, kept: int) -> Array:
    """Return the top ``kept`` bits of each word as a fraction of 2^kept."""
    return (words >> np.uint32(32 - kept)) * 2.0**-kept


def normal_radii(words: Array) -> Array:
    """Return the radius of each pair: u = (w + 1) / 2^32 as a float32, then float64."""
    first = (words[0::2].astype(np.float64) + 1).astype(np.float32)
    return np.sqrt(-2 * np.log(first.astype(np.float64) * 2.0**-32))


def normal_of(words: Array) -> Array:
    """Return the Box-Muller samples of pairs of words; the number of words is even."""
    angle = 2 * np.pi * uniform_of(words[1::2], 24)
    radius = normal_radii(words)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=-1).reshape(-1)


def exponential_of(words: Array) -> Array:
    """Return -log1p(-u) for the 24-bit uniform of each word; where it is 0, half a step of u."""
    return np.maximum(-np.log1p(-uniform_of(words, 24)), 2.0**-25)
