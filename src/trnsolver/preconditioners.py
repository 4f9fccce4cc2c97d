"""Preconditioners: functions ``r -> z`` that solve a system close to ``A z = r``.

Each is made from a dense symmetric (Hermitian) positive definite matrix and used as ``M`` of an
iterative solver. They take vectors (..., n), and compute float16 and bfloat16 in float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import (
    FlagError,
    NotPositiveDefiniteError,
    ShapeError,
    SingularMatrixError,
)
from trnsolver._arguments import square_matrix, working
from trnsolver._cholesky import lower_factor
from trnsolver.operators import Preconditioner

__all__ = [
    "block_jacobi_preconditioner",
    "ichol_preconditioner",
    "jacobi_preconditioner",
    "ssor_preconditioner",
]

_SHIFTS = 12
_NOTHING = 1e-15
"""A number on the diagonal that is so much smaller than the largest counts as zero."""


def jacobi_preconditioner(A: Tensor) -> Preconditioner:
    """Return ``r -> r / diag(A)``.

    Raises:
        SingularMatrixError: A number on the diagonal is zero.
    """
    diagonal = _diagonal("jacobi_preconditioner", square_matrix("jacobi_preconditioner", "A", A))
    return lambda r: (working(r) / diagonal).to(r.dtype)


def block_jacobi_preconditioner(A: Tensor, block_size: int = 16) -> Preconditioner:
    """Return the solution with the blocks on the diagonal of A, by their Cholesky factors.

    Args:
        A: Positive definite matrix.
        block_size: Order of the blocks; the last one may be smaller. 1 is ``jacobi``, n is a
            direct solution.

    Raises:
        NotPositiveDefiniteError: A block, which is named, is not positive definite.
        FlagError: The block size is below 1.
    """
    name = "block_jacobi_preconditioner"
    work = square_matrix(name, "A", A)
    size = whole(name, "block_size", block_size, 1, error=FlagError)
    n = work.shape[-1]
    factors = []
    for place, first in enumerate(range(0, n, size)):
        block = work[..., first : first + size, first : first + size]
        factor = lower_factor(block)
        if factor is None:
            raise NotPositiveDefiniteError(
                f"{name}: block {place}, from row {first} on, must be positive definite"
            )
        factors.append(factor)

    def apply(r: Tensor) -> Tensor:
        column = _column(r, work)
        parts = torch.split(column, size, -2)
        pairs = zip(parts, factors, strict=True)
        solved = [torch.cholesky_solve(p, f.to(column.dtype)) for p, f in pairs]
        return torch.cat(solved, -2).squeeze(-1).to(r.dtype)

    return apply


def ssor_preconditioner(A: Tensor, omega: float = 1.0) -> Preconditioner:
    """Return one symmetric sweep of over-relaxation.

    With D the diagonal of A and L what is below it: ``(D + w L) t = r``, ``v = w (2 - w) D t``,
    ``(D + w L^H) z = v``.

    Args:
        A: Positive definite matrix.
        omega: Relaxation, between 0 and 2.

    Raises:
        FlagError: omega is not between 0 and 2.
        SingularMatrixError: A number on the diagonal is zero.
    """
    if not 0 < omega < 2:
        raise FlagError(f"ssor_preconditioner: omega must be between 0 and 2, got {omega}")
    work = square_matrix("ssor_preconditioner", "A", A)
    diagonal = _diagonal("ssor_preconditioner", work)
    lower = omega * work.tril(-1) + torch.diag_embed(diagonal)

    def apply(r: Tensor) -> Tensor:
        column = _column(r, work)
        below = lower.to(column.dtype)
        t = torch.linalg.solve_triangular(below, column, upper=False)
        v = omega * (2 - omega) * diagonal.unsqueeze(-1) * t
        z = torch.linalg.solve_triangular(below.mH, v, upper=True)
        return z.squeeze(-1).to(r.dtype)

    return apply


def ichol_preconditioner(A: Tensor, pattern: Tensor | None = None) -> Preconditioner:
    """Return the solution with an incomplete Cholesky factor: no entry where A has none.

    A factor that breaks down is computed of A with a larger diagonal, as Manteuffel does.

    Args:
        A: Positive definite matrix; one matrix, no batch.
        pattern: Where the factor may have entries, true for them; None for where A has some.

    Raises:
        NotPositiveDefiniteError: No shift of the diagonal helps.
        ShapeError: A is no single square matrix, or the pattern has another shape.
    """
    name = "ichol_preconditioner"
    work = square_matrix(name, "A", A)
    if work.ndim != 2:
        raise ShapeError(f"{name}: A must be 2-D, got shape {tuple(A.shape)}")
    if pattern is not None and pattern.shape != A.shape:
        raise ShapeError(
            f"{name}: pattern must have the shape of A, {tuple(A.shape)}, got "
            f"{tuple(pattern.shape)}"
        )
    kept = (work != 0 if pattern is None else pattern).tril()
    diagonal = work.diagonal().real
    if bool((diagonal <= 0).any()):
        raise NotPositiveDefiniteError(f"{name}: A must have a positive diagonal")
    shift = 0.0
    for _ in range(_SHIFTS):
        factor = _incomplete(work + torch.diag(shift * diagonal).to(work.dtype), kept)
        if factor is not None:
            break
        shift = max(2 * shift, 1e-3)
    else:
        raise NotPositiveDefiniteError(f"{name}: A has no incomplete factor up to shift {shift:g}")

    def apply(r: Tensor) -> Tensor:
        column = _column(r, work)
        return torch.cholesky_solve(column, factor.to(column.dtype)).squeeze(-1).to(r.dtype)

    return apply


def _column(r: Tensor, a: Tensor) -> Tensor:
    """Return a vector as a matrix in the dtype of A, or its complex kind for complex vectors."""
    dtype = a.dtype.to_complex() if r.is_complex() else a.dtype
    return r.to(dtype).unsqueeze(-1)


def _incomplete(a: Tensor, kept: Tensor) -> Tensor | None:
    """Return the lower factor with entries where they are kept, or None where it breaks down."""
    factor = torch.where(kept, a, 0)
    for k in range(a.shape[-1]):
        pivot = factor[k, k].real
        if not bool(pivot > 0):
            return None
        factor[k:, k] = factor[k:, k] / pivot.sqrt()
        column = factor[k + 1 :, k]
        update = column.unsqueeze(-1) * column.conj()
        factor[k + 1 :, k + 1 :] -= torch.where(kept[k + 1 :, k + 1 :], update, 0)
    return factor


def _diagonal(function: str, a: Tensor) -> Tensor:
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    sizes = diagonal.abs()
    if a.numel() and bool((sizes <= _NOTHING * sizes.amax(-1, keepdim=True)).any()):
        raise SingularMatrixError(f"{function}: A must have no zero on its diagonal")
    return diagonal
