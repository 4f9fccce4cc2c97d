"""Numbers of the unit interval in the dtype of the caller, never rounded up."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["one_up", "rounded_down"]

# Numbers that are not negative are ordered as their bit patterns, so that the next number above or
# below is one bit pattern away.
_PATTERNS = {torch.float32: torch.int32, torch.float16: torch.int16, torch.bfloat16: torch.int16}


def rounded_down(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Return float64 ``values``, none negative, as the largest numbers of a dtype not above them.

    Rounding to nearest would make 1 of what is just below it.
    """
    if dtype is torch.float64:
        return values
    nearest = values.to(dtype)
    above = nearest.to(torch.float64) > values
    return _moved(nearest, -above.to(_PATTERNS[dtype]))


def one_up(values: Tensor, where: Tensor) -> Tensor:
    """Return ``values``, none negative, replaced by the next number above at a mask."""
    return _moved(values, where.to(_PATTERNS[values.dtype]))


def _moved(values: Tensor, steps: Tensor) -> Tensor:
    return (values.view(steps.dtype) + steps).view(values.dtype)
