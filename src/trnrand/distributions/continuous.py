"""Continuous distributions: uniform, normal, lognormal, exponential, Laplace and Cauchy.

All functions of trnrand share these arguments:

- ``*size``: integers or one sequence of them. Without any, the result has the shape of ``out``, or
  of the broadcast parameters; ``()`` is a single sample.
- ``dtype``: float32 by default; also float64, bfloat16 and float16.
- ``generator``: a ``Generator``; None is the default one.
- ``device``: device of the result; None is the generator's device.
- ``out``: a tensor to fill and return, which determines shape, dtype and device.
- ``total``: for uneven shares of a partition, the length of the first dimension over all ranks;
  this rank's rows are then ``generator.share(total)``.

Parameters are numbers or tensors that broadcast to the shape. A parameter outside of its range
raises ``ParameterError``, a ``ValueError``, before anything is drawn. Samples carry no gradients.

A function here validates its arguments and returns a ``Request``; the decorator ``distribution``
draws it, so that callers get a tensor.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, loc_and_scale, positive, real
from trnrand._calls.calls import distribution
from trnrand._calls.requests import Request, prepared
from trnrand._calls.transforms import holds, shown
from trnrand._kernels.definitions import Kind
from trnrand._paths.samples import fill_stream, stream
from trnrand._sampling.pathwise import attached, located, noise_of
from trnrand._sampling.samplers import each, units
from trnrand._stream.words import WIDE, Domain, Source
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = [
    "cauchy",
    "exponential",
    "laplace",
    "lognormal",
    "normal",
    "uniform",
]

# -- samples of a request --------------------------------------------------------------------------


def _is(parameter: Parameter, number: float) -> bool:
    return not isinstance(parameter, Tensor) and parameter == number


def _largest(parameter: Parameter) -> float:
    if not isinstance(parameter, Tensor):
        return parameter
    return float(parameter.max()) if parameter.numel() else 0.0


def _standard(kind: Kind, request: Request) -> Tensor:
    """Return standard samples in the working dtype and the shape of the request."""
    samples = request.buffer(request.working)
    fill_stream(kind, request.source(), samples)
    return samples.view(request.shape)


def _uniform(request: Request) -> Tensor:
    low, high = request.parameters.values()
    if _is(low, 0) and _is(high, 1):
        samples = request.buffer()
        fill_stream("uniform", request.source(), samples)
        return request.result(samples)
    bottom, top = (request.typed(b, request.dtype) for b in (low, high))
    working = request.working
    span = top.to(working) - bottom.to(working)
    samples = stream("uniform", request.source(), request.numel, request.dtype)
    values = samples.view(request.shape).to(working).mul_(span).add_(bottom.to(working))
    # Rounding may reach the upper bound; the lower one is reached for u = 0 only.
    below = torch.nextafter(top, bottom)
    return request.result(torch.minimum(values.to(request.dtype), below))


def _uniform_rule(request: Request, low: Parameter, high: Parameter) -> Tensor:
    working = request.working
    bottom, top = (attached(b, request, request.dtype) for b in (low, high))
    span = top.to(working) - bottom.to(working)
    u = uniform(request.shape, dtype=request.dtype, **noise_of(request))
    values = u.to(working) * span + bottom.to(working)
    below = torch.nextafter(top.detach(), bottom.detach())
    return torch.minimum(values.to(request.dtype), below)


def _normal(request: Request) -> Tensor:
    return request.result(_normals(request))


def _normal_rule(request: Request, mean: Parameter, std: Parameter) -> Tensor:
    z = normal(request.shape, dtype=request.working, **noise_of(request))
    return z * attached(std, request, z.dtype) + attached(mean, request, z.dtype)


def _lognormal(request: Request) -> Tensor:
    return request.result(_normals(request).exp_())


def _lognormal_rule(request: Request, mean: Parameter, std: Parameter) -> Tensor:
    return _normal_rule(request, mean, std).exp()


def _exponential(request: Request) -> Tensor:
    (rate,) = request.parameters.values()
    samples = _standard("exponential", request)
    if not _is(rate, 1):
        samples.div_(request.typed(rate, request.working))
    smallest = _smallest(request.dtype)
    if smallest * _largest(rate) > 2.0**-54:  # 2**-54 is the least standard sample in float64
        samples.clamp_(min=smallest)
    return request.result(samples)


def _exponential_rule(request: Request, rate: Parameter) -> Tensor:
    standard = exponential(request.shape, dtype=request.working, **noise_of(request))
    values = standard / attached(rate, request, request.working)
    return values.clamp(min=_smallest(request.dtype))


def _smallest(dtype: torch.dtype) -> float:
    limits = torch.finfo(dtype)
    return limits.tiny * limits.eps


def _normals(request: Request) -> Tensor:
    """Return mean + std times standard normals, rounded after each step."""
    mean, std = request.parameters.values()
    samples = _standard("normal", request)
    if not _is(std, 1):
        samples.mul_(request.typed(std, request.working))
    if not _is(mean, 0):
        samples.add_(request.typed(mean, request.working))
    return samples


def _mean_and_std(function: str, mean: Parameter, std: Parameter) -> dict[str, Parameter]:
    return {
        "mean": real(function, "mean", mean),
        "std": real(function, "std", std, least=0.0),
    }


def _laplace(source: Source, count: int, loc: Parameter, scale: Parameter) -> Tensor:
    magnitude = units(source, Domain.LAPLACE, count).neg_().log1p_().neg_()
    # The lowest bit of the second word is not among the 53 of the magnitude.
    sign = source.words(Domain.LAPLACE | WIDE, 2 * count, 2)[1::2] & 1
    return torch.where(sign.bool(), -magnitude, magnitude) * scale + loc


def _cauchy(source: Source, count: int, loc: Parameter, scale: Parameter) -> Tensor:
    turn = units(source, Domain.CAUCHY, count)
    return turn.sub_(0.5).mul_(math.pi).tan_() * scale + loc


# -- distributions ---------------------------------------------------------------------------------


@distribution(_uniform, pathwise=_uniform_rule, kind="uniform")
def uniform(
    *size: Size,
    low: Parameter = 0.0,
    high: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the uniform distribution on [low, high), never ``high`` in any dtype.

    Raises:
        ParameterError: ``low`` is not less than ``high`` in the dtype, or another argument is
            outside of its range.
    """
    bounds = {"low": real("uniform", "low", low), "high": real("uniform", "high", high)}
    request = prepared("uniform", size, dtype, generator, device, out, total, bounds)
    if not (_is(low, 0) and _is(high, 1)):
        bottom, top = (request.typed(b, request.dtype) for b in bounds.values())
        span = top.to(request.working) - bottom.to(request.working)
        if not (holds(bottom < top) and holds(span.isfinite())):
            raise ParameterError(
                f"uniform: low must be less than high and high - low finite in {request.dtype}, "
                f"got {shown(low)} and {shown(high)}"
            )
    return request


