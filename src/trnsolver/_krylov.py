"""Krylov methods on one vector of unknowns, without derivatives.

Each takes the start x, a goal for the norm of the residual, and returns a ``Run``. What is compared
with the goal at the end is the residual of x itself, not what a recurrence says it is.

Vectors are tensors, or arrays, which ``_arrays`` makes of them.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnsci.core.iterations import Reason

__all__ = [
    "Progress",
    "Run",
    "Watch",
    "begun",
    "bicgstab",
    "conjugate_gradients",
    "ended",
    "inner",
    "minres",
    "norm",
    "tell",
]

Vector: TypeAlias = Any
"""A tensor or an array."""

Product: TypeAlias = Callable[[Vector], Vector]


@dataclass(frozen=True)
class Progress:
    """What a callback gets after each iteration.

    Attributes:
        iteration: Iterations done.
        residual: Norm of the residual over that of b, as the recurrence has it.
        x: The solution so far, or None where the method has none between restarts.
    """

    iteration: int
    residual: float
    x: Tensor | None


@dataclass
class Run:
    """How a method went: the solution, the norms of its residuals, and why it stopped.

    ``scale`` is the norm of the right side, which residuals are shown relative to.
    """

    x: Vector
    norms: list[float]
    iterations: int
    matvecs: int
    reason: Reason
    details: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0


@dataclass(frozen=True)
class Watch:
    """What a method looks at: its goal, its limit, and who wants to know."""

    goal: float
    limit: int
    scale: float
    callback: Callable[[Progress], object] | None = None


_TINY = 1e-30
"""Instead of a divisor of zero, where the matrix is singular."""

# Sums of many products of float32 numbers are worth the digits of float64.
_WIDE: dict[Any, Any] = {
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
    np.dtype(np.float32): np.float64,
    np.dtype(np.complex64): np.complex128,
}


def norm(v: Vector) -> float:
    """Return the Euclidean norm."""
    if isinstance(v, np.ndarray):
        return math.sqrt(inner(v, v).real)
    wide = _WIDE.get(v.dtype)
    return float(torch.linalg.vector_norm(v if wide is None else v.to(wide)))


def inner(a: Vector, b: Vector) -> Any:
    """Return ``a^H b`` as a number."""
    wide = _WIDE.get(a.dtype)
    if isinstance(a, np.ndarray):
        if wide is not None:
            a, b = a.astype(wide), b.astype(wide)
        return np.vdot(a, b).item()
    if wide is None:
        return torch.vdot(a, b).item()
    left = a.to(wide)
    return torch.vdot(left, left if b is a else b.to(wide)).item()


def _moved(x: Vector, factor: Any, direction: Vector) -> None:
    """Add a multiple of a vector to another, in place."""
    if isinstance(x, np.ndarray):
        x += factor * direction
    else:
        x.add_(direction, alpha=factor)


def begun(product: Product, b: Vector, x: Vector) -> tuple[Vector, int]:
    """Return the residual at the start, and the products that it took: none for zero."""
    if not x.any():
        return _copy(b), 0
    return b - product(x), 1


def _copy(v: Vector) -> Vector:
    return v.copy() if isinstance(v, np.ndarray) else v.clone()


def tell(watch: Watch, run: Run) -> None:
    """Call the callback, if there is one, with a copy of x."""
    if watch.callback is not None:
        x = torch.from_numpy(run.x.copy()) if isinstance(run.x, np.ndarray) else run.x.clone()
        watch.callback(Progress(run.iterations, run.norms[-1] / watch.scale, x))


def conjugate_gradients(
    product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch
) -> Run:
    """Return the solution for a Hermitian positive definite matrix.

    Where the recurrence meets the goal and the residual of x does not, x is where it starts anew:
    rounding has parted the two.
    """
    r, products = begun(product, b, x)
    run = Run(_copy(x), [norm(r)], 0, products, "limit")
    while run.norms[-1] > watch.goal and run.iterations < watch.limit:
        before = run.norms[-1]
        z = r if M is None else M(r)
        p, rho = _copy(z), inner(r, z).real
        while run.iterations < watch.limit:
            image = product(p)
            run.matvecs += 1
            curvature = inner(p, image).real
            if not curvature > 0 or not math.isfinite(curvature):
                run.reason = "breakdown" if math.isfinite(curvature) else "diverged"
                return _measured(run, product, b)
            alpha = rho / curvature
            # x, r and p are written over: a step of few numbers costs what its calls do.
            _moved(run.x, alpha, p)
            _moved(r, -alpha, image)
            z = r if M is None else M(r)
            fresh = inner(r, z).real
            run.iterations += 1
            run.norms.append(fresh**0.5 if M is None else norm(r))
            tell(watch, run)
            if run.norms[-1] <= watch.goal:
                break
            p *= fresh / rho
            p += z
            rho = fresh
        r = b - product(run.x)
        run.matvecs += 1
        run.norms[-1] = norm(r)
        if run.norms[-1] > 0.5 * before and run.iterations < watch.limit:
            run.reason = "stagnated"
            break
    return ended(run, watch)


def minres(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return the solution for a Hermitian matrix, definite or not (Paige and Saunders 1975).

    As in ``conjugate_gradients``, x is where it starts anew if the residual of x misses the goal
    that the recurrence met.
    """
    r, products = begun(product, b, x)
    run = Run(x, [norm(r)], 0, products, "limit")
    while run.norms[-1] > watch.goal and run.iterations < watch.limit:
        before = run.norms[-1]
        done = _minres_steps(product, b, r, M, watch, run)
        r = b - product(run.x)
        run.matvecs += 1
        run.norms[-1] = norm(r)
        if done:
            break
        if run.norms[-1] > 0.5 * before and run.iterations < watch.limit:
            run.reason = "stagnated"
            break
    return ended(run, watch)


