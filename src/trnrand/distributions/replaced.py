"""Functions of published releases that other functions of this package replace."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size
from trnrand._calls.transforms import is_transformed
from trnrand.distributions.continuous import exponential, normal, uniform
from trnrand.errors import FlagError
from trnrand.generator import Generator


def standard_normal(
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``normal`` with mean 0 and standard deviation 1."""
    return normal(*size, dtype=dtype, generator=generator, device=device, out=out, total=total)


def uniform_into(
    buf: Tensor, low: Parameter = 0.0, high: Parameter = 1.0, generator: Generator | None = None
) -> None:
    """Fill a tensor with the samples of ``uniform`` for its shape and dtype."""
    _check_eager("uniform_into")
    uniform(low=low, high=high, generator=generator, out=buf)


def normal_into(
    buf: Tensor, mean: Parameter = 0.0, std: Parameter = 1.0, generator: Generator | None = None
) -> None:
    """Fill a tensor with the samples of ``normal`` for its shape and dtype."""
    _check_eager("normal_into")
    normal(mean=mean, std=std, generator=generator, out=buf)


def exponential_into(
    buf: Tensor, rate: Parameter = 1.0, generator: Generator | None = None
) -> None:
    """Fill a tensor with the samples of ``exponential`` for its shape and dtype."""
    _check_eager("exponential_into")
    exponential(rate=rate, generator=generator, out=buf)


def _check_eager(function: str) -> None:
    if is_transformed():
        raise FlagError(
            f"{function}: buf cannot be filled inside the transforms of torch.func; draw with "
            f"{function.removesuffix('_into')}"
        )
