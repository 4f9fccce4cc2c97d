"""Pathwise derivatives: samples as differentiable functions of their parameters.

The rule of a distribution is a function of a request and of the unvalidated parameters of the call.
It computes noise without gradients, and transforms it by the parameters.

A sample of a rejection sampler is not a differentiable function of noise and parameter. Its
derivative keeps the value of the distribution function F constant: dx/dp = -(dF/dp) / (dF/dx)
(M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", NeurIPS 2018). The
quotients are integrals of smooth functions, computed to 1e-8 or better. They are differentiable, so
second derivatives are correct, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.special import digamma, erfcx, i0e, i1e

from trnrand._calls.arguments import Parameter
from trnrand._calls.requests import Request
from trnrand._calls.transforms import beneath
from trnrand._sampling.samplers import Sampler, sampled
from trnrand._stream.words import Source

Slopes = Callable[..., Sequence[Tensor]]
"""Function of samples and parameters that returns the derivative by each parameter."""

# A density smaller by a factor of exp(-37) is negligible in float64.
_FALL = 37.0


# -- parameters and noise --------------------------------------------------------------------------


def attached(value: Parameter, request: Request, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return a parameter with its gradient, on the device of the request."""
    if isinstance(value, Tensor):
        return value.to(request.device, dtype)
    return torch.tensor(value, dtype=dtype, device=request.device)


def expanded(value: Parameter, request: Request) -> Tensor:
    """Return a parameter with its gradient in float64, expanded to one value per sample."""
    return attached(value, request).expand(request.shape)


def noise_of(request: Request) -> dict[str, Any]:
    """Return the generator, device and total of a request, to draw its noise with them."""
    return {
        "generator": request.generator,
        "device": request.device,
        "total": request.total,
    }


def wide(request: Request, noise: Sampler, *parameters: Parameter) -> Tensor:
    """Return the samples of a request in float64, drawn below the transforms of ``torch.func``."""
    in_float64 = request._replace(dtype=torch.float64)

    def draw(values: Sequence[Any], front: tuple[int, ...]) -> Tensor:
        return sampled(in_float64, noise, *values)

    return beneath(request.function, request.generator, draw, parameters)


def wide_rows(request: Request, noise: Sampler, *parameters: Parameter) -> Tensor:
    """Return three float64 values per sample, in the last dimension."""

    def draw(values: Sequence[Any], front: tuple[int, ...]) -> Tensor:
        others = [torch.empty(0, 2, dtype=torch.float64, device=request.device)]

        def first(source: Source, count: int, *values: Parameter) -> Tensor:
            rows = noise(source, count, *values)
            others.append(rows[:, 1:])
            return rows[:, 0]

        one = wide(request, first, *values)[..., None]
        return torch.cat([one, torch.cat(others).reshape(*one.shape[:-1], 2)], dim=-1)

    return beneath(request.function, request.generator, draw, parameters)


def with_values(smooth: Tensor, values: Tensor) -> Tensor:
    """Return values with the derivatives of a tensor that differs from them by rounding errors."""
    # The difference of neighbouring numbers is exact, and so is the sum.
    return smooth + (values - smooth).detach()


def located(sampler: Sampler) -> Callable[..., Tensor]:
    """Return the rule of a location-scale distribution, from its sampler."""

    def standard(source: Source, count: int) -> Tensor:
        return sampler(source, count, 0.0, 1.0)

    def rule(request: Request, loc: Parameter, scale: Parameter) -> Tensor:
        return wide(request, standard) * attached(scale, request) + attached(loc, request)

    return rule


# -- derivatives of samples ------------------------------------------------------------------------


def with_slopes(slopes: Slopes, samples: Tensor, *parameters: Tensor) -> Tensor:
    """Return samples with derivatives by their parameters, which have the shape of the samples."""
    return _WithSlopes.apply(slopes, samples, *parameters)  # type: ignore[no-untyped-call]


class _WithSlopes(torch.autograd.Function):
    """Samples with derivatives of any order: slopes are functions of the differentiable samples."""

    generate_vmap_rule = True

    @staticmethod
    def forward(slopes: Slopes, samples: Tensor, *parameters: Tensor) -> Tensor:
        return samples.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.slopes, _, *parameters = inputs
        ctx.save_for_backward(output, *parameters)
        ctx.save_for_forward(output, *parameters)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        slopes = ctx.slopes(*ctx.saved_tensors)
        return (None, None, *(gradients[0] * slope for slope in slopes))

    @staticmethod
    def jvp(ctx: Any, _: None, samples: Tensor | None, *tangents: Tensor | None) -> Tensor:
        slopes = ctx.slopes(*ctx.saved_tensors)
        moves = [s * t for s, t in zip(slopes, tangents, strict=True) if t is not None]
        return torch.stack(moves).sum(0)


