"""Log probability mass of the Poisson, binomial and hypergeometric distributions.

In the form of Loader ("Fast and accurate computation of binomial probabilities", 2000): deviances
replace differences of large log factorials, so large parameters lose no accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnrand._stream.elementary import log, log1p

INVERTED = 10.0
"""Means below this use inversion; the rejection samplers are proven from 10 on."""

NEGLIGIBLE = 1e-20
"""Probability at which an inversion ends, below the resolution of a 53-bit uniform."""

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)

STIRLING_RESTS = [0.0] + [
    math.log(math.factorial(k)) - (k + 0.5) * math.log(k) + k - _HALF_LOG_2PI for k in range(1, 16)
]
"""log(k!) minus Stirling's formula for k to 15, ten times as fast as lgamma; entry 0 is unused."""

_C1, _C2, _C3, _C4 = 1 / 12, 1 / 360, 1 / 1260, 1 / 1680
_D = tuple(1 / (2 * j + 1) for j in range(8, 0, -1))

Definition = Callable[..., Any]


class Masses(NamedTuple):
    """Functions of one implementation.

    Attributes:
        stirling_rest: log(k!) minus Stirling's formula, for whole k > 0.
        deviance: k log(k / mean) + mean - k.
        poisson: (k, mean) to log(mean**k exp(-mean) / k!), for whole k >= 0 and positive means.
        binomial: (k, n, p) to log(C(n, k) p**k (1 - p)**(n - k)), for whole 0 <= k <= n and
            0 < p < 1.
    """

    stirling_rest: Definition
    deviance: Definition
    poisson: Definition
    binomial: Definition

    def hypergeometric(self, k: Tensor, good: Tensor, bad: Tensor, draws: Tensor) -> Tensor:
        """Return log(C(good, k) C(bad, draws - k) / C(good + bad, draws)), for possible k."""
        members = good + bad
        # The factors p**draws (1 - p)**(members - draws) cancel.
        p = draws / members.clamp(min=1)
        both: Tensor = self.binomial(k, good, p) + self.binomial(draws - k, bad, p)
        return both - self.binomial(draws, members, p)


def defined_masses(
    log: Definition,
    log1p: Definition,
    either: Definition,
    small_rest: Definition,
    compiled: Callable[[Definition], Definition],
) -> Masses:
    """Return the logarithms of probability mass, as functions written with these operations.

    Args:
        log: Logarithm.
        log1p: Logarithm of 1 + x.
        either: (test, yes, no) to the function that is ``yes`` where ``test`` is true, else ``no``.
        small_rest: Entry of ``STIRLING_RESTS``; any value where there is none.
        compiled: Decorator of the functions, such as ``numba.njit``.
    """

    @compiled
    def small(k: Any) -> Any:
        return k < 16.0

    @compiled
    def series(k: Any) -> Any:
        # The next term of the series is 1 / 1188 k**9: below 1e-13 where the series is used.
        inverse = 1.0 / k
        q = inverse * inverse
        return (_C1 - (_C2 - (_C3 - _C4 * q) * q) * q) * inverse

    stirling_rest = either(small, small_rest, series)

    # With k / mean = (1 + v) / (1 - v), the logarithm is 2 (v + v**3/3 + ...).
    @compiled
    def is_near(k: Any, mean: Any) -> Any:
        return abs(k - mean) < 0.1 * (k + mean)

    @compiled
    def near(k: Any, mean: Any) -> Any:
        # The first terms cancel. v**2 <= 0.01: the ninth term is below 1e-17 of the second.
        difference = k - mean
        v = difference / (k + mean)
        q = v * v
        p = q * _D[0]
        p += _D[1]
        for coefficient in _D[2:]:
            p *= q
            p += coefficient
        return difference * v + 2.0 * k * v * (q * p)

    @compiled
    def far(k: Any, mean: Any) -> Any:
        return k * log(k / mean) - (k - mean)

    deviance = either(is_near, near, far)

    @compiled
    def positive(k: Any, mean: Any) -> Any:
        return k > 0.0

    @compiled
    def some(k: Any, mean: Any) -> Any:
        return -_HALF_LOG_2PI - 0.5 * log(k) - stirling_rest(k) - deviance(k, mean)

    @compiled
    def none(k: Any, mean: Any) -> Any:
        return -mean

    @compiled
    def is_inside(k: Any, n: Any, p: Any) -> Any:
        return (k > 0.0) & (k < n)

    @compiled
    def inside(k: Any, n: Any, p: Any) -> Any:
        rest = n - k
        return (
            stirling_rest(n)
            - stirling_rest(k)
            - stirling_rest(rest)
            - deviance(k, n * p)
            - deviance(rest, n * (1.0 - p))
            - _HALF_LOG_2PI
            - 0.5 * (log(k) + log(rest) - log(n))
        )

    @compiled
    def is_all(k: Any, n: Any, p: Any) -> Any:
        return k > 0.0

    @compiled
    def of_all(k: Any, n: Any, p: Any) -> Any:
        return n * log(p)

    @compiled
    def of_none(k: Any, n: Any, p: Any) -> Any:
        return n * log1p(-p)

    ends = either(is_all, of_all, of_none)
    return Masses(
        stirling_rest, deviance, either(positive, some, none), either(is_inside, inside, ends)
    )


def _small_rest(k: Tensor) -> Tensor:
    table = torch.tensor(STIRLING_RESTS, dtype=k.dtype, device=k.device)
    return table[torch.where(k < len(STIRLING_RESTS), k, 0.0).long()]


def _either(test: Definition, yes: Definition, no: Definition) -> Definition:
    return lambda *values: torch.where(test(*values), yes(*values), no(*values))


@cache
def masses(compiled: bool = False) -> Masses:
    """Return the functions on tensors of float64; ``compiled`` selects loops for logarithms."""
    return defined_masses(
        partial(log, compiled=compiled),
        partial(log1p, compiled=compiled),
        _either,
        _small_rest,
        lambda function: function,
    )
