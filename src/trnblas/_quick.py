"""The calls that need no look at their arguments: one routine of torch or SciPy, at once.

Looking at two tensors takes longer than multiplying them when they are small. So where factors are
plain floats, options plain booleans or known words, and there is no accumulator, the routine is
called as it is. torch refuses what does not fit, except a meta tensor beside a real one; SciPy
would convert dtypes, so these are compared. None sends the caller to its own checks, whose errors
name the argument.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnblas import _cublas, _cuda, _scipy
from trnblas._arguments import Scalar
from trnblas._flags import LEFT, UNIT, UPPER
from trnblas._symmetry import comes_symmetric, is_known
from trnblas._triangles import mirrored
from trnsci.core.products import addmm, baddbmm, bmm, matmul, mm

__all__ = [
    "quick_product",
    "quick_rank_k",
    "quick_solution",
    "quick_symmetric",
    "quick_symmetric_vector",
    "quick_triangular",
    "quick_vector",
]

# What torch, unknown options and the attributes of something that is no tensor raise.
_REFUSALS = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# Below this order the layout of a matrix does not matter, since copying it costs nothing.
_SMALL = 64

_SHARED = ((2, 3), (3, 2))
# Of numbers that torch would take for a factor of integers it drops the fraction.
_FIELDS = frozenset(
    getattr(torch, name)
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
)


def quick_product(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    trans_a: bool | str,
    trans_b: bool | str,
) -> Tensor | None:
    """Return ``gemm`` of matrices, of batches with one dimension, or of one of each, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        if A.is_meta != B.is_meta:
            return None
        A, B = _turned(A, trans_a), _turned(B, trans_b)
        dimensions = A.ndim, B.ndim
        plain: Callable[..., Tensor]
        added: Callable[..., Tensor]
        if dimensions == (2, 2):
            plain, added = mm, addmm
        elif dimensions == (3, 3):
            plain, added = bmm, baddbmm
        elif dimensions in _SHARED and alpha == 1.0 and C is None:
            return matmul(A, B) if type(beta) is float and beta == 0.0 else None
        else:
            return None
        if type(beta) is not float:
            return None
        if C is None:
            if beta != 0.0:
                return None
            if alpha == 1.0:
                return plain(A, B)
            if A.dtype not in _FIELDS:
                return None
            # beta=0 leaves the first argument unread.
            return added(A.new_empty(()), A, B, alpha=alpha, beta=0)
        if beta == 0.0 or C.device != A.device or A.dtype not in _FIELDS:
            return None
        return added(C, A, B, alpha=alpha, beta=beta)
    except _REFUSALS:
        return None


def quick_vector(
    alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None, trans: bool | str
) -> Tensor | None:
    """Return ``gemv``, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        A = _turned(A, trans)
        if type(beta) is not float:
            return None
        if y is None:
            return torch.mv(A, x) if alpha == 1.0 and beta == 0.0 else None
        if beta == 0.0 or A.dtype not in _FIELDS:
            return None
        return torch.addmv(y, A, x, alpha=alpha, beta=beta)
    except _REFUSALS:
        return None


def quick_solution(
    alpha: Scalar, A: Tensor, B: Tensor, side: str, uplo: str, trans: bool | str, diag: str
) -> Tensor | None:
    """Return ``trsm``, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        left, upper, unit = LEFT[side], UPPER[uplo], UNIT[diag]
        A, upper = _turned(A, trans), upper != trans
        if A.dtype is not B.dtype or A.is_meta != B.is_meta:
            return None
        right = B if alpha == 1.0 else B * alpha
        solve = torch.linalg.solve_triangular
        return solve(A, right, upper=upper, left=left, unitriangular=unit)
    except _REFUSALS:
        return None


