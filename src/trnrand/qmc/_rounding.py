"""Rounding of values in the unit interval to a dtype, never up."""

from __future__ import annotations

import torch
from torch import Tensor

# Non-negative floats are ordered as their bit patterns: the next float is the next bit pattern.
_PATTERNS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def rounded_down(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return non-negative float64 ``values`` rounded down to a dtype.

    Rounding to nearest would round values just below 1 up to 1.
    """
    if dtype is torch.float64:
        return values
    nearest = values.to(dtype)
    above = nearest.to(torch.float64) > values
    return _moved(nearest, -above.to(_PATTERNS[dtype]))


def one_up(values: Tensor, where: Tensor) -> Tensor:
    """Return non-negative ``values``, replaced by the next larger float where the mask is true."""
    return _moved(values, where.to(_PATTERNS[values.dtype]))


def _moved(values: Tensor, steps: Tensor) -> Tensor:
    return (values.view(steps.dtype) + steps).view(values.dtype)
