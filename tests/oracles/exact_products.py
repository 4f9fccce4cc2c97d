"""Products of float64 matrices in exact integers, and errors of computed ones."""

from __future__ import annotations

from math import hypot

import numpy as np

_BITS = 53  # of a float64 fraction


def exact_product(a, b):
    """Return the product of two finite matrices as integers, and the exponent of their unit."""
    left, of_left = _integers(a)
    right, of_right = _integers(b)
    return left @ right, of_left + of_right


def errors_by_norms(got, a, b):
    """Return |got - a @ b| relative to the 2-norms of rows of a and columns of b, entry by entry.

    Where a norm is 0, the error is compared with 1 instead.
    """
    rows = [[hypot(*row) or 1.0] for row in np.asarray(a).tolist()]
    columns = [[hypot(*column) or 1.0 for column in np.asarray(b).T.tolist()]]
    return _errors(got, a, b, *exact_product(rows, columns))


def errors_by_magnitudes(got, a, b):
    """Return |got - a @ b| relative to |a| @ |b|, entry by entry.

    Where that is 0, the error is compared with 1 instead.
    """
    return _errors(got, a, b, *exact_product(np.abs(a), np.abs(b)))


def _errors(got, a, b, sizes, of_sizes):
    """Return |got - a @ b| over sizes, all as integers of one unit; a size of 0 counts as 1."""
    product, of_product = exact_product(a, b)
    found, of_found = _integers(got)
    unit = min(0, of_sizes, of_product, of_found)
    errors = abs((found << (of_found - unit)) - (product << (of_product - unit)))
    sizes = np.where(sizes == 0, 1 << -unit, sizes << (of_sizes - unit))
    return (errors / sizes).astype(np.float64)


def _integers(matrix):
    """Return a matrix of Python integers, and the exponent of their unit."""
    fractions, exponents = np.frexp(np.asarray(matrix, dtype=np.float64))
    if not np.isfinite(fractions).all():
        raise ValueError("an entry is not finite")
    used = exponents[fractions != 0]
    least = int(used.min()) if used.size else 0
    whole = np.ldexp(fractions, _BITS).astype(np.int64).astype(object)
    return whole << np.maximum(exponents - least, 0).astype(object), least - _BITS