def quick_symmetric(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, side: str, uplo: str
) -> Tensor | None:
    """Return ``symm`` of small matrices without an accumulator, or None."""
    if type(alpha) is not float or alpha == 0.0 or type(beta) is not float or beta != 0.0:
        return None
    try:
        left, upper = LEFT[side], UPPER[uplo]
        order, same = A.shape
        beside, other = B.shape if left else B.mT.shape
        if order != same or order != beside or A.dtype is not B.dtype:
            return None
        if not (0 < order < _SMALL and 0 < other < _SMALL):
            return None
        return _scipy.small_symm(alpha, A, B, left, upper)
    except _REFUSALS:
        return None


def quick_symmetric_vector(
    alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, uplo: str
) -> Tensor | None:
    """Return ``symv`` of a small matrix without an accumulator, or None."""
    if type(alpha) is not float or alpha == 0.0 or type(beta) is not float or beta != 0.0:
        return None
    try:
        upper = UPPER[uplo]
        order, same = A.shape
        (length,) = x.shape
        if order != same or order != length or A.dtype is not x.dtype:
            return None
        return _scipy.small_symv(alpha, A, x, upper) if 0 < order < _SMALL else None
    except _REFUSALS:
        return None


def quick_rank_k(
    alpha: Scalar, A: Tensor, beta: Scalar, trans: bool | str, uplo: str
) -> Tensor | None:
    """Return ``syrk`` of a small matrix without an accumulator, or None."""
    if type(alpha) is not float or alpha == 0.0 or type(beta) is not float or beta != 0.0:
        return None
    if trans is not False and trans is not True:
        return None
    try:
        rows, columns = A.shape
        if uplo not in UPPER:
            return None
        if A.is_cuda:
            if rows >= _cublas.ORDER or columns >= _cublas.ORDER:
                found = _cublas.syrk(alpha, A, trans) if A.dtype in _FIELDS else None
                if found is not None:
                    return found
            return _symmetric_product(alpha, A, trans)
        if not 0 < (columns if trans else rows) <= _scipy.NUMPY_SYRK or rows * columns == 0:
            return None
        return _scipy.small_syrk(alpha, A, trans)
    except _REFUSALS:
        return None


def _symmetric_product(alpha: float, A: Tensor, trans: bool) -> Tensor | None:
    """Return ``syrk`` on CUDA, as a product; unless it is symmetric, one triangle is copied."""
    # The device multiplies while the questions are asked.
    product = _own_product(alpha, A, trans)
    kind = trans, alpha == 1.0
    if is_known(A, kind):
        return product
    if A.dtype not in _FIELDS:
        return None
    untouched = product.dtype is A.dtype and _cuda.suits(product)
    if untouched and comes_symmetric(A, kind, lambda other: _own_product(alpha, other, trans)):
        return product
    return product if _cuda.mirror_in_place(product) else mirrored(product, True)


def _own_product(alpha: float, A: Tensor, trans: bool) -> Tensor:
    """Return the product of a matrix and its own transpose."""
    left, right = (A.mT, A) if trans else (A, A.mT)
    if alpha == 1.0:
        return mm(left, right)
    return addmm(A.new_empty(()), left, right, alpha=alpha, beta=0)


def quick_triangular(
    alpha: Scalar, A: Tensor, B: Tensor, side: str, uplo: str, trans: bool | str
) -> Tensor | None:
    """Return ``trmm`` of small matrices, or ``trmv`` of a vector B, with a diagonal, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        left, upper = LEFT[side], UPPER[uplo]
        rows, columns = A.shape
        if rows != columns or rows >= _scipy.TRIANGLE or A.is_meta != B.is_meta:
            return None
        full = _turned(torch.triu(A) if upper else torch.tril(A), trans)
        if B.ndim == 1:
            return torch.mv(full, B)
        first, last = (full, B) if left else (B, full)
        if alpha == 1.0:
            return mm(first, last)
        if A.dtype not in _FIELDS:
            return None
        return addmm(A.new_empty(()), first, last, alpha=alpha, beta=0)
    except _REFUSALS:
        return None


def _turned(matrix: Tensor, trans: bool | str) -> Tensor:
    """Return the matrix as a boolean option says; any other option is one of the refusals."""
    if trans is False:
        return matrix
    if trans is True:
        return matrix.mT
    raise TypeError("not a boolean")
