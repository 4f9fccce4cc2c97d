"""Torch path of level 3 on validated arguments; on a CPU some routines use SciPy or NumPy."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._paths import scipy_blas
from trnblas._paths.accumulation import accumulated, is_number, scaled, vanished
from trnblas._paths.arguments import Product, Scalar, broadcast_batch
from trnblas._paths.flags import Trans, applied, flipped
from trnblas._paths.products import matrix_product, written_product
from trnblas._paths.triangles import mirrored, one_triangle, triangle_product, triangular

__all__ = [
    "torch_gemm",
    "torch_gemmt",
    "torch_hemm",
    "torch_her2k",
    "torch_herk",
    "torch_symm",
    "torch_syr2k",
    "torch_syrk",
    "torch_trmm",
    "torch_trsm",
]

# Dtypes of torch.linalg.solve_triangular.
_SOLVABLE = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def torch_gemm(product: Product, out: Tensor | None = None) -> Tensor:
    """Return ``gemm`` computed by torch, written to ``out`` if possible."""
    A, B, C, alpha, beta, trans_a, trans_b, _ = product
    if trans_a != "N":
        A = applied(trans_a, A)
    if trans_b != "N":
        B = applied(trans_b, B)
    if isinstance(out, Tensor) and written_product(alpha, A, B, beta, C, out):
        return out
    return matrix_product(alpha, A, B, beta, C)


def torch_gemmt(request: Product, upper: bool) -> Tensor:
    """Return ``gemmt`` computed by torch."""
    A, B, C, alpha, beta, trans_a, trans_b, shape = request
    if is_number(alpha, 0):
        product = vanished(shape, A, B)
    else:
        product = scaled(alpha, triangle_product(applied(trans_a, A), applied(trans_b, B), upper))
    if C is None or is_number(beta, 0):
        return accumulated(product, beta, C)
    C = C.expand(shape).to(product.dtype)
    return product + one_triangle(scaled(beta, C), upper) + one_triangle(C, not upper, 1)


def torch_syr2k(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> Tensor:
    """Return ``syr2k`` computed by torch: one of the two products plus its transpose."""
    left, right = (A.mT, B) if flipped(op) else (A, B.mT)
    half = matrix_product(alpha, left, right, 0, None)
    return accumulated(half + half.mT, beta, C)


def torch_symm(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, left: bool, upper: bool
) -> Tensor:
    """Return ``symm`` computed by torch or SciPy's BLAS."""
    if not is_number(alpha, 0):
        product = scipy_blas.symm(alpha, A, B, left, upper)
        if product is not None:
            return accumulated(product, beta, C)
    full = mirrored(A, upper)
    return matrix_product(alpha, *((full, B) if left else (B, full)), beta, C)


def torch_hemm(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, left: bool, upper: bool
) -> Tensor:
    """Return ``hemm`` of complex arguments, computed by torch."""
    full = mirrored(A, upper, conjugate=True)
    return matrix_product(alpha, *((full, B) if left else (B, full)), beta, C)


def torch_syrk(alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans) -> Tensor:
    """Return ``syrk`` computed by torch or NumPy."""
    transposed = flipped(op)
    if not is_number(alpha, 0):
        product = scipy_blas.syrk(alpha, A, transposed)
        if product is not None:
            return accumulated(product, beta, C)
    left, right = (A.mT, A) if transposed else (A, A.mT)
    product = matrix_product(alpha, left, right, 0, None)
    return accumulated(mirrored(product, True), beta, C)


def torch_herk(alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans) -> Tensor:
    """Return ``herk`` computed by torch or SciPy's BLAS."""
    transposed = flipped(op)
    if not is_number(alpha, 0):
        product = scipy_blas.herk(alpha, A, transposed)
        if product is not None:
            return accumulated(product, beta, C)
    left, right = (A.mH, A) if transposed else (A, A.mH)
    product = matrix_product(alpha, left, right, 0, None)
    return accumulated(mirrored(product, True, conjugate=True), beta, C)


def torch_her2k(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> Tensor:
    """Return ``her2k`` of complex arguments: one of the two products plus its adjoint."""
    left, right = (A.mH, B) if flipped(op) else (A, B.mH)
    half = matrix_product(alpha, left, right, 0, None)
    return accumulated(half + half.mH, beta, C)


def torch_trsm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, op: Trans, unit: bool
) -> Tensor:
    """Return ``trsm`` computed by torch."""
    if is_number(alpha, 0):
        return vanished((*broadcast_batch("trsm", A, B), *B.shape[-2:]), A, B)
    dtype = A.dtype
    if dtype not in _SOLVABLE:
        A, B = A.to(torch.float32), B.to(torch.float32)
    solution = torch.linalg.solve_triangular(
        applied(op, A),
        scaled(alpha, B),
        upper=upper != flipped(op),
        left=left,
        unitriangular=unit,
    )
    return solution if solution.dtype is dtype else solution.to(dtype)


def torch_trmm(
    alpha: Scalar, A: Tensor, B: Tensor, left: bool, upper: bool, op: Trans, unit: bool
) -> Tensor:
    """Return ``trmm`` computed by torch or SciPy's BLAS."""
    if not is_number(alpha, 0):
        product = scipy_blas.trmm(alpha, A, B, left, upper, op, unit)
        if product is not None:
            return product
    full = applied(op, triangular(A, upper, unit))
    return matrix_product(alpha, *((full, B) if left else (B, full)), 0, None)
