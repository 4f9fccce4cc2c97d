"""Slices of doublefloat products whose error is relative to |A| |B| instead of norms.

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

from trnblas._precise.slicing import (
    FEWEST_SLICES,
    MOST_SLICES,
    OPERANDS,
    block_starts,
    chunk_rows,
    left_out,
    pair_groups,
)
from trnsci.core.errors import KernelError

_U = 2.0**-24
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
