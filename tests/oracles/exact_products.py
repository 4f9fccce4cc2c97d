"""Products of float64 matrices in exact integers, and errors of computed ones."""

from __future__ import annotations

from fractions import Fraction
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
    rows = [Fraction(hypot(*row) or 1.0) for row in np.asarray(a).tolist()]
    columns = [Fraction(hypot(*column) or 1.0) for column in np.asarray(b).T.tolist()]
    return _errors(got, a, b, lambda i, j: rows[i] * columns[j])


def errors_by_magnitudes(got, a, b):
    """Return |got - a @ b| relative to |a| @ |b|, entry by entry.

    Where that is 0, the error is compared with 1 instead.
    """
    sizes, exponent = exact_product(np.abs(a), np.abs(b))
    unit = Fraction(2) ** exponent
    return _errors(got, a, b, lambda i, j: sizes[i, j] * unit or Fraction(1))


def _errors(got, a, b, size):
    product, exponent = exact_product(a, b)
    unit = Fraction(2) ** exponent
    errors = np.empty(product.shape)
    for (i, j), value in np.ndenumerate(product):
        errors[i, j] = abs(Fraction(float(got[i, j])) - value * unit) / size(i, j)
    return errors


def _integers(matrix):
    """Return a matrix of Python integers, and the exponent of their unit."""
    fractions, exponents = np.frexp(np.asarray(matrix, dtype=np.float64))
    used = exponents[fractions != 0]
    least = int(used.min()) if used.size else 0
    whole = np.empty(fractions.shape, dtype=object)
    for index, fraction in np.ndenumerate(fractions):
        shift = max(0, int(exponents[index]) - least)
        whole[index] = int(fraction * 2.0**_BITS) << shift if fraction else 0
    return whole, least - _BITS
