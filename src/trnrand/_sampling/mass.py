"""Log probability mass of the Poisson, binomial and hypergeometric distributions.

In the form of Loader ("Fast and accurate computation of binomial probabilities", 2000): deviances
replace differences of large log factorials, so large parameters lose no accuracy.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["log_binomial", "log_hypergeometric", "log_poisson"]

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

# log(k!) minus Stirling's formula for k to 15, ten times as fast as lgamma; entry 0 is unused.
_STIRLING_RESTS = [0.0] + [
    math.log(math.factorial(k)) - (k + 0.5) * math.log(k) + k - _HALF_LOG_2PI for k in range(1, 16)
]


def log_poisson(k: Tensor, mean: Tensor) -> Tensor:
    """Return log(mean**k exp(-mean) / k!) for whole k >= 0 and positive means."""
    inside = -_HALF_LOG_2PI - 0.5 * torch.log(k) - _stirling_rest(k) - _deviance(k, mean)
    return torch.where(k > 0, inside, -mean)


def log_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    """Return log(C(n, k) p**k (1 - p)**(n - k)) for whole 0 <= k <= n and 0 < p < 1."""
    rest = n - k
    inside = (
        _stirling_rest(n)
        - _stirling_rest(k)
        - _stirling_rest(rest)
        - _deviance(k, n * p)
        - _deviance(rest, n * (1 - p))
        - _HALF_LOG_2PI
        - 0.5 * (torch.log(k) + torch.log(rest) - torch.log(n))
    )
    ends = torch.where(k > 0, n * torch.log(p), n * torch.log1p(-p))
    return torch.where((k > 0) & (rest > 0), inside, ends)


def log_hypergeometric(k: Tensor, good: Tensor, bad: Tensor, draws: Tensor) -> Tensor:
    """Return log(C(good, k) C(bad, draws - k) / C(good + bad, draws)), all whole, k possible."""
    members = good + bad
    # The factors p**draws (1 - p)**(members - draws) cancel.
    p = draws / members.clamp(min=1)
    both = log_binomial(k, good, p) + log_binomial(draws - k, bad, p)
    return both - log_binomial(draws, members, p)


def _stirling_rest(k: Tensor) -> Tensor:
    """Return log(k!) minus Stirling's formula, for whole k > 0."""
    square = k * k
    # The next term of the series is 1 / 1188 k**9: below 1e-13 where the series is used.
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / k
    small = k < len(_STIRLING_RESTS)
    if not small.any():
        return series
    table = torch.tensor(_STIRLING_RESTS, dtype=k.dtype, device=k.device)
    return torch.where(small, table[torch.where(small, k, 0.0).long()], series)


def _deviance(k: Tensor, mean: Tensor) -> Tensor:
    """Return k log(k / mean) + mean - k."""
    difference, total = k - mean, k + mean
    v = difference / total
    # With k / mean = (1 + v) / (1 - v): log is 2 (v + v**3/3 + ...), and the first terms cancel.
    square, term = v * v, 2 * k * v
    near = difference * v
    for j in range(1, 9):  # v**2 <= 0.01: the ninth term is below 1e-17 of the second
        term = term * square
        near = near + term / (2 * j + 1)
    far = k * torch.log(k / mean) - difference
    return torch.where(v.abs() < 0.1, near, far)
