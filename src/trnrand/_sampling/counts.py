"""Samplers of counts (Poisson, binomial, geometric) and checks of their dtypes.

Small means use inversion term by term. Larger ones use Hörmann's transformed rejection with
squeeze, PTRS for Poisson and BTRS for binomial (Insurance: Mathematics and Economics 12, 1993; J.
Statist. Comput. Simul. 46, 1993), exact for every mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand._calls.arguments import Parameter, real
from trnrand._calls.requests import Request
from trnrand._sampling.gammas import gammas
from trnrand._sampling.mass import INVERTED, NEGLIGIBLE, masses
from trnrand._sampling.samplers import Offsets, accepted, at, by_group, float64, many, units
from trnrand._sampling.tables import LARGEST_TABLE, Hat, binomial_table, poisson_table, tabled
from trnrand._stream.elementary import exp, log, log1p, root
from trnrand._stream.words import FLOATS, Domain, Source, paired, unit53
from trnrand.engines import block_numbers
from trnrand.errors import DTypeError, ParameterError

COUNTS = (*FLOATS, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
"""Dtypes that hold counts."""

LARGEST = 2.0**50
"""Largest parameter: counts near it, deviations included, are exact in float64."""

_TAIL = 44.5  # exp(-44.5) is below 2**-64
_CHUNK = 1 << 14  # samples with uniforms and counts that fit in the cache of a core


# -- limits ----------------------------------------------------------------------------------------


def check_fits(request: Request, end: Parameter, most: float = math.inf) -> None:
    """Raise unless ``end`` is at most ``most``, and the dtype holds counts as large as it."""
    dtype = request.dtype
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    largest = min(float(limits.max), most)
    counts = _as_tensor(end)
    if counts.numel() and bool((counts > largest).any()):
        raise DTypeError(
            f"{request.function}: counts must fit {dtype}, at most {largest:.9g}, got parameters "
            f"with counts to {float(counts.max()):.3g}"
        )


def poisson_end(mean: Parameter) -> Tensor:
    """Return a count that a Poisson sample exceeds with probability below exp(-_TAIL)."""
    m = _as_tensor(mean)
    # With t = root + _TAIL, t**2 / 2 (m + t / 3) >= _TAIL: Bernstein's bound.
    return m + torch.sqrt(2 * _TAIL * m) + _TAIL


def counts_within(variance: float) -> float:
    """Return a distance from the mean that is exceeded with probability below 2 exp(-_TAIL).

    It holds for a number of successes with this variance, by Bernstein's bound, also if the trials
    are without replacement and the variance is that with replacement.
    """
    return math.sqrt(2 * _TAIL * variance) + _TAIL


def gamma_end(shape: Parameter) -> Tensor:
    """Return a value that a standard gamma sample exceeds with probability below exp(-_TAIL)."""
    k = _as_tensor(shape)
    return k + torch.sqrt(2 * _TAIL * k) + _TAIL


def whole_numbers(function: str, name: str, value: Parameter) -> Parameter:
    """Return a parameter after checking that it is a whole number of at most ``LARGEST``."""
    checked = real(function, name, value, least=0.0, most=LARGEST)
    numbers = _as_tensor(checked)
    if (numbers != numbers.floor()).any():
        raise ParameterError(f"{function}: {name} must be whole, got {value}")
    return checked


def _as_tensor(parameter: Parameter) -> Tensor:
    return torch.as_tensor(parameter, dtype=torch.float64)


def _below(values: Tensor, bound: float) -> bool | Tensor:
    small = values < bound
    return small if small.ndim else bool(small)


def geometrics(source: Source, count: int, p: Parameter) -> Tensor:
    """Return geometric samples."""
    return geometric_of(units(source, Domain.GEOMETRIC, count), float64(p, source))


def geometric_of(u: Tensor, p: Tensor) -> Tensor:
    """Return the smallest count at which the geometric distribution function exceeds u."""
    return torch.floor(torch.log1p(-u) / torch.log1p(-p)) + 1


def negative_binomials(source: Source, count: int, n: Parameter, p: Parameter) -> Tensor:
    """Return Poisson samples with gamma distributed means."""
    chance = float64(p, source)
    mean = gammas(source, count, n) * ((1 - chance) / chance)
    return poissons(source, count, mean)


# -- Poisson ---------------------------------------------------------------------------------------


def poissons(source: Source, count: int, lam: Parameter) -> Tensor:
    """Return Poisson samples."""
    mean = float64(lam, source)
    return by_group(source, count, _below(mean, INVERTED), (_poisson_inverted, _ptrs), mean)


def _poisson_inverted(source: Source, offsets: Offsets, mean: Tensor) -> Tensor:
    u, first = slot_uniforms(source, Domain.POISSON, offsets), exp(-mean, source.compiled)
    if u.is_cpu and not mean.ndim:
        number = float(mean)
        return inverted_by_number(u, float(first), lambda k: number / k)
    return inverted(u, first, lambda k: mean / k)


class PoissonHat(NamedTuple):
    """The proposals of PTRS: floor((2 a / (0.5 - |u|) + b) u + mean + 0.43), u in [-0.5, 0.5).

    Their density times ``inverse_alpha`` is at least the density of the counts. A second uniform up
    to ``squeeze`` accepts without computing the probability, where |u| is at most 0.43.
    """

    a: Tensor
    b: Tensor
    inverse_alpha: Tensor
    squeeze: Tensor


def poisson_hat(mean: Tensor) -> PoissonHat:
    """Return constants for means of at least 10.

    They are Hörmann's except for the numerators over b. With his, 1.1328 and 3.6224, the
    probabilities exceed the hat by 0.5 % at some means between 10 and 60, and the squeeze accepts
    slightly too often.
    """
    b = 0.931 + 2.53 * root(mean)
    a = -0.059 + 0.02483 * b
    return PoissonHat(a, b, 1.1239 + 1.2 / (b - 3.4), 0.9277 - 3.75 / (b - 2))


def _ptrs(source: Source, offsets: Offsets, mean: Tensor) -> Tensor:
    hat = poisson_hat(mean)
    if mean.is_cpu and not mean.ndim and (end := int(poisson_end(mean))) < LARGEST_TABLE:
        numbers = Hat.of(hat, mean + 0.43, 0.013)
        table = poisson_table(float(mean), end)
        return accepted(offsets, tabled(source, Domain.POISSON, numbers, table))

    mass = masses(source.compiled).poisson

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        m, a, b, c, r = (at(p, places) for p in (mean, *hat))
        v, us, k = _transformed(source, Domain.POISSON, some, attempt, a, b, m + 0.43)
        good = (us >= 0.07) & (v <= r)
        # The squeeze decides six of seven; for the rest, logarithms.
        rest = ((k >= 0) & ((us >= 0.013) | (v <= us)) & ~good).nonzero()[:, 0]
        v, us, m, a, b, c = (at(x, rest) for x in (v, us, m, a, b, c))
        exact = mass(at(k, rest), m)
        good[rest] = log(v * c / (a / (us * us) + b), source.compiled) <= exact
        return k, good

    return accepted(offsets, propose)


# -- binomial --------------------------------------------------------------------------------------


def binomials(source: Source, offsets: Offsets, n: Parameter, p: Parameter) -> Tensor:
    """Return binomial samples."""
    trials, chance = float64(n, source), float64(p, source)
    if source.compiled and source.device.type == "cpu" and (trials.ndim or chance.ndim):
        shape = many(offsets)
        rows = chance.expand(shape)[:, None]
        return conditional_binomials(source, offsets, trials.expand(shape), rows)[:, 0]
    swapped = chance > 0.5
    smaller = torch.where(swapped, 1 - chance, chance)
    few = _below(trials * smaller, INVERTED)
    if isinstance(few, Tensor):
        trials, smaller = trials.expand(len(few)), smaller.expand(len(few))
    k = by_group(source, offsets, few, (_binomial_inverted, _btrs), trials, smaller)
    if not swapped.ndim:
        return trials - k if swapped else k
    return torch.where(swapped, trials - k, k)


def conditional_binomials(source: Source, offsets: Offsets, n: Tensor, p: Tensor) -> Tensor:
    """Return rows of binomial samples; each has the trials that the ones before did not count.

    Args:
        source: Source of the words.
        offsets: Offsets of the first sample of each row; the others follow it.
        n: Number of trials of each row.
        p: Probabilities, of shape (rows, samples of a row).
    """
    count = many(offsets)
    steps = torch.arange(count, device=source.device) if isinstance(offsets, int) else offsets
    out = torch.empty(p.shape, dtype=torch.float64, device=source.device)
    if not source.compiled or source.device.type != "cpu":
        rest = n.clone()
        for i in range(p.shape[1]):
            out[:, i] = binomials(source, steps + i, rest, p[:, i])
            rest -= out[:, i]
        return out
    from trnrand._sampling.compiled_binomials import BINOMIALS

    arrays = (x.contiguous().numpy() for x in (out, steps, n, p))
    numbers = block_numbers(source.engine, source.seed, source.start, Domain.BINOMIAL)
    BINOMIALS[source.engine](*arrays, numbers)
    return out


def _binomial_inverted(source: Source, offsets: Offsets, n: Tensor, p: Tensor) -> Tensor:
    u = slot_uniforms(source, Domain.BINOMIAL, offsets)
    odds, first = p / (1 - p), exp(n * log1p(-p))
    if u.is_cpu and not (n.ndim or p.ndim):
        trials, factor = float(n), float(odds)
        return inverted_by_number(u, float(first), lambda k: (trials - k + 1) / k * factor)
    return inverted(u, first, lambda k: (n - k + 1) / k * odds)


class BinomialHat(NamedTuple):
    """The proposals of BTRS: the formula of ``PoissonHat`` with n p + 0.5 in place of mean + 0.43.

    ``alpha`` times a count's probability, divided by the largest probability, is at most the
    density of the proposals.
    """

    a: Tensor
    b: Tensor
    alpha: Tensor
    squeeze: Tensor


def binomial_hat(n: Tensor, p: Tensor) -> BinomialHat:
    """Return Hörmann's constants for p up to 1/2 and n p of at least 10."""
    deviation = root(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    return BinomialHat(a, b, (2.83 + 5.1 / b) * deviation, 0.92 - 4.2 / b)


def _btrs(source: Source, offsets: Offsets, n: Tensor, p: Tensor) -> Tensor:
    hat = binomial_hat(n, p)
    mass = masses(source.compiled).binomial
    peak = mass(torch.floor((n + 1) * p), n, p)
    if n.is_cpu and not n.ndim and not p.ndim and n < LARGEST_TABLE:
        numbers = Hat.of(hat, n * p + 0.5, 0.0)
        table = binomial_table(int(n), float(p), float(peak))
        return accepted(offsets, tabled(source, Domain.BINOMIAL, numbers, table))

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        n1, p1, top, a, b, c, r = (at(x, places) for x in (n, p, peak, *hat))
        v, us, k = _transformed(source, Domain.BINOMIAL, some, attempt, a, b, n1 * p1 + 0.5)
        good = (us >= 0.07) & (v <= r)
        # The squeeze decides six of seven; for the rest, logarithms.
        rest = ((k >= 0) & (k <= n1) & ~good).nonzero()[:, 0]
        v, us, n1, p1, top, a, b, c = (at(x, rest) for x in (v, us, n1, p1, top, a, b, c))
        exact = mass(at(k, rest), n1, p1) - top
        good[rest] = log(v * c / (a / (us * us) + b), source.compiled) <= exact
        return k, good

    return accepted(offsets, propose)


# -- shared ----------------------------------------------------------------------------------------


def slot_uniforms(source: Source, domain: Domain, offsets: Offsets) -> Tensor:
    """Return float64 in [0, 1), one per sample, from its first slot."""
    return unit53(paired(source.slots(domain, offsets))[:, 0])


def inverted(u: Tensor, first: Tensor, ratio: Callable[[int], Tensor]) -> Tensor:
    """Return the smallest k at which the distribution function exceeds u.

    Args:
        u: Uniforms, overwritten.
        first: Probability of 0.
        ratio: Probability of k divided by the probability of k - 1.
    """
    k, count, term = torch.zeros_like(u), 0, first
    u -= term
    while True:
        beyond = (u >= 0) & (term > NEGLIGIBLE)
        if not beyond.any():
            return k
        count += 1
        k += beyond
        term = term * ratio(count)
        u -= term


def inverted_by_number(u: Tensor, first: float, ratio: Callable[[int], float]) -> Tensor:
    """Return the result of ``inverted`` on a CPU where all samples have the same probabilities.

    The sums and products are the same, term by term, but computed by Python and NumPy in a quarter
    of torch's time.
    """
    k = torch.zeros_like(u)
    for begin in range(0, len(k), _CHUNK):
        counts, rest = (x[begin : begin + _CHUNK].numpy() for x in (k, u))
        count, term = 0, first
        rest -= term
        while term > NEGLIGIBLE and (beyond := rest >= 0).any():
            count += 1
            counts += beyond
            term *= ratio(count)
            rest -= term
    return k


def _transformed(
    source: Source,
    domain: Domain,
    offsets: Offsets,
    attempt: int,
    a: Tensor,
    b: Tensor,
    centre: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (v, us, k): a uniform, the distance of another to its ends, and the proposed count."""
    pairs = paired(source.slots(domain, offsets, attempt))
    if pairs.is_cpu and not (a.ndim or b.ndim or centre.ndim) and source.compiled:
        from trnrand._sampling.compiled_integers import proposals

        v, us, k = torch.empty(3, len(pairs), dtype=torch.float64)
        arrays = (v.numpy(), us.numpy(), k.numpy())
        proposals(pairs.numpy(), float(a), float(b), float(centre), *arrays)
        return v, us, k
    first, v = unit53(pairs).unbind(1)
    u = first - 0.5
    us = 0.5 - u.abs()
    return v, us, torch.floor((2 * a / us + b) * u + centre)
