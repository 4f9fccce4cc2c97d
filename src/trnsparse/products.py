"""Products of sparse matrices with dense and sparse operands, and sampled dense products."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import agree, expandable, floating
from trnsci.core.errors import DTypeError, FlagError, OperandError
from trnsci.core.numbers.values import shapes_are_static
from trnsparse._library import no_kernel
from trnsparse._paths.rows import run_sddmm
from trnsparse.formats import CSRMatrix, SparseMatrix

__all__ = ["sddmm", "spgemm", "spmm", "spmv", "spmv_symmetric"]


def spmv(
    A: SparseMatrix,
    x: Tensor,
    alpha: float | Tensor = 1.0,
    y: Tensor | None = None,
    beta: float | Tensor = 0.0,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y``.

    Args:
        A: A matrix (m, n) of any format.
        x: A vector (n,), of A's dtype and device.
        alpha: Factor of the product.
        y: A vector (m,), read only if ``beta`` is not 0.
        beta: Factor of ``y``.

    Gradients reach the entries of A, ``x``, ``y`` and factors that are tensors.

    Raises:
        OperandError: The shapes do not fit.
        DTypeError: The dtypes differ, or A is not sparse.

    Example:
        >>> spmv(eye_sparse(2), torch.tensor([1.0, 2.0]), alpha=3.0)
        tensor([3., 6.])
    """
    _sparse("spmv", A)
    if not isinstance(x, Tensor) or x.ndim != 1:
        raise OperandError(f"spmv: x must be a vector, got {_kind(x)}")
    return _accumulated("spmv", A.matmul(x), alpha, "y", y, beta)


def spmm(
    A: SparseMatrix,
    B: Tensor,
    alpha: float | Tensor = 1.0,
    C: Tensor | None = None,
    beta: float | Tensor = 0.0,
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``.

    Args:
        A: A matrix (m, n) of any format, or a batch on one pattern.
        B: A dense matrix (n, N) or a batch of them, of A's dtype and device.
        alpha: Factor of the product.
        C: A matrix (m, N), read only if ``beta`` is not 0.
        beta: Factor of ``C``.

    Gradients reach the entries of A, ``B``, ``C`` and factors that are tensors; A is never made
    dense.

    Raises:
        OperandError: The shapes do not fit.
        DTypeError: The dtypes differ, or A is not sparse.
    """
    _sparse("spmm", A)
    if not isinstance(B, Tensor) or B.ndim < 2:
        raise OperandError(f"spmm: B must be a matrix, got {_kind(B)}")
    return _accumulated("spmm", A.matmul(B), alpha, "C", C, beta)


def spmv_symmetric(
    A: SparseMatrix, x: Tensor, alpha: float | Tensor = 1.0, uplo: str = "upper"
) -> Tensor:
    """Return ``alpha * S @ x`` for a symmetric S given by one triangle.

    Args:
        A: A matrix (n, n) with the triangle and the diagonal; the other triangle is not read.
        x: A vector (n,).
        alpha: Factor of the product.
        uplo: The triangle to read, ``"upper"`` or ``"lower"``.

    Raises:
        OperandError: A is not square, or x does not fit.
        FlagError: ``uplo`` is neither.
    """
    _sparse("spmv_symmetric", A)
    if uplo not in ("upper", "lower"):
        raise FlagError(f"spmv_symmetric: uplo must be 'upper' or 'lower', got {uplo!r}")
    if A.shape[0] != A.shape[1]:
        raise OperandError(f"spmv_symmetric: A must be square, got {A.shape}")
    triangle = A.to_csr()
    rows, columns = triangle.pattern.row_indices, triangle.col_indices
    read = rows <= columns if uplo == "upper" else rows >= columns
    triangle = triangle.with_values(torch.where(read, triangle.values, 0.0))
    # The other triangle is the transpose without the diagonal, which is already included.
    whole = spmv(triangle, x) + x @ triangle - triangle.diagonal() * x
    return alpha * whole


def spgemm(A: SparseMatrix, B: SparseMatrix) -> CSRMatrix:
    """Return the sparse product of two sparse matrices, in CSR format.

    Sums that are exactly zero may be omitted. Gradients reach the entries of both; they need memory
    proportional to the number of multiplications.

    Raises:
        OperandError: The inner dimensions differ.
        DTypeError: The dtypes differ, or an operand is not sparse.
    """
    no_kernel("spgemm")
    _sparse("spgemm", A)
    _sparse("spgemm", B, "B")
    return A.to_csr().spgemm(B.to_csr())


def sddmm(pattern: SparseMatrix, C: Tensor, D: Tensor) -> CSRMatrix:
    """Return ``C @ D.T`` at the entries of a pattern only, in CSR format.

    Args:
        pattern: A matrix (m, n) whose pattern selects the elements; its values are not read.
        C: A dense matrix (m, N).
        D: A dense matrix (n, N), of C's dtype and device.

    It is the gradient of a sparse product by the values of its sparse operand; its own gradients
    are sparse products.

    Raises:
        OperandError: The shapes do not fit.
        DTypeError: The dtypes differ, or are integers, which no sparse matrix holds.
    """
    _sparse("sddmm", pattern)
    agree("sddmm", "C", C, "D", D)
    floating("sddmm", "C", C)
    rows, columns = pattern.shape
    if C.ndim < 2 or D.ndim < 2 or C.shape[-2] != rows or D.shape[-2] != columns:
        raise OperandError(
            f"sddmm: C and D must be ({rows}, N) and ({columns}, N), "
            f"got {tuple(C.shape)} and {tuple(D.shape)}"
        )
    if C.shape[-1] != D.shape[-1]:
        raise OperandError(
            f"sddmm: C and D must agree in their columns, got {tuple(C.shape)} and {tuple(D.shape)}"
        )
    csr = pattern.to_csr().sum_duplicates()
    values = run_sddmm(csr.pattern, C, D)
    if shapes_are_static():  # duplicates are still stored, as zeros
        values = torch.where(csr.pattern.first, values, 0.0)
    return csr.with_values(values)


def _accumulated(
    function: str,
    product: Tensor,
    alpha: float | Tensor,
    name: str,
    addend: Tensor | None,
    beta: float | Tensor,
) -> Tensor:
    result = product if isinstance(alpha, float) and alpha == 1.0 else alpha * product
    if not isinstance(beta, Tensor) and beta == 0:
        return result
    if addend is None:
        raise FlagError(f"{function}: beta must be 0 where {name} is not given, got {beta!r}")
    agree(function, "A", product, name, addend)
    expandable(function, name, addend, result.shape)
    return result + beta * addend


def _sparse(function: str, A: SparseMatrix, name: str = "A") -> None:
    if not isinstance(A, SparseMatrix):
        raise DTypeError(f"{function}: {name} must be a sparse matrix, got {type(A).__name__}")


def _kind(value: object) -> str:
    return f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