def log_gamma_slope(log_x: Tensor, shape: Tensor) -> tuple[Tensor]:
    """Return d log(x) / d shape of gamma samples."""
    centre = log_x - digamma(shape)
    x = log_x.exp()
    small = _power_series(x.clamp(max=1.0), shape, centre)
    return (torch.where(x <= 1, small, _tail_integral(x.clamp(min=1.0), shape, centre)),)


def gamma_slope(x: Tensor, shape: Tensor) -> tuple[Tensor]:
    """Return dx / d shape of gamma samples; it is 0 for a sample that underflowed to 0."""
    return (x * log_gamma_slope(x.clamp(min=1e-300).log(), shape)[0],)


def _power_series(x: Tensor, shape: Tensor, centre: Tensor) -> Tensor:
    """Return the slope for x of at most 1, from the power series of the distribution function."""
    total = torch.zeros_like(x)
    term = torch.ones_like(x)
    for k in range(19):  # 1 / 19! is below 1e-17
        below = 1 / (shape + k)
        total = total + term * below * (below - centre)
        term = term * (-x / (k + 1))
    return total * torch.exp(x)


def _tail_integral(x: Tensor, shape: Tensor, centre: Tensor) -> Tensor:
    """Return the slope for x of at least 1, an integral of the density at x exp(w) over w.

    The integral is over negative w for x below the mean, and over positive w otherwise.
    """
    lower = x < shape
    excess = (x - shape).abs()
    # Width where it is negligible: w**2 / (2 + w) <= w - 1 + exp(-w), w**2 / 2 <= exp(w) - 1 - w.
    linear = 2 * excess - _FALL
    below = 4 * _FALL / (linear + torch.sqrt(linear * linear + 8 * _FALL * shape))
    above = 2 * _FALL / (excess + torch.sqrt(excess * excess + 2 * _FALL * x))
    width = torch.where(lower, -below, above)
    total = torch.zeros_like(x)
    for place, weight in _legendre(32):
        w = width * place
        total = total + weight * (centre + w) * torch.exp(shape * w - x * torch.expm1(w))
    return width * total


def von_mises_slope(angle: Tensor, kappa: Tensor) -> tuple[Tensor]:
    """Return d angle / d kappa of von Mises samples around 0."""
    size = angle.abs()
    # 1 - I1(kappa) / I0(kappa); by an asymptotic expansion for large kappa, where it cancels.
    inverse = 1 / kappa.clamp(min=500.0)
    expanded = inverse * (0.5 + inverse * (1 / 8 + inverse * (1 / 8 + inverse * 25 / 128)))
    spread = torch.where(kappa < 500.0, 1 - i1e(kappa) / i0e(kappa), expanded)
    # At size + w the log density is lower by at least 2 kappa (w / pi)**2.
    reach = math.pi * torch.sqrt(0.5 * _FALL / kappa.clamp(min=1e-300))
    width = torch.minimum(math.pi - size, reach)
    total = torch.zeros_like(size)
    for place, weight in _legendre(64):
        half = 0.5 * place * width
        density = torch.exp(-2 * kappa * torch.sin(size + half) * torch.sin(half))
        total = total + weight * density * (spread - 2 * torch.sin(0.5 * size + half) ** 2)
    return (torch.sign(angle) * width * total,)


@cache
def _legendre(points: int) -> tuple[tuple[float, float], ...]:
    """Return the nodes in [0, 1] and weights of Gauss-Legendre quadrature."""
    places, weights = np.polynomial.legendre.leggauss(points)
    return tuple(zip(((places + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


def truncated_slopes(z: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Return dz / d low and dz / d high of standard normals restricted to [low, high]."""
    # Mirrored to the upper side, where the tail probability is the density times Mills' ratio.
    mirrored = low + high < 0
    sign = torch.where(mirrored, -1.0, 1.0)
    bottom, top = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    # The probability below -37 is 0 in float64.
    bottom, at = bottom.clamp(min=-37.0), (sign * z).clamp(min=-37.0)
    far = _ratio(bottom, top) * _mills(top)
    whole = _mills(bottom) - far
    by_bottom = (_mills(at) - _ratio(at, top) * _mills(top)) / whole
    by_top = _ratio(at, top) * (_mills(bottom) - _ratio(bottom, at) * _mills(at)) / whole
    return torch.where(mirrored, by_top, by_bottom), torch.where(mirrored, by_bottom, by_top)


def _mills(x: Tensor) -> Tensor:
    """Return Mills' ratio: the probability above x divided by the density at x."""
    return erfcx(x * math.sqrt(0.5)) * math.sqrt(math.pi / 2)


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    """Return the normal density at y over the density at x."""
    return torch.exp(-0.5 * (y - x) * (y + x))
