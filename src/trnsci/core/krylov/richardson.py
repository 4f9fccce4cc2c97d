"""Richardson's iteration, and the report of methods with a fixed number of steps."""

from __future__ import annotations

import math

from torch import Tensor

from trnsci.core.krylov.runs import Product, Run, Watch, ended
from trnsci.core.krylov.vectors import Number

__all__ = ["richardson", "stepped"]


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
