"""The gamma distribution and those derived from it: chi-squared, beta, Student's t, Dirichlet."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trnrand._paths.arguments import Device, Parameter, Size, real
from trnrand._paths.calls import Shape, distribution
from trnrand._paths.requests import prepared, prepared_vectors
from trnrand._sampling.elementary import exp, log, logistic, proportions
from trnrand._sampling.gammas import gammas, log_gammas, student_normals
from trnrand._sampling.samplers import Offsets, by_group, float64, sampled
from trnrand._stream.words import Domain, Source
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["beta", "chi_squared", "dirichlet", "gamma", "student_t"]


def _vectors(concentration: Tensor, size: Shape, **_: object) -> Shape:
    return *(size if size else concentration.shape[:-1]), concentration.shape[-1]


@distribution()
def gamma(
    *size: Size,
    shape: Parameter,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of the gamma distribution, with mean shape * scale.

    Raises:
        ParameterError: ``shape`` or ``scale`` is not positive, or another argument is outside of
            its range.
    """
    parameters = {
        "shape": real("gamma", "shape", shape, above=0.0),
        "scale": real("gamma", "scale", scale, above=0.0),
    }
    request = prepared("gamma", size, dtype, generator, device, out, total, parameters)
    return sampled(request, _gamma, *parameters.values())


@distribution()
def chi_squared(
    *size: Size,
    df: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of the chi-squared distribution: gamma with shape df / 2 and scale 2.

    Raises:
        ParameterError: ``df`` is not positive, or another argument is outside of its range.
    """
    degrees = real("chi_squared", "df", df, above=0.0)
    parameters = {"df": degrees}
    request = prepared("chi_squared", size, dtype, generator, device, out, total, parameters)
    return sampled(request, _gamma, degrees / 2, 2.0)


@distribution()
def beta(
    *size: Size,
    alpha: Parameter,
    beta: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of the beta distribution, strictly between 0 and 1.

    Raises:
        ParameterError: ``alpha`` or ``beta`` is not positive, or another argument is outside of
            its range.
    """
    parameters = {
        "alpha": real("beta", "alpha", alpha, above=0.0),
        "beta": real("beta", "beta", beta, above=0.0),
    }
    request = prepared("beta", size, dtype, generator, device, out, total, parameters)
    limits = torch.finfo(request.dtype)
    # Bounds inside of 0 and 1 in the dtype; eps is the spacing above 1, twice that below 1.
    inside = sampled(request, betas, *parameters.values())
    return inside.clamp_(limits.tiny, 1 - limits.eps / 2)


@distribution()
def student_t(
    *size: Size,
    df: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of Student's t distribution.

    Raises:
        ParameterError: ``df`` is not positive, or another argument is outside of its range.
    """
    parameters = {"df": real("student_t", "df", df, above=0.0)}
    request = prepared("student_t", size, dtype, generator, device, out, total, parameters)
    return sampled(request, student_ts, *parameters.values())


@distribution(leading=1, shape=_vectors)
def dirichlet(
    concentration: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return vectors of the Dirichlet distribution, non-negative with sum 1, of shape (*size, k).

    ``concentration`` is positive, of shape (..., k). Its leading dimensions broadcast to ``size``,
    the batch shape of the vectors, and are its default.

    Raises:
        ParameterError: ``concentration`` is not as above, or another argument is outside of its
            range.
    """
    weights = real("dirichlet", "concentration", concentration, above=0.0)
    if not isinstance(weights, Tensor) or not weights.shape[-1]:
        raise ParameterError(
            f"dirichlet: concentration must have shape (..., k), got {concentration!r}"
        )
    batch = {"concentration": weights[..., 0]}
    final = prepared_vectors(
        "dirichlet", size, weights.shape[-1], batch, dtype, generator, device, total
    )
    logarithms = sampled(replace(final, dtype=torch.float64), log_gammas, weights)
    return final.result(proportions(logarithms))


def _gamma(source: Source, count: int, shape: Parameter, scale: Parameter) -> Tensor:
    return gammas(source, count, shape) * scale


def betas(source: Source, count: int, alpha: Parameter, beta: Parameter) -> Tensor:
    """Return beta samples, from two gamma samples each."""
    a, b = float64(alpha, source), float64(beta, source)
    large = (a >= 1) & (b >= 1)
    if large.ndim:
        a, b = a.expand(count), b.expand(count)
    return by_group(source, count, large if large.ndim else bool(large), (_ratio, _logistic), a, b)


def _ratio(source: Source, offsets: Offsets, alpha: Tensor, beta: Tensor) -> Tensor:
    first = gammas(source, offsets, alpha)
    return first / (first + gammas(source, offsets, beta, Domain.BETA_SECOND))


def _logistic(source: Source, offsets: Offsets, alpha: Tensor, beta: Tensor) -> Tensor:
    # Samples with a shape below 1 may underflow; their logarithms do not.
    first = log_gammas(source, offsets, alpha)
    second = log_gammas(source, offsets, beta, Domain.BETA_SECOND)
    return logistic(first - second, source.compiled)


def student_ts(source: Source, count: int, df: Parameter) -> Tensor:
    """Return samples of Student's t."""
    # z / sqrt(chi2 / df), with chi2 = 2 gamma(df / 2).
    half = float64(df, source) / 2
    excess = log_gammas(source, count, half) - log(half)
    return student_normals(source, count) * exp(-0.5 * excess, source.compiled)
