"""Arithmetic on double-float numbers: sums of two float32 tiles, high and low.

u = 2**-24, half the last bit of 1. A pair is normalized if its high part is the sum rounded to
float32, so that |low| <= u |high|. Functions take and return normalized pairs. Errors are relative
to the exact result unless said otherwise.

    add                 3 u**2 / (1 - 4 u)
    multiply            9 u**2
    divide              5 u**2
    sum_columns         3.1 u**2 log2(width) of the sum of moduli
    sum_partitions      the same for 128

Layout   any SBUF tiles of one shape; a pair is a tuple of two tiles
Limits   the bounds hold while every nonzero operand and result is between 2**-60 and 2**60 in
         modulus. Smaller values add an absolute error of at most 2**-121 to a sum, a product, a
         quotient and its numerator, whether the chip keeps subnormal numbers or flushes them to 0:
         at most 32 operations have subnormal results, each with an error of up to 2**-126. Where a
         part overflows, which takes an operand or a result of at least 2**114, and for infinities
         and NaN, the pair has a NaN or an infinity, never a wrong finite number
Cost     Vector instructions on a tile: add 20, multiply 24, divide 81 and a reciprocal
Lever    error-free transformations: the rounding errors of float32 sums and products are float32
         numbers, computed exactly. The chip has no fused multiply-add, so products are split
         (Dekker). Sums and products must round to nearest, ties to even; reciprocals must have
         an error of at most 2**-20. ``arithmetic_probe`` checks both
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.slices import fast_two_sum

Pair = tuple[Tile, Tile]
"""The high and the low part of a tile of numbers."""

VECTOR = nisa.engine.vector
SPLITTER = 4097.0  # 2**12 + 1


def combined(a: Tile, b: Tile, operation: Any) -> Tile:
    """Return a new tile: ``a`` and ``b`` combined element by element, rounded to float32."""
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=a, data2=b, op=operation, engine=VECTOR)
    return result


def two_sum(a: Tile, b: Tile) -> Pair:
    """Return the rounded sum of two tiles in SBUF, and its error: both are exact (Knuth)."""
    total = combined(a, b, nl.add)
    part = combined(total, a, nl.subtract)
    rest = combined(total, part, nl.subtract)
    nisa.tensor_tensor(dst=rest, data1=a, data2=rest, op=nl.subtract, engine=VECTOR)
    nisa.tensor_tensor(dst=part, data1=b, data2=part, op=nl.subtract, engine=VECTOR)
    nisa.tensor_tensor(dst=rest, data1=rest, data2=part, op=nl.add, engine=VECTOR)
    return total, rest


def halves(a: Tile) -> Pair:
    """Return two tiles of 12 bits with the sum ``a`` (Veltkamp); exact up to 2**115."""
    scaled = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=scaled, data=a, op0=nl.multiply, operand0=SPLITTER, engine=VECTOR)
    rest = combined(scaled, a, nl.subtract)
    upper = combined(scaled, rest, nl.subtract)
    return upper, combined(a, upper, nl.subtract)


def two_product(a: Tile, b: Tile, a_halves: Pair, b_halves: Pair) -> Pair:
    """Return the rounded product of two tiles, and its error, from their halves (Dekker).

    Both are exact while the product is 0 or at least 2**-102: products of halves have 24 bits. With
    v the product of the last bits of ``a`` and ``b``, each difference is a multiple of v below
    2**24 v.
    """
    a_upper, a_lower = a_halves
    b_upper, b_lower = b_halves
    product = combined(a, b, nl.multiply)
    rest = combined(product, combined(a_upper, b_upper, nl.multiply), nl.subtract)
    rest = combined(rest, combined(a_lower, b_upper, nl.multiply), nl.subtract)
    rest = combined(rest, combined(a_upper, b_lower, nl.multiply), nl.subtract)
    return product, combined(combined(a_lower, b_lower, nl.multiply), rest, nl.subtract)


def add(x: Pair, y: Pair) -> Pair:
    """Return x + y with an error of at most 3 u**2 / (1 - 4 u), also where high parts cancel.

    Joldes, Muller and Popescu (2017), theorem 3.1, prove the bound for these operations: exact sums
    of the high and of the low parts, and two renormalizations.
    """
    high, error = two_sum(x[0], y[0])
    low, small = two_sum(x[1], y[1])
    high, error = fast_two_sum(high, combined(error, low, nl.add), VECTOR, VECTOR)
    return fast_two_sum(high, combined(small, error, nl.add), VECTOR, VECTOR)


def subtract(x: Pair, y: Pair) -> Pair:
    """Return x - y, with the error of ``add``."""
    return add(x, (negated(y[0]), negated(y[1])))


def negated(a: Tile) -> Tile:
    """Return ``-a``."""
    result = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=a, op0=nl.multiply, operand0=-1.0, engine=VECTOR)
    return result


def multiply(x: Pair, y: Pair) -> Pair:
    """Return x * y with an error of at most 9 u**2.

    In units of u**2 |x y|, up to terms in u**3: the product of the low parts is left out, 1; two
    products of a high and a low part are rounded, 1 each; their sum, at most 2 u, is rounded, 2;
    the error of the high product is added to it, at most 3 u, and rounded, 3. The last addition is
    exact.
    """
    high, error = two_product(x[0], y[0], halves(x[0]), halves(y[0]))
    cross = combined(x[0], y[1], nl.multiply)
    cross = combined(cross, combined(x[1], y[0], nl.multiply), nl.add)
    return fast_two_sum(high, combined(error, cross, nl.add), VECTOR, VECTOR)


def divide(x: Pair, y: Pair) -> Pair:
    """Return x / y with an error of at most 5 u**2.

    Long division with a reciprocal r of the high part of y, whose error of at most 2**-20 = 16 u
    leaves the first quotient digit q1 = r x within 21 u. The remainder x - q1 y, at most 21 u |x|,
    is computed as a pair: the product with an error of 3 u**2 |x| (one rounded product of u, one
    rounded sum of 2 u), the difference with one of u**3. The second digit leaves a remainder below
    21 * 21 u**2 |x|, which float32 holds with errors in u**3, and the third one below u**2 / 1000.
    Adding up the digits rounds once, by u**2.
    """
    inverse = nl.ndarray(y[0].shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=y[0])
    y_halves = halves(y[0])
    first = combined(x[0], inverse, nl.multiply)
    product, error = two_product(first, y[0], halves(first), y_halves)
    error = combined(error, combined(first, y[1], nl.multiply), nl.add)
    rest = subtract(x, fast_two_sum(product, error, VECTOR, VECTOR))
    second = combined(rest[0], inverse, nl.multiply)
    product, error = two_product(second, y[0], halves(second), y_halves)
    last = combined(combined(rest[0], product, nl.subtract), error, nl.subtract)
    last = combined(last, rest[1], nl.add)
    last = combined(last, combined(second, y[1], nl.multiply), nl.subtract)
    third = combined(last, inverse, nl.multiply)
    high, low = fast_two_sum(first, second, VECTOR, VECTOR)
    return fast_two_sum(high, combined(low, third, nl.add), VECTOR, VECTOR)


def sum_columns(x: Pair) -> Pair:
    """Return the sums along the free axis, one column; the width is a power of two.

    Halves of the tile are added log2(width) times. Each time adds an error of at most 3.1 u**2
    times the sum of moduli.
    """
    high, low = x
    rows, width = high.shape
    halvings = 0
    for power in range(1, 16):
        if 2**power <= width:
            halvings = power
    for step in range(halvings):
        half = width // 2 ** (step + 1)
        high, low = add(
            (high[0:rows, 0:half], low[0:rows, 0:half]),
            (high[0:rows, half : 2 * half], low[0:rows, half : 2 * half]),
        )
    return high, low


def sum_partitions(x: Pair) -> Pair:
    """Return the sum of one column of 128 partitions, (1, 1).

    The column is written to HBM and read back as a row: a transfer changes no bit.
    """
    high, low = as_row(x[0]), as_row(x[1])
    return sum_columns((high, low))


def as_row(column: Tile) -> Tile:
    """Return a column of 128 partitions as a row on one."""
    stored = nl.ndarray((1, TILE), dtype=nl.float32, buffer=nl.private_hbm)
    nisa.dma_copy(dst=stored.reshape((TILE, 1)), src=column)
    row = nl.ndarray((1, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=stored)
    return row


def filled(column: Tile, width: int) -> Tile:
    """Return a tile with ``column`` in each of its columns."""
    tile = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=tile, value=0.0)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=column, engine=VECTOR)
    return tile


def zero_pair(width: int) -> Pair:
    """Return zeros on all partitions."""
    high = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    low = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=high, value=0.0)
    nisa.memset(dst=low, value=0.0)
    return high, low


def load_pair(high: Tile, low: Tile, r0: int, c0: int, width: int, fill: float = 0.0) -> Pair:
    """Load 128 rows and ``width`` columns of two planes; elements beyond their edge are ``fill``.

    The low parts beyond the edge are 0.
    """
    rows, columns = min(TILE, high.shape[0] - r0), min(width, high.shape[1] - c0)
    first = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    second = nl.ndarray((TILE, width), dtype=nl.float32, buffer=nl.sbuf)
    if rows < TILE or columns < width:
        nisa.memset(dst=first, value=fill)
        nisa.memset(dst=second, value=0.0)
    r1, c1 = r0 + rows, c0 + columns
    nisa.dma_copy(dst=first[0:rows, 0:columns], src=high[r0:r1, c0:c1])
    nisa.dma_copy(dst=second[0:rows, 0:columns], src=low[r0:r1, c0:c1])
    return first, second


def store_pair(high: Tile, low: Tile, r0: int, c0: int, x: Pair) -> None:
    """Write a tile of 128 rows to two planes, up to their edge."""
    rows, columns = min(TILE, high.shape[0] - r0), min(x[0].shape[1], high.shape[1] - c0)
    r1, c1 = r0 + rows, c0 + columns
    nisa.dma_copy(dst=high[r0:r1, c0:c1], src=x[0][0:rows, 0:columns])
    nisa.dma_copy(dst=low[r0:r1, c0:c1], src=x[1][0:rows, 0:columns])


def store_total(high: Tile, low: Tile, x: Pair) -> None:
    """Write the sum of all elements of a pair of tiles to two (1, 1) tensors."""
    total = sum_partitions(sum_columns(x))
    nisa.dma_copy(dst=high, src=total[0])
    nisa.dma_copy(dst=low, src=total[1])
