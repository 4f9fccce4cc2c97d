"""Stabilized biconjugate gradients for any matrix (van der Vorst, 1992)."""

from __future__ import annotations

import cmath

import torch
from torch import Tensor

from trnsci.core.krylov.runs import Product, Run, Watch, begun, ended, report
from trnsci.core.krylov.vectors import ONE, inner, norm

__all__ = ["bicgstab"]


def bicgstab(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return a run of stabilized biconjugate gradients for one vector, in constant memory."""
    r, products = begun(product, b, x)
    size = norm(r)
    run = Run(x, [watch.relative(size)], 0, products, "limit")
    shadow, p, image = r.clone(), torch.zeros_like(r), torch.zeros_like(r)
    rho, alpha, omega = 1.0, 1.0, 1.0
    while size > watch.goal and run.iterations < watch.limit:
        fresh = inner(shadow, r)
        if fresh == 0 or omega == 0 or not cmath.isfinite(fresh):
            run.reason = "breakdown"
            break
        p = r + (fresh / rho) * (alpha / omega) * (p - omega * image)
        rho = fresh
        direction = p if M is None else M(p)
        image = product(direction)
        below = inner(shadow, image)
        if below == 0:
            run.reason = "breakdown"
            break
        alpha = rho / below
        s = r - alpha * image
        second = s if M is None else M(s)
        t = product(second)
        run.matvecs += 2
        length = ONE.inner(t, t)
        omega = inner(t, s) / length if length > 0 else 0.0
        run.x = run.x + alpha * direction + omega * second
        r = s - omega * t
        size = norm(r)
        report(watch, run, size, run.x)
    if run.iterations and not size > watch.goal:
        run.reason = "converged"
    run.matvecs += 1
    return ended(run, watch, norm(b - product(run.x)))
