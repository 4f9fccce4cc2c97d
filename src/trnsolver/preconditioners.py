"""Preconditioners: functions ``r -> z`` that approximately solve ``A z = r``.

Each is built from a symmetric (Hermitian) positive definite matrix and used as ``M`` of an
iterative solver. A dense matrix may have batch dimensions, and the function takes vectors (..., n).
A sparse matrix of trnsparse, torch or SciPy stays sparse: its preconditioner is that of trnsparse.
All can be pickled, and compute float16 and bfloat16 in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, NotPositiveDefiniteError, ShapeError
from trnsci.core.krylov.preconditioners import (
    as_column,
    block_jacobi,
    checked_diagonal,
    jacobi,
)
from trnsci.core.numbers.values import readable, untraced
from trnsolver._library import no_kernel
from trnsolver._paths.arguments import square_matrix
from trnsolver.operators import Preconditioner

__all__ = [
    "block_jacobi_preconditioner",
    "ichol_preconditioner",
    "jacobi_preconditioner",
    "ssor_preconditioner",
]

Matrix: TypeAlias = Any
"""A dense tensor, or a sparse matrix of trnsparse, torch or SciPy."""

_READS = "its checks read values"
_SHIFTS = 12


@untraced(_READS)
def jacobi_preconditioner(A: Matrix) -> Preconditioner:
    """Return ``r -> r / diag(A)``.

    Raises:
        SingularMatrixError: A diagonal entry is zero.
    """
    no_kernel("jacobi_preconditioner")
    name = "jacobi_preconditioner"
    if sparse := _for_sparse(name, A):
        return sparse(A)
    return jacobi(name, square_matrix(name, "A", A).diagonal(dim1=-2, dim2=-1))


@untraced(_READS)
def block_jacobi_preconditioner(A: Matrix, block_size: int = 16) -> Preconditioner:
    """Return the solve with the diagonal blocks of A, by their factors.

    Args:
        A: Positive definite matrix.
        block_size: Order of the blocks; the last one may be smaller. 1 is ``jacobi``, n is a
            direct solution.

    Raises:
        NotPositiveDefiniteError: A block is not positive definite; the message has its index.
        FlagError: The block size is below 1.
    """
    no_kernel("block_jacobi_preconditioner")
    name = "block_jacobi_preconditioner"
    if sparse := _for_sparse(name, A):
        return sparse(A, block_size)
    work = square_matrix(name, "A", A)
    n = work.shape[-1]
    size = min(whole(name, "block_size", block_size, 1, error=FlagError), max(n, 1))
    count = -(-n // size)
    missing = count * size - n
    cut = pad(work, (0, missing, 0, missing)).reshape(*work.shape[:-2], count, size, count, size)
    blocks = cut.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
    return block_jacobi(name, blocks, n, definite=True)


@untraced(_READS)
def ssor_preconditioner(A: Matrix, omega: float = 1.0) -> Preconditioner:
    """Return one symmetric sweep of over-relaxation.

    With D the diagonal and L the strict lower triangle of A: ``(D + w L) t = r``,
    ``v = w (2 - w) D t``, ``(D + w L^H) z = v``.

    Args:
        A: Positive definite matrix.
        omega: Relaxation, between 0 and 2.

    Raises:
        FlagError: omega is not between 0 and 2.
        SingularMatrixError: A diagonal entry is zero.
    """
    no_kernel("ssor_preconditioner")
    if not 0 < omega < 2:
        raise FlagError(f"ssor_preconditioner: omega must be between 0 and 2, got {omega}")
    if sparse := _for_sparse("ssor_preconditioner", A):
        return sparse(A, omega)
    work = square_matrix("ssor_preconditioner", "A", A)
    diagonal = checked_diagonal("ssor_preconditioner", work.diagonal(dim1=-2, dim2=-1))
    lower = omega * work.tril(-1) + torch.diag_embed(diagonal)
    return _Sweep(lower, omega * (2 - omega) * diagonal)


@dataclass(frozen=True)
class _Sweep:
    lower: Tensor
    diagonal: Tensor

    def __call__(self, r: Tensor) -> Tensor:
        column = as_column(r, self.lower)
        below = self.lower.to(column.dtype)
        t = torch.linalg.solve_triangular(below, column, upper=False)
        z = torch.linalg.solve_triangular(below.mH, self.diagonal.unsqueeze(-1) * t, upper=True)
        return z.squeeze(-1).to(r.dtype)


@untraced(_READS)
def ichol_preconditioner(A: Matrix, pattern: Tensor | None = None) -> Preconditioner:
    """Return the solve with an incomplete Cholesky factor, without fill-in.

    If the factorization breaks down, it is repeated with a larger diagonal (Manteuffel's shift).

    Args:
        A: Positive definite matrix; one matrix, no batch.
        pattern: Boolean mask of the entries of the factor, for a dense A; None for the pattern of
            A.

    Raises:
        FlagError: A pattern is given for a sparse A.
        NotPositiveDefiniteError: The factorization breaks down for all shifts of the diagonal.
        ShapeError: A is not a single square matrix, or the pattern has another shape.
    """
    no_kernel("ichol_preconditioner")
    name = "ichol_preconditioner"
    if sparse := _for_sparse(name, A):
        if pattern is not None:
            raise FlagError(f"{name}: pattern must be None for a sparse A, whose pattern is used")
        return sparse(A)
    work = square_matrix(name, "A", A).detach()
    if work.ndim != 2:
        raise ShapeError(f"{name}: A must be 2-D, got shape {tuple(A.shape)}")
    if pattern is not None and pattern.shape != A.shape:
        raise ShapeError(
            f"{name}: pattern must have the shape of A, {tuple(A.shape)}, got "
            f"{tuple(pattern.shape)}"
        )
    readable(name, "A", work)
    mask = (work != 0 if pattern is None else pattern).tril()
    diagonal = work.diagonal().real
    if bool((diagonal <= 0).any()):
        raise NotPositiveDefiniteError(f"{name}: A must have a positive diagonal")
    shift = 0.0
    for _ in range(_SHIFTS):
        factor = _incomplete(work + torch.diag(shift * diagonal).to(work.dtype), mask)
        if factor is not None:
            break
        shift = max(2 * shift, 1e-3)
    else:
        raise NotPositiveDefiniteError(f"{name}: A has no incomplete factor up to shift {shift:g}")
    return _Cholesky(factor)


@dataclass(frozen=True)
class _Cholesky:
    factor: Tensor

    def __call__(self, r: Tensor) -> Tensor:
        column = as_column(r, self.factor)
        return torch.cholesky_solve(column, self.factor.to(column.dtype)).squeeze(-1).to(r.dtype)


def _for_sparse(name: str, A: Matrix) -> Any:
    """Return the function of trnsparse if A is sparse, else None."""
    if isinstance(A, Tensor):
        sparse = A.layout is not torch.strided
    else:
        sparse = hasattr(A, "to_csr") or hasattr(A, "tocsr")
    if not sparse:
        return None
    from trnsparse import preconditioners

    return getattr(preconditioners, name)


def _incomplete(a: Tensor, mask: Tensor) -> Tensor | None:
    """Return the lower factor with the pattern ``mask``, or None if it breaks down."""
    factor = torch.where(mask, a, 0)
    for k in range(a.shape[-1]):
        pivot = factor[k, k].real
        if not bool(pivot > 0):
            return None
        factor[k:, k] = factor[k:, k] / pivot.sqrt()
        column = factor[k + 1 :, k]
        update = column.unsqueeze(-1) * column.conj()
        factor[k + 1 :, k + 1 :] -= torch.where(mask[k + 1 :, k + 1 :], update, 0)
    return factor
