"""Reparameterized samples: the samples of the plain functions, with gradients.

Every function draws the samples of the function of the same name in ``trnrand``. The result is
differentiable by the parameters that are tensors. The derivatives are pathwise: the noise is held
constant; for rejection samplers they are implicit. Higher derivatives, forward mode and the
transforms of ``torch.func`` are supported; the argument ``randomness`` of ``vmap`` selects the
behaviour of a draw. Arguments are those of the plain functions, without ``out``.

Example:
    >>> shape = torch.tensor(2.0, requires_grad=True)
    >>> trnrand.rsample.gamma(1000, shape=shape).mean().backward()
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnrand._paths.arguments import Device, Parameter, Size
from trnrand._paths.calls import untraced
from trnrand._paths.requests import prepared, prepared_vectors
from trnrand._paths.transforms import beneath, holds, shown
from trnrand._sampling.elementary import proportions
from trnrand._sampling.gammas import log_gammas, student_normals
from trnrand._sampling.pathwise import log_gamma_slope, moving, truncated_slopes, von_mises_slope
from trnrand._stream.moving import (
    detached,
    every,
    live,
    located,
    moving_gammas,
    moving_normals,
    place,
    plain,
    wide,
    wide_rows,
    with_values,
)
from trnrand._stream.words import Domain, Source
from trnrand.distributions import continuous, extremes
from trnrand.distributions.circular import centred_angles, wrapped
from trnrand.distributions.extremes import log_exponentials
from trnrand.distributions.gammas import betas, student_ts
from trnrand.distributions.truncated import standard_truncated
from trnrand.distributions.vectors import checked_covariance, rotated, standard_vectors
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = [
    "beta",
    "cauchy",
    "chi_squared",
    "dirichlet",
    "exponential",
    "gamma",
    "gumbel",
    "laplace",
    "lognormal",
    "multivariate_normal",
    "normal",
    "student_t",
    "truncated_normal",
    "uniform",
    "von_mises",
    "weibull",
]


@untraced
def uniform(
    *size: Size,
    low: Parameter = 0.0,
    high: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.uniform``, differentiable by ``low`` and ``high``."""
    bounds = {"low": plain("uniform", "low", low), "high": plain("uniform", "high", high)}
    request = prepared("uniform", size, dtype, generator, device, None, total, bounds)
    working = request.working
    bottom, top = (live(b, request, request.dtype) for b in (low, high))
    span = top.to(working) - bottom.to(working)
    if not (holds(bottom < top) and holds(span.isfinite())):
        raise ParameterError(
            f"uniform: low must be less than high and high - low finite in {request.dtype}, "
            f"got {shown(low)} and {shown(high)}"
        )
    u = continuous.uniform(request.shape, dtype=request.dtype, **place(request))
    values = u.to(working) * span + bottom.to(working)
    below = torch.nextafter(top.detach(), bottom.detach())
    return torch.minimum(values.to(request.dtype), below)


