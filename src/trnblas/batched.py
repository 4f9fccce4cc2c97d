"""BLAS on batches: one operation on every matrix of leading dimensions that broadcast."""

from __future__ import annotations

from torch import Tensor

from trnblas._arguments import Scalar
from trnblas._dispatch import kernels_wanted, run_gemm
from trnblas._flags import transposition
from trnblas._operands import product_arguments
from trnblas._quick import quick_product
from trnblas.level3 import solved
from trnsci.core.arguments import agree
from trnsci.core.errors import ShapeError

__all__ = ["batched_gemm", "batched_trsm"]


def batched_gemm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    transA: bool | str = False,
    transB: bool | str = False,
) -> Tensor:
    """Return ``alpha * op(A[i]) @ op(B[i]) + beta * C[i]`` for every i of a batch.

    Batch dimensions broadcast: a 2-D A or B is one matrix that the whole batch shares, and a view
    with strides of its own is a strided batch; neither is copied to be so.

    Args:
        alpha: Number or 0-d tensor, factor of the product. What a zero multiplies is not read.
        beta: Number or 0-d tensor, factor of C.
        A: Matrices (..., m, k), (..., k, m) if transposed.
        B: Matrices (..., k, n), (..., n, k) if transposed.
        C: Accumulator, broadcast to the result's (..., m, n).
        transA: How op transposes A: ``False``, ``True``, ``"N"``, ``"T"`` or ``"C"``.
        transB: How op transposes B.

    Raises:
        ShapeError: The shapes do not fit, or neither A nor B is a batch.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    if not kernels_wanted():
        quick = quick_product(alpha, A, B, beta, C, transA, transB)
        if quick is not None and quick.ndim > 2:
            return quick
    agree("batched_gemm", "A", A, "B", B)
    _check_batch("batched_gemm", A, B)
    trans_a = transposition("batched_gemm", "transA", transA, A)
    trans_b = transposition("batched_gemm", "transB", transB, B)
    alpha, beta = product_arguments("batched_gemm", alpha, A, B, beta, C, trans_a, trans_b)
    return run_gemm(alpha, A, B, beta, C, trans_a, trans_b)


def batched_trsm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
) -> Tensor:
    """Return every X[i] with ``op(A[i]) @ X[i] = alpha * B[i]``, or with A on the right.

    The arguments are those of ``trsm``; A or B, or both, are batches, which broadcast.

    Raises:
        ShapeError: The shapes do not fit, or neither A nor B is a batch.
        DTypeError: The dtypes differ or are integers, or alpha does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    agree("batched_trsm", "A", A, "B", B)
    _check_batch("batched_trsm", A, B)
    return solved("batched_trsm", alpha, A, B, side, uplo, trans, diag)


def _check_batch(function: str, A: Tensor, B: Tensor) -> None:
    if A.ndim < 3 and B.ndim < 3:
        raise ShapeError(
            f"{function}: A or B must be a batch of matrices (3-D or more), "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )
