"""Sums of two float32 arrays as fractions, and errors of computed ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

EXACT = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
}


def fractions(*parts):
    """Return the sum of finite arrays, as a list of fractions."""
    columns = [np.asarray(part, dtype=np.float64).ravel().tolist() for part in parts]
    return [sum(map(Fraction, values)) for values in zip(*columns, strict=True)]


def exact_sum(values):
    """Return the sum of fractions, each cut at 2**-256: with any denominators, sums stay short."""
    return Fraction(sum((x.numerator << 256) // x.denominator for x in values), 2**256)
