"""Bounds on the errors of transforms at the level ``doublefloat``, relative to 2-norms.

u = 2**-24. An array v of N complex points has entries up to 2**e in modulus, and its 2-norm is at
least half of the square root of the points g transformed so far. A pass multiplies it by a matrix
W of J points, for which ||W v|| = sqrt(J) ||v||. Errors are relative to ||W v||:

*Digits* of v leave 1.125 * 2**-56 * 2**e of each real number, of 2 N; those of W, which is exact up
to 2**-51, leave 2**-56: at most 2 sqrt(J) times as much in the 2-norm.

*Pairs* of weights above 10 are left out. The product of digits i of W and j of v is at most
2 J 2**(7 - 7 i) * 2**(7 - 7 j) 2**e sqrt(2 N).

*Sums* of one weight are exact in PSUM: at most 8 * 512 products, each up to 2**12 of their unit.
The sum from weight w up has a norm of at most ``t[w]``; the error of the addition that made it, at
most u ``t[w]``, is exact. Those of weights above 7 are dropped; the others are added in float32,
from the largest weight on.

*Tables* multiply pairs y of high and low parts, where ||low|| <= l u ||y||. In units of u**2 of the
real products of one part: the product of low parts is left out, l; two products with a low part are
rounded, 1 + l, and added to the exact error of the high product, 2 and 2 + l. Both parts add up to
sqrt(2) of this in the norm, and their low parts to sqrt(2) (2 + l), which is rounded, and added to
the exact error of the sum of high parts, and rounded. Tables are exact up to 2**-48.

A convolution multiplies a spectrum by a filter of modulus up to b; errors grow by b / sqrt(n). The
bound holds for every operand, and for every entry relative to the norm of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from trnfft._kernels.doublefloat_geometry import EXACT_FROM

_U = 2.0**-24
_REMAINDER = 1.125 * 2.0**-56
_SLICES = 8
_PLANES = 2.0**-49  # of the operand


def error_bound(
    chain: Sequence[int], tables: Sequence[bool], exponents: Sequence[int], growth: float
) -> float:
    """Return the largest error of a transform, relative to the 2-norm of its result.

    Args:
        chain: Points of each pass.
        tables: Whether a table multiplies the operand, and the results of each pass.
        exponents: Bounds on the entries of the operand, and of the results of each pass.
        growth: Factor by which a convolution increases errors, else 1.
    """
    count = math.prod(chain if growth == 1 else chain[: len(chain) // 2])
    error, done, low = _PLANES, 1, 1.0
    if tables[0]:
        error += _table_error(low)
    for p, points in enumerate(chain):
        largest = 2.0 ** exponents[p] * math.sqrt(2 * count) * 2 / math.sqrt(done)
        sums, low = _sum_errors(points, largest)
        error += _REMAINDER * largest + 2 * math.sqrt(points) * (2.0**-51 + 2.0**-56)
        error += 2 * math.sqrt(points) * _left_out() * largest + sums
        if tables[p + 1]:
            error += _table_error(low)
        done *= points
    return growth * error * (1 + 2.0**-20)


def _left_out() -> float:
    """Return the sum of the largest products of the pairs of digits that are not multiplied."""
    weights = range(_SLICES + 3, 2 * _SLICES + 1)
    return sum((2 * _SLICES + 1 - weight) * 2.0 ** (14 - 7 * weight) for weight in weights)


def _sum_errors(points: int, largest: float) -> tuple[float, float]:
    """Return the error of the additions outside of PSUM, and the norm of low parts over u.

    ``largest`` is the norm of an array of largest entries, relative to that of the data.
    """
    # Norms of what digits leave of the matrix and of the data.
    matrix = [1.0, *(2 * math.sqrt(points) * 2.0 ** (-7 * i) for i in range(1, _SLICES + 1))]
    data = [min(1.0, 2.0 ** (-7 * j) * largest) for j in range(_SLICES + 1)]
    error = low = 0.0  # times u**2, and u
    for weight in range(_SLICES + 1, 1, -1):
        # Digit i times all that is left of the data after digits 1 to weight - i - 1.
        total = sum((matrix[i - 1] + matrix[i]) * data[weight - i - 1] for i in range(1, weight))
        total += matrix[weight - 1]
        total = 1.0 + 2.0**-40 if weight == 2 else total
        if weight > EXACT_FROM:
            error += total / _U
        else:
            low += total
            error += low if weight < EXACT_FROM else 0.0
    return _U**2 * error, low


def _table_error(low: float) -> float:
    products = math.sqrt(2) * (low + 1 + low + 2 + 2 + low)
    both = math.sqrt(2) * (2 + low)
    return _U**2 * (products + both + (1 + both)) + 2.0**-48
