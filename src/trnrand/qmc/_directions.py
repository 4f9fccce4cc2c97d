"""Direction numbers of Sobol' sequences, and the sequences in words of 32 or 64 bits.

Point i of a dimension is the exclusive or of the direction numbers at the bits of i's Gray code
``i ^ (i >> 1)``. Arrays of directions are (n, dims) of uint32 or uint64, a direction's first binary
digit in the word's top bit; n directions make a sequence of 2**n points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

#: Number of directions of a dimension in words of 32 bits, as in torch.
BITS = 30
#: Default number of bits of a word.
WORD = 32

# Number of primitive polynomials over GF(2) of each degree from 1 on. Dimensions after the first
# use them in order: 21200 up to degree 18.
_POLYNOMIALS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)


def word_bits(words: np.ndarray) -> int:
    """Return the number of bits of a word."""
    return 8 * words.itemsize


@lru_cache(maxsize=4)
def joe_kuo(n_dims: int, word: int = WORD) -> np.ndarray:
    """Return the direction numbers of S. Joe and F. Y. Kuo (2008).

    Words of 32 bits have the ``BITS`` directions of torch, words of 64 bits have 64.
    """
    table: torch.Tensor = torch.quasirandom.SobolEngine(n_dims).sobolstate  # type: ignore[no-untyped-call]
    given = np.ascontiguousarray(table.numpy().astype(np.uint64).T) << np.uint64(64 - BITS)
    if word == WORD:
        directions = (given >> np.uint64(32)).astype(np.uint32)
    else:
        directions = np.concatenate([given, np.zeros((64 - BITS, n_dims), np.uint64)])
        _continue(directions)
    directions.flags.writeable = False
    return directions


def _continue(directions: np.ndarray) -> None:
    """Write the directions that follow the first BITS, in place.

    With coefficients a_1, ..., a_(s-1) of a polynomial of degree s, direction i is
    a_1 v_(i-1) ^ ... ^ a_(s-1) v_(i-s+1) ^ v_(i-s) ^ (v_(i-s) >> s).
    """
    # The polynomial of the first dimension is 1: every direction is one digit.
    directions[BITS:, 0] = np.uint64(1) << np.arange(63 - BITS, -1, -1, dtype=np.uint64)
    left = 1
    for degree, number in enumerate(_POLYNOMIALS, start=1):
        columns = directions[:, left : left + number]
        left += number
        # v_j ends in digit j + 1, so the last digit of direction s determines a_1; with its term
        # removed, the digit before determines a_2, and so on.
        rest = columns[degree] ^ columns[0] ^ (columns[0] >> degree)
        coefficients = []
        for k in range(1, degree):
            present = -(rest >> (63 - degree + k) & 1)  # all ones or none
            coefficients.append(present)
            rest ^= present & columns[degree - k]
        for i in range(BITS, 64):
            oldest = columns[i - degree]
            columns[i] = oldest ^ (oldest >> degree)
            for k, present in enumerate(coefficients, start=1):
                columns[i] ^= present & columns[i - k]


def gray_point(directions: np.ndarray, index: int) -> np.ndarray:
    """Return point ``index`` as a row of words."""
    point = np.zeros_like(directions[0])
    code = index ^ (index >> 1)
    for direction in directions:
        if code & 1:
            point ^= direction
        code >>= 1
    return point


def gray_block(directions: np.ndarray, bits: int) -> np.ndarray:
    """Return the first 2**bits points as rows of words."""
    points = np.zeros((1 << bits, directions.shape[1]), directions.dtype)
    for bit in range(bits):
        # The Gray code is reflected: the second half runs through the first backwards.
        half = 1 << bit
        np.bitwise_xor(points[half - 1 :: -1], directions[bit], out=points[half : 2 * half])
    return points


def linearly_scrambled(directions: np.ndarray, random: np.ndarray, first: int) -> np.ndarray:
    """Return directions times random lower triangular matrices with ones on the diagonal.

    J. Matoušek, "On the L2-discrepancy for anchored boxes", Journal of Complexity 14 (1998).

    Args:
        directions: (n, dims) words.
        random: (dims, digits - first) random words with the digits of a direction.
        first: Number of leading binary digits that are not changed or mixed into lower ones.
    """
    word = word_bits(directions)
    scrambled = directions & ((1 << word) - (1 << (word - first)))
    for column, words in enumerate(random.T, start=first):
        bit = 1 << (word - 1 - column)
        image = words & (bit - 1) | bit
        scrambled ^= np.where(directions & bit, image, 0).astype(directions.dtype)
    return scrambled
