"""Functions that fill a tensor in place with samples."""

from __future__ import annotations

from torch import Tensor

from trnrand._paths.arguments import Parameter
from trnrand.distributions.continuous import exponential, normal, uniform
from trnrand.generator import Generator

__all__ = ["exponential_into", "normal_into", "uniform_into"]


def uniform_into(
    buf: Tensor,
    low: Parameter = 0.0,
    high: Parameter = 1.0,
    generator: Generator | None = None,
) -> None:
    """Fill a tensor with the samples of ``uniform`` for its shape and dtype."""
    uniform(low=low, high=high, generator=generator, out=buf)


def normal_into(
    buf: Tensor,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    generator: Generator | None = None,
) -> None:
    """Fill a tensor with the samples of ``normal`` for its shape and dtype."""
    normal(mean=mean, std=std, generator=generator, out=buf)


def exponential_into(
    buf: Tensor, rate: Parameter = 1.0, generator: Generator | None = None
) -> None:
    """Fill a tensor with the samples of ``exponential`` for its shape and dtype."""
    exponential(rate=rate, generator=generator, out=buf)
