"""The gamma distribution and those made of it: chi-squared, beta, Student's t, Dirichlet.

Gammas are made by the method of Marsaglia and Tsang (ACM TOMS 26, 2000) in float64. Their logarithm
is what the sampler returns: with a small shape the samples themselves would underflow, and beta
and Dirichlet need but ratios.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._arguments import Device, Parameter, Size, parsed_size, real
from trnrand._requests import prepared
from trnrand._sampling import Offsets, accepted, at, sampled
from trnrand._torch import normals53
from trnrand._words import WIDE, Domain, Source, paired, unit53
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["beta", "chi_squared", "dirichlet", "gamma", "student_t"]


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
    # The neighbours of 0 and 1 in the dtype; eps is the distance above 1, twice that below.
    inside = sampled(request, _beta, *parameters.values())
    return inside.clamp_(limits.tiny, 1 - limits.eps / 2)


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
    return sampled(request, _student_t, *parameters.values())


def dirichlet(
    concentration: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return vectors of the Dirichlet distribution, non-negative with sum 1, of shape (*size, k).

    ``concentration`` is positive, of shape (k,); ``size`` is how many vectors, by default one.

    Raises:
        ParameterError: ``concentration`` is not as above, or another argument is outside of its
            range.
    """
    weights = real("dirichlet", "concentration", concentration, above=0.0)
    if not isinstance(weights, Tensor) or weights.ndim != 1 or not len(weights):
        raise ParameterError(
            f"dirichlet: concentration must have shape (k,), got {concentration!r}"
        )
    shape = ((*parsed_size("dirichlet", size or ((),)), len(weights)),)
    final = prepared("dirichlet", shape, dtype, generator, device, None, total)
    parameters = {"concentration": weights}
    request = prepared(
        "dirichlet", shape, torch.float64, generator, device, None, total, parameters
    )
    logarithms = sampled(request, _log_gamma, weights)
    return final.result(torch.softmax(logarithms, dim=-1))


def _gamma(source: Source, count: int, shape: Parameter, scale: Parameter) -> Tensor:
    return _log_gamma(source, count, shape).exp_() * scale


def _beta(source: Source, count: int, alpha: Parameter, beta: Parameter) -> Tensor:
    first = _log_gamma(source, count, alpha)
    second = _log_gamma(source, count, beta, Domain.BETA_SECOND)
    return torch.sigmoid(first - second)


def _student_t(source: Source, count: int, df: Parameter) -> Tensor:
    z = normals53(paired(source.slots(Domain.STUDENT_T, count)))[0]
    # z / sqrt(chi2 / df), with chi2 = 2 gamma(df / 2).
    half = df / 2
    excess = _log_gamma(source, count, half) - torch.as_tensor(half).double().log()
    return z * torch.exp(-0.5 * excess)


def _log_gamma(
    source: Source, count: int, shape: Parameter, domain: Domain = Domain.GAMMA
) -> Tensor:
    """Return logarithms of gamma samples; two blocks of words per sample and attempt."""
    k = torch.as_tensor(shape, dtype=torch.float64, device=source.device)
    boosted = k < 1
    d = torch.where(boosted, k + 1, k) - 1 / 3
    c = 1 / torch.sqrt(9 * d)
    any_boosted = bool(boosted.any())

    def propose(offsets: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        width, centre = at(c, places), at(d, places)
        z = normals53(paired(source.slots(domain, offsets, attempt)))[0]
        more = paired(source.slots(domain | WIDE, offsets, attempt))
        log_v = 3 * torch.log1p(width * z)  # NaN below -1: never accepted
        bound = 0.5 * z * z + centre * (1 - log_v.exp() + log_v)
        good = torch.log(unit53(more[:, 0])) < bound
        value = log_v + centre.log()
        if any_boosted:
            # gamma(k) = gamma(k + 1) U**(1 / k), of words that the test above did not read.
            root = torch.log1p(-unit53(more[:, 1]))
            value = value + torch.where(at(boosted, places), root / at(k, places), 0.0)
        return value, good

    return accepted(count, propose)
