"""BLAS level 3: matrices, and batches of them in leading dimensions.

Every function returns a new tensor, changes no argument and can be differentiated. Factors are
numbers or 0-d tensors; what a zero multiplies is not read, so NaN there does not spread; ``beta``
counts only with ``C``, and ``C`` may be anything that broadcasts to the result. Of a symmetric or
triangular matrix only the chosen triangle is read.

Options: ``trans`` is ``False`` or ``"N"`` for no transposition, ``True`` or ``"T"`` for
transposition, ``"C"`` for the conjugate transpose; ``uplo`` is ``"upper"`` or ``"lower"``, ``side``
``"left"`` or ``"right"``, ``diag`` ``"nonunit"`` or ``"unit"`` (the diagonal is one and is not
read). First letters will do, in any case; anything else raises ``FlagError``.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._arguments import Scalar
from trnblas._dispatch import (
    kernels_wanted,
    run_gemm,
    run_gemmt,
    run_symm,
    run_syr2k,
    run_syrk,
    run_trmm,
    run_trsm,
)
from trnblas._flags import Trans, flipped, is_left, is_unit, is_upper, transposition
from trnblas._operands import product_arguments, rank_k_arguments, sided_arguments
from trnblas._quick import quick_product, quick_solution
from trnblas._torch import torch_herk
from trnsci.core.arguments import agree, floating, square, tensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

__all__ = ["gemm", "gemmt", "herk", "symm", "syr2k", "syrk", "trmm", "trsm"]


def gemm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    transA: bool | str = False,
    transB: bool | str = False,
) -> Tensor:
    """Return ``alpha * op(A) @ op(B) + beta * C``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (m, k), (k, m) if transposed, or a batch of such matrices.
        B: Matrix (k, n), (n, k) if transposed, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., m, n).
        transA: How op transposes A.
        transB: How op transposes B.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    if not kernels_wanted():
        quick = quick_product(alpha, A, B, beta, C, transA, transB)
        if quick is not None:
            return quick
    agree("gemm", "A", A, "B", B)
    trans_a = transposition("gemm", "transA", transA, A)
    trans_b = transposition("gemm", "transB", transB, B)
    alpha, beta = product_arguments("gemm", alpha, A, B, beta, C, trans_a, trans_b)
    return run_gemm(alpha, A, B, beta, C, trans_a, trans_b)


def symm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    side: str = "left",
    uplo: str = "upper",
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or ``alpha * B @ A + beta * C``, for a symmetric A.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result.
        side: On which side of B the matrix A stands.
        uplo: Triangle of A.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    agree("symm", "A", A, "B", B)
    left, upper = is_left("symm", side), is_upper("symm", uplo)
    square("symm", "A", A)
    alpha, beta = sided_arguments("symm", alpha, A, B, beta, C, left)
    return run_symm(alpha, A, B, beta, C, left, upper)


def syrk(
    alpha: Scalar,
    A: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
) -> Tensor:
    """Return ``alpha * A @ A.mT + beta * C``, or ``alpha * A.mT @ A + beta * C``.

    The product is exactly symmetric and complete: both triangles are returned, whatever ``uplo``
    says. C is added as it is, symmetric or not.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        C: Accumulator, broadcast to the result's (..., n, n).
        trans: Whether the transpose stands on the left; not ``"C"`` for a complex A (see
            ``herk``).
        uplo: Accepted for the sake of BLAS.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    tensor("syrk", "A", A)
    is_upper("syrk", uplo)
    op = transposition("syrk", "trans", trans, A)
    if op == "C":
        raise FlagError(
            f"syrk: trans must be False, True, 'N' or 'T' for {A.dtype}, got {trans!r}; "
            f"herk has the conjugate transpose"
        )
    alpha, beta = rank_k_arguments("syrk", alpha, A, beta, C, op)
    return run_syrk(alpha, A, beta, C, op)


def herk(
    alpha: Scalar,
    A: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
) -> Tensor:
    """Return ``alpha * A @ A.mH + beta * C``, or ``alpha * A.mH @ A + beta * C``.

    The product is exactly Hermitian and complete, its diagonal real: both triangles are returned,
    whatever ``uplo`` says. C is added as it is. For a real A this is ``syrk``.

    Args:
        alpha: Real factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        C: Accumulator, broadcast to the result's (..., n, n).
        trans: Whether the conjugate transpose stands on the left: ``True`` or ``"C"``.
        uplo: Accepted for the sake of BLAS.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones, or ``"T"`` with a complex A.
    """
    tensor("herk", "A", A)
    is_upper("herk", uplo)
    op = transposition("herk", "trans", trans, A)
    if op == "T" and A.is_complex():
        if trans is not True:
            raise FlagError(
                f"herk: trans must be False, True, 'N' or 'C' for {A.dtype}, got {trans!r}; "
                f"syrk has the transpose without conjugation"
            )
        op = "C"
    alpha, beta = rank_k_arguments("herk", alpha, A, beta, C, op)
    if not A.is_complex():
        return run_syrk(alpha, A, beta, C, op)
    if alpha.is_complex() if isinstance(alpha, Tensor) else alpha.imag != 0:
        raise DTypeError(f"herk: alpha must be real, got {alpha!r}")
    return torch_herk(alpha, A, beta, C, op)


def syr2k(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    trans: bool | str = False,
    uplo: str = "upper",
) -> Tensor:
    """Return ``alpha * (A @ B.mT + B @ A.mT) + beta * C``, or with the transposes on the left.

    The product is exactly symmetric and complete, as that of ``syrk``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        B: Matrix of the same shape, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., n, n).
        trans: Whether the transposes stand on the left; not ``"C"`` for complex matrices.
        uplo: Accepted for the sake of BLAS.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    agree("syr2k", "A", A, "B", B)
    is_upper("syr2k", uplo)
    op = transposition("syr2k", "trans", trans, A)
    if op == "C":
        raise FlagError(
            f"syr2k: trans must be False, True, 'N' or 'T' for {A.dtype}, got {trans!r}"
        )
    if A.shape[-2:] != B.shape[-2:]:
        raise ShapeError(
            f"syr2k: A and B must be matrices of one shape, "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )
    trans_a: Trans = "T" if op == "T" else "N"
    trans_b: Trans = "N" if op == "T" else "T"
    alpha, beta = product_arguments("syr2k", alpha, A, B, beta, C, trans_a, trans_b)
    return run_syr2k(alpha, A, B, beta, C, op)


