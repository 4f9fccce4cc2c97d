"""Distributions of counts: Poisson, binomial, geometric.

Small means are inverted term by term. Larger ones use Hörmann's transformed rejection with squeeze,
PTRS for Poisson and BTRS for binomial (Insurance: Mathematics and Economics 12, 1993; J. Statist.
Comput. Simul. 46, 1993), exact for every mean.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnrand._arguments import Device, Parameter, Size, real
from trnrand._laws import FLOATS
from trnrand._mass import log_binomial, log_poisson
from trnrand._requests import prepared
from trnrand._sampling import Offsets, accepted, at, by_group, sampled, units
from trnrand._words import Domain, Source, paired, unit53
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["binomial", "geometric", "poisson"]

COUNTS = (*FLOATS, torch.int64, torch.int32)
"""Dtypes that hold counts."""

_INVERTED = 10.0  # means below this are inverted; the rejections are proven from 10 on
_LARGEST = 2.0**50  # counts near this are exact in float64, with room for their deviations
_NEGLIGIBLE = 1e-20  # a term that no uniform of 53 bits can tell from zero


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

    ``dtype`` may also be int64 or int32; float32 rounds counts above 2**24.

    Raises:
        ParameterError: ``lam`` is negative or above 2**50, or another argument is outside of its
            range.
    """
    parameters = {"lam": real("poisson", "lam", lam, least=0.0, most=_LARGEST)}
    request = prepared("poisson", size, dtype, generator, device, out, total, parameters, COUNTS)
    return sampled(request, _poisson, *parameters.values())


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
    """Return how many of ``n`` trials with probability ``p`` succeed, whole numbers in ``dtype``.

    ``dtype`` may also be int64 or int32.

    Raises:
        ParameterError: ``n`` is not a whole number in [0, 2**50], ``p`` not in [0, 1], or another
            argument is outside of its range.
    """
    parameters = {
        "n": real("binomial", "n", n, least=0.0, most=_LARGEST),
        "p": real("binomial", "p", p, least=0.0, most=1.0),
    }
    trials = torch.as_tensor(parameters["n"], dtype=torch.float64)
    if (trials != trials.floor()).any():
        raise ParameterError(f"binomial: n must be whole, got {n}")
    request = prepared("binomial", size, dtype, generator, device, out, total, parameters, COUNTS)
    return sampled(request, _binomial, *parameters.values())


def geometric(
    *size: Size,
    p: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return how many trials with probability ``p`` it takes to succeed once, 1 or more.

    ``dtype`` may also be int64 or int32.

    Raises:
        ParameterError: ``p`` is not in [2**-50, 1], or another argument is outside of its range.
    """
    parameters = {"p": real("geometric", "p", p, least=1 / _LARGEST, most=1.0)}
    request = prepared("geometric", size, dtype, generator, device, out, total, parameters, COUNTS)
    return sampled(request, _geometric, *parameters.values())


def _float64(parameter: Parameter, source: Source) -> Tensor:
    return torch.as_tensor(parameter, dtype=torch.float64, device=source.device)


def _below(values: Tensor, bound: float) -> bool | Tensor:
    small = values < bound
    return small if small.ndim else bool(small)


def _geometric(source: Source, count: int, p: Parameter) -> Tensor:
    u = units(source, Domain.GEOMETRIC, count)
    return torch.floor(torch.log1p(-u) / torch.log1p(-_float64(p, source))) + 1


# -- Poisson ---------------------------------------------------------------------------------------


def _poisson(source: Source, count: int, lam: Parameter) -> Tensor:
    mean = _float64(lam, source)
    return by_group(source, count, _below(mean, _INVERTED), (_poisson_inverted, _ptrs), mean)


def _poisson_inverted(source: Source, offsets: Offsets, mean: Tensor) -> Tensor:
    u = _slot_uniform(source, Domain.POISSON, offsets)
    return _inverted(u, torch.exp(-mean), lambda k: mean / k)


def _ptrs(source: Source, offsets: Offsets, mean: Tensor) -> Tensor:
    b = 0.931 + 2.53 * torch.sqrt(mean)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        m, b1, a1, c1, r1 = (at(p, places) for p in (mean, b, a, inverse_alpha, squeeze))
        v, us, k = _transformed(source, Domain.POISSON, some, attempt, a1, b1, m + 0.43)
        exact = torch.log(v * c1 / (a1 / (us * us) + b1)) <= log_poisson(k, m)
        worth = (k >= 0) & ((us >= 0.013) | (v <= us))
        return k, (us >= 0.07) & (v <= r1) | worth & exact

    return accepted(offsets, propose)


# -- binomial --------------------------------------------------------------------------------------


def _binomial(source: Source, count: int, n: Parameter, p: Parameter) -> Tensor:
    trials, chance = _float64(n, source), _float64(p, source)
    swapped = chance > 0.5
    smaller = torch.where(swapped, 1 - chance, chance)
    few = _below(trials * smaller, _INVERTED)
    if isinstance(few, Tensor):
        trials, smaller = trials.expand(count), smaller.expand(count)
    k = by_group(source, count, few, (_binomial_inverted, _btrs), trials, smaller)
    return torch.where(swapped, trials - k, k)


def _binomial_inverted(source: Source, offsets: Offsets, n: Tensor, p: Tensor) -> Tensor:
    u = _slot_uniform(source, Domain.BINOMIAL, offsets)
    odds = p / (1 - p)
    return _inverted(u, torch.exp(n * torch.log1p(-p)), lambda k: (n - k + 1) / k * odds)


def _btrs(source: Source, offsets: Offsets, n: Tensor, p: Tensor) -> Tensor:
    deviation = torch.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * deviation
    squeeze = 0.92 - 4.2 / b
    peak = log_binomial(torch.floor((n + 1) * p), n, p)

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        n1, p1, b1, a1, c1, r1, top = (at(x, places) for x in (n, p, b, a, alpha, squeeze, peak))
        centre = n1 * p1 + 0.5
        v, us, k = _transformed(source, Domain.BINOMIAL, some, attempt, a1, b1, centre)
        possible = (k >= 0) & (k <= n1)
        inside = torch.where(possible, k, torch.zeros_like(k))
        exact = torch.log(v * c1 / (a1 / (us * us) + b1)) <= log_binomial(inside, n1, p1) - top
        return k, (us >= 0.07) & (v <= r1) | possible & exact

    return accepted(offsets, propose)


# -- both ------------------------------------------------------------------------------------------


def _slot_uniform(source: Source, domain: Domain, offsets: Offsets) -> Tensor:
    return unit53(paired(source.slots(domain, offsets))[:, 0])


def _inverted(u: Tensor, first: Tensor, ratio: Callable[[int], Tensor]) -> Tensor:
    """Return the smallest k at which the distribution function exceeds u.

    Args:
        u: Uniforms, used up.
        first: Probability of 0.
        ratio: Probability of k over that of k - 1.
    """
    k, count, term = torch.zeros_like(u), 0, first
    u -= term
    while True:
        beyond = (u >= 0) & (term > _NEGLIGIBLE)
        if not beyond.any():
            return k
        count += 1
        k += beyond
        term = term * ratio(count)
        u -= term


def _transformed(
    source: Source,
    domain: Domain,
    offsets: Offsets,
    attempt: int,
    a: Tensor,
    b: Tensor,
    centre: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return a uniform on [0, 1), the distance of another one to its ends, and k made of that."""
    first, v = unit53(paired(source.slots(domain, offsets, attempt))).unbind(1)
    u = first - 0.5
    us = 0.5 - u.abs()
    return v, us, torch.floor((2 * a / us + b) * u + centre)
