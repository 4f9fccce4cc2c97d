"""Solutions of linear systems at doublefloat, by iterative refinement, and determinants.

A float32 factorization and residuals at doublefloat suffice for condition numbers up to about 1e7.
If corrections no longer halve the residual, they are computed by GMRES with that factor as
preconditioner (GMRES-IR, Carson and Higham 2018), and last by factors at doublefloat, which do not
depend on the number of right-hand sides. The measured residual decides, so that a solution is never
said to be more accurate than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from torch import Tensor

from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import KernelError
from trnsci.core.krylov.gmres import flexible_gmres
from trnsci.core.krylov.runs import Watch
from trnsci.core.numbers.conversions import widest
from trnsolver._doublefloat.arithmetic import (
    REACHED,
    exponents,
    in_single,
    only_finite,
    product,
    solved_left,
    times_power,
)
from trnsolver._doublefloat.triangles import lu
from trnsolver.factor import LU

Correct: TypeAlias = Callable[[Tensor], Tensor]
"""The approximate solution for a right-hand side."""

_DIRECTIONS = 50  # of GMRES, before a restart
_GAIN = 1e-4  # of one correction by GMRES
_FEW = 4
"""Up to so many columns GMRES takes less time than factors at doublefloat."""


def solution(launch: Launcher, a: Tensor, b: Tensor) -> Tensor:
    """Return X with residuals of at most 2**-43 of rows of A, times columns of X, plus B.

    Rows and columns are those of A scaled by powers of two. X is NaN if A is singular, and infinite
    where it is beyond the range of the dtype.

    Raises:
        KernelError: No method reaches such a residual, or an operand is not finite.
    """
    only_finite("solve", a, b)
    work, sides = widest(a), widest(b)
    rows = exponents(work, -1)
    work, sides = times_power(work, -rows), times_power(sides, -rows)
    only_finite("solve", sides)  # rows of subnormal numbers are multiplied by up to 2**1074
    columns, of_sides = exponents(work, -2), exponents(sides, -2)
    work, sides = times_power(work, -columns), times_power(sides, -of_sides)
    x, best = torch.zeros_like(sides), float("inf")
    left = sides
    for correct in _corrections(launch, work, sides.shape[0] * sides.shape[-1]):
        before = float("inf")
        while True:
            new = x + correct(left)
            left = sides - product(launch, work, new)
            reached = _backward_error(work, new, sides, left)
            if reached <= REACHED:
                return times_power(new, of_sides - columns.mT).to(b.dtype)
            if reached < best:
                x, best = new, reached
            if not reached <= before / 2 or reached == float("inf"):
                left = sides - product(launch, work, x)
                break
            before = reached
    if best == float("inf"):
        return torch.full_like(b, torch.nan)
    raise KernelError(
        f"solve: refinement stopped at a residual of {best:.3g} of its terms, above {REACHED:.3g}"
    )


def determinant(launch: Launcher, a: Tensor, logarithm: bool) -> tuple[Tensor, Tensor]:
    """Return determinants and zeros, or signs and logarithms of magnitudes, from factors.

    The determinant of the permutation is that of a matrix of zeros and ones, which is exact.
    """
    p, _, upper = lu(launch, widest(a))
    diagonal = upper.diagonal(dim1=-2, dim2=-1)
    parity = torch.linalg.det(p.real).round()
    factors = torch.sgn(diagonal) if logarithm else diagonal
    second = diagonal.abs().log().sum(-1) if logarithm else torch.zeros_like(parity)
    return (parity * factors.prod(-1)).to(a.dtype), second.to(a.real.dtype)


def _corrections(launch: Launcher, a: Tensor, columns: int) -> Iterator[Correct]:
    """Return the corrections to be tried in order, for so many right-hand sides."""
    p, lower, upper = in_single(LU, launch, a)
    if bool(torch.isfinite(upper).all()) and bool(upper.diagonal(dim1=-2, dim2=-1).all()):

        def by_single(right: Tensor) -> Tensor:
            forward = solved_left(launch, lower, p.mT @ right, False)
            return solved_left(launch, upper, forward, True)

        yield by_single
        if columns <= _FEW:
            yield lambda right: _by_gmres(launch, a, right, by_single)
    place, fine_lower, fine_upper = lu(launch, a)
    if not bool(fine_upper.diagonal(dim1=-2, dim2=-1).all()):
        return

    def by_double(right: Tensor) -> Tensor:
        forward = solved_left(launch, fine_lower, place.mT @ right, False, True)
        return solved_left(launch, fine_upper, forward, True, True)

    yield by_double


def _by_gmres(launch: Launcher, a: Tensor, right: Tensor, precondition: Correct) -> Tensor:
    """Return the solution for each column of each system by GMRES with a preconditioner."""
    found = torch.zeros_like(right)
    for place, matrix in enumerate(a):

        def multiplied(v: Tensor, matrix: Tensor = matrix) -> Tensor:
            return product(launch, matrix[None], v[None, :, None])[0, :, 0]

        for column in range(right.shape[-1]):
            side = right[place, :, column]
            size = float(torch.linalg.vector_norm(side))

            def preconditioned(v: Tensor, place: int = place) -> Tensor:
                alone = torch.zeros_like(right[..., :1])
                alone[place, :, 0] = v
                return precondition(alone)[place, :, 0]

            run = flexible_gmres(
                multiplied,
                side,
                torch.zeros_like(side),
                preconditioned,
                Watch(_GAIN * size, 2, size or 1.0),
                min(_DIRECTIONS, a.shape[-1]),
            )
            found[place, :, column] = run.x
    return found


def _backward_error(a: Tensor, x: Tensor, b: Tensor, left: Tensor) -> float:
    """Return the largest residual over the norms of a row of A and a column of X, plus B."""
    norm = torch.linalg.vector_norm
    terms = norm(a, dim=-1, keepdim=True) * norm(x, dim=-2, keepdim=True) + b.abs()
    reached = float((left.abs() / terms.clamp_min(torch.finfo(torch.float64).tiny)).max())
    return reached if reached == reached else float("inf")
