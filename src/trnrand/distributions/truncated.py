"""The truncated normal distribution, by inversion of its distribution function."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.special import erfcx, ndtr, ndtri

from trnrand._calls.arguments import Device, Parameter, Size, real
from trnrand._calls.calls import distribution
from trnrand._calls.requests import Request, prepared
from trnrand._calls.transforms import holds, shown
from trnrand._sampling.pathwise import attached, expanded, truncated_slopes, wide, with_slopes
from trnrand._sampling.samplers import Offsets, by_group, each, float64, hypotenuse
from trnrand._stream.words import Domain, Source, paired, unit53
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["truncated_normal"]

# If the lower bound is above this, a sample is the bound plus a distance, computed from tail
# probabilities (_from_bound).
_FAR = 5.0
_ROOT_HALF, _ROOT_TWO_OVER_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


def _truncated(
    source: Source,
    count: int,
    mean: Parameter,
    std: Parameter,
    low: Parameter,
    high: Parameter,
) -> Tensor:
    return _standard(source, count, low, high) * std + mean


def _rule(
    request: Request, mean: Parameter, std: Parameter, low: Parameter, high: Parameter
) -> Tensor:
    *_, bottom, top = request.parameters.values()
    z = wide(request, _standard, bottom, top)
    z = with_slopes(truncated_slopes, z, *(expanded(b, request) for b in (low, high)))
    return z * attached(std, request) + attached(mean, request)


def _standard(source: Source, count: int, low: Parameter, high: Parameter) -> Tensor:
    """Return standard normals restricted to [low, high]."""
    a, b = float64(low, source), float64(high, source)
    # The interval is reflected to the upper side, where tail probabilities are small and have full
    # relative precision.
    mirrored = a + b < 0
    bottom, top = torch.where(mirrored, -b, a), torch.where(mirrored, -a, b)
    far = bottom > _FAR
    z = by_group(source, count, far if far.ndim else bool(far), (_from_bound, _direct), bottom, top)
    return torch.clamp(torch.where(mirrored, -z, z), a, b)


def _uniforms(source: Source, offsets: Offsets) -> Tensor:
    pairs = paired(source.slots(Domain.TRUNCATED_NORMAL, offsets))
    # 0 is replaced by half a step, so neither end of the interval is reached.
    return unit53(pairs[:, 0]).clamp_(min=2.0**-54)


def _direct(source: Source, offsets: Offsets, bottom: Tensor, top: Tensor) -> Tensor:
    above_bottom, above_top = ndtr(-bottom), ndtr(-top)
    return -ndtri(above_top + _uniforms(source, offsets) * (above_bottom - above_top))


def _from_bound(source: Source, offsets: Offsets, bottom: Tensor, top: Tensor) -> Tensor:
    """Return bottom + t, whose tail probability is u of the way from top's to bottom's.

    With erfcx(x) = exp(x**2) erfc(x), minus the log ratio of the tail probabilities of bottom + t
    and bottom is g(t) = t bottom + t**2 / 2 - log(erfcx((bottom + t) / sqrt 2) / erfcx(bottom /
    sqrt 2)), without cancellation for any bottom.
    """
    u = _uniforms(source, offsets)
    scaled = erfcx(bottom * _ROOT_HALF)
    width = top - bottom
    ratio = erfcx(top * _ROOT_HALF) / scaled
    between = -torch.expm1(torch.log(ratio) - width * (0.5 * width + bottom))
    target = -torch.log1p(-(1 - u) * between)
    # Newton's method. The start ignores the last term of g, which is below 0.04 of the whole, and
    # each step squares the relative error.
    t = 2 * target / (bottom + hypotenuse(bottom, torch.sqrt(2 * target)))
    for _ in range(3):
        here = erfcx((bottom + t) * _ROOT_HALF)
        value = t * (bottom + 0.5 * t) - torch.log(here / scaled)
        t = t - (value - target) * here / _ROOT_TWO_OVER_PI
    return bottom + t


@distribution(each(_truncated), pathwise=_rule)
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
) -> Request:
    """Return samples of a normal distribution restricted to mean + [low, high] * std.

    The bounds are in units of ``std`` and may be infinite; ``mean`` and ``std`` describe the normal
    distribution before the restriction. Neither time nor precision depends on the distance of the
    interval from the mean.

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
    *_, bottom, top = parameters.values()
    if not holds(torch.as_tensor(bottom < top)):
        raise ParameterError(
            f"{function}: low must be less than high, got {shown(low)} and {shown(high)}"
        )
    return prepared(function, size, dtype, generator, device, out, total, parameters)
