"""Triangular products and solutions in float64, and how far float32 arithmetic may be from them.

Arrays come in the type that is judged and are widened exactly; ``op`` is the transpose with
``trans``. Error bounds are first-order, in float32 with unit roundoff u, for any order of
summation.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

UNIT_ROUNDOFF = 2.0**-24
BLOCK = 128


def triangle(a: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """The triangle of ``a`` that counts, in float64, with ones on the diagonal for ``unit``."""
    wide = a.astype(np.float64)
    chosen = np.triu(wide) if upper else np.tril(wide)
    if unit:
        np.fill_diagonal(chosen, 1.0)
    return chosen


def hidden(a: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """A copy of ``a`` with NaN wherever a routine with these flags must not look."""
    copy = a.copy()
    n = len(a)
    copy[np.tril_indices(n, -1) if upper else np.triu_indices(n, 1)] = np.nan
    if unit:
        np.fill_diagonal(copy, np.nan)
    return copy


def multiply(a, b, alpha, left, upper, trans, unit) -> tuple[np.ndarray, np.ndarray]:
    """``alpha op(tri(A)) B`` or ``alpha B op(tri(A))``, and its error bound.

    A sum of n rounded products has an error of at most n u times the sum of their magnitudes, and
    ``alpha`` adds one rounding: (n + 1) u |alpha| |op(A)| |B|.
    """
    m = triangle(a, upper, unit)
    m = m.T if trans else m
    z = b.astype(np.float64)
    value = alpha * (m @ z if left else z @ m)
    size = abs(alpha) * (abs(m) @ abs(z) if left else abs(z) @ abs(m))
    return value, (len(a) + 1) * UNIT_ROUNDOFF * size


def solve(a, b, alpha, left, upper, trans, unit) -> tuple[np.ndarray, np.ndarray]:
    """X with ``op(A) X = alpha B`` or ``X op(A) = alpha B``, and its error bound.

    The bound is for block substitution with inverted diagonal blocks. Write <M> for the comparison
    matrix, |m_ii| on the diagonal and -|m_ij| beside it. Replacing every number of the algorithm
    by its magnitude and every subtraction by an addition makes it compute W = <M_ii>^-1 for the
    inverses and Y = <M>^-1 |alpha B| for the solution, so errors are multiples of W and of Y:

        columns divided by the diagonal: 3 for a reciprocal and a product; so c_2 = 3 for an inverse
        of order 2 of the unit triangle, which is such a quotient

        inverse of order 2s from two of order s, whose error is c_s u W: the product with the block
        beside them has (c_s + s + 3) u, the next one 2 c_s + 2 s + 3, that is
        c_2s = 2 c_s + 2 s + 3, so c_N = N (2 + log2 N) - 3

        rows of the inverse divided by the diagonal: 3 again, c_N = N (2 + log2 N)

        row block i, after blocks with c_{i-1} u Y: its sum of iN terms, the scaling by alpha and
        the difference have (c_{i-1} + iN + 2) u; the product with the inverse adds N for its sum
        and c_N for its factor: c_i = c_{i-1} + iN + 2 + N (3 + log2 N)
    """
    m = triangle(a, upper, unit)
    m = m.T if trans else m
    right = alpha * b.astype(np.float64)
    if not left:
        m, right = m.T, right.T
    lower = upper == (trans == left)
    comparison = np.where(np.eye(len(m), dtype=bool), abs(m), -abs(m))
    value = scipy.linalg.solve_triangular(m, right, lower=lower)
    size = scipy.linalg.solve_triangular(comparison, abs(right), lower=lower)
    blocks = -(-len(m) // BLOCK)
    levels = math.ceil(math.log2(min(BLOCK, len(m))))
    inverted = 2**levels * (3 + levels)
    steps = BLOCK * blocks * (blocks - 1) / 2 + blocks * (2 + inverted)
    bound = steps * UNIT_ROUNDOFF * size
    return (value, bound) if left else (value.T, bound.T)
