"""Operand of a launch: key, first block and domain, as one row of 32-bit words.

Values that are equal in all blocks of a launch are computed here, in exact integers: round keys,
the halves of the multipliers, and the parts of the first rounds that do not depend on the block
index. The kernel reads them as data, so one compiled program serves all seeds, positions and
domains.

This module does not import NKI.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trnrand._kernels.definitions import (
    MASK,
    PHILOX_M0,
    PHILOX_M1,
    PHILOX_ROUNDS,
    PHILOX_W0,
    PHILOX_W1,
    THREEFRY_PARITY,
    THREEFRY_ROTATIONS,
    THREEFRY_ROUNDS,
)
from trnsci.core.errors import ParameterError

BLOCK_WORDS = 4
"""Number of words of a block, for both engines."""
# Indices into the row. The first two are the same for both engines: low and high half of the first
# block's index (for Threefry with the second key word added to the high half).
START = 0

PHILOX_FIRST = 2
"""Words xored in round 1 with c1 and with the high half of c0 * M0: c0 and c2 of round 2."""
PHILOX_KEYS = 4
"""Two key words each for rounds 2 to 10; the first also holds c1 of round 2, a constant."""
PHILOX_MULTIPLIERS = PHILOX_KEYS + 2 * (PHILOX_ROUNDS - 1)
"""The two multipliers."""
_PHILOX_WORDS = PHILOX_MULTIPLIERS + 2

THREEFRY_CONSTANTS = 2
"""The first key word; x2 and x3 after round 1; that x3 rotated for round 2."""
THREEFRY_INJECTIONS = 6
"""Four words each for the key injections after rounds 4, 8, 12, 16 and 20."""
_THREEFRY_WORDS = THREEFRY_INJECTIONS + 4 * (THREEFRY_ROUNDS // 4)


def first_block(position: int) -> tuple[int, int]:
    """Return the block of word ``position`` of a stream, and the index of the word in it."""
    return divmod(position, BLOCK_WORDS)


def drawn_words(count: int) -> int:
    """Return the number of words to draw from the beginning of a block for ``count`` usable words.

    It covers every position of the first usable word in its block, so requests of one size share
    one compiled program.
    """
    return -(-(count + BLOCK_WORDS - 1) // BLOCK_WORDS) * BLOCK_WORDS


def philox_operand(key: Sequence[int], start: int, domain: int = 0, stream: int = 0) -> np.ndarray:
    """Return the operand of the Philox-4x32-10 kernels, uint32 (1, words).

    Args:
        key: Two words, low one first.
        start: Index of the first block, 64 bits; after block 2^64 - 1 comes block 0.
        domain: Third word of the counter of every block.
        stream: Fourth word.

    Raises:
        ParameterError: A number has too many bits, or the key does not have two words.
    """
    low, high = _checked("philox_operand", key, 2, start, domain, stream)
    constant = domain * PHILOX_M1
    row = [low, high, constant >> 32 ^ key[0], stream ^ key[1]]
    for r in range(1, PHILOX_ROUNDS):
        row += [(key[0] + r * PHILOX_W0) & MASK, (key[1] + r * PHILOX_W1) & MASK]
    row[PHILOX_KEYS] ^= constant & MASK
    row += [PHILOX_M0, PHILOX_M1]
    assert len(row) == _PHILOX_WORDS
    return np.array([row], np.uint32)


def threefry_operand(
    key: Sequence[int], start: int, domain: int = 0, stream: int = 0
) -> np.ndarray:
    """Return the operand of the Threefry-4x32-20 kernels, uint32 (1, words).

    Args:
        key: Four words, lowest one first.
        start: Index of the first block, 64 bits; after block 2^64 - 1 comes block 0.
        domain: Third word of the counter of every block.
        stream: Fourth word.

    Raises:
        ParameterError: A number has too many bits, or the key does not have four words.
    """
    low, high = _checked("threefry_operand", key, 4, start, domain, stream)
    keys = [*key, key[0] ^ key[1] ^ key[2] ^ key[3] ^ THREEFRY_PARITY]
    x3 = (stream + keys[3]) & MASK
    x2 = (domain + keys[2] + x3) & MASK
    x3 = _rotated(x3, THREEFRY_ROTATIONS[0][1]) ^ x2
    row = [low, (high + keys[1]) & MASK]
    row += [keys[0], x2, x3, _rotated(x3, THREEFRY_ROTATIONS[1][0])]
    for s in range(1, THREEFRY_ROUNDS // 4 + 1):
        row += [keys[(s + i) % 5] for i in range(3)]
        row.append((keys[(s + 3) % 5] + s) & MASK)
    assert len(row) == _THREEFRY_WORDS
    return np.array([row], np.uint32)


def _checked(
    function: str, key: Sequence[int], words: int, start: int, domain: int, stream: int
) -> tuple[int, int]:
    """Validate all arguments, and return the low and the high word of ``start``."""
    if len(key) != words or not all(0 <= word <= MASK for word in key):
        raise ParameterError(f"{function}: key must be {words} words of 32 bits, got {key}")
    if not 0 <= start < 2**64:
        raise ParameterError(f"{function}: start must be in [0, 2**64), got {start}")
    for name, word in (("domain", domain), ("stream", stream)):
        if not 0 <= word <= MASK:
            raise ParameterError(f"{function}: {name} must be in [0, 2**32), got {word}")
    return start & MASK, start >> 32


def _rotated(word: int, places: int) -> int:
    return (word << places | word >> (32 - places)) & MASK
