"""Urn models: hypergeometric (without replacement) and multinomial (with replacement).

Hypergeometric samples use inversion term by term for small means, and a ratio of uniforms for
larger ones (E. Stadlober, "The ratio of uniforms approach for generating discrete random variates",
Journal of Computational and Applied Mathematics 31, 1990).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from trnrand._paths.arguments import Device, Parameter, Size, real
from trnrand._paths.calls import Shape, broadcast_shape, distribution
from trnrand._paths.requests import prepared, prepared_vectors
from trnrand._sampling.mass import log_hypergeometric
from trnrand._sampling.samplers import (
    Offsets,
    accepted,
    at,
    by_group,
    float64,
    sampled,
    sampled_vectors,
)
from trnrand._sampling.weights import scaled_weights
from trnrand._stream.counting import (
    COUNTS,
    INVERTED,
    binomials,
    check_fits,
    inverted,
    slot_uniforms,
    whole_numbers,
)
from trnrand._stream.words import Domain, Source, paired, unit53
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["hypergeometric", "multinomial"]

# Half the width of the region under a table mountain hat, per deviation, and the constant part.
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
        raise ParameterError(f"{function}: p must have shape (..., k), got {p!r}")
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

    def sampler(source: Source, vectors: int, n: Parameter, chances: Tensor) -> Tensor:
        rest = float64(n, source).expand(vectors).clone()
        out = torch.empty((vectors, width), dtype=torch.float64, device=source.device)
        firsts = torch.arange(vectors, device=source.device) * width
        for i in range(width - 1):
            out[:, i] = binomials(source, firsts + i, rest, chances[..., i])
            rest -= out[:, i]
        out[:, -1] = rest
        return out

    return sampled_vectors(request, sampler, trials, chances)


def _hypergeometric(
    source: Source, count: int, good: Parameter, bad: Parameter, draws: Parameter
) -> Tensor:
    of_good, of_bad, taken = (float64(p, source) for p in (good, bad, draws))
    everything = of_good + of_bad
    if (everything + taken).ndim:
        of_good, of_bad, taken = (p.expand(count) for p in (of_good, of_bad, taken))
        everything = of_good + of_bad
    # By symmetry, the rarer kind and the smaller of drawn and remaining: counts start at 0.
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
    none = torch.exp(log_hypergeometric(torch.zeros_like(rare), rare, other, few))

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
    width = _PER_DEVIATION * torch.sqrt(variance + 0.5) + _OF_STEPS
    return RatioHat(mean + 0.5, width, torch.floor((few + 1) * ((rare + 1) / (members + 2))))


def _by_ratio(source: Source, offsets: Offsets, rare: Tensor, other: Tensor, few: Tensor) -> Tensor:
    hat = ratio_hat(rare, other, few)
    peak = log_hypergeometric(hat.mode, rare, other, few)
    most = torch.minimum(rare, few)

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        u, v = unit53(paired(source.slots(Domain.HYPERGEOMETRIC, some, attempt))).unbind(1)
        k = torch.floor(at(hat.centre, places) + at(hat.width, places) * (v - 0.5) / u)
        possible = (k >= 0) & (k <= at(most, places))
        inside = torch.where(possible, k, torch.zeros_like(k))
        mass = log_hypergeometric(inside, *(at(p, places) for p in (rare, other, few)))
        return k, possible & (2 * torch.log(u) <= mass - at(peak, places))

    return accepted(offsets, propose)
