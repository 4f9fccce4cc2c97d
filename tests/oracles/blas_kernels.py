"""Matrix products by their definition in float64, and how far a kernel's float32 may be from them.

A kernel sums K products in float32 (u = 2^-24), in an order of its own, and scales once. Every
product and every addition rounds once, so a term passes K roundings; scaling by alpha, scaling C by
beta and adding the two are three more:

    |error| <= (K + 3) u / (1 - (K + 3) u) * (|alpha| |A| |B| + |beta C|)

A float64 sum is wrong by 2^-29 of that and stands for the exact one. Products of bfloat16 are exact
in float32; the bound covers them, and the result is then rounded once more to bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FLOAT32_ROUNDOFF = 2.0**-24


@dataclass
class Expected:
    """A result and how far float32 may be from it, per element."""

    value: np.ndarray
    tolerance: np.ndarray


def product(
    a: np.ndarray,
    b: np.ndarray,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: np.ndarray | None = None,
) -> Expected:
    """``alpha a b + beta c`` of the last two axes; without ``c`` nothing is added."""
    left, right = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
    value = alpha * (left @ right)
    magnitude = abs(alpha) * (np.abs(left) @ np.abs(right))
    if c is not None:
        added = beta * np.asarray(c).astype(np.float64)
        value = value + added
        magnitude = magnitude + np.abs(added)
    roundings = (left.shape[-1] + 3) * FLOAT32_ROUNDOFF
    # The smallest float32 covers results that underflow.
    return Expected(value, roundings / (1 - roundings) * magnitude + 2.0**-149)


def transposed(x: np.ndarray, trans: bool) -> np.ndarray:
    """``x`` or its transpose over the last two axes."""
    return np.swapaxes(x, -1, -2) if trans else x


def symmetric(a: np.ndarray, upper: bool) -> np.ndarray:
    """The symmetric matrix whose chosen triangle is that of ``a``."""
    row, column = np.indices(a.shape)
    return np.where(row <= column if upper else row >= column, a, a.T)


def special_values(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where ``a b`` is NaN, plus or minus infinity, from the terms of each sum."""
    with np.errstate(all="ignore"):
        terms = a.astype(np.float64)[:, :, None] * b.astype(np.float64)[None]
    up, down = np.isposinf(terms).any(axis=1), np.isneginf(terms).any(axis=1)
    nan = np.isnan(terms).any(axis=1) | (up & down)
    return nan, up & ~nan, down & ~nan
