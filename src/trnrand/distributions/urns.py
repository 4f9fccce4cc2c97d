"""Urn models: hypergeometric (without replacement) and multinomial (with replacement).

Hypergeometric samples use inversion term by term for small means, and a ratio of uniforms for
larger ones (E. Stadlober, "The ratio of uniforms approach for generating discrete random variates",
Journal of Computational and Applied Mathematics 31, 1990).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, real
from trnrand._calls.calls import Shape, broadcast_shape, distribution
from trnrand._calls.requests import prepared, prepared_vectors
from trnrand._sampling.counts import (
    COUNTS,
    check_fits,
    conditional_binomials,
    counts_within,
    inverted,
    slot_uniforms,
    whole_numbers,
)
from trnrand._sampling.mass import INVERTED, masses
from trnrand._sampling.samplers import (
    Offsets,
    accepted,
    at,
    by_group,
    float64,
    sampled,
    sampled_vectors,
)
from trnrand._sampling.tables import LARGEST_TABLE
from trnrand._sampling.weights import scaled_weights
from trnrand._stream.elementary import exp, log, root
from trnrand._stream.words import Domain, Source, paired, unit53
from trnrand.errors import ParameterError, ShapeError
from trnrand.generator import Generator

__all__ = ["hypergeometric", "multinomial"]

# Work of one count of ``multinomial``, in units of the work of a simple sample.
_COST = 8

# Width of the region under a table mountain hat: the part per deviation, and the constant part.
_PER_DEVIATION, _OF_STEPS = 2 * math.sqrt(2 / math.e), 3 - 2 * math.sqrt(3 / math.e)


@distribution()
def hypergeometric(
    *size: Size,
    good: Parameter,
    bad: Parameter,
    draws: Parameter,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return the number of good members in ``draws`` without replacement, as ``dtype``.

    ``dtype`` may also be an integer dtype that holds the counts.

    Raises:
        ParameterError: ``good``, ``bad`` or ``draws`` is not a whole number in [0, 2**50], there
            are more draws than members, or another argument is outside of its range.
    """
    function = "hypergeometric"
    parameters = {
        "good": whole_numbers(function, "good", good),
        "bad": whole_numbers(function, "bad", bad),
        "draws": whole_numbers(function, "draws", draws),
    }
    request = prepared(function, size, dtype, generator, device, out, total, parameters, COUNTS)
    of_good, of_bad, taken = (torch.as_tensor(p, dtype=torch.float64) for p in parameters.values())
    if (taken > of_good + of_bad).any():
        raise ParameterError(f"{function}: draws must be at most good + bad, got {draws}")
    check_fits(request, torch.minimum(of_good, taken))
    return sampled(request, _hypergeometric, *parameters.values())


def _counts(n: int | Tensor, p: Tensor, size: Shape, **_: object) -> Shape:
    trials = n.shape if isinstance(n, Tensor) else ()
    return *(size if size else broadcast_shape(trials, p.shape[:-1])), p.shape[-1]


@distribution(leading=2, shape=_counts)
def multinomial(
    n: int | Tensor,
    p: Tensor,
    *size: Size,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    total: int | None = None,
) -> Tensor:
    """Return the counts of k categories in ``n`` trials, of shape (*size, k).

    The last dimension of ``p`` holds the weights of the categories, which need not sum to 1. Its
    leading dimensions and ``n`` broadcast to ``size``, the batch shape of the vectors, and give its
    default. ``categorical`` draws single trials.

    Raises:
        ParameterError: ``n`` is not a whole number in [0, 2**50], the weights are negative or all
            0, ``n`` does not fit ``dtype``, or another argument is outside of its range.
    """
    function = "multinomial"
    trials = whole_numbers(function, "n", n)
    weights = real(function, "p", p, least=0.0)
    if not isinstance(weights, Tensor):
        raise ShapeError(f"{function}: p must have shape (..., k), got {p!r}")
    weights = scaled_weights(function, weights)
    # Total weight of category i and the later ones.
    left = weights.flip(-1).cumsum(-1).flip(-1)
    batch = {"n": trials, "p": left[..., 0]}
    width = weights.shape[-1]
    request = prepared_vectors(
        function, size, width, batch, dtype, generator, device, total, COUNTS
    )
    check_fits(request, trials)
    chances = torch.where(left > 0, weights / left, 0.0)

    def sampler(source: Source, vectors: int, n: Parameter, chances: Tensor, row: Tensor) -> Tensor:
        source = source.sized(_COST * vectors * width)
        trials = float64(n, source).expand(vectors)
        firsts = torch.arange(vectors, device=source.device) * width
        out = conditional_binomials(source, firsts, trials, chances[row, :-1])
        return torch.cat([out, (trials - out.sum(1))[:, None]], dim=1)

    return sampled_vectors(request, sampler, trials, chances)


