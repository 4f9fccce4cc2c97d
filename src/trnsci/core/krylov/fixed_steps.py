"""Methods with a fixed number of steps: Richardson's and Chebyshev's iteration.

Chebyshev's is for positive definite matrices whose spectrum has known bounds.
"""

from __future__ import annotations

import math
from math import ceil, inf, log, log1p, sqrt

from torch import Tensor

from trnsci.core.errors import FlagError
from trnsci.core.krylov.runs import Product, Run, Watch, ended
from trnsci.core.krylov.vectors import Number


def richardson(product: Product, b: Tensor, x: Tensor, watch: Watch, omega: float) -> Run:
    """Return a run of ``watch.limit`` steps ``x + omega * (b - A x)``."""
    start: Number = math.inf
    for step in range(watch.limit):
        r = b - product(x)
        start = watch.space.norm(r) if step == 0 else start
        x = x + omega * r
    return stepped(product, b, x, watch, start)


def stepped(product: Product, b: Tensor, x: Tensor, watch: Watch, start: Number) -> Run:
    """Return the run of a method that has made all its steps, with the residual of x.

    It has diverged if that residual is larger than both ``start``, the one before the first step,
    and the right side, which is the residual of zero.
    """
    norms = watch.space.norm(b - product(x))
    grown = watch.space.some((norms > start) & (norms > watch.scale))
    run = Run(x, [0.0], watch.limit, watch.limit + 1, "diverged" if grown else "limit")
    return ended(run, watch, norms)


_LEAST = 5e-324
"""The smallest float, where the ratio of the bounds underflows."""


def chebyshev(
    product: Product, b: Tensor, x: Tensor, watch: Watch, lam_min: float, lam_max: float
) -> Run:
    """Return a run of ``watch.limit`` steps; only the first and the last have an inner product."""
    before, start = x, None
    for alpha, beta in zip(*coefficients(lam_min, lam_max, watch.limit), strict=True):
        r = b - product(x)
        start = watch.space.norm(r) if start is None else start
        before, x = x, x + alpha * r + beta * (x - before)
    return stepped(product, b, x, watch, inf if start is None else start)


def coefficients(lam_min: float, lam_max: float, K: int) -> tuple[list[float], list[float]]:
    """Return K coefficients alpha and beta of ``x + alpha r + beta (x - x_before)``."""
    d, c = lam_max / 2 + lam_min / 2, (lam_max - lam_min) / 2
    alpha, beta = [1 / d], [0.0]
    for k in range(1, K):
        # Twice the usual term at the second step: T_1 = x lacks the factor of T_k = 2x T - T.
        t = (c * alpha[-1]) ** 2 / (2 if k == 1 else 4)
        before = alpha[-1]
        alpha.append(1 / (d - t / before))
        beta.append(alpha[-1] * t / before)
    return alpha[:K], beta[:K]


def needed_steps(function: str, lam_min: float, lam_max: float, tol: float) -> int:
    """Return the number of steps that reduce every error by the factor ``tol``.

    Raises:
        FlagError: tol is not between 0 and 1.
    """
    if not 0 < tol < 1:
        raise FlagError(f"{function}: tol must be between 0 and 1, got {tol}")
    if lam_min == lam_max:
        return 1
    # acosh(1 / tol) over acosh((1 + ratio) / (1 - ratio)), without overflow and cancellation.
    ratio = lam_min / lam_max
    beyond = max(2 * ratio / (1 - ratio), _LEAST)
    gain = log1p(beyond + sqrt(beyond * (2 + beyond)))
    return ceil((log1p(sqrt((1 - tol) * (1 + tol))) - log(tol)) / gain)
