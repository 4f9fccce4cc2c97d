"""The gamma distribution and those derived from it: chi-squared, beta, Student's t, Dirichlet."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, positive, real
from trnrand._calls.calls import Shape, distribution
from trnrand._calls.requests import Request, prepared, prepared_vectors
from trnrand._sampling.gammas import gammas, log_gammas, student_normals
from trnrand._sampling.pathwise import (
    attached,
    expanded,
    gamma_slope,
    log_gamma_slope,
    wide,
    wide_rows,
    with_slopes,
    with_values,
)
from trnrand._sampling.samplers import Offsets, by_group, each, float64, sampled, sampled_vectors
from trnrand._stream.elementary import exp, log, logistic, proportions
from trnrand._stream.words import Domain, Source
from trnrand.errors import ShapeError
from trnrand.generator import Generator

__all__ = ["beta", "chi_squared", "dirichlet", "gamma", "student_t"]


def _vectors(concentration: Tensor, size: Shape, **_: object) -> Shape:
    return *(size if size else concentration.shape[:-1]), concentration.shape[-1]


def _gamma(source: Source, count: int, shape: Parameter, scale: Parameter) -> Tensor:
    return gammas(source, count, shape) * scale


def _betas(source: Source, count: int, alpha: Parameter, beta: Parameter) -> Tensor:
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


def _student_ts(source: Source, count: int, df: Parameter) -> Tensor:
    """Return samples of Student's t."""
    # z / sqrt(chi2 / df), with chi2 = 2 gamma(df / 2).
    half = float64(df, source) / 2
    excess = log_gammas(source, count, half) - log(half)
    return student_normals(source, count) * exp(-0.5 * excess, source.compiled)


def _chi_squared(source: Source, count: int, df: Parameter) -> Tensor:
    return gammas(source, count, df / 2) * 2.0


def _beta(request: Request) -> Tensor:
    limits = torch.finfo(request.dtype)
    # Bounds inside of 0 and 1 in the dtype; eps is the spacing above 1, twice that below 1.
    inside = sampled(request, _betas, *request.parameters.values())
    return inside.clamp_(limits.tiny, 1 - limits.eps / 2)


def _dirichlet(request: Request) -> Tensor:
    concentration = request.typed(request.parameters["concentration"], torch.float64)
    return sampled_vectors(request, _shares, 0.0, concentration)


def _shares(source: Source, count: int, _: Parameter, table: Tensor, row: Tensor) -> Tensor:
    width = table.shape[1]
    which = (row[:, None] * width + torch.arange(width, device=row.device)).reshape(-1)
    logarithms = gammas(source, count * width, table.reshape(-1), logarithms=True, which=which)
    return proportions(logarithms.view(count, width), source.compiled)


# -- rules of derivatives --------------------------------------------------------------------------


def _gamma_rule(request: Request, shape: Parameter, scale: Parameter) -> Tensor:
    samples = wide(request, gammas, request.parameters["shape"])
    return with_slopes(gamma_slope, samples, expanded(shape, request)) * attached(scale, request)


def _chi_squared_rule(request: Request, df: Parameter) -> Tensor:
    half = expanded(df, request) / 2
    return with_slopes(gamma_slope, wide(request, gammas, request.parameters["df"] / 2), half) * 2.0


def _beta_rule(request: Request, alpha: Parameter, beta: Parameter) -> Tensor:
    def noise(source: Source, count: int, alpha: Parameter, beta: Parameter) -> Tensor:
        first = log_gammas(source, count, alpha)
        second = log_gammas(source, count, beta, Domain.BETA_SECOND)
        return torch.stack([first, second, _betas(source, count, alpha, beta)], -1)

    *both, values = wide_rows(request, noise, *request.parameters.values()).unbind(-1)
    first, second = (
        with_slopes(log_gamma_slope, logarithm, expanded(p, request))
        for logarithm, p in zip(both, (alpha, beta), strict=True)
    )
    limits = torch.finfo(request.dtype)
    inside = with_values(torch.sigmoid(first - second), values).to(request.dtype)
    return inside.clamp(limits.tiny, 1 - limits.eps / 2)


