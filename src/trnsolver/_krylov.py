"""Krylov methods on one vector of unknowns, without derivatives.

Each takes the start x, a goal for the norm of the residual, and returns a ``Run``. What is compared
with the goal at the end is the residual of x itself, not what a recurrence says it is.

Vectors are tensors, or arrays: on a CPU a step of a small dense system is ten operations of a
microsecond each, and NumPy's cost half of torch's. ``on_arrays`` makes that choice.
"""

from __future__ import annotations

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
    "bicgstab",
    "conjugate_gradients",
    "flexible_gmres",
    "minres",
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


def on_arrays(
    method: Callable[..., Run], dense: Tensor, b: Tensor, x: Tensor, M: Product | None, watch: Watch
) -> Run:
    """Return how a method went for a dense system on a CPU, computed by NumPy."""
    matrix = dense.resolve_conj().numpy()
    wrapped = None if M is None else (lambda r: M(torch.from_numpy(r)).resolve_conj().numpy())
    right, start = (v.resolve_conj().numpy() for v in (b, x))
    run = method(lambda v: matrix @ v, right, start.copy(), wrapped, watch)
    run.x = torch.from_numpy(run.x)
    return run


def _moved(x: Vector, factor: Any, direction: Vector) -> None:
    """Add a multiple of a vector to another, in place."""
    if isinstance(x, np.ndarray):
        x += factor * direction
    else:
        x.add_(direction, alpha=factor)


def _begun(product: Product, b: Vector, x: Vector) -> tuple[Vector, int]:
    """Return the residual at the start, and the products that it took: none for zero."""
    if not x.any():
        return _copy(b), 0
    return b - product(x), 1


def _copy(v: Vector) -> Vector:
    return v.copy() if isinstance(v, np.ndarray) else v.clone()


def _tell(watch: Watch, run: Run) -> None:
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
    r, products = _begun(product, b, x)
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
            _tell(watch, run)
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
    return _ended(run, watch)


