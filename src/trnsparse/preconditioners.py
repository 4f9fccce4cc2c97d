"""Preconditioners: Jacobi, block Jacobi and algebraic multigrid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.core.errors import OperandError
from trnsci.core.krylov.preconditioners import block_jacobi, jacobi, on_columns
from trnsparse._paths.library import no_kernel
from trnsparse.formats import BSRMatrix, CSRMatrix, SparseMatrix, from_scipy

__all__ = [
    "amg_preconditioner",
    "block_jacobi_preconditioner",
    "bsr_diagonal",
    "jacobi_preconditioner",
    "jacobi_preconditioner_bsr",
]


def bsr_diagonal(A: SparseMatrix) -> Tensor:
    """Return the main diagonal, zero where nothing is stored."""
    return A.diagonal()


def jacobi_preconditioner(A: SparseMatrix) -> Callable[[Tensor], Tensor]:
    """Return the Jacobi preconditioner, division by the diagonal, of a matrix of any format.

    Raises:
        SingularMatrixError: An element of the diagonal is zero.
    """
    no_kernel("jacobi_preconditioner")
    return on_columns(jacobi("jacobi_preconditioner", A.diagonal()))


jacobi_preconditioner_bsr = jacobi_preconditioner


def block_jacobi_preconditioner(A: BSRMatrix) -> Callable[[Tensor], Tensor]:
    """Return the block Jacobi preconditioner, the solve with the diagonal blocks, of a BSR matrix.

    Raises:
        SingularMatrixError: A diagonal block is missing or singular.
    """
    no_kernel("block_jacobi_preconditioner")
    size, blocks = A.block_size, -(-A.shape[0] // A.block_size)
    pattern = A.pattern
    chosen = (pattern.row_indices == pattern.indices).nonzero().squeeze(-1)
    diagonal = A.blocks.new_zeros(blocks, size, size)
    diagonal = diagonal.index_add(0, pattern.indices[chosen], A.blocks.detach()[chosen])
    found = block_jacobi("block_jacobi_preconditioner", diagonal, A.shape[0], definite=False)
    return on_columns(found)


def amg_preconditioner(
    A: SparseMatrix, *, sweeps: int = 1, omega: float = 2 / 3, **options: Any
) -> Callable[[Tensor], Tensor]:
    """Return one V-cycle of algebraic multigrid for a symmetric positive definite matrix.

    pyamg (the extra ``amg``) builds the levels by smoothed aggregation. The cycle, with damped
    Jacobi as smoother, uses this library's products on the device of A.

    Args:
        A: The matrix.
        sweeps: Jacobi sweeps before and after each coarse correction.
        omega: Damping of the sweeps.
        **options: Options of ``pyamg.smoothed_aggregation_solver``.

    Raises:
        OperandError: A is not square.
        ModuleNotFoundError: pyamg is not installed.
    """
    no_kernel("amg_preconditioner")
    if A.shape[0] != A.shape[1]:
        raise OperandError(f"amg_preconditioner: A must be square, got {A.shape}")
    import pyamg

    matrix = A.to_csr().detach().cpu().to_scipy().tocsr()
    hierarchy = pyamg.smoothed_aggregation_solver(matrix, **options)
    levels = [_Level(level, A) for level in hierarchy.levels[:-1]]
    coarse = torch.from_numpy(hierarchy.levels[-1].A.toarray()).to(A.device, A.dtype)
    bottom = torch.linalg.pinv(coarse)

    def cycle(depth: int, r: Tensor) -> Tensor:
        if depth == len(levels):
            return bottom @ r
        level = levels[depth]
        scaled = omega * level.inverse if r.ndim == 1 else omega * level.inverse.unsqueeze(-1)
        x = scaled * r
        for _ in range(sweeps - 1):
            x = x + scaled * (r - level.A @ x)
        x = x + level.P @ cycle(depth + 1, level.R @ (r - level.A @ x))
        for _ in range(sweeps):
            x = x + scaled * (r - level.A @ x)
        return x

    return lambda r: cycle(0, r)


class _Level:
    """A multigrid level: matrix, prolongation, restriction and inverted diagonal."""

    def __init__(self, level: Any, like: SparseMatrix) -> None:
        self.A, self.P, self.R = (self._taken(m, like) for m in (level.A, level.P, level.R))
        self.inverse = 1 / self.A.diagonal()

    @staticmethod
    def _taken(matrix: Any, like: SparseMatrix) -> CSRMatrix:
        return from_scipy(matrix.tocsr()).to(like.device, like.dtype)
