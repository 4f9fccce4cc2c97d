"""Mean and summed squared deviation of the even and of the odd elements of rows. Imports numba.

Sums are float64, four at a time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from nkisim.compiled.loops import compiled_loop

__all__ = ["pair_statistics"]


def pair_statistics(data: np.ndarray) -> np.ndarray:
    """Return mean and deviation of even, then of odd elements of float32 rows, in float64.

    The rows have an even number of elements.
    """
    out = np.empty((len(data), 4), np.float64)
    _loop()(np.ascontiguousarray(data), out)
    return out


@cache
def _loop() -> Any:
    return compiled_loop(_find)


def _find(data: Any, out: Any) -> None:
    for number in range(data.shape[0]):
        row = data[number]
        whole, count = row.size - row.size % 4, row.size // 2
        even = odd = more_even = more_odd = 0.0
        for i in range(0, whole, 4):
            even += row[i]
            odd += row[i + 1]
            more_even += row[i + 2]
            more_odd += row[i + 3]
        if whole < row.size:
            even += row[whole]
            odd += row[whole + 1]
        even_mean, odd_mean = (even + more_even) / count, (odd + more_odd) / count
        even = odd = more_even = more_odd = 0.0
        for i in range(0, whole, 4):
            even += (row[i] - even_mean) ** 2
            odd += (row[i + 1] - odd_mean) ** 2
            more_even += (row[i + 2] - even_mean) ** 2
            more_odd += (row[i + 3] - odd_mean) ** 2
        if whole < row.size:
            even += (row[whole] - even_mean) ** 2
            odd += (row[whole + 1] - odd_mean) ** 2
        out[number, 0], out[number, 1] = even_mean, even + more_even
        out[number, 2], out[number, 3] = odd_mean, odd + more_odd