def minres(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return the solution for a Hermitian matrix, definite or not (Paige and Saunders 1975)."""
    r1, products = _begun(product, b, x)
    run = Run(x, [norm(r1)], 0, products, "limit")
    if run.norms[0] <= watch.goal:
        return _ended(run, watch)
    y = r1 if M is None else M(r1)
    beta = inner(r1, y).real
    if not beta > 0:
        run.reason = "breakdown"
        return run
    beta = phibar = math.sqrt(beta)
    # The recurrence knows the norm that M induces; without M it is that of the residual.
    ratio = run.norms[0] / beta
    old, epsilon, dbar, cs, sn = 0.0, 0.0, 0.0, -1.0, 0.0
    r2, w, w2 = r1, 0 * b, 0 * b
    while run.iterations < watch.limit:
        v = y / beta
        y = product(v)
        run.matvecs += 1
        if run.iterations:
            y = y - (beta / old) * r1
        alpha = inner(v, y).real
        y = y - (alpha / beta) * r2
        r1, r2 = r2, y
        y = r2 if M is None else M(r2)
        old, squared = beta, inner(r2, y).real
        if squared < 0 or not math.isfinite(squared):
            run.reason = "breakdown" if squared < 0 else "diverged"
            return _measured(run, product, b)
        beta = math.sqrt(squared)
        old_epsilon, delta = epsilon, cs * dbar + sn * alpha
        gbar, epsilon, dbar = sn * dbar - cs * alpha, sn * beta, -cs * beta
        gamma = math.hypot(gbar, beta) or _TINY
        cs, sn = gbar / gamma, beta / gamma
        phi, phibar = cs * phibar, sn * phibar
        w1, w2 = w2, w
        w = (v - old_epsilon * w1 - delta * w2) / gamma
        run.x = run.x + phi * w
        run.iterations += 1
        run.norms.append(phibar * ratio)
        _tell(watch, run)
        if run.norms[-1] <= watch.goal or beta == 0:
            actual = norm(b - product(run.x))
            run.matvecs += 1
            if actual <= watch.goal or beta == 0 or M is None:
                break
            ratio = actual / phibar if phibar > 0 else ratio
    return _measured(_ended(run, watch), product, b, watch)


def bicgstab(product: Product, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return the solution for any matrix by stabilized biconjugate gradients (van der Vorst)."""
    r, products = _begun(product, b, x)
    run = Run(x, [norm(r)], 0, products, "limit")
    shadow, p, image = _copy(r), 0 * r, 0 * r
    rho, alpha, omega = 1.0, 1.0, 1.0
    while run.norms[-1] > watch.goal and run.iterations < watch.limit:
        fresh = inner(shadow, r)
        if fresh == 0 or omega == 0 or not math.isfinite(abs(fresh)):
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
        _tell(watch, run)
    return _measured(_ended(run, watch), product, b, watch)


def flexible_gmres(
    product: Product,
    b: Tensor,
    x: Tensor,
    M: Product | None,
    watch: Watch,
    restart: int,
    recycled: tuple[Tensor, Tensor] | None = None,
    keep: int = 0,
) -> Run:
    """Return the solution for any matrix, with a preconditioner that may change from step to step.

    The limit counts restarts. Residuals are watched by Givens rotations, so that a cycle ends when
    the goal is met; vectors are made orthogonal twice. ``recycled`` has directions U and C = A U
    with orthonormal columns, which are projected out; ``keep`` new ones are in ``details``.
    """
    r, products = _begun(product, b, x)
    run = Run(x, [], 0, products, "limit")
    if recycled is not None and recycled[0].shape[-1]:
        U, C = recycled
        share = C.mH @ r
        run.x, r = run.x + U @ share, r - C @ share
    else:
        recycled = None
    run.norms.append(norm(r))
    cycles = 0
    while run.norms[-1] > watch.goal and cycles < watch.limit:
        before = run.norms[-1]
        if not math.isfinite(before):
            run.reason = "diverged"
            break
        cycle = _Cycle(product, M, r, before, recycled, min(restart, b.shape[-1]))
        while cycle.open and cycle.residual > watch.goal:
            cycle.step()
            run.iterations += 1
            run.norms.append(cycle.residual)
            if watch.callback is not None:
                watch.callback(Progress(run.iterations, cycle.residual / watch.scale, None))
        run.x = run.x + cycle.correction()
        run.matvecs += cycle.steps
        cycles += 1
        if keep:
            recycled = run.details["recycle"] = cycle.recycled(keep)
        r = b - product(run.x)
        run.matvecs += 1
        run.norms[-1] = norm(r)
        if run.norms[-1] > watch.goal and run.norms[-1] > (1 - 1e-3) * before:
            run.reason = "breakdown" if cycle.broken else "stagnated"
            break
    run.details["cycles"] = cycles
    return _ended(run, watch)


class _Cycle:
    """One cycle of GMRES: ``A Z = V H``, and C off it where directions are recycled."""

    def __init__(
        self,
        product: Product,
        M: Product | None,
        r: Tensor,
        size: float,
        recycled: tuple[Tensor, Tensor] | None,
        length: int,
    ) -> None:
        self._product, self._M, self._space = product, M, recycled
        self._V = [r / size]
        self._Z: list[Tensor] = []
        self._columns: list[Tensor] = []  # of H, before rotations
        self._B: list[Tensor] = []  # C^H A Z
        self._triangle: list[list[Any]] = []
        self._rotations: list[tuple[Any, Any]] = []
        self._right: list[Any] = [size]
        self.residual, self.steps, self._length = size, 0, length
        self.open, self.broken = True, False

    def step(self) -> None:
        """Add one direction."""
        direction = self._V[-1] if self._M is None else self._M(self._V[-1])
        w = self._product(direction)
        length_before = norm(w)
        if self._space is not None:
            C = self._space[1]
            share = C.mH @ w
            w = w - C @ share
            self._B.append(share)
        basis = torch.stack(self._V, -1)
        h = basis.mH @ w
        w = w - basis @ h
        again = basis.mH @ w
        w, h = w - basis @ again, h + again
        length = norm(w)
        column = [*h.tolist(), length]
        self._columns.append(torch.cat([h, h.new_tensor([length])]))
        self._Z.append(direction)
        self.steps += 1
        # What is left of a vector that lay in the space is rounding.
        tiny = 10 * torch.finfo(w.dtype).eps * length_before
        if length > tiny:
            self._V.append(w / length)
        else:
            column[-1] = 0.0
            self.open, self.broken = False, True
        self._rotate(column)
        if self.steps == self._length:
            self.open = False

    def _rotate(self, column: list[Any]) -> None:
        for place, (c, s) in enumerate(self._rotations):
            top, low = column[place], column[place + 1]
            column[place] = c * top + s * low
            column[place + 1] = -s.conjugate() * top + c * low
        top, low = column[-2], column[-1]
        size = math.hypot(abs(top), abs(low))
        if size == 0:
            c, s = 1.0, 0.0
        elif top == 0:
            c, s = 0.0, 1.0
        else:
            c = abs(top) / size
            s = (top / abs(top)) * low.conjugate() / size
        self._rotations.append((c, s))
        column[-2] = c * top + s * low
        self._triangle.append(column[:-1])
        value = self._right[-1]
        self._right[-1] = c * value
        self._right.append(-(s.conjugate() if isinstance(s, complex) else s) * value)
        self.residual = abs(self._right[-1])

    def correction(self) -> Tensor:
        """Return what is to be added to x."""
        k = self.steps
        y: list[Any] = [0.0] * k
        for row in range(k - 1, -1, -1):
            total = self._right[row] - sum(self._triangle[j][row] * y[j] for j in range(row + 1, k))
            pivot = self._triangle[row][row]
            y[row] = total / pivot if pivot != 0 else 0.0
        weights = self._V[0].new_tensor(y)
        found = torch.stack(self._Z, -1) @ weights
        if self._space is not None:
            U = self._space[0]
            found = found - U @ (torch.stack(self._B, -1) @ weights)
        return found

    def recycled(self, keep: int) -> tuple[Tensor, Tensor]:
        """Return directions that A nearly annihilates, and their orthonormal images.

        They belong to the smallest singular values of A on the space of the cycle, with the
        directions recycled so far.
        """
        Z = torch.stack(self._Z, -1)
        V = torch.stack(self._V, -1)
        rows = V.shape[-1]
        H = torch.zeros(rows, self.steps, dtype=Z.dtype, device=Z.device)
        for j, column in enumerate(self._columns):
            H[: min(len(column), rows), j] = column[:rows]
        space, image, small = Z, V, H
        if self._space is not None:
            U, C = self._space
            k = C.shape[-1]
            space, image = torch.cat([U, Z], -1), torch.cat([C, V], -1)
            small = torch.zeros(k + rows, k + self.steps, dtype=Z.dtype, device=Z.device)
            small[:k, :k] = torch.eye(k, dtype=Z.dtype, device=Z.device)
            small[:k, k:] = torch.stack(self._B, -1)
            small[k:, k:] = H
        # Columns of one length, so that small singular values are small images of unit vectors.
        lengths = torch.linalg.vector_norm(space, dim=0)
        space, small = space / lengths, small / lengths
        u, s, vh = torch.linalg.svd(small, full_matrices=False)
        solid = s > 1e3 * torch.finfo(s.dtype).eps * s[:1]
        order = torch.nonzero(solid).flatten()[-keep:]
        chosen, values = vh[order].mH, s[order]
        return (space @ chosen) / values, image @ u[:, order]


def _ended(run: Run, watch: Watch) -> Run:
    if run.norms[-1] <= watch.goal:
        run.reason = "converged"
    elif not math.isfinite(run.norms[-1]):
        run.reason = "diverged"
    return run


def _measured(run: Run, product: Product, b: Tensor, watch: Watch | None = None) -> Run:
    """Return the run with the residual of its x as the last one."""
    run.norms[-1] = norm(b - product(run.x))
    run.matvecs += 1
    if watch is None:
        return run
    if run.reason == "converged" and run.norms[-1] > watch.goal:
        run.reason = "stagnated"
    return _ended(run, watch)
