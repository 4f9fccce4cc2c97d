"""Richardson's iteration, and the report of methods with a fixed number of steps."""

from __future__ import annotations

import math

from torch import Tensor

from trnsci.core.krylov.runs import Product, Run, Watch

__all__ = ["richardson", "stepped"]


def richardson(product: Product, b: Tensor, x: Tensor, watch: Watch, omega: float) -> Run:
    """Return a run of ``watch.limit`` steps ``x + omega * (b - A x)``."""
    for _ in range(watch.limit):
        x = x + omega * (b - product(x))
    return stepped(product, b, x, watch)


def stepped(product: Product, b: Tensor, x: Tensor, watch: Watch) -> Run:
    """Return the run of a method that has made all its steps, with the residual of x."""
    residual = watch.relative(watch.space.norm(b - product(x)))
    reason = "limit" if math.isfinite(residual) else "diverged"
    return Run(x, [residual], watch.limit, watch.limit + 1, reason)  # type: ignore[arg-type]
