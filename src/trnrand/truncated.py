"""The truncated normal distribution, by the inverse of its distribution function."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr, ndtri

from trnrand._arguments import Device, Parameter, Size, real
from trnrand._requests import prepared
from trnrand._sampling import Offsets, by_group, sampled
from trnrand._words import Domain, Source, paired, unit53
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["truncated_normal"]

# Below this the distribution function is small enough that its logarithm is inverted instead.
_FAR = -5.0


def truncated_normal(
    *size: Size,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    low: Parameter = -2.0,
    high: Parameter = 2.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of a normal distribution restricted to mean + [low, high] * std.

    The bounds are in units of ``std`` and may be infinite; ``mean`` and ``std`` are those before
    the restriction. The time per sample does not depend on how far out the interval is.

    Raises:
        ParameterError: ``low`` is not less than ``high``, or another argument is outside of its
            range.
    """
    function = "truncated_normal"
    parameters = {
        "mean": real(function, "mean", mean),
        "std": real(function, "std", std, above=0.0),
        "low": real(function, "low", low, finite=False),
        "high": real(function, "high", high, finite=False),
    }
    centre, width, bottom, top = parameters.values()
    if not torch.as_tensor(bottom < top).all():
        raise ParameterError(f"{function}: low must be less than high, got {low} and {high}")
    request = prepared(function, size, dtype, generator, device, out, total, parameters)
    return sampled(request, _located, centre, width, bottom, top)


def _located(
    source: Source,
    count: int,
    mean: Parameter,
    std: Parameter,
    low: Parameter,
    high: Parameter,
) -> Tensor:
    # The interval is reflected to the side where the distribution function is small: there it
    # has all its relative precision.
    a, b = (torch.as_tensor(p, dtype=torch.float64, device=source.device) for p in (low, high))
    mirrored = a + b > 0
    bottom, top = torch.where(mirrored, -b, a), torch.where(mirrored, -a, b)
    far = top < _FAR
    z = by_group(
        source, count, far if far.ndim else bool(far), (_from_logarithm, _direct), bottom, top
    )
    z = torch.where(mirrored, -z, z)
    return torch.clamp(z, a, b) * std + mean


def _uniforms(source: Source, offsets: Offsets) -> Tensor:
    pairs = paired(source.slots(Domain.TRUNCATED_NORMAL, offsets))
    # In the middle of its step, so that neither end of the interval is reached.
    return unit53(pairs[:, 0]) + 2.0**-54


def _direct(source: Source, offsets: Offsets, bottom: Tensor, top: Tensor) -> Tensor:
    at_bottom, at_top = ndtr(bottom), ndtr(top)
    return ndtri(at_bottom + _uniforms(source, offsets) * (at_top - at_bottom))


def _from_logarithm(source: Source, offsets: Offsets, bottom: Tensor, top: Tensor) -> Tensor:
    u = _uniforms(source, offsets)
    at_top = log_ndtr(top)
    ratio = torch.exp(log_ndtr(bottom) - at_top)
    wanted = at_top + torch.log(u + (1 - u) * ratio)
    # Newton on the logarithm, which is nearly a parabola: the start is exact to its second term
    # and each step squares the relative error, 1e-2 at _FAR.
    z = -torch.sqrt(-2 * wanted - torch.log(-4 * math.pi * wanted))
    for _ in range(4):
        value = log_ndtr(z)
        slope = torch.exp(-0.5 * z * z - value) / math.sqrt(2 * math.pi)
        z = z - (value - wanted) / slope
    return z
