"""Names of published releases, for code written for them: ``from trnsparse import cg_bsr``.

They are neither in ``trnsparse.__all__`` nor on the reference page. ``INSTEAD`` has what to use in
new code.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trnsci.core.errors import DTypeError, ShapeError
from trnsparse._library import no_kernel
from trnsparse.attention import block_sparse_attention
from trnsparse.formats import BSRMatrix, CSRMatrix, SparseMatrix
from trnsparse.iterative import cg_bsr, chebyshev_bsr, power_iteration_bsr, richardson_bsr
from trnsparse.preconditioners import jacobi_preconditioner as jacobi_preconditioner_bsr
from trnsparse.products import spmm

__all__ = [
    "block_sparse_attention_tiled",
    "bsr_diagonal",
    "bsr_spmm",
    "cg_bsr",
    "chebyshev_bsr",
    "jacobi_preconditioner_bsr",
    "multiply",
    "nnz_per_row",
    "power",
    "power_iteration_bsr",
    "richardson_bsr",
    "sparse_add",
    "sparse_scale",
    "sparse_transpose",
    "transpose",
]

INSTEAD = {
    "block_sparse_attention_tiled": "block_sparse_attention, which takes one head too",
    "bsr_diagonal": "A.diagonal()",
    "bsr_spmm": "A @ B, or spmm(A, B)",
    "cg_bsr": "cg, which takes all formats",
    "chebyshev_bsr": "chebyshev, which takes all formats",
    "jacobi_preconditioner_bsr": "jacobi_preconditioner, which takes all formats",
    "multiply": "A * B, or A.to_csr().multiply(B)",
    "nnz_per_row": "A.to_csr().nnz_per_row()",
    "power": "A ** exponent, or A.power(exponent)",
    "power_iteration_bsr": "power_iteration, which takes all formats",
    "richardson_bsr": "richardson, which takes all formats",
    "sparse_add": "alpha * A + beta * B",
    "sparse_scale": "alpha * A",
    "sparse_transpose": "A.T, or A.to_csr().transpose()",
    "transpose": "A.T, or A.to_csr().transpose()",
}
"""The replacement of each name."""


def block_sparse_attention_tiled(
    Q: Tensor, K: Tensor, V: Tensor, mask_bsr: Any, scale: float | None = None
) -> Tensor:
    """Return ``block_sparse_attention`` of one head, (seq_len, head_dim).

    Raises:
        ShapeError: An operand is no matrix, or the shapes do not fit.
    """
    for name, value in (("Q", Q), ("K", K), ("V", V)):
        if not isinstance(value, Tensor) or value.ndim != 2:
            raise ShapeError(
                f"block_sparse_attention_tiled: {name} must be a tensor (seq_len, head_dim), got "
                f"{tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__}"
            )
    return block_sparse_attention(Q, K, V, mask_bsr, scale)


def bsr_diagonal(A: SparseMatrix) -> Tensor:
    """Return the main diagonal, zero where nothing is stored."""
    return A.diagonal()


def bsr_spmm(A: BSRMatrix, B: Tensor) -> Tensor:
    """Return ``A @ B`` for a BSR matrix and a dense (n, N).

    Raises:
        OperandError: The shapes do not fit.
        DTypeError: The dtypes differ, or A is not a BSR matrix.
    """
    if not isinstance(A, BSRMatrix):
        raise DTypeError(f"bsr_spmm: A must be a BSRMatrix, got {type(A).__name__}")
    return spmm(A, B)


def multiply(A: SparseMatrix, other: SparseMatrix | Tensor | float) -> CSRMatrix:
    """Return the elementwise product with a number, a dense or a sparse matrix, in CSR format."""
    return _csr("multiply", A).multiply(other)


def nnz_per_row(A: SparseMatrix) -> Tensor:
    """Return the number of stored entries of each row, int64 (m,), with duplicates."""
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"nnz_per_row: takes sparse matrices, got {type(A).__name__}")
    return CSRMatrix._of(*A._by_rows()).nnz_per_row()


def power(A: SparseMatrix, exponent: float) -> CSRMatrix:
    """Return the matrix with every entry raised to a positive power, in CSR format."""
    return _csr("power", A).power(exponent)


def sparse_add(
    A: SparseMatrix,
    B: SparseMatrix,
    alpha: float | Tensor = 1.0,
    beta: float | Tensor = 1.0,
) -> CSRMatrix:
    """Return ``alpha * A + beta * B`` on the union of both patterns, zero sums included."""
    return _csr("sparse_add", A).added(_csr("sparse_add", B), alpha, beta)


def sparse_scale(A: SparseMatrix, alpha: float | Tensor) -> CSRMatrix:
    """Return ``alpha * A`` in CSR format."""
    csr = _csr("sparse_scale", A)
    return csr.with_values(csr.values * alpha)


def sparse_transpose(A: SparseMatrix) -> CSRMatrix:
    """Return the transpose in CSR format, columns in order."""
    return _csr("sparse_transpose", A).transpose()


transpose = sparse_transpose


def _csr(function: str, A: SparseMatrix) -> CSRMatrix:
    no_kernel(function)
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"{function}: takes sparse matrices, got {type(A).__name__}")
    return A.to_csr()
