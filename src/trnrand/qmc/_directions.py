"""Direction numbers of Sobol' sequences, and the sequences in words of 32 bits.

Point i of a dimension is the exclusive or of the direction numbers at the bits of i's Gray code
``i ^ (i >> 1)``. Arrays of directions are (BITS, dims) of uint32, a direction's first binary digit
in the word's top bit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

__all__ = ["BITS", "WORD", "gray_block", "gray_point", "joe_kuo", "linearly_scrambled"]

#: Direction numbers of a dimension, so that a sequence has 2**BITS points.
BITS = 30
#: Bits of a word.
WORD = 32


@lru_cache(maxsize=4)
def joe_kuo(n_dims: int) -> np.ndarray:
    """Return the direction numbers of S. Joe and F. Y. Kuo (2008), as torch has them."""
    table: torch.Tensor = torch.quasirandom.SobolEngine(n_dims).sobolstate  # type: ignore[no-untyped-call]
    words = table.numpy().astype(np.uint32) << np.uint32(WORD - BITS)
    directions = np.ascontiguousarray(words.T)
    directions.flags.writeable = False
    return directions


def gray_point(directions: np.ndarray, index: int) -> np.ndarray:
    """Return point ``index`` as a row of words."""
    point = np.zeros(directions.shape[1], np.uint32)
    code = index ^ (index >> 1)
    for direction in directions:
        if code & 1:
            point ^= direction
        code >>= 1
    return point


def gray_block(directions: np.ndarray, bits: int) -> np.ndarray:
    """Return the first 2**bits points as rows of words."""
    points = np.zeros((1 << bits, directions.shape[1]), np.uint32)
    for bit in range(bits):
        # The Gray code is reflected: the second half runs through the first backwards.
        half = 1 << bit
        np.bitwise_xor(points[half - 1 :: -1], directions[bit], out=points[half : 2 * half])
    return points


def linearly_scrambled(directions: np.ndarray, random: np.ndarray, first: int) -> np.ndarray:
    """Return directions times random lower triangular matrices with ones on the diagonal.

    J. Matoušek, "On the L2-discrepancy for anchored boxes", Journal of Complexity 14 (1998).

    Args:
        directions: (BITS, dims) words.
        random: (dims, WORD - first) random words.
        first: Binary digits at the top that are neither changed nor mixed into those below.
    """
    top = np.uint32((1 << WORD) - (1 << (WORD - first)))
    scrambled = directions & top
    for column, words in enumerate(random.T, start=first):
        bit = np.uint32(1 << (WORD - 1 - column))
        image = bit | (words & (bit - np.uint32(1)))
        scrambled ^= np.where(directions & bit, image, np.uint32(0))
    return scrambled
