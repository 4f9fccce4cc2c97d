"""Sums of rows in order, without pairwise or vectorised partial sums; exact. Imports numba."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from nkisim.compiled.loops import compiled_loop


def sums_in_order(rows: np.ndarray) -> np.ndarray:
    """Return the float32 sum of each row of a float32 array, from its first element on."""
    out = np.empty(len(rows), np.float32)
    _summing()(rows, out)
    return out


def _sum(rows: Any, out: Any) -> None:
    # An addition waits for the one before it, so that four rows take hardly longer than one.
    count, width = rows.shape
    whole = count - count % 4
    for i in range(0, whole, 4):
        a, b, c, d = rows[i, 0], rows[i + 1, 0], rows[i + 2, 0], rows[i + 3, 0]
        for j in range(1, width):
            a += rows[i, j]
            b += rows[i + 1, j]
            c += rows[i + 2, j]
            d += rows[i + 3, j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
    for i in range(whole, count):
        total = rows[i, 0]
        for j in range(1, width):
            total += rows[i, j]
        out[i] = total


@cache
def _summing() -> Any:
    return compiled_loop(_sum)