@distribution(_normal, pathwise=_normal_rule, kind="normal")
def normal(
    *size: Size,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the normal distribution, with tails to 6.6 std (float64: 9.4).

    Raises:
        ParameterError: ``std`` is negative, or another argument is outside of its range.
    """
    parameters = _mean_and_std("normal", mean, std)
    return prepared("normal", size, dtype, generator, device, out, total, parameters)


@distribution(_lognormal, pathwise=_lognormal_rule, kind="normal")
def lognormal(
    *size: Size,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return lognormal samples: their logarithm is normal with this mean and standard deviation.

    Raises:
        ParameterError: ``std`` is negative, or another argument is outside of its range.
    """
    parameters = _mean_and_std("lognormal", mean, std)
    return prepared("lognormal", size, dtype, generator, device, out, total, parameters)


@distribution(_exponential, pathwise=_exponential_rule, kind="exponential")
def exponential(
    *size: Size,
    rate: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the exponential distribution with mean 1 / rate, positive and finite.

    Raises:
        ParameterError: ``rate`` is not positive, or another argument is outside of its range.
    """
    rates = positive("exponential", rate=rate)
    return prepared("exponential", size, dtype, generator, device, out, total, rates)


@distribution(each(_laplace), pathwise=located(_laplace))
def laplace(
    *size: Size,
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the Laplace distribution, density exp(-|x - loc| / scale) / (2 scale).

    Raises:
        ParameterError: ``scale`` is not positive, or another argument is outside of its range.
    """
    parameters = loc_and_scale("laplace", loc, scale)
    return prepared("laplace", size, dtype, generator, device, out, total, parameters)


@distribution(each(_cauchy), pathwise=located(_cauchy))
def cauchy(
    *size: Size,
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the Cauchy distribution with this median and half width.

    Raises:
        ParameterError: ``scale`` is not positive, or another argument is outside of its range.
    """
    parameters = loc_and_scale("cauchy", loc, scale)
    return prepared("cauchy", size, dtype, generator, device, out, total, parameters)
