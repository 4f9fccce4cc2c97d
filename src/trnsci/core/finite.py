"""Checks for NaN and infinity, and the scale of tensors.

Where values cannot be read, such as in ``torch.compile``, ``vmap`` and with fake tensors, they are
assumed to be finite and of magnitude 1.
"""

from __future__ import annotations

from cmath import isfinite
from math import frexp

import torch
from torch import Tensor

from trnsci.core.eager import batched, concrete, recorded
from trnsci.core.errors import FlagError, NotFiniteError

__all__ = ["finite", "only_finite", "power_below", "readable"]


def readable(function: str, name: str, *values: Tensor) -> None:
    """Raise if a function that depends on values is traced, compiled or batched by ``vmap``.

    Raises:
        FlagError: The values cannot be read.
    """
    hidden = torch.compiler.is_compiling() or recorded()
    if hidden or any(value.is_meta or batched(value) for value in values):
        raise FlagError(
            f"{function}: the values of {name} are read, which is not possible while a call is "
            f"traced, compiled or batched by vmap"
        )


def finite(function: str, name: str, value: Tensor) -> None:
    """Raise if an element is NaN or infinite.

    Args:
        function: The function, for messages.
        name: The argument, for messages.
        value: The tensor to check.

    Raises:
        NotFiniteError: An element is NaN or infinite.
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
    """Return the power of two at or below the largest real or imaginary part, 1 for zeros.

    Division by it is exact, and the squares of the quotients neither overflow nor underflow.
    """
    if not value.numel() or not concrete(value):
        return 1.0
    parts = value.detach()
    if parts.is_complex():  # a modulus may overflow
        parts = torch.view_as_real(parts.resolve_conj())
    peak = float(parts.abs().max())
    return 2.0 ** (frexp(peak)[1] - 1) if peak > 0 else 1.0
