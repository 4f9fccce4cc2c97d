"""Methods of conjugate directions: conjugate gradients and minimal residuals.

Right-hand sides may be several columns, which share the products with the matrix and nothing else.
Inner products are float64 numbers, vectors stay in the dtype of the right-hand side.
"""

from __future__ import annotations

from math import hypot

import torch
from torch import Tensor

from trnsci.core.iterations import IterationInfo, Reason, Solution
from trnsparse._vectors import Operator, dots, norms

__all__ = ["conjugate_gradients", "finished", "minimal_residuals"]

_TINY_NORM = 1e-15
_TINY_CURVATURE = 1e-30
"""Curvature at which there is nothing left to gain, beside that of the first direction below 1."""

# A restart from the true residual is worth it while it gains at least this factor.
_GAIN = 0.5


def finished(
    x: Tensor,
    iterations: int,
    residual: float,
    tol: float,
    reason: Reason,
    residuals: list[float],
    matvecs: int,
) -> Solution:
    """Return a solution with how it went."""
    converged = residual <= tol
    reason = "converged" if converged else reason
    info = IterationInfo(converged, reason, tuple(residuals), matvecs)
    return Solution(x, iterations, residual, info)


def _alone(sums: Tensor) -> Tensor:
    return sums


def conjugate_gradients(
    A: Operator,
    b: Tensor,
    x: Tensor,
    started: bool,
    tol: float,
    max_iter: int,
    M: Operator,
    total: Operator = _alone,
) -> Solution:
    """Return the solution of a positive definite system, started at ``x``, which is changed.

    Args:
        A: The product with the matrix.
        b: Right-hand side, or several as columns.
        x: Where to begin.
        started: Whether ``x`` is anything but zero.
        tol: Relative residual at which to stop.
        max_iter: Iterations after which to stop.
        M: The approximate inverse.
        total: Sums inner products over all that share the vectors.
    """

    def norms(a: Tensor) -> Tensor:
        return total(dots(a, a)).sqrt()

    size = norms(b)
    # A column without a right-hand side counts as solved.
    scale = torch.where(size < _TINY_NORM, torch.inf, size)
    if bool((size < _TINY_NORM).all()):  # which a norm that is no number is not
        return finished(x, 0, 0.0, max(tol, 0.0), "converged", [0.0], 0)
    matvecs = int(started)
    r = b - A(x) if started else b.clone()
    relative = _worst(norms(r), scale)
    residuals = [relative]
    iterations, reason, best = 0, "limit", float("inf")
    while relative > tol and iterations < max_iter:
        advance = _one_direction if b.ndim == 1 else _directions
        x, r, steps, ended = advance(
            A, M, x, r, scale, tol, max_iter - iterations, residuals, total
        )
        iterations += steps
        matvecs += steps + 1
        # Rounding parts the recurrence from the residual; only the residual itself counts.
        r = b - A(x)
        relative = _worst(norms(r), scale)
        residuals[-1] = relative
        if ended == "breakdown" or not relative <= _GAIN * best:
            reason = ended if ended in ("breakdown", "limit") else "stagnated"
            break
        best = relative
    return finished(x, iterations, relative, tol, _judged(reason, relative), residuals, matvecs)


def _one_direction(
    A: Operator,
    M: Operator,
    x: Tensor,
    r: Tensor,
    scale: Tensor,
    tol: float,
    limit: int,
    residuals: list[float],
    total: Operator,
) -> tuple[Tensor, Tensor, int, str]:
    """Return what ``_directions`` does for one right-hand side, in place, with plain numbers."""

    def dot(a: Tensor, b: Tensor) -> float:
        return float(total(dots(a, b)))

    size, z, least = float(scale), M(r), 0.0
    p, rho = z.clone(), dot(r, z)
    for step in range(1, limit + 1):
        q = A(p)
        curvature = dot(p, q)
        if step == 1:
            least = _TINY_CURVATURE * min(1.0, abs(curvature))
        if abs(curvature) <= least:
            if step == 1:
                residuals.append(residuals[-1])
            return x, r, step - 1, "breakdown"
        alpha = rho / curvature
        x.add_(p, alpha=alpha)
        r.sub_(q, alpha=alpha)
        square = dot(r, r)
        residuals.append(square**0.5 / size)
        if not residuals[-1] > tol:
            return x, r, step, "converged"
        z = M(r)
        before, rho = rho, square if z is r else dot(r, z)
        torch.add(z, p, alpha=rho / before if before else 0.0, out=p)
    return x, r, limit, "limit"


