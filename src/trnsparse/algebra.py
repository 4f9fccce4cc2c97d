"""Sums, multiples, powers, transposes and products of sparse matrices."""

from __future__ import annotations

from torch import Tensor

from trnsci.core.errors import DTypeError
from trnsparse._library import no_kernel
from trnsparse.formats import CSRMatrix, SparseMatrix

__all__ = [
    "multiply",
    "nnz_per_row",
    "power",
    "sparse_add",
    "sparse_scale",
    "sparse_transpose",
    "spgemm",
    "transpose",
]


def sparse_add(
    A: SparseMatrix,
    B: SparseMatrix,
    alpha: float | Tensor = 1.0,
    beta: float | Tensor = 1.0,
) -> CSRMatrix:
    """Return ``alpha * A + beta * B`` on the union of both patterns, zero sums included.

    Raises:
        OperandError: The shapes differ.
    """
    no_kernel("sparse_add")
    return _csr("sparse_add", A).added(_csr("sparse_add", B), alpha, beta)


def sparse_scale(A: SparseMatrix, alpha: float | Tensor) -> CSRMatrix:
    """Return ``alpha * A`` in CSR format."""
    no_kernel("sparse_scale")
    csr = _csr("sparse_scale", A)
    return csr.with_values(csr.values * alpha)


def sparse_transpose(A: SparseMatrix) -> CSRMatrix:
    """Return the transpose in CSR format, columns in order."""
    return _csr("sparse_transpose", A).transpose()


transpose = sparse_transpose


def nnz_per_row(A: SparseMatrix) -> Tensor:
    """Return the number of stored entries of each row, int64 (m,), with duplicates."""
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"nnz_per_row: takes sparse matrices, got {type(A).__name__}")
    return CSRMatrix._of(*A._by_rows()).nnz_per_row()


def multiply(A: SparseMatrix, other: SparseMatrix | Tensor | float) -> CSRMatrix:
    """Return the elementwise product with a number, a dense or a sparse matrix.

    A dense operand broadcasts to A's shape. Entries that are not stored in A stay zero.

    Raises:
        OperandError: The shapes do not fit.
    """
    no_kernel("multiply")
    return _csr("multiply", A).multiply(other)


def power(A: SparseMatrix, exponent: float) -> CSRMatrix:
    """Return the matrix with every entry raised to a positive power.

    Raises:
        FlagError: The exponent is 0 or negative, which would turn zeros into entries.
    """
    no_kernel("power")
    return _csr("power", A).power(exponent)


def spgemm(A: SparseMatrix, B: SparseMatrix) -> CSRMatrix:
    """Return the sparse product of two sparse matrices, in CSR format.

    Sums that are exactly zero may be omitted. Gradients reach the entries of both; they need memory
    proportional to the number of multiplications.

    Raises:
        OperandError: The inner dimensions differ.
        DTypeError: The dtypes differ.
    """
    no_kernel("spgemm")
    return _csr("spgemm", A).spgemm(_csr("spgemm", B))


def _csr(function: str, A: SparseMatrix) -> CSRMatrix:
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"{function}: takes sparse matrices, got {type(A).__name__}")
    return A.to_csr()
