"""Rounding in one compiled pass over the memory, for processes that have numba loaded.

Importing this module imports numba, so callers ask ``suits_numba`` first. A function is compiled
when it is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from numba import types

from nkisim.compiled.bfloat16 import rounded

__all__ = ["patterns", "rounding"]


@cache
def rounding() -> np.ufunc:
    """Return the ufunc that rounds float32 to stored bfloat16 (as uint16)."""

    def stored(value: Any) -> Any:
        return rounded(value)

    return numba.vectorize(["uint16(float32)"])(stored)


def patterns(bits: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the 8-bit pattern for each float32 pattern, whatever its layout.

    ``table`` has it for every upper half. Of the lower half only counts whether any bit is set,
    which goes into the lowest bit of the upper.
    """
    out = np.empty(bits.shape, np.uint8)
    _looking_up()(np.ascontiguousarray(bits).reshape(-1), table, out.reshape(-1))
    return out


@cache
def _looking_up() -> Any:
    def look_up(bits: Any, table: Any, out: Any) -> None:
        for i in range(bits.size):
            out[i] = table[(bits[i] | ((bits[i] & 0xFFFF) + 0xFFFF)) >> 16]

    flat = (types.Array(kind, 1, "C") for kind in (types.uint32, types.uint8, types.uint8))
    return numba.njit(types.void(*flat))(look_up)
