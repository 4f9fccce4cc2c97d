"""Checks for NaN and infinity, and the scale of tensors.

Where values cannot be read, such as in ``torch.compile``, ``vmap`` and with fake tensors, they are
taken to be finite and of size 1.
"""

from __future__ import annotations

from cmath import isfinite
from math import frexp

import torch
from torch import Tensor

from trnsci.core.eager import concrete
from trnsci.core.errors import NotFiniteError

__all__ = ["finite", "only_finite", "power_below"]


def finite(function: str, name: str, value: Tensor) -> None:
    """Raise where a number is NaN or infinite.

    Args:
        function: Whose argument it is.
        name: The argument.
        value: What was given.

    Raises:
        NotFiniteError: One is.
    """
    if not only_finite(value):
        raise NotFiniteError(f"{function}: {name} must be finite, got NaN or infinity")


def only_finite(value: Tensor) -> bool:
    """Return whether every element is finite; True where values cannot be read."""
    if not concrete(value):
        return True
    plain = value.detach()
    # A sum is NaN or infinite if a term is; where finite terms overflow, each one is checked.
    return isfinite(plain.sum().item()) or bool(torch.isfinite(plain).all())


def power_below(value: Tensor) -> float:
    """Return the power of two at or below the largest magnitude, 1 for zeros.

    Dividing by it does not round, and the squares of the quotients neither overflow nor vanish.
    """
    if not value.numel() or not concrete(value):
        return 1.0
    peak = float(value.detach().abs().max())
    return 2.0 ** (frexp(peak)[1] - 1) if peak > 0 else 1.0
