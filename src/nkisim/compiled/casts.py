"""Rounding to bfloat16 and to 8-bit floats in one pass over the memory.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from nkisim.compiled.bfloat16 import rounded
from nkisim.compiled.loops import compiled_loop, compiled_ufunc

__all__ = ["patterns", "rounding"]


def _stored(value: Any) -> Any:
    return rounded(value)


@cache
def rounding() -> Any:
    """Return the ufunc that rounds float32 to stored bfloat16 (as uint16)."""
    return compiled_ufunc(_stored, "uint16(float32)")


def patterns(bits: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the 8-bit pattern for each float32 pattern, whatever its layout.

    ``table`` has it for every upper half. Of the lower half only counts whether any bit is set,
    which goes into the lowest bit of the upper.
    """
    out = np.empty(bits.shape, np.uint8)
    _looking_up()(np.ascontiguousarray(bits).reshape(-1), table, out.reshape(-1))
    return out


def _look_up(bits: Any, table: Any, out: Any) -> None:
    for i in range(bits.size):
        out[i] = table[(bits[i] | ((bits[i] & 0xFFFF) + 0xFFFF)) >> 16]


@cache
def _looking_up() -> Any:
    flat = (types.Array(kind, 1, "C") for kind in (types.uint32, types.uint8, types.uint8))
    return compiled_loop(_look_up, types.void(*flat))
