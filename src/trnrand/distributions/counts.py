"""Distributions of counts: Poisson, binomial, geometric, negative binomial."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, real
from trnrand._calls.calls import distribution
from trnrand._calls.requests import prepared
from trnrand._sampling.counts import (
    COUNTS,
    LARGEST,
    binomials,
    check_fits,
    gamma_end,
    geometric_of,
    geometrics,
    negative_binomials,
    poisson_end,
    poissons,
    whole_numbers,
)
from trnrand._sampling.samplers import sampled
from trnrand.generator import Generator

__all__ = ["binomial", "geometric", "negative_binomial", "poisson"]


@distribution()
def poisson(
    *size: Size,
    lam: Parameter = 1.0,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return samples of the Poisson distribution with mean ``lam``, whole numbers in ``dtype``.

    ``dtype`` may also be an integer dtype; float32 rounds counts above 2**24.

    Raises:
        ParameterError: ``lam`` is negative or above 2**50, counts may not fit ``dtype``, or another
            argument is outside of its range.
    """
    parameters = {"lam": real("poisson", "lam", lam, least=0.0, most=LARGEST)}
    request = prepared("poisson", size, dtype, generator, device, out, total, parameters, COUNTS)
    check_fits(request, poisson_end(parameters["lam"]))
    return sampled(request, poissons, *parameters.values())


@distribution()
def binomial(
    *size: Size,
    n: Parameter,
    p: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return the number of successes in ``n`` trials of probability ``p``, as ``dtype``.

    ``dtype`` may also be an integer dtype that holds ``n``.

    Raises:
        ParameterError: ``n`` is not a whole number in [0, 2**50], ``p`` not in [0, 1], or another
            argument is outside of its range.
    """
    parameters = {
        "n": whole_numbers("binomial", "n", n),
        "p": real("binomial", "p", p, least=0.0, most=1.0),
    }
    request = prepared("binomial", size, dtype, generator, device, out, total, parameters, COUNTS)
    check_fits(request, parameters["n"])
    return sampled(request, binomials, *parameters.values())


@distribution()
def geometric(
    *size: Size,
    p: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return the number of trials of probability ``p`` up to the first success, at least 1.

    ``dtype`` may also be an integer dtype.

    Raises:
        ParameterError: ``p`` is not in [2**-50, 1], counts may not fit ``dtype``, or another
            argument is outside of its range.
    """
    parameters = {"p": real("geometric", "p", p, least=1 / LARGEST, most=1.0)}
    request = prepared("geometric", size, dtype, generator, device, out, total, parameters, COUNTS)
    largest, chance = torch.tensor(1 - 2.0**-53, dtype=torch.float64), parameters["p"]
    check_fits(request, geometric_of(largest, torch.as_tensor(chance, dtype=torch.float64)))
    return sampled(request, geometrics, *parameters.values())


@distribution()
def negative_binomial(
    *size: Size,
    n: Parameter,
    p: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return the number of failures before ``n`` successes, in trials of probability ``p``.

    ``n`` need not be whole: the counts are Poisson with a gamma distributed mean of shape ``n`` and
    scale (1 - p) / p. ``dtype`` may also be an integer dtype.

    Raises:
        ParameterError: ``n`` is not positive, ``p`` not in (0, 1], counts may exceed 2**53 or not
            fit ``dtype``, or another argument is outside of its range.
    """
    function = "negative_binomial"
    parameters = {
        "n": real(function, "n", n, above=0.0),
        "p": real(function, "p", p, above=0.0, most=1.0),
    }
    request = prepared(function, size, dtype, generator, device, out, total, parameters, COUNTS)
    shape, chance = parameters.values()
    check_fits(request, poisson_end(gamma_end(shape) * (1 - chance) / chance), 2.0**53)
    return sampled(request, negative_binomials, shape, chance)
