"""Flexible GMRES for any matrix (Saad, 1993), with directions recycled between systems."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.errors import ShapeError
from trnsci.core.krylov.runs import Product, Run, Watch, begun, ended, report
from trnsci.core.krylov.vectors import norm
from trnsci.core.numbers.values import finite

Recycled: TypeAlias = tuple[Tensor, Tensor]
"""Directions, and their orthonormal images."""


def flexible_gmres(
    product: Product,
    b: Tensor,
    x: Tensor,
    M: Product | None,
    watch: Watch,
    restart: int,
    recycled: Recycled | None = None,
    keep: int = 0,
) -> Run:
    """Return a run of GMRES for one vector, with a preconditioner that may change at each step.

    ``watch.limit`` bounds the number of cycles (restarts); ``iterations`` of the run counts Krylov
    directions over all cycles. Givens rotations give the residual of each direction, so that a
    cycle ends when the goal is met. Vectors are orthogonalized twice. ``recycled`` has directions U
    and their images C = A U with orthonormal columns, which are projected out. ``keep`` is the
    number of new directions that ``details`` receives for the next call.
    """
    r, products = begun(product, b, x)
    run = Run(x, [], 0, products, "limit")
    if recycled is not None and recycled[0].shape[-1]:
        U, C = recycled
        share = C.mH @ r
        run.x, r = run.x + U @ share, r - C @ share
    else:
        recycled = None
    size = norm(r)
    run.residuals.append(watch.relative(size))
    cycles = 0
    while size > watch.goal and cycles < watch.limit:
        before = size
        if not math.isfinite(before):
            break
        cycle = _Cycle(product, M, r, before, recycled, min(restart, b.shape[-1]))
        while cycle.open and cycle.residual > watch.goal:
            cycle.step()
            report(watch, run, cycle.residual, None)
        run.x = run.x + cycle.correction()
        run.matvecs += cycle.steps
        cycles += 1
        if keep:
            recycled = run.details["recycle"] = cycle.recycled(keep)
        r = b - product(run.x)
        run.matvecs += 1
        size = norm(r)
        run.residuals[-1] = watch.relative(size)
        if size > watch.goal and size > (1 - 1e-3) * before:
            run.reason = "breakdown" if cycle.broken else "stagnated"
            break
    run.details["cycles"] = cycles
    return ended(run, watch, size)


def projected(function: str, product: Product, U: Tensor, b: Tensor) -> Recycled:
    """Return directions with orthonormal images, without those that depend on others.

    Raises:
        ShapeError: The directions do not fit b.
        NotFiniteError: The directions have a NaN or an infinity.
    """
    if U.ndim != 2 or U.shape[0] != b.shape[0]:
        raise ShapeError(
            f"{function}: recycle must have directions (n, k) that fit b, got shapes "
            f"{tuple(U.shape)} and {tuple(b.shape)}"
        )
    U = U.to(b.dtype)
    finite(function, "recycle", U)
    if not U.shape[-1]:
        return U, U
    images = torch.stack([product(column) for column in U.mT], -1)
    usable = torch.isfinite(images).all(0)
    U, images = U[:, usable], images[:, usable]
    c, s, vh = torch.linalg.svd(images, full_matrices=False)
    kept = s > 10 * max(images.shape) * torch.finfo(s.dtype).eps * s[:1]
    return U @ (vh[kept].mH / s[kept]), c[:, kept]


class _Cycle:
    """One cycle of GMRES: ``A Z = V H``, orthogonal to C where directions are recycled."""

    def __init__(
        self,
        product: Product,
        M: Product | None,
        r: Tensor,
        size: float,
        recycled: Recycled | None,
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
        column = [*(entry.item() for entry in h), length]
        self._columns.append(torch.cat([h, h.new_tensor([length])]))
        self._Z.append(direction)
        self.steps += 1
        # The vector lies in the space: the remainder is rounding error.
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
        """Return the correction of x."""
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

    def recycled(self, keep: int) -> Recycled:
        """Return directions that A nearly annihilates, and their orthonormal images.

        They belong to the smallest singular values of A on the space of the cycle and of the
        directions recycled so far; there are none where the images are not finite.
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
        # With columns of norm 1, a small singular value belongs to a direction that A shortens.
        lengths = torch.linalg.vector_norm(space, dim=0)
        space, small = space / lengths, small / lengths
        if not bool(torch.isfinite(small).all()):
            return space[:, :0], image[:, :0]
        u, s, vh = torch.linalg.svd(small, full_matrices=False)
        solid = s > 1e3 * torch.finfo(s.dtype).eps * s[:1]
        order = torch.nonzero(solid).flatten()[-keep:]
        chosen, values = vh[order].mH, s[order]
        return (space @ chosen) / values, image @ u[:, order]