def _student_t_rule(request: Request, df: Parameter) -> Tensor:
    def noise(source: Source, count: int, df: Parameter) -> Tensor:
        z, values = student_normals(source, count), _student_ts(source, count, df)
        return torch.stack([log_gammas(source, count, float64(df, source) / 2), z, values], -1)

    logarithm, z, values = wide_rows(request, noise, request.parameters["df"]).unbind(-1)
    half = expanded(df, request) / 2
    excess = with_slopes(log_gamma_slope, logarithm, half) - half.log()
    return with_values(z * torch.exp(-0.5 * excess), values)


def _dirichlet_rule(request: Request, concentration: Parameter) -> Tensor:
    logarithms = wide(request, log_gammas, request.parameters["concentration"])
    moved = with_slopes(log_gamma_slope, logarithms, expanded(concentration, request))
    return with_values(torch.softmax(moved, dim=-1), proportions(logarithms))


# -- distributions ---------------------------------------------------------------------------------


@distribution(each(_gamma), pathwise=_gamma_rule)
def gamma(
    *size: Size,
    shape: Parameter,
    scale: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the gamma distribution, with mean shape * scale.

    Raises:
        ParameterError: ``shape`` or ``scale`` is not positive, or another argument is outside of
            its range.
    """
    parameters = positive("gamma", shape=shape, scale=scale)
    return prepared("gamma", size, dtype, generator, device, out, total, parameters)


@distribution(each(_chi_squared), pathwise=_chi_squared_rule)
def chi_squared(
    *size: Size,
    df: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the chi-squared distribution: gamma with shape df / 2 and scale 2.

    Raises:
        ParameterError: ``df`` is not positive, or another argument is outside of its range.
    """
    degrees = positive("chi_squared", df=df)
    return prepared("chi_squared", size, dtype, generator, device, out, total, degrees)


@distribution(_beta, pathwise=_beta_rule)
def beta(
    *size: Size,
    alpha: Parameter,
    beta: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of the beta distribution, strictly between 0 and 1.

    Raises:
        ParameterError: ``alpha`` or ``beta`` is not positive, or another argument is outside of
            its range.
    """
    parameters = positive("beta", alpha=alpha, beta=beta)
    return prepared("beta", size, dtype, generator, device, out, total, parameters)


@distribution(each(_student_ts), pathwise=_student_t_rule)
def student_t(
    *size: Size,
    df: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Request:
    """Return samples of Student's t distribution.

    Raises:
        ParameterError: ``df`` is not positive, or another argument is outside of its range.
    """
    parameters = positive("student_t", df=df)
    return prepared("student_t", size, dtype, generator, device, out, total, parameters)


@distribution(_dirichlet, pathwise=_dirichlet_rule, leading=1, shape=_vectors)
def dirichlet(
    concentration: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Request:
    """Return vectors of the Dirichlet distribution, non-negative with sum 1, of shape (*size, k).

    ``concentration`` is positive, of shape (..., k). Its leading dimensions broadcast to ``size``,
    the batch shape of the vectors, and are its default.

    Raises:
        ParameterError: ``concentration`` is not as above, or another argument is outside of its
            range.
    """
    weights = real("dirichlet", "concentration", concentration, above=0.0)
    if not isinstance(weights, Tensor) or not weights.shape[-1]:
        raise ShapeError(
            f"dirichlet: concentration must have shape (..., k), got {concentration!r}"
        )
    batch = {"concentration": weights[..., 0]}
    width = weights.shape[-1]
    request = prepared_vectors("dirichlet", size, width, batch, dtype, generator, device, total)
    return request._replace(parameters={"concentration": weights})
