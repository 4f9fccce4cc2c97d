"""Functions that fill a tensor in place with samples."""

from __future__ import annotations

from torch import Tensor

from trnrand._calls.arguments import Parameter
from trnrand._calls.transforms import is_transformed
from trnrand.distributions.continuous import exponential, normal, uniform
from trnrand.errors import FlagError
from trnrand.generator import Generator

__all__ = ["exponential_into", "normal_into", "uniform_into"]


def _check(function: str) -> None:
    if is_transformed():
        raise FlagError(
            f"{function}: buf cannot be filled inside the transforms of torch.func; draw with "
            f"{function.removesuffix('_into')}"
        )


def uniform_into(
    buf: Tensor,
    low: Parameter = 0.0,
    high: Parameter = 1.0,
    generator: Generator | None = None,
) -> None:
    """Fill a tensor with the samples of ``uniform`` for its shape and dtype."""
    _check("uniform_into")
    uniform(low=low, high=high, generator=generator, out=buf)


def normal_into(
    buf: Tensor,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    generator: Generator | None = None,
) -> None:
    """Fill a tensor with the samples of ``normal`` for its shape and dtype."""
    _check("normal_into")
    normal(mean=mean, std=std, generator=generator, out=buf)


def exponential_into(
    buf: Tensor, rate: Parameter = 1.0, generator: Generator | None = None
) -> None:
    """Fill a tensor with the samples of ``exponential`` for its shape and dtype."""
    _check("exponential_into")
    exponential(rate=rate, generator=generator, out=buf)
