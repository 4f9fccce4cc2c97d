"""Conjugate gradients for Hermitian positive definite matrices (Hestenes and Stiefel, 1952)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.core.krylov.runs import Product, Run, Watch, begun, ended, report
from trnsci.core.krylov.vectors import Number, Vectors

__all__ = ["conjugate_gradients", "kernel_reference"]

_GAIN = 0.5
"""Restarts from the true residual continue while the last one gained more than this factor."""


def conjugate_gradients(
    product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch
) -> Run:
    """Return a run of conjugate gradients; x is overwritten.

    Several vectors share each product. A vector stays unchanged once it meets its goal, or if the
    matrix is not positive in its direction. If the recurrence meets the goal but the residual of x
    does not, because of rounding, the method is restarted at x.
    """
    space = watch.space
    r, products = begun(product, b, x, space)
    norms = space.norm(r)
    run = Run(x, [watch.relative(norms)], 0, products, "limit")

    def after(x: Tensor, norms: Number, active: Any) -> None:
        run.matvecs += 1
        report(watch, run, norms, x)

    while space.some(norms > watch.goal) and run.iterations < watch.limit:
        before, first = run.residuals[-1], run.iterations
        left = watch.limit - run.iterations
        run.x, norms = _steps(space, product, run.x, r, M, watch.goal, left, after)
        # Without a step the next restart would be this one again.
        stuck = run.iterations == first or space.some(norms > watch.goal)
        broken = run.iterations < watch.limit and stuck
        r = b - product(run.x)
        run.matvecs += 1 + broken
        norms = space.norm(r)
        run.residuals[-1] = watch.relative(norms)
        if broken or (not run.residuals[-1] < _GAIN * before and run.iterations < watch.limit):
            run.reason = "breakdown" if broken else "stagnated"
            break
    return ended(run, watch, norms)


def kernel_reference(
    product: Product,
    b: Tensor,
    x: Tensor,
    goal: Tensor,
    limit: int,
    dim: int,
    recorded: bool,
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Conjugate gradients without restarts: the torch reference of the kernels.

    Args:
        product: The product with the matrices.
        b: Right sides, vectors along ``dim``.
        x: The starting vectors.
        goal: Norms of the residuals at which to stop.
        limit: Number of steps.
        dim: Dimension of the vectors.
        recorded: Whether the call is traced, batched or differentiated: then all steps are made,
            without effect on finished vectors.

    Returns:
        Solutions, the norms of their residuals at the start and after each of ``limit`` steps, and
        the number of steps of each.
    """
    space = Vectors(dim, recorded=recorded)
    r = b - product(x)
    history = [space.norm(r)]
    counts = torch.zeros_like(history[0])

    def after(x: Tensor, norms: Number, active: Tensor) -> None:
        nonlocal counts
        counts = counts + active
        history.append(norms)

    found, _ = _steps(space, product, x.clone(), r, None, goal, limit, after)
    history += [history[-1]] * (limit + 1 - len(history))
    return found, history, counts


def _steps(
    space: Vectors,
    product: Product,
    x: Tensor,
    r: Tensor,
    M: Product | None,
    goal: Number,
    limit: int,
    after: Callable[[Tensor, Number, Any], None],
) -> tuple[Tensor, Number]:
    """Return x after steps of the recurrence that begins with the residual r, and its norms.

    ``after(x, norms, active)`` is called after each step; ``active`` are the vectors that changed.
    x and r are overwritten unless the call is traced or differentiated.
    """
    z = r if M is None else M(r)
    p, rho = z.clone(), space.inner(r, z)
    norms = space.root(rho) if M is None else space.norm(r)
    active = norms > goal
    for _ in range(limit):
        image = product(p)
        curvature = space.inner(p, image)
        active = active & (curvature > 0) & (curvature < math.inf)
        if not space.some(active):
            break
        alpha = space.ratio(rho, curvature, active)
        x = space.plus(x, alpha, p)
        r = space.plus(r, -alpha, image)
        before = rho
        if M is None:
            rho = space.inner(r, r)
            norms = space.root(rho)
        else:
            norms = space.norm(r)
        after(x, norms, active)
        active = active & (norms > goal)
        if not space.some(active):
            break
        if M is not None:
            z = M(r)
            rho = space.inner(r, z)
        else:
            z = r
        p = space.extended(z, space.ratio(rho, before, active), p)
    return x, norms