def _hypergeometric(
    source: Source, count: int, good: Parameter, bad: Parameter, draws: Parameter
) -> Tensor:
    of_good, of_bad, taken = (float64(p, source) for p in (good, bad, draws))
    everything = of_good + of_bad
    if (everything + taken).ndim:
        of_good, of_bad, taken = (p.expand(count) for p in (of_good, of_bad, taken))
        everything = of_good + of_bad
    # Exchanging good and bad members, or drawn and remaining ones, gives a count of the same
    # distribution up to a reflection: count the rarer members among the fewer, from 0 on.
    rare = torch.minimum(of_good, of_bad)
    few = torch.minimum(taken, everything - taken)
    small = rare * few < INVERTED * everything.clamp(min=1)
    k = by_group(
        source,
        count,
        small if small.ndim else bool(small),
        (_hypergeometric_inverted, _by_ratio),
        rare,
        everything - rare,
        few,
    )
    k = torch.where(of_good <= of_bad, k, few - k)
    return torch.where(taken <= everything - taken, k, of_good - k)


def _hypergeometric_inverted(
    source: Source, offsets: Offsets, rare: Tensor, other: Tensor, few: Tensor
) -> Tensor:
    u = slot_uniforms(source, Domain.HYPERGEOMETRIC, offsets)
    none = exp(masses(source.compiled).hypergeometric(torch.zeros_like(rare), rare, other, few))

    def ratio(k: int) -> Tensor:
        return (rare - k + 1) * (few - k + 1) / (k * (other - few + k))

    return inverted(u, none.expand(u.shape), ratio)


class RatioHat(NamedTuple):
    """Constants of the proposals floor(centre + width (v - 0.5) / u), and the mode."""

    centre: Tensor
    width: Tensor
    mode: Tensor


def ratio_hat(rare: Tensor, other: Tensor, few: Tensor) -> RatioHat:
    """Return Stadlober's constants for ``few`` draws from ``rare`` and ``other`` members."""
    members = rare + other
    mean = few * (rare / members)
    variance = mean * (other / members) * ((members - few) / (members - 1))
    width = _PER_DEVIATION * root(variance + 0.5) + _OF_STEPS
    return RatioHat(mean + 0.5, width, torch.floor((few + 1) * ((rare + 1) / (members + 2))))


def _by_ratio(source: Source, offsets: Offsets, rare: Tensor, other: Tensor, few: Tensor) -> Tensor:
    hat = ratio_hat(rare, other, few)
    mass = masses(source.compiled).hypergeometric
    peak = mass(hat.mode, rare, other, few)
    most = torch.minimum(rare, few)
    table = None if rare.ndim else _ratio_table(*(float(x) for x in (rare, other, few, hat.mode)))
    if table is not None:
        return accepted(offsets, _tabled(source, hat, *table))

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        u, v = unit53(paired(source.slots(Domain.HYPERGEOMETRIC, some, attempt))).unbind(1)
        k = torch.floor(at(hat.centre, places) + at(hat.width, places) * (v - 0.5) / u)
        possible = (k >= 0) & (k <= at(most, places))
        inside = torch.where(possible, k, torch.zeros_like(k))
        exact = mass(inside, *(at(p, places) for p in (rare, other, few))) - at(peak, places)
        return k, possible & (2 * log(u, source.compiled) <= exact)

    return accepted(offsets, propose)


@lru_cache(maxsize=64)
def _ratio_table(
    rare: float, other: float, few: float, mode: float
) -> tuple[int, NDArray[np.float64]] | None:
    """Return the first count of a table, and from it on each probability over the largest one.

    The counts outside the table have a total probability below 2**-63. None if the table were too
    long.
    """
    share = rare / (rare + other)
    reach = math.ceil(counts_within(few * share * (1 - share)))
    first, last = max(0, int(mode) - reach), min(int(min(rare, few)), int(mode) + reach)
    if last - first >= LARGEST_TABLE:
        return None
    k = torch.arange(first, last + 1, dtype=torch.float64, device="cpu")
    mass = masses().hypergeometric
    members = [torch.tensor(x, dtype=torch.float64, device="cpu") for x in (rare, other, few)]
    peak = mass(torch.tensor(mode, dtype=torch.float64, device="cpu"), *members)
    return first, exp(mass(k, *members) - peak).numpy()


def _tabled(
    source: Source, hat: RatioHat, first: int, table: NDArray[np.float64]
) -> Callable[[Offsets, Offsets, int], tuple[Tensor, Tensor]]:
    """Return the ``propose`` function of ``accepted``; counts outside the table are rejected."""
    ratios = torch.from_numpy(table).to(source.device)

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        u, v = unit53(paired(source.slots(Domain.HYPERGEOMETRIC, some, attempt))).unbind(1)
        k = torch.floor(hat.centre + hat.width * (v - 0.5) / u)
        inside = (k >= first) & (k < first + len(ratios))
        ratio = ratios[torch.where(inside, k - first, 0.0).long()]
        return k, inside & (u * u <= ratio)

    return propose