def _directions(
    A: Operator,
    M: Operator,
    x: Tensor,
    r: Tensor,
    scale: Tensor,
    tol: float,
    limit: int,
    residuals: list[float],
    total: Operator,
) -> tuple[Tensor, Tensor, int, str]:
    """Return x and r after conjugate steps until the recurrence meets the tolerance."""
    z = M(r)
    p, rho, least = z, total(dots(r, z)), torch.empty(0)
    for step in range(1, limit + 1):
        q = A(p)
        curvature = total(dots(p, q))
        if step == 1:
            least = _TINY_CURVATURE * curvature.abs().clamp(max=1.0)
        # Columns that are solved stand still: nothing is left to divide.
        alive = curvature.abs() > least
        if not bool(alive.any()):
            if step == 1:
                residuals.append(residuals[-1])
            return x, r, step - 1, "breakdown"
        alpha = torch.where(alive, rho / torch.where(alive, curvature, 1.0), 0.0)
        x = x + _times(alpha, p)
        r = r - _times(alpha, q)
        relative = _worst(total(dots(r, r)).sqrt(), scale)
        residuals.append(relative)
        if not relative > tol:
            return x, r, step, "converged"
        z = M(r)
        before, rho = rho, total(dots(r, z))
        beta = torch.where(before != 0, rho / torch.where(before != 0, before, 1.0), 0.0)
        p = z + _times(beta, p)
    return x, r, limit, "limit"


def minimal_residuals(
    A: Operator, b: Tensor, x: Tensor, started: bool, tol: float, max_iter: int, M: Operator
) -> Solution:
    """Return the solution of a symmetric, possibly indefinite system (Paige and Saunders, 1975).

    Without a preconditioner no other vector of the Krylov space has a smaller residual.
    """
    size = float(norms(b))
    if size < _TINY_NORM:
        return finished(x, 0, 0.0, max(tol, 0.0), "converged", [0.0], 0)
    r1 = b - A(x) if started else b.clone()
    y = M(r1)
    beta = float(dots(r1, y))
    residuals, matvecs = [float(norms(r1)) / size], int(started)
    reason: Reason = "limit"
    if beta <= 0 or residuals[0] <= tol:
        reason = "breakdown" if residuals[0] > tol else "converged"
        return finished(x, 0, residuals[0], tol, reason, residuals, matvecs)
    beta = beta**0.5
    first, r2 = residuals[0] / beta, r1
    old, delta_bar, epsilon, phi = 0.0, 0.0, 0.0, beta
    cosine, sine = -1.0, 0.0
    w, w2 = torch.zeros_like(b), torch.zeros_like(b)
    iterations, extent, smallest = 0, 0.0, 4 * torch.finfo(b.dtype).eps
    for iterations in range(1, max_iter + 1):
        v = y / beta
        y = A(v)
        matvecs += 1
        if iterations > 1:
            y = y - (beta / old) * r1
        alpha = float(dots(v, y))
        y = y - (alpha / beta) * r2
        r1, r2 = r2, y
        y = M(r2)
        old, square = beta, float(dots(r2, y))
        if square < 0:
            reason = "breakdown"
            break
        beta = square**0.5
        previous, delta = epsilon, cosine * delta_bar + sine * alpha
        gamma_bar = sine * delta_bar - cosine * alpha
        epsilon, delta_bar = sine * beta, -cosine * beta
        # A maps the residual to nothing: of a singular system this is the best x there is.
        extent = hypot(extent, alpha, beta, old if iterations > 1 else 0.0)
        if hypot(gamma_bar, delta_bar) <= smallest * extent:
            residuals.append(residuals[-1])
            reason = "stagnated"
            break
        gamma = max(hypot(gamma_bar, beta), torch.finfo(torch.float64).tiny)
        cosine, sine = gamma_bar / gamma, beta / gamma
        step, phi = cosine * phi, sine * phi
        w1, w2 = w2, w
        w = (v - previous * w1 - delta * w2) / gamma
        x = x + step * w
        residuals.append(phi * first)
        if not residuals[-1] > tol:
            reason = "stagnated"
            break
        if beta == 0:
            reason = "breakdown"
            break
    residual = float(norms(b - A(x))) / size
    residuals[-1] = residual
    found = _judged(reason, residual)
    return finished(x, iterations, residual, tol, found, residuals, matvecs + 1)


def _worst(sizes: Tensor, scale: Tensor) -> float:
    return float((sizes / scale).max())


def _times(factor: Tensor, vectors: Tensor) -> Tensor:
    """Return vectors times one factor for each column, in their own dtype."""
    real = torch.float64 if vectors.dtype in (torch.float64, torch.complex128) else torch.float32
    return factor.to(real) * vectors if vectors.is_complex() else factor.to(vectors.dtype) * vectors


def _judged(reason: str, residual: float) -> Reason:
    if residual != residual or residual == float("inf"):
        return "diverged"
    return reason  # type: ignore[return-value]
