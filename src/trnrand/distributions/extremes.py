"""Extreme value distributions: Gumbel and Weibull, from logarithms of exponential samples."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, loc_and_scale, positive
from trnrand._calls.calls import distribution
from trnrand._calls.requests import Request, prepared
from trnrand._sampling.pathwise import attached, located, wide
from trnrand._sampling.samplers import each, open_units
from trnrand._stream.words import Domain, Source
from trnrand.generator import Generator

__all__ = ["gumbel", "weibull"]


def _log_exponentials(source: Source, domain: Domain, count: int) -> Tensor:
    """Return logarithms of standard exponentials, all finite."""
    return open_units(source, domain, count).neg_().log1p_().neg_().log_()


def _gumbel(source: Source, count: int, loc: Parameter, scale: Parameter) -> Tensor:
    return loc - _log_exponentials(source, Domain.GUMBEL, count) * scale


def _weibull(source: Source, count: int, shape: Parameter, scale: Parameter) -> Tensor:
    return torch.exp(_log_exponentials(source, Domain.WEIBULL, count) / shape) * scale


def _weibull_rule(request: Request, shape: Parameter, scale: Parameter) -> Tensor:
    def noise(source: Source, count: int) -> Tensor:
        return _log_exponentials(source, Domain.WEIBULL, count)

    powers = wide(request, noise) / attached(shape, request)
    return torch.exp(powers) * attached(scale, request)


@distribution(each(_gumbel), pathwise=located(_gumbel))
def gumbel(
    *size: Size,
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the Gumbel distribution, P(x <= t) = exp(-exp((loc - t) / scale)).

    Raises:
        ParameterError: ``scale`` is not positive, or another argument is outside of its range.
    """
    parameters = loc_and_scale("gumbel", loc, scale)
    return prepared("gumbel", size, dtype, generator, device, out, total, parameters)


@distribution(each(_weibull), pathwise=_weibull_rule)
def weibull(
    *size: Size,
    shape: Parameter,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the Weibull distribution, P(x > t) = exp(-(t / scale)**shape).

    Raises:
        ParameterError: ``shape`` or ``scale`` is not positive, or another argument is outside of
            its range.
    """
    parameters = positive("weibull", shape=shape, scale=scale)
    return prepared("weibull", size, dtype, generator, device, out, total, parameters)
