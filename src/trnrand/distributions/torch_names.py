"""Functions with torch's names and arguments, so that code needs to change only its import.

``rand`` is ``uniform`` on [0, 1), ``randn`` is ``normal``. The ``*_like`` functions take their
default shape, dtype and device from a tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Size
from trnrand.distributions.continuous import normal, uniform
from trnrand.distributions.discrete import integers
from trnrand.errors import DTypeError
from trnrand.generator import Generator

__all__ = ["rand", "rand_like", "randint_like", "randn", "randn_like"]


def rand(
    *size: Size,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return samples of the uniform distribution on [0, 1)."""
    drawn = uniform(*size, generator=generator, out=out, dtype=dtype, device=device)
    return drawn.requires_grad_() if requires_grad else drawn


def randn(
    *size: Size,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: torch.dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return samples of the normal distribution with mean 0 and standard deviation 1."""
    drawn = normal(*size, generator=generator, out=out, dtype=dtype, device=device)
    return drawn.requires_grad_() if requires_grad else drawn


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``rand`` with the shape, dtype and device of a tensor."""
    like = _like("rand_like", input, dtype, device)
    return rand(input.shape, generator=generator, requires_grad=requires_grad, **like)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return ``randn`` with the shape, dtype and device of a tensor."""
    like = _like("randn_like", input, dtype, device)
    return randn(input.shape, generator=generator, requires_grad=requires_grad, **like)


def randint_like(
    input: Tensor,
    low: int = 0,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: torch.dtype | None = None,
    device: Device = None,
) -> Tensor:
    """Return integers from ``low`` to ``high - 1`` with the shape, dtype and device of a tensor.

    A single bound is the upper one, and the lower one is 0, as in torch.
    """
    like = _like("randint_like", input, dtype, device)
    bottom, top = (0, low) if high is None else (low, high)
    return integers(input.shape, low=bottom, high=top, generator=generator, **like)


def _like(function: str, value: Tensor, dtype: torch.dtype | None, device: Device) -> Any:
    """Return the dtype and the device of a call, by default from a tensor."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{function}: input must be a torch.Tensor, got {type(value).__name__}")
    return {"dtype": dtype or value.dtype, "device": device or value.device}
