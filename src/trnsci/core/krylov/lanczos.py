"""Eigenpairs of a Hermitian operator by the Lanczos method with thick restarts (Wu, Simon 2000).

A basis of m vectors is built by products; the projection of the operator on it is diagonalized. A
restart retains the Ritz vectors that approximate the requested pairs best, and their residual. New
vectors are orthogonalized against the whole basis until they are orthogonal to rounding, so that no
pair appears twice.

A Krylov space has one vector of each eigenspace. So when all requested pairs have converged, one
further cycle begins with a random vector orthogonal to them: if it has a Ritz value that is
requested before one of theirs, a multiple eigenvalue has been missed, and the iteration continues.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnsci.core.errors import NotFiniteError, OperandError
from trnsci.core.iterations import Reason
from trnsci.core.krylov.runs import Product
from trnsci.core.numbers.conversions import widest

Which: TypeAlias = Literal["LM", "SM", "LA", "SA", "BE"]
"""Requested end of the spectrum: largest or smallest magnitude, largest or smallest value, both."""

WHICH: tuple[Which, ...] = ("LM", "SM", "LA", "SA", "BE")
_SEARCH = 20
"""Products that search for missed copies of multiple eigenvalues."""
_PASSES = 4
"""Orthogonalizations of a vector; two suffice unless it is nearly in the span of the basis."""


@dataclass(frozen=True)
class Wanted:
    """Requested pairs, and when to stop.

    Attributes:
        k: Number of pairs, at least 1.
        which: The end of the spectrum.
        order: Order of the operator.
        size: Number of vectors of the basis, more than k unless it is the order.
        tol: Limit of the norm of a residual relative to the largest Ritz value.
        limit: Limit of cycles.
    """

    k: int
    which: Which
    order: int
    size: int
    tol: float
    limit: int


@dataclass
class RitzPairs:
    """Pairs of the operator, and how they were found.

    Attributes:
        values: Values in float64 on the CPU, ascending.
        vectors: Vectors as rows; of each, the elements of this rank.
        norm: Largest magnitude of a Ritz value, a lower bound of the norm of the operator.
        reason: Why the iteration stopped.
        residuals: After each cycle the largest estimated residual of a requested pair, over norm.
        matvecs: Number of products.
    """

    values: Tensor
    vectors: Tensor
    norm: float
    reason: Reason
    residuals: list[float] = field(default_factory=list)
    matvecs: int = 0


def lanczos(
    function: str,
    product: Product,
    start: Tensor,
    fresh: Callable[[], Tensor],
    wanted: Wanted,
    total: Callable[[Tensor], Tensor] | None = None,
) -> RitzPairs:
    """Return the requested pairs of a Hermitian operator, without derivatives.

    Args:
        function: The public function, for messages.
        product: Returns the product with a vector, or this rank's part of it for its part.
        start: The first vector, not zero.
        fresh: Returns another random vector, for an exhausted Krylov space.
        wanted: The requested pairs.
        total: Sums real numbers over the ranks that hold parts of the vectors; None for one
            process.

    Raises:
        NotFiniteError: The first vector, or a product with it, has a NaN or an infinity.
        OperandError: The operator is not Hermitian.
    """
    basis = _Basis(function, product, start, fresh, wanted.size, total)
    k, m = wanted.k, wanted.size
    kept, end, locked = 0, m, None
    residuals: list[float] = []
    reason: Reason = "limit"
    while True:
        if not basis.extend(kept, end):
            residuals.append(math.nan)
            reason = "diverged"
            break
        values, rotation, estimates = basis.ritz(end)
        order = places(values, wanted.which)
        first = order[:k]
        norm = float(values.abs().max())
        worst = float(estimates[first].max())
        residuals.append(worst / norm if norm else worst)
        goal = max(wanted.tol * norm, 2 * basis.noise)
        if worst <= goal:
            if m == wanted.order or _same(values[first], locked, goal):
                if end == m or not _near(values, estimates, order, k):
                    reason = "converged"
                    break
                kept, end = end, m  # the search continues
                continue
            locked = values[first].sort().values
            if len(residuals) < wanted.limit:
                basis.restart(first, values, rotation)
                basis.randomize(k)
                kept, end = k, min(m, k + _SEARCH)
                continue
        if len(residuals) >= wanted.limit:
            break
        done = int((estimates[first] <= goal).sum())
        kept = min(k + max(done, (m - k) // 3), m - 1 - (m - k) // 4)
        kept = min(kept, end - 1)
        basis.restart(order[:kept], values, rotation)
        end = m
    if reason == "diverged":
        return RitzPairs(
            torch.full((k,), math.nan, dtype=torch.float64, device="cpu"),
            torch.full_like(basis.rows[:k], math.nan),
            math.nan,
            reason,
            residuals,
            basis.matvecs,
        )
    first = first[values[first].argsort()]
    vectors = basis.combined(rotation[:, first])
    return RitzPairs(
        values[first] * basis.unit, vectors, norm * basis.unit, reason, residuals, basis.matvecs
    )


def places(values: Tensor, which: Which) -> Tensor:
    """Return the places of ascending values, the most wanted first."""
    if which == "LM":
        return values.abs().argsort(descending=True, stable=True)
    if which == "SM":
        return values.abs().argsort(stable=True)
    up = torch.arange(len(values), device="cpu")
    if which == "SA":
        return up
    if which == "LA":
        return up.flip(0)
    return torch.stack([up.flip(0), up], 1).flatten()[: len(values)]  # the largest, the smallest


def _same(values: Tensor, locked: Tensor | None, goal: float) -> bool:
    """Return whether a cycle with a random vector has found the values before it again."""
    if locked is None:
        return False
    return bool(((values.sort().values - locked).abs() <= 2 * goal).all())


def _near(values: Tensor, estimates: Tensor, order: Tensor, k: int) -> bool:
    """Return whether the next value may become one of the requested ones, by its residual."""
    following = order[k]
    distance = (values[order[:k]] - values[following]).abs().min()
    return bool(distance <= estimates[following])


class _Basis:
    """An orthonormal basis, and the projection of the operator on it.

    Attributes:
        rows: The vectors and, as the last row, the normalized residual; this rank's elements.
        unit: Power of two by which products are divided, so that squares do not overflow.
        matvecs: Number of products.
        noise: Asymmetry of the projection: residuals of inexact products do not decrease below it.
    """

    def __init__(
        self,
        function: str,
        product: Product,
        start: Tensor,
        fresh: Callable[[], Tensor],
        size: int,
        total: Callable[[Tensor], Tensor] | None,
    ) -> None:
        self._function, self._product, self._fresh, self._total = function, product, fresh, total
        self.rows = start.new_empty(size + 1, start.shape[0])
        self._columns = self.rows.mT
        self._projection = np.zeros((size, size), complex if start.is_complex() else float)
        self._eps = torch.finfo(start.dtype).eps
        self._scale = self._beta = self.noise = 0.0
        self.unit, self.matvecs = 1.0, 0
        peak = self._peak(start)
        if not 0 < peak < math.inf:
            raise NotFiniteError(f"{function}: v0 must be finite and not zero")
        torch.div(start, _power_below(peak), out=self.rows[0])
        self.rows[0] /= math.sqrt(float(self._inner(self.rows[:1], self.rows[0]).real))

    def extend(self, kept: int, end: int) -> bool:
        """Extend ``kept`` vectors and the next one to ``end`` vectors; False if it diverges."""
        return all(self._step(at, 0 if at == kept else at - 1) for at in range(kept, end))

    def ritz(self, end: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return Ritz values, ascending, their vectors in the basis, and norms of residuals."""
        found = self._projection[:end, :end]
        apart = self.noise = float(abs(found - found.conj().T).max())
        if apart > self._eps ** (1 / 3) * self._scale:
            raise OperandError(
                f"{self._function}: A must be symmetric (Hermitian); products u^H A v and "
                f"(A u)^H v differ by {apart / self._scale:.2g} of its norm"
            )
        hermitian = torch.from_numpy((found + found.conj().T) / 2)
        values, vectors = torch.linalg.eigh(hermitian)
        return values, vectors, vectors[-1].abs() * self._beta

    def combined(self, rotation: Tensor) -> Tensor:
        """Return combinations of the vectors, as rows."""
        turned = rotation.mT.to(self.rows.device, self.rows.dtype)
        return turned @ self.rows[: len(rotation)]

    def restart(self, chosen: Tensor, values: Tensor, rotation: Tensor) -> None:
        """Retain Ritz vectors, and the residual that they share."""
        count = len(chosen)
        self.rows[:count] = self.combined(rotation[:, chosen])
        self.rows[count] = self.rows[len(rotation)]
        self._projection[:] = 0
        self._projection[range(count), range(count)] = values[chosen].numpy()
        self._projection[count, :count] = rotation[-1, chosen].numpy() * self._beta

    def randomize(self, at: int) -> None:
        """Replace the vector after the retained ones by a random one."""
        self._projection[at, :at] = 0
        self._replace(at)

    def _step(self, at: int, first: int) -> bool:
        """Multiply a vector, and make the next one of the result; False if that is not finite."""
        rows, limit = self.rows, 8 * self._eps
        image = self._product(rows[at])
        self.matvecs += 1
        if self.matvecs == 1:
            peak = self._peak(image)
            if not math.isfinite(peak):
                raise NotFiniteError(f"{self._function}: products with A must be finite")
            if peak and not 1e-8 < peak < 1e8:
                self.unit = _power_below(peak)
        following = rows[at + 1]
        following.copy_(image)
        if self.unit != 1:
            following /= self.unit
        # The product is nearly in the span of two vectors, or of all of them after a restart.
        part = self._inner(rows[first : at + 1], following)
        self._subtract(first, part)
        along = self._projection[: at + 1, at]
        along[:] = 0
        along[first:] = _array(part)
        beta = 0.0
        for _ in range(_PASSES):
            found = self._inner(rows[: at + 2], following)
            numbers = _array(found)
            square, inside = float(numbers[-1].real), _square(numbers[:-1])
            if not math.isfinite(square + inside):
                return False
            along += numbers[:-1]
            self._subtract(0, found[:-1])
            if inside <= square / 4:
                beta = math.sqrt(square - inside)
                break
        self._scale = max(self._scale, float(abs(along).max()), beta)
        if beta <= limit * self._scale:  # the span is invariant
            beta = 0.0
            self._replace(at + 1)
        else:
            following /= beta
        if at + 1 < len(self._projection):
            self._projection[at + 1, at] = beta
        self._beta = beta
        return True

    def _replace(self, at: int) -> None:
        """Make a row a random unit vector orthogonal to those before it, or 0 if these are all."""
        row = self.rows[at]
        for _ in range(_PASSES):
            row.copy_(self._fresh())
            row /= math.sqrt(self._inner(row[None], row).real.item()) or 1.0
            for _ in range(_PASSES):
                found = self._inner(self.rows[: at + 1], row)
                numbers = _array(found)
                square, inside = float(numbers[-1].real), _square(numbers[:-1])
                self._subtract(0, found[:-1])
                if square > self._eps and inside <= square / 4:
                    row /= math.sqrt(square - inside)
                    return
        row.zero_()

    def _subtract(self, first: int, part: Tensor) -> None:
        """Subtract a combination of the rows from ``first`` on from the row after them."""
        last = first + part.shape[0]
        row = self.rows[last]
        torch.addmv(row, self._columns[:, first:last], part, alpha=-1, out=row)

    def _inner(self, rows: Tensor, v: Tensor) -> Tensor:
        """Return ``row^H v`` for each row, summed over the ranks."""
        if not v.is_complex():
            found = rows.mv(v)
            return found if self._total is None else self._total(found)
        found = rows.mv(v.conj()).conj().resolve_conj()
        if self._total is not None:
            found = torch.view_as_complex(self._total(torch.view_as_real(found)))
        return found

    def _peak(self, v: Tensor) -> float:
        """Return the largest magnitude of a part of an element, or more on several ranks."""
        parts = torch.view_as_real(v) if v.is_complex() else v
        found = parts.abs().max().double() if v.numel() else parts.new_zeros(()).double()
        return float(found if self._total is None else self._total(found))


def _array(numbers: Tensor) -> Any:
    """Return a small tensor as an array in double precision."""
    return np.array(widest(numbers).tolist())  # torch.func wraps tensors, which NumPy cannot read


def _square(numbers: Any) -> float:
    return float(np.vdot(numbers, numbers).real)


def _power_below(peak: float) -> float:
    return 2.0 ** (math.frexp(peak)[1] - 1)
