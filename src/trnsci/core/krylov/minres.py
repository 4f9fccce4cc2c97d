"""MINRES for Hermitian matrices, definite or not (Paige and Saunders, 1975)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnsci.core.krylov.runs import Product, Run, Watch, begun, ended, report

__all__ = ["minres"]


def minres(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return a run of MINRES for one vector; M must be positive definite, and x is overwritten.

    As in ``conjugate_gradients`` the method is restarted at x if the residual of x misses the goal
    that the recurrence met.
    """
    space = watch.space
    r, products = begun(product, b, x, space)
    actual = space.norm(r)
    run = Run(x, [watch.relative(actual)], 0, products, "limit")
    while actual > watch.goal and run.iterations < watch.limit:
        before = actual
        done = _steps(product, b, r, actual, M, watch, run)
        r = b - product(run.x)
        run.matvecs += 1
        actual = space.norm(r)
        run.residuals[-1] = watch.relative(actual)
        if done:
            break
        if not actual < 0.5 * before and run.iterations < watch.limit:
            run.reason = "stagnated"
            break
    return ended(run, watch, actual)


def _steps(
    product: Product,
    b: Tensor,
    r: Tensor,
    actual: float,
    M: Product | None,
    watch: Watch,
    run: Run,
) -> bool:
    """Add the corrections for a residual r to x, until the recurrence meets the goal.

    Returns:
        Whether the method cannot continue; the run has the reason.
    """
    space = watch.space
    r1 = r2 = r
    y = r1 if M is None else M(r1)
    square = space.inner(r1, y)
    if not 0 < square < math.inf:
        run.reason = "breakdown" if math.isfinite(square) else "diverged"
        return True
    beta = phibar = math.sqrt(square)
    # The recurrence has the norm that M induces; without M it is that of the residual.
    ratio = actual / beta
    old, epsilon, dbar, cs, sn = 0.0, 0.0, 0.0, -1.0, 0.0
    w, w2 = torch.zeros_like(r), torch.zeros_like(r)
    first, size = run.iterations, 0.0
    smallest, largest = 4 * torch.finfo(r.dtype).eps, torch.finfo(r.dtype).max
    while run.iterations < watch.limit:
        v = y / beta
        y = product(v)
        run.matvecs += 1
        if run.iterations > first:
            y = torch.sub(y, r1, alpha=beta / old)
        alpha = space.inner(v, y)
        if not abs(alpha / beta) <= largest:
            run.reason = "diverged"
            return True
        y = torch.sub(y, r2, alpha=alpha / beta)
        r1, r2 = r2, y
        y = r2 if M is None else M(r2)
        old, square = beta, space.inner(r2, y)
        if square < 0 or not math.isfinite(square):
            run.reason = "breakdown" if square < 0 else "diverged"
            return True
        beta = math.sqrt(square)
        old_epsilon, delta = epsilon, cs * dbar + sn * alpha
        gbar, epsilon, dbar = sn * dbar - cs * alpha, sn * beta, -cs * beta
        # The matrix maps the residual to zero: for a singular one this x has the least residual.
        size = math.hypot(size, alpha, beta, old if run.iterations > first else 0.0)
        if math.hypot(gbar, dbar) <= smallest * size:
            run.reason = "stagnated"
            return True
        gamma = math.hypot(gbar, beta)
        cs, sn = gbar / gamma, beta / gamma
        phi, phibar = cs * phibar, sn * phibar
        if not max(abs(old_epsilon), abs(delta), abs(phi), gamma, beta / old) <= largest:
            run.reason = "diverged"
            return True
        w1, w2 = w2, w
        w = torch.sub(v, w1, alpha=old_epsilon).sub_(w2, alpha=delta).div_(gamma)
        run.x.add_(w, alpha=phi)
        report(watch, run, phibar * ratio, run.x)
        if beta == 0 or (phibar * ratio <= watch.goal and M is None):
            break
        if phibar * ratio <= watch.goal:
            # With M the ratio of the two norms changes between iterations.
            actual = space.norm(b - product(run.x))
            run.matvecs += 1
            if actual <= watch.goal or phibar == 0:
                break
            ratio = actual / phibar
    return False