def gemmt(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    uplo: str = "upper",
    transA: bool | str = False,
    transB: bool | str = False,
) -> Tensor:
    """Return C with one triangle replaced by that of ``alpha * op(A) @ op(B) + beta * C``.

    The other triangle is that of C, or zero where C is not read: absent, or with ``beta == 0``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        B: Matrix (k, n), (n, k) if transposed, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., n, n).
        uplo: Triangle that is computed.
        transA: How op transposes A.
        transB: How op transposes B.

    Raises:
        ShapeError: The shapes do not fit, or the product is not square.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    agree("gemmt", "A", A, "B", B)
    upper = is_upper("gemmt", uplo)
    trans_a = transposition("gemmt", "transA", transA, A)
    trans_b = transposition("gemmt", "transB", transB, B)
    alpha, beta = product_arguments("gemmt", alpha, A, B, beta, C, trans_a, trans_b)
    rows, columns = A.shape[-1 if flipped(trans_a) else -2], B.shape[-2 if flipped(trans_b) else -1]
    if rows != columns:
        raise ShapeError(f"gemmt: op(A) @ op(B) must be square, got shape {(rows, columns)}")
    return run_gemmt(alpha, A, B, beta, C, trans_a, trans_b, upper)


def trsm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
) -> Tensor:
    """Return X with ``op(A) @ X = alpha * B``, or ``X @ op(A) = alpha * B``, for a triangular A.

    A zero on the diagonal gives infinities or NaN, not an exception. float16 and bfloat16 are
    solved in float32 and rounded.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        side: On which side of X the matrix A stands.
        uplo: Triangle of A.
        trans: How op transposes.
        diag: Whether the diagonal of A is read, or is one.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ or are integers, or alpha does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    if not kernels_wanted():
        quick = quick_solution(alpha, A, B, side, uplo, trans, diag)
        if quick is not None:
            return quick
    agree("trsm", "A", A, "B", B)
    return solved("trsm", alpha, A, B, side, uplo, trans, diag)


def trmm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
) -> Tensor:
    """Return ``alpha * op(A) @ B``, or ``alpha * B @ op(A)``, for a triangular A.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        side: On which side of B the matrix A stands.
        uplo: Triangle of A.
        trans: How op transposes.
        diag: Whether the diagonal of A is read, or is one.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or alpha does not suit them.
        FlagError: An option is none of the accepted ones.
    """
    agree("trmm", "A", A, "B", B)
    left, upper, unit = is_left("trmm", side), is_upper("trmm", uplo), is_unit("trmm", diag)
    op = transposition("trmm", "trans", trans, A)
    square("trmm", "A", A)
    alpha, _ = sided_arguments("trmm", alpha, A, B, 0, None, left)
    return run_trmm(alpha, A, B, left, upper, op, unit)


def solved(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str,
    uplo: str,
    trans: bool | str,
    diag: str,
) -> Tensor:
    """Return the solution of ``trsm`` and of its batched form, for operands that agree."""
    left, upper, unit = is_left(function, side), is_upper(function, uplo), is_unit(function, diag)
    op = transposition(function, "trans", trans, A)
    floating(function, "A", A)
    square(function, "A", A)
    alpha, _ = sided_arguments(function, alpha, A, B, 0, None, left)
    return run_trsm(alpha, A, B, left, upper, op, unit)
