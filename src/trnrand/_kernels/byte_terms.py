"""Terms of the product of a 32-bit word and a 32-bit constant, by bytes.

A word is the sum of its bytes b_j 2^(8j). The constant is the sum of *signed* digits D_d 2^(8d),
from -128 to 127. With c_d = sum over j of b_j D_(d-j), the product is the sum of c_d 2^(8d). Let A
be its terms below d = 4 and lo the product modulo 2^32:

    K = (A - lo) / 2^32                        an integer, so A to 0.1 of 2^32 determines it
    high word = c_4 + 2^8 c_5 + K + 2^16 (c_6 + 2^8 c_7)

This module does not import NKI.
"""

from __future__ import annotations

Term = tuple[int, int, float]
"""The sum that a term belongs to (0 to 2, in the order above), its byte, its factor."""


def signed_digits(constant: int) -> list[int]:
    """Return the five digits, lowest first; the last is the carry."""
    digits = []
    for _ in range(4):
        digit = (constant + 128) % 256 - 128
        digits.append(digit)
        constant = (constant - digit) >> 8
    return [*digits, constant]


def terms(constant: int) -> tuple[Term, ...]:
    """Return the terms of the three sums."""
    d = signed_digits(constant)
    below = [(0, j, sum(d[e - j] * 2.0 ** (8 * e - 32) for e in range(j, 4))) for j in range(4)]
    # Factors of one byte are added where float16 has their sum.
    middle = [(1, 0, d[4]), (1, 1, d[3] + 256 * d[4])]
    middle += [(1, 2, d[2]), (1, 2, 256 * d[3]), (1, 3, d[1]), (1, 3, 256 * d[2])]
    above = [(2, 2, d[4]), (2, 3, d[3] + 256 * d[4])]
    return tuple((s, j, float(factor)) for s, j, factor in below + middle + above if factor)
