"""Slices of doublefloat products: which pairs are multiplied, in which sums, with which error.

Operands are scaled (see ``planes``): |a| < 1, and the 2-norms of a row of A and a column of B,
``alpha`` and ``beta``, are at least 1/2. Errors are relative to ``alpha * beta``; u = 2**-24.

*Slices.* Digit s is a multiple of 2**(1 - 7 s), at most 64 times that, with a remainder of at most
half of it. So |d_s| <= 2**(7 - 7 s), ||d_s|| <= 2**(8 - 7 s) sqrt(K) alpha, and ||d_1|| <=
(1 + 2**-6 sqrt(K)) alpha. The remainder after S digits is at most 1.125 * 2**(-7 S); the eighth is
for the one rounded addition in cutting.

*Pairs.* Those with i + j <= S + 2 are multiplied. Products of weight w = i + j are multiples of
q = 2**(2 - 7 w) of at most 4,096 q, so K p of them have an exact float32 sum, in any order, while
K p <= 4,096. The products of the last weight, S + 2, are so small that their sum may be rounded.

*Sums.* The contraction is cut into chunks of at most 1,024. In a chunk, sums are added from the
smallest weight to the largest. What was added before has a last bit of at most q while it is below
2**24 q, so the sum is a multiple of it, and the addition of three operations is exact; where that
is not so, at weights of 9 and more, its error is at most u times what was added before. The errors
of additions down to weight 4 are added up in float32, those of weights 3 and 2 and of the sum of
chunks without error into a second and a third number. Last, the three are rounded to two. A
contraction beyond 4,096 is cut into blocks, each scaled and multiplied on its own, and the products
are added in float64: norms of blocks satisfy sum(alpha beta) <= ||a|| ||b||.

*Bound.* The sum of: the rounding of operands to planes; the pairs that are left out, and the
remainders; the rounded sums of weight S + 2; inexact additions; the rounding of the errors' sums;
that of the result. It holds for every entry, whatever the signs. It rests on what the chip is
assumed to do: float32 additions round to nearest, products of bfloat16 are exact, and PSUM adds in
float32.

Errors relative to |A| |B|
--------------------------

T is an entry of |A| |B| for scaled operands (see ``planes``), and 2**-r a lower bound on those
entries of a row of A, or of a column of B, that are not 0; u = 2**-24. An entry of 0 has no error.

*Slices.* What pairs and remainders leave out is at most a constant for each term, and a term is at
least 2**-(r_a + r_b): more slices make up for a wide range.

*Sums.* Digits of x add up to at most 3.01 |x| in magnitude, so a sum of products is at most 9.1 T.
With ``exact``, the kernel adds the sums of a chunk without error; the errors, each at most u times
such a sum, are added without error too, and only what these additions leave is added in float32.
Last, three numbers are rounded to two.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

from trnsci.core.errors import FlagError, KernelError
from trnsci.core.tiles.hardware import TILE

Groups = tuple[tuple[tuple[int, int], ...], ...]

PROMISE = 2.0**-45
"""The largest error of a doublefloat product, relative to the norms of its row and column."""

FEWEST_SLICES, MOST_SLICES = 3, 16

MOST_DEPTH = 600_000
"""The longest contraction for which the promise is proved."""

OPERANDS = 2 * 2.0**-49 * (1 + 2.0**-49)
"""The largest error of a product by the rounding of both operands to planes."""

_U = 2.0**-24
_BLOCK = 4096
_CHUNK = 1024
_SLICES_OF_WHOLE_CHUNK = 10
_EXACT = 4096  # products of two digits whose sum is exact in float32


def block_starts(depth: int) -> list[int]:
    """Return the first rows of the blocks of the contraction, and its extent."""
    blocks = -(-depth // _BLOCK)
    size = -(-depth // (blocks * TILE)) * TILE
    return [*range(0, depth, size), depth]


def chunk_rows(slices: int, depth: int) -> int:
    """Return the rows of the contraction in one chunk: a multiple of 128, in chunks of one size.

    A panel of the right operand and two of the left one fit in SBUF.
    """
    chunks = -(-depth // (_CHUNK if slices <= _SLICES_OF_WHOLE_CHUNK else _CHUNK // 2))
    return -(-depth // (chunks * TILE)) * TILE


def pair_groups(slices: int, depth: int) -> Groups:
    """Return the pairs of slices that share a sum in PSUM, from the smallest sums to the largest.

    Of the sums of one weight the one with the fewest pairs is first, so that the next is added to
    less.
    """
    most = _EXACT // min(depth, chunk_rows(slices, depth))
    groups: list[tuple[tuple[int, int], ...]] = []
    for weight in range(slices + 2, 1, -1):
        first_slice = max(1, weight - slices)
        pairs = tuple((i, weight - i) for i in range(first_slice, weight - first_slice + 1))
        size = len(pairs) if weight == slices + 2 else most
        first = len(pairs) % size
        starts = [*([0] if first else []), *range(first, len(pairs), size)]
        ends = [*starts[1:], len(pairs)]
        groups += [pairs[start:end] for start, end in zip(starts, ends, strict=True)]
    return tuple(groups)


@lru_cache(maxsize=256)
def bound(slices: int, depth: int) -> float:
    """Return the largest error of an entry, relative to the 2-norms of its row and column.

    Args:
        slices: Slices of each operand, 3 to 16.
        depth: Extent K of the contraction.
    """
    starts = block_starts(depth)
    return _block_bound(slices, starts[1]) + 2.0**-53 * len(starts)


def left_out(slices: int) -> float:
    """Return the sum of the largest products of the pairs of slices that are not multiplied."""
    weights = range(slices + 3, 2 * slices + 1)
    return sum((2 * slices + 1 - weight) * 2.0 ** (14 - 7 * weight) for weight in weights)


def _block_bound(slices: int, depth: int) -> float:
    rows = min(depth, chunk_rows(slices, depth))
    chunks = -(-depth // chunk_rows(slices, depth))
    per_norm = 4.0  # 1 / (alpha * beta), at most
    remainder = 1.125 * 2.0 ** (-7 * slices)
    dropped = per_norm * depth * left_out(slices)
    dropped += 2 * 2 * sqrt(depth) * remainder + per_norm * depth * remainder**2
    terms = (slices - 1) * rows
    smallest = per_norm * chunks * terms**2 * _U * 2.0 ** (14 - 7 * (slices + 2))
    return OPERANDS + dropped + smallest + _sum_errors(slices, depth, rows, chunks)


def _sum_errors(slices: int, depth: int, rows: int, chunks: int) -> float:
    """Return the bound on errors of additions outside PSUM, over all chunks."""
    norms = [1 + 2.0**-6 * sqrt(depth)]
    norms += [2.0 ** (8 - 7 * s) * sqrt(depth) for s in range(2, slices + 1)]
    added = largest = collected = total = 0.0  # by norms, by largest entries; errors; their errors
    middle = 1.0 + chunks
    for count, pairs in enumerate(pair_groups(slices, depth)):
        weight = sum(pairs[0])
        if largest >= 2.0 ** (24 + 2 - 7 * weight):
            total += 4.0 * chunks * _U * largest
        added += sum(norms[i - 1] * norms[j - 1] for i, j in pairs)
        largest += len(pairs) * rows * 2.0 ** (14 - 7 * weight)
        if count and weight > 3:
            collected += _U * added
            total += _U * collected if count > 1 else 0.0
        elif weight == 3:
            middle += added
    middle = _U * middle + collected
    small = 4 * chunks * _U * middle
    total += 5 * chunks * _U * small  # roundings of the sum of the third numbers
    return total + _U * (_U * (1 + middle) + small)


def fewest_slices(target: float, depth: int) -> int:
    """Return the fewest slices whose bound is at most ``target``.

    Raises:
        FlagError: No number of slices has such a bound.
    """
    for slices in range(FEWEST_SLICES, MOST_SLICES + 1):
        if bound(slices, depth) <= target:
            return slices
    least = min(bound(s, depth) for s in range(FEWEST_SLICES, MOST_SLICES + 1))
    raise FlagError(
        f"target error: got {target:.3g}, accepted: at least {least:.3g} for a contraction of "
        f"{depth}"
    )


_DIGITS = 9.1  # largest sum of magnitudes of digits' products, relative to T


def magnitude_bound(slices: int, depth: int, range_a: int, range_b: int) -> float:
    """Return the largest error of an entry, relative to the same entry of |A| |B|.

    Args:
        slices: Slices of each operand, 3 to 16.
        depth: Extent K of the contraction.
        range_a: Nonzero entries of a row of A are at least 2**-range_a times the row's scale.
        range_b: Nonzero entries of a column of B are at least 2**-range_b times its scale.
    """
    starts = block_starts(depth)
    block = starts[1]
    rows = min(block, chunk_rows(slices, block))
    chunks = -(-block // chunk_rows(slices, block))
    per_term = 2.0 ** (range_a + range_b)
    remainder = 1.125 * 2.0 ** (-7 * slices)
    dropped = per_term * (left_out(slices) + remainder**2)
    dropped += 1.01 * remainder * (2.0**range_a + 2.0**range_b)
    smallest = per_term * rows * (slices - 1) ** 2 * _U * 2.0 ** (14 - 7 * (slices + 2))
    of_chunk = len(pair_groups(slices, block)) + 2
    additions = chunks * of_chunk
    # |A| |B| of the whole contraction is the sum of |A| |B| of its chunks.
    errors = _U * (_DIGITS * of_chunk + 1.01 * chunks)
    small = additions * _U * errors
    sums = additions * _U * small + _U * (_U * 1.01 + small)
    return OPERANDS + dropped + smallest + sums + 2.0**-53 * len(starts)


def slices_for_ranges(target: float, depth: int, range_a: int, range_b: int) -> int:
    """Return the fewest slices whose error relative to |A| |B| is at most ``target``.

    Raises:
        KernelError: The range of the entries is too wide for any number of slices.
    """
    for slices in range(FEWEST_SLICES, MOST_SLICES + 1):
        if magnitude_bound(slices, depth, range_a, range_b) <= target:
            return slices
    raise KernelError(
        f"an error of {target:.3g} |A| |B| needs more than {MOST_SLICES} slices: entries are down "
        f"to 2**-{range_a} of the largest in a row of A, and to 2**-{range_b} in a column of B"
    )
