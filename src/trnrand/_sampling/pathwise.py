"""How samples move with their parameters when the noise they are made of stays.

Where a sample is no formula of noise and parameter, as behind a rejection, it moves so that its
place in the distribution stays: with F the distribution function, dx/dp = -(dF/dp) / (dF/dx)
(M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", NeurIPS 2018). The
quotients are integrals of smooth functions, summed here to 1e-8 or better; they are differentiable
themselves, so that second derivatives are right, too.
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

__all__ = ["log_gamma_slope", "moving", "truncated_slopes", "von_mises_slope"]

Slopes = Callable[..., Sequence[Tensor]]
"""Function of samples and their parameters that returns the derivatives by each of these."""

# A density that has fallen by exp(-37) is rounded away.
_FALL = 37.0


def moving(slopes: Slopes, samples: Tensor, *parameters: Tensor) -> Tensor:
    """Return samples that move with their parameters.

    Args:
        slopes: Their derivatives.
        samples: Their values.
        parameters: Tensors of the shape of the samples.
    """
    return _Moving.apply(slopes, samples, *parameters)  # type: ignore[no-untyped-call]


class _Moving(torch.autograd.Function):
    """Samples with derivatives of any order: the slopes are taken of the moving samples."""

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
    return (torch.where(x <= 1, small, _beyond(x.clamp(min=1.0), shape, centre)),)


def _power_series(x: Tensor, shape: Tensor, centre: Tensor) -> Tensor:
    """Return the slope where x is at most 1, from the powers of the distribution function."""
    total = torch.zeros_like(x)
    term = torch.ones_like(x)
    for k in range(19):  # 1 / 19! is below 1e-17
        below = 1 / (shape + k)
        total = total + term * below * (below - centre)
        term = term * (-x / (k + 1))
    return total * torch.exp(x)


def _beyond(x: Tensor, shape: Tensor, centre: Tensor) -> Tensor:
    """Return the slope where x is at least 1, from the density at x exp(w).

    It is an integral over w below 0 or above, on the side where x is beyond the mean.
    """
    lower = x < shape
    excess = (x - shape).abs()
    # Where the density has fallen: w**2 / (2 + w) <= w - 1 + exp(-w), w**2 / 2 <= exp(w) - 1 - w.
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
    # 1 - I1(kappa) / I0(kappa), from where its terms cancel by their expansion.
    inverse = 1 / kappa.clamp(min=500.0)
    expanded = inverse * (0.5 + inverse * (1 / 8 + inverse * (1 / 8 + inverse * 25 / 128)))
    spread = torch.where(kappa < 500.0, 1 - i1e(kappa) / i0e(kappa), expanded)
    # Of w further than size the density has fallen by 2 kappa (w / pi)**2 at least.
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
    """Return places in [0, 1] and weights of Gauss and Legendre."""
    places, weights = np.polynomial.legendre.leggauss(points)
    return tuple(zip(((places + 1) / 2).tolist(), (weights / 2).tolist(), strict=True))


def truncated_slopes(z: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Return dz / d low and dz / d high of standard normals restricted to [low, high]."""
    # On the upper side, where what lies above is the density times Mills' ratio.
    mirrored = low + high < 0
    sign = torch.where(mirrored, -1.0, 1.0)
    bottom, top = torch.where(mirrored, -high, low), torch.where(mirrored, -low, high)
    # All lies above -37, to the last digit.
    bottom, at = bottom.clamp(min=-37.0), (sign * z).clamp(min=-37.0)
    far = _fall(bottom, top) * _mills(top)
    whole = _mills(bottom) - far
    by_bottom = (_mills(at) - _fall(at, top) * _mills(top)) / whole
    by_top = _fall(at, top) * (_mills(bottom) - _fall(bottom, at) * _mills(at)) / whole
    return torch.where(mirrored, by_top, by_bottom), torch.where(mirrored, by_bottom, by_top)


def _mills(x: Tensor) -> Tensor:
    """Return what lies above x over the density at x."""
    return erfcx(x * math.sqrt(0.5)) * math.sqrt(math.pi / 2)


def _fall(x: Tensor, y: Tensor) -> Tensor:
    """Return the normal density at y over that at x."""
    return torch.exp(-0.5 * (y - x) * (y + x))