@untraced
def normal(
    *size: Size,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.normal``, differentiable by ``mean`` and ``std``."""
    request, values = moving_normals("normal", size, mean, std, dtype, generator, device, total)
    return values.to(request.dtype)


@untraced
def lognormal(
    *size: Size,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.lognormal``, differentiable by ``mean`` and ``std``."""
    request, powers = moving_normals("lognormal", size, mean, std, dtype, generator, device, total)
    return powers.exp().to(request.dtype)


@untraced
def exponential(
    *size: Size,
    rate: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.exponential``, differentiable by ``rate``."""
    rates = {"rate": plain("exponential", "rate", rate, above=0.0)}
    request = prepared("exponential", size, dtype, generator, device, None, total, rates)
    standard = continuous.exponential(request.shape, dtype=request.working, **place(request))
    limits = torch.finfo(request.dtype)
    values = standard / live(rate, request, request.working)
    return values.clamp(min=limits.tiny * limits.eps).to(request.dtype)


@untraced
def laplace(
    *size: Size,
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.laplace``, differentiable by ``loc`` and ``scale``."""
    return located(continuous.laplace, size, loc, scale, dtype, generator, device, total)


@untraced
def cauchy(
    *size: Size,
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.cauchy``, differentiable by ``loc`` and ``scale``."""
    return located(continuous.cauchy, size, loc, scale, dtype, generator, device, total)


@untraced
def gumbel(
    *size: Size,
    loc: Parameter = 0.0,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.gumbel``, differentiable by ``loc`` and ``scale``."""
    return located(extremes.gumbel, size, loc, scale, dtype, generator, device, total)


@untraced
def weibull(
    *size: Size,
    shape: Parameter,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.weibull``, differentiable by ``shape`` and ``scale``."""
    parameters = {
        "shape": plain("weibull", "shape", shape, above=0.0),
        "scale": plain("weibull", "scale", scale, above=0.0),
    }
    request = prepared("weibull", size, dtype, generator, device, None, total, parameters)

    def noise(source: Source, count: int) -> Tensor:
        return log_exponentials(source, Domain.WEIBULL, count)

    powers = wide(request, noise) / live(shape, request)
    return (torch.exp(powers) * live(scale, request)).to(request.dtype)


@untraced
def truncated_normal(
    *size: Size,
    mean: Parameter = 0.0,
    std: Parameter = 1.0,
    low: Parameter = -2.0,
    high: Parameter = 2.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.truncated_normal``, differentiable by all parameters."""
    function = "truncated_normal"
    parameters = {
        "mean": plain(function, "mean", mean),
        "std": plain(function, "std", std, above=0.0),
        "low": plain(function, "low", low, finite=False),
        "high": plain(function, "high", high, finite=False),
    }
    *_, bottom, top = parameters.values()
    if not holds(torch.as_tensor(bottom < top)):
        raise ParameterError(
            f"{function}: low must be less than high, got {shown(low)} and {shown(high)}"
        )
    request = prepared(function, size, dtype, generator, device, None, total, parameters)

    def noise(source: Source, count: int, low: Parameter, high: Parameter) -> Tensor:
        a, b = (torch.as_tensor(p, dtype=torch.float64, device=source.device) for p in (low, high))
        return torch.clamp(standard_truncated(source, count, a, b), a, b)

    z = wide(request, noise, bottom, top)
    z = moving(truncated_slopes, z, *(every(b, request) for b in (low, high)))
    return (z * live(std, request) + live(mean, request)).to(request.dtype)


@untraced
def von_mises(
    *size: Size,
    loc: Parameter = 0.0,
    kappa: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.von_mises``, differentiable by ``loc`` and ``kappa``."""
    parameters = {
        "loc": plain("von_mises", "loc", loc),
        "kappa": plain("von_mises", "kappa", kappa, least=0.0),
    }
    request = prepared("von_mises", size, dtype, generator, device, None, total, parameters)
    angle = wide(request, centred_angles, parameters["kappa"])
    shifted = moving(von_mises_slope, angle, every(kappa, request)) + live(loc, request)
    return torch.where(shifted.abs() <= math.pi, shifted, wrapped(shifted)).to(request.dtype)


@untraced
def gamma(
    *size: Size,
    shape: Parameter,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.gamma``, differentiable by ``shape`` and ``scale``."""
    parameters = {
        "shape": plain("gamma", "shape", shape, above=0.0),
        "scale": plain("gamma", "scale", scale, above=0.0),
    }
    request = prepared("gamma", size, dtype, generator, device, None, total, parameters)
    return (moving_gammas(request, shape) * live(scale, request)).to(request.dtype)


@untraced
def chi_squared(
    *size: Size,
    df: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.chi_squared``, differentiable by ``df``."""
    degrees = {"df": plain("chi_squared", "df", df, above=0.0)}
    request = prepared("chi_squared", size, dtype, generator, device, None, total, degrees)
    return (moving_gammas(request, live(df, request) / 2) * 2.0).to(request.dtype)


@untraced
def beta(
    *size: Size,
    alpha: Parameter,
    beta: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.beta``, differentiable by ``alpha`` and ``beta``."""
    parameters = {
        "alpha": plain("beta", "alpha", alpha, above=0.0),
        "beta": plain("beta", "beta", beta, above=0.0),
    }
    request = prepared("beta", size, dtype, generator, device, None, total, parameters)

    def noise(source: Source, count: int, alpha: Parameter, beta: Parameter) -> Tensor:
        first = log_gammas(source, count, alpha)
        second = log_gammas(source, count, beta, Domain.BETA_SECOND)
        return torch.stack([first, second, betas(source, count, alpha, beta)], -1)

    *both, values = wide_rows(request, noise, *parameters.values()).unbind(-1)
    first, second = (
        moving(log_gamma_slope, logarithm, every(p, request))
        for logarithm, p in zip(both, (alpha, beta), strict=True)
    )
    limits = torch.finfo(request.dtype)
    inside = with_values(torch.sigmoid(first - second), values).to(request.dtype)
    return inside.clamp(limits.tiny, 1 - limits.eps / 2)


@untraced
def student_t(
    *size: Size,
    df: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of ``trnrand.student_t``, differentiable by ``df``."""
    degrees = {"df": plain("student_t", "df", df, above=0.0)}
    request = prepared("student_t", size, dtype, generator, device, None, total, degrees)

    def noise(source: Source, count: int, df: Parameter) -> Tensor:
        half = torch.as_tensor(df, dtype=torch.float64, device=source.device) / 2
        z, values = student_normals(source, count), student_ts(source, count, df)
        return torch.stack([log_gammas(source, count, half), z, values], -1)

    logarithm, z, values = wide_rows(request, noise, degrees["df"]).unbind(-1)
    half = every(df, request) / 2
    excess = moving(log_gamma_slope, logarithm, half) - half.log()
    return with_values(z * torch.exp(-0.5 * excess), values).to(request.dtype)


@untraced
def dirichlet(
    concentration: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return vectors of ``trnrand.dirichlet``, differentiable by ``concentration``."""
    weights = plain("dirichlet", "concentration", concentration, above=0.0)
    if not isinstance(weights, Tensor) or not weights.shape[-1]:
        raise ParameterError(
            f"dirichlet: concentration must have shape (..., k), got {concentration!r}"
        )
    batch = {"concentration": weights[..., 0]}
    width = weights.shape[-1]
    request = prepared_vectors("dirichlet", size, width, batch, dtype, generator, device, total)
    logarithms = wide(request, log_gammas, weights)
    moved = moving(log_gamma_slope, logarithms, every(concentration, request))
    values = proportions(logarithms)
    return with_values(torch.softmax(moved, dim=-1), values).to(request.dtype)


@untraced
def multivariate_normal(
    mean: Tensor,
    covariance: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return vectors of ``trnrand.multivariate_normal``, differentiable by both parameters."""
    function = "multivariate_normal"
    means, spread = checked_covariance(function, detached(mean), detached(covariance))
    if not holds(torch.linalg.cholesky_ex(spread).info == 0):
        raise ParameterError(f"{function}: covariance must be symmetric and positive definite")
    batch = {"mean": means[..., 0], "covariance": spread[..., 0, 0]}
    width = means.shape[-1]
    request = prepared_vectors(function, size, width, batch, dtype, generator, device, total)
    z = beneath(function, request.generator, lambda *_: standard_vectors(request), ())
    both = live(covariance, request)
    factor = torch.linalg.cholesky((both + both.mT) / 2).to(z.dtype)
    return (rotated(z, factor) + live(mean, request, z.dtype)).to(request.dtype)
