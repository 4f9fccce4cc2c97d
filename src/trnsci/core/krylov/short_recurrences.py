"""Krylov methods with short recurrences, in constant memory.

- Conjugate gradients for Hermitian positive definite matrices (Hestenes and Stiefel, 1952)
- MINRES for Hermitian matrices, definite or not (Paige and Saunders, 1975)
- Stabilized biconjugate gradients for any matrix (van der Vorst, 1992)
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.core.krylov.runs import Product, Run, Watch, begun, ended, report
from trnsci.core.krylov.vectors import ONE, Number, Several, Vectors, inner, norm

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
        run.x, norms = _cg_steps(space, product, run.x, r, M, watch.goal, left, after)
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
    space = Several(dim, recorded=recorded)
    r = b - product(x)
    history = [space.norm(r)]
    counts = torch.zeros_like(history[0])

    def after(x: Tensor, norms: Number, active: Tensor) -> None:
        nonlocal counts
        counts = counts + active
        history.append(norms)

    found, _ = _cg_steps(space, product, x.clone(), r, None, goal, limit, after)
    history += [history[-1]] * (limit + 1 - len(history))
    return found, history, counts


def _cg_steps(
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
    p, rho = z.clone(), space.short_inner(r, z)
    norms = space.root(rho) if M is None else space.norm(r)
    active = norms > goal
    for _ in range(limit):
        image = product(p)
        curvature = space.short_inner(p, image)
        active = active & (curvature > 0) & (curvature < math.inf)
        if not space.some(active):
            break
        alpha = space.ratio(rho, curvature, active)
        x = space.plus(x, alpha, p)
        r = space.plus(r, -alpha, image)
        before = rho
        if M is None:
            rho = space.short_inner(r, r)
            norms = space.root(rho)
        else:
            norms = space.norm(r)
        after(x, norms, active)
        active = active & (norms > goal)
        if not space.some(active):
            break
        if M is not None:
            z = M(r)
            rho = space.short_inner(r, z)
        else:
            z = r
        p = space.extended(z, space.ratio(rho, before, active), p)
    return x, norms


def minres(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return a run of MINRES for one vector; M must be positive definite, and x is overwritten.

    As in ``conjugate_gradients``, the method is restarted at x if the residual of x misses the goal
    that the recurrence met.
    """
    space = watch.space
    r, products = begun(product, b, x, space)
    actual = space.norm(r)
    run = Run(x, [watch.relative(actual)], 0, products, "limit")
    while actual > watch.goal and run.iterations < watch.limit:
        before = actual
        done = _minres_steps(product, b, r, actual, M, watch, run)
        r = b - product(run.x)
        run.matvecs += 1
        actual = space.norm(r)
        run.residuals[-1] = watch.relative(actual)
        if done:
            break
        if not actual < _GAIN * before and run.iterations < watch.limit:
            run.reason = "stagnated"
            break
    return ended(run, watch, actual)


def _minres_steps(
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
