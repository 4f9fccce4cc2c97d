"""Scrambled Sobol' points in one compiled loop, for processes that have numba loaded.

Importing this module imports numba. The loop is compiled at its first use.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np

from trnrand.qmc._directions import WORD


@cache
def nested_loop(levels: int) -> Any:
    """Return ``write(points, corner, tree, cut, out)`` for trees with ``levels`` levels.

    Row r of ``out`` becomes point ``points[r] ^ corner`` as fractions: each column is scrambled by
    its tree and loses its last ``cut`` bits.
    """
    down, low_bits = np.uint32(WORD - levels), np.uint32((1 << (WORD - levels)) - 1)
    up, word = np.uint32(levels), np.uint32(WORD)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def write(points: Any, corner: Any, tree: Any, cut: Any, out: Any) -> None:
        scale = 1.0 / (np.uint64(1) << np.uint64(word - cut))
        for r in range(points.shape[0]):
            for j in range(points.shape[1]):
                moved = points[r, j] ^ corner[j]
                leaf = np.uint64(j) << up | np.uint64(moved >> down)
                # Signed integers convert to floats faster.
                found = np.int64((tree[leaf] ^ (moved & low_bits)) >> cut)
                out[r, j] = found * scale

    return write
