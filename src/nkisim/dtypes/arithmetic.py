"""Arithmetic on stored bfloat16 arrays, where that gives the bits of the way over float32."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BFLOAT16_SMALL", "takes_bfloat16"]

BFLOAT16_SMALL = 4096
"""Elements from which on NumPy is as fast in float32, conversions included."""

_ROUNDED_ONCE = (np.add, np.subtract, np.multiply)


def takes_bfloat16(ufunc: Any) -> bool:
    """Tell whether a ufunc has a loop for bfloat16 that gives the bits of float32 and one rounding.

    ml_dtypes adds such loops to NumPy's ufuncs; they save a small tile the calls that convert it.
    Of two NaNs they may return the other one, as NumPy may in float32.
    """
    return ufunc in _ROUNDED_ONCE
