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
    return [_fraction(values) for values in zip(*columns, strict=True)]


def _fraction(values):
    """Return the sum of numbers as one fraction: their denominators are powers of two."""
    ratios = [value.as_integer_ratio() for value in values]
    common = max(denominator for _, denominator in ratios)
    return Fraction(sum(numerator * (common // own) for numerator, own in ratios), common)


def exact_sum(values):
    """Return the sum of fractions, each cut at 2**-256: with any denominators, sums stay short."""
    return Fraction(sum((x.numerator << 256) // x.denominator for x in values), 2**256)
