"""Whether tensors hold numbers only, neither NaN nor infinity, and how large these are.

Where values cannot be looked at, such as in ``torch.compile``, ``vmap`` and with fake tensors, they
are taken for finite, and for numbers around 1.
"""

from __future__ import annotations

from cmath import isfinite
from math import frexp

import torch
from torch import Tensor

from trnsci.core.eager import unchecked, unwatched
from trnsci.core.errors import NotFiniteError

__all__ = ["finite", "only_finite", "power_below"]

_CARRIED = 1 << 16
"""Numbers that are looked at on the host for less than it takes to launch a sum of them."""

_LISTED = 256
"""Numbers that are summed as a list for less than it takes to call torch."""


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
    """Return whether every number is finite; True where values cannot be looked at."""
    # A sum is NaN or infinite if a term is; where it overflows the terms are asked one by one.
    if unwatched(value):
        if value.ndim == 1 and value.numel() <= _LISTED:
            # What LAPACK leaves in the caches is not what a kernel of torch needs: a list is there
            # before its first instruction.
            return isfinite(sum(value.tolist())) or bool(torch.isfinite(value).all())
    elif unchecked(value):
        return True
    plain = _on_host(value.detach() if value.requires_grad else value)
    return isfinite(plain.sum().item()) or bool(torch.isfinite(plain).all())


def power_below(value: Tensor) -> float:
    """Return the power of two below the largest number, 1 for zeros.

    To divide by it rounds nothing, and squares of what is left neither overflow nor vanish.
    """
    if not value.numel() or unchecked(value):
        return 1.0
    peak = float(value.detach().abs().max())
    return 2.0 ** (frexp(peak)[1] - 1) if peak > 0 else 1.0


def _on_host(value: Tensor) -> Tensor:
    """Return a few numbers of a CUDA device on the host; others stay where they are.

    One copy to memory that the device can write, and one wait: there is no shorter way to look.
    """
    if not value.is_cuda or value.numel() > _CARRIED:
        return value
    copy = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    copy.copy_(value, non_blocking=True)
    torch.cuda.current_stream(value.device).synchronize()
    return copy
