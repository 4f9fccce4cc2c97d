"""Sampler of gamma variates: the method of Marsaglia and Tsang (ACM TOMS 26, 2000) in float64.

Ratios of gamma variates (beta, Dirichlet, Student's t) are computed from logarithms: with a small
shape the samples themselves would underflow.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._paths.arguments import Parameter
from trnrand._paths.torch_path import first_normals53
from trnrand._sampling.samplers import Offsets, accepted, at, float64
from trnrand._stream.words import WIDE, Domain, Source, paired, unit53

__all__ = ["gammas", "log_acceptance", "log_gammas", "student_normals"]


def student_normals(source: Source, count: int) -> Tensor:
    """Return the standard normals in the numerator of Student's t."""
    return first_normals53(paired(source.slots(Domain.STUDENT_T, count)))


def log_gammas(
    source: Source, count: int, shape: Parameter, domain: Domain = Domain.GAMMA
) -> Tensor:
    """Return logarithms of standard gamma samples."""
    return gammas(source, count, shape, domain, logarithms=True)


def gammas(
    source: Source,
    count: int,
    shape: Parameter,
    domain: Domain = Domain.GAMMA,
    logarithms: bool = False,
) -> Tensor:
    """Return standard gamma samples or their logarithms; two blocks per sample and attempt."""
    k = float64(shape, source)
    boosted = k < 1
    d = torch.where(boosted, k + 1, k) - 1 / 3
    c = 1 / torch.sqrt(9 * d)
    any_boosted = bool(boosted.any())

    def propose(offsets: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        centre = at(d, places)
        x = at(c, places) * first_normals53(paired(source.slots(domain, offsets, attempt)))
        more = paired(source.slots(domain | WIDE, offsets, attempt))
        good = torch.log(unit53(more[:, 0])) < log_acceptance(x, centre)
        if not logarithms and not any_boosted:
            return centre * (1 + x) ** 3, good
        value = 3 * torch.log1p(x) + centre.log()
        if any_boosted:
            # gamma(k) = gamma(k + 1) U**(1 / k), with words that the test above did not use.
            root = torch.log1p(-unit53(more[:, 1]))
            value = value + torch.where(at(boosted, places), root / at(k, places), 0.0)
        if logarithms:
            return value, good
        # A sample does not depend on whether others are boosted.
        return torch.where(at(boosted, places), value.exp(), centre * (1 + x) ** 3), good

    return accepted(count, propose)


def log_acceptance(x: Tensor, d: Tensor) -> Tensor:
    """Return the log acceptance probability of d (1 + x)**3, where 3 x sqrt(d) is normal.

    It is z**2 / 2 + d - d v + d log(v) with z = 3 x sqrt(d) and v = (1 + x)**3, in which the powers
    of x below the fourth cancel. It is NaN, which is never accepted, for x below -1.
    """
    small = d < 1e4
    if d.ndim:
        return torch.where(small, _whole_acceptance(x, d), _acceptance_series(x, d))
    return _whole_acceptance(x, d) if small else _acceptance_series(x, d)


def _whole_acceptance(x: Tensor, d: Tensor) -> Tensor:
    return 3 * d * (torch.log1p(x) - x * (1 - x * (1 / 2 - x / 3)))


def _acceptance_series(x: Tensor, d: Tensor) -> Tensor:
    # |x| is at most 9.5 / 3 sqrt(d), here 0.032: the next term is below 1e-8 of the first, which is
    # below 0.01. The remainder of the difference above falls as 1 / d.
    # Products, since torch rounds a general power differently at the end of an array.
    square = x * x
    return -3 * d * (square * square) * (1 / 4 - x * (1 / 5 - x * (1 / 6 - x * (1 / 7 - x / 8))))