def _minres_steps(
    product: Product, b: Vector, r: Vector, M: Product | None, watch: Watch, run: Run
) -> bool:
    """Add what belongs to a residual to x, until the recurrence meets the goal.

    Returns:
        Whether there is nothing more to be found, of which the reason is in the run.
    """
    r1 = r2 = r
    y = r1 if M is None else M(r1)
    beta = inner(r1, y).real
    if not 0 < beta < math.inf:
        run.reason = "breakdown" if math.isfinite(beta) else "diverged"
        return True
    beta = phibar = math.sqrt(beta)
    # The recurrence knows the norm that M induces; without M it is that of the residual.
    ratio = run.norms[-1] / beta
    old, epsilon, dbar, cs, sn = 0.0, 0.0, 0.0, -1.0, 0.0
    w, w2 = 0 * r, 0 * r
    first, size = run.iterations, 0.0
    smallest = 4 * (torch.finfo if isinstance(r, Tensor) else np.finfo)(r.dtype).eps
    while run.iterations < watch.limit:
        v = y / beta
        y = product(v)
        run.matvecs += 1
        if run.iterations > first:
            y = y - (beta / old) * r1
        alpha = inner(v, y).real
        y = y - (alpha / beta) * r2
        r1, r2 = r2, y
        y = r2 if M is None else M(r2)
        old, squared = beta, inner(r2, y).real
        if squared < 0 or not math.isfinite(squared):
            run.reason = "breakdown" if squared < 0 else "diverged"
            return True
        beta = math.sqrt(squared)
        old_epsilon, delta = epsilon, cs * dbar + sn * alpha
        gbar, epsilon, dbar = sn * dbar - cs * alpha, sn * beta, -cs * beta
        # The matrix maps the residual to nothing: of a singular one this is the best x there is.
        size = math.hypot(size, alpha, beta, old if run.iterations > first else 0.0)
        if math.hypot(gbar, dbar) <= smallest * size:
            run.reason = "stagnated"
            return True
        gamma = math.hypot(gbar, beta) or _TINY
        cs, sn = gbar / gamma, beta / gamma
        phi, phibar = cs * phibar, sn * phibar
        w1, w2 = w2, w
        w = (v - old_epsilon * w1 - delta * w2) / gamma
        run.x = run.x + phi * w
        run.iterations += 1
        run.norms.append(phibar * ratio)
        tell(watch, run)
        if beta == 0 or (run.norms[-1] <= watch.goal and M is None):
            break
        if run.norms[-1] <= watch.goal:
            # M has changed what the norms have to do with each other.
            actual = norm(b - product(run.x))
            run.matvecs += 1
            if actual <= watch.goal or phibar == 0:
                break
            ratio = actual / phibar
    return False


def bicgstab(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return the solution for any matrix by stabilized biconjugate gradients (van der Vorst)."""
    r, products = begun(product, b, x)
    run = Run(x, [norm(r)], 0, products, "limit")
    shadow, p, image = _copy(r), 0 * r, 0 * r
    rho, alpha, omega = 1.0, 1.0, 1.0
    while run.norms[-1] > watch.goal and run.iterations < watch.limit:
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
        length = inner(t, t).real
        omega = inner(t, s) / length if length > 0 else 0.0
        run.x = run.x + alpha * direction + omega * second
        r = s - omega * t
        run.iterations += 1
        run.norms.append(norm(r))
        tell(watch, run)
    return _measured(ended(run, watch), product, b, watch)


def ended(run: Run, watch: Watch) -> Run:
    """Return the run with its reason: the goal is met, or the residual is no number."""
    if not math.isfinite(run.norms[-1]):
        run.reason = "diverged"
    elif run.norms[-1] <= watch.goal:
        run.reason = "converged"
    return run


def _measured(run: Run, product: Product, b: Tensor, watch: Watch | None = None) -> Run:
    """Return the run with the residual of its x as the last one."""
    run.norms[-1] = norm(b - product(run.x))
    run.matvecs += 1
    if watch is None:
        return run
    if run.reason == "converged" and run.norms[-1] > watch.goal:
        run.reason = "stagnated"
    return ended(run, watch)
