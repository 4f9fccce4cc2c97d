"""Jacobi and block Jacobi preconditioners: functions of vectors that can be pickled.

They accept vectors (..., n), and compute in the dtype of the matrix or, for complex vectors, in the
complex dtype of its precision.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.errors import NotPositiveDefiniteError, SingularMatrixError
from trnsci.core.krylov.runs import Product
from trnsci.core.numbers.values import readable


def _widened(r: Tensor) -> Tensor:
    return r.float() if r.dtype in (torch.float16, torch.bfloat16) else r


def checked_diagonal(function: str, diagonal: Tensor) -> Tensor:
    """Return a checked diagonal (..., n) for division, without derivatives.

    Raises:
        SingularMatrixError: An element is zero, or has no finite reciprocal.
        FlagError: The values cannot be read.
    """
    readable(function, "A", diagonal)
    diagonal = _widened(diagonal.detach())
    bad = (~torch.isfinite(1 / diagonal.abs())).nonzero()
    if bad.numel():
        place = tuple(bad[0].tolist())
        raise SingularMatrixError(
            f"{function}: A must have no zero on its diagonal, got {diagonal[place].item()} at "
            f"{place[-1]}"
        )
    return diagonal


def jacobi(function: str, diagonal: Tensor) -> Product:
    """Return the Jacobi preconditioner: division by a diagonal (..., n).

    Raises:
        SingularMatrixError: An element is zero.
    """
    return _Jacobi(checked_diagonal(function, diagonal))


@dataclass(frozen=True)
class _Jacobi:
    diagonal: Tensor

    def __call__(self, r: Tensor) -> Tensor:
        return (_widened(r) / self.diagonal).to(r.dtype)


def block_jacobi(function: str, blocks: Tensor, n: int, definite: bool) -> Product:
    """Return the block Jacobi preconditioner.

    Args:
        function: The public function, for messages.
        blocks: The blocks, (..., count, size, size).
        n: Order of the matrix; the part of the last block beyond it is ignored.
        definite: Whether the blocks must be Hermitian positive definite.

    Raises:
        NotPositiveDefiniteError: A block is not positive definite.
        SingularMatrixError: A block has no inverse.
        FlagError: The values cannot be read.
    """
    readable(function, "A", blocks)
    count, size = blocks.shape[-3:-1]
    blocks = _widened(blocks.detach().clone())
    if count:
        # Pad with the identity beyond the edge of the matrix.
        inside = torch.arange(size, device=blocks.device) < n - (count - 1) * size
        last = blocks[..., -1, :, :]
        identity = torch.eye(size, dtype=blocks.dtype, device=blocks.device)
        last.copy_(torch.where(inside & inside[:, None], last, identity))
    if definite:
        factors, failed = torch.linalg.cholesky_ex(blocks)
        pivots = None
    else:
        factors, pivots, failed = torch.linalg.lu_factor_ex(blocks)
    # Not every LAPACK reports NaN.
    failed = failed.bool() | factors.diagonal(dim1=-2, dim2=-1).isnan().any(-1)
    if bool(failed.any()):
        place = int(failed.nonzero()[0, -1])
        where = f"{function}: block {place} on the diagonal, from row {place * size} on,"
        if definite:
            raise NotPositiveDefiniteError(f"{where} must be positive definite")
        raise SingularMatrixError(f"{where} has no inverse")

    return _BlockJacobi(factors, pivots, n)


@dataclass(frozen=True)
class _BlockJacobi:
    factors: Tensor
    pivots: Tensor | None
    order: int

    def __call__(self, r: Tensor) -> Tensor:
        count, size = self.factors.shape[-3:-1]
        column = as_column(r, self.factors)
        padded = pad(column, (0, 0, 0, count * size - self.order))
        right = padded.reshape(*padded.shape[:-2], count, size, 1)
        kept = self.factors.to(right.dtype)
        if self.pivots is None:
            solved = torch.cholesky_solve(right, kept)
        else:
            solved = torch.linalg.lu_solve(kept, self.pivots, right)
        return solved.reshape(padded.shape[:-1])[..., : self.order].to(r.dtype)


def on_columns(apply: Product) -> Product:
    """Return a function of vectors (..., n) as one of a vector (n,) or of columns (n, k)."""
    return _OnColumns(apply)


@dataclass(frozen=True)
class _OnColumns:
    apply: Product

    def __call__(self, r: Tensor) -> Tensor:
        return self.apply(r) if r.ndim == 1 else self.apply(r.mT).mT


def as_column(r: Tensor, a: Tensor) -> Tensor:
    """Return vectors as matrices (..., n, 1) in the dtype of a, complex for complex vectors."""
    dtype = a.dtype.to_complex() if r.is_complex() else a.dtype
    return r.to(dtype).unsqueeze(-1)
