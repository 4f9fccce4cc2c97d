"""BLAS level 3: matrices, and batches of them in leading dimensions.

Every function returns a new tensor and is differentiable. Only ``out`` is written to. Factors are
numbers or 0-d tensors. An operand with a zero factor is not read, so NaN in it does not propagate.
``C`` broadcasts to the result; without ``C``, ``beta`` must be 0. Only the chosen triangle of a
symmetric, Hermitian or triangular matrix is read.

Options: ``trans`` is ``False`` or ``"N"`` for no transposition, ``True`` or ``"T"`` for
transposition, ``"C"`` for the conjugate transpose; ``uplo`` is ``"upper"`` or ``"lower"``, ``side``
``"left"`` or ``"right"``, ``diag`` ``"nonunit"`` or ``"unit"`` (the diagonal is ones and is not
read). First letters are accepted, in upper or lower case; anything else raises ``FlagError``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._paths.arguments import Scalar, checked_product, sided_arguments, widened
from trnblas._paths.dispatch import (
    run_gemm,
    run_gemmt,
    run_hermitian,
    run_symm,
    run_trmm,
    run_trsm,
)
from trnblas._paths.flags import is_left, is_unit, is_upper, transposition
from trnblas._paths.levels import gemm_at, gemmt_at, level_of, symm_at, targeted, trmm_at, trsm_at
from trnblas._paths.torch_path import torch_hemm
from trnblas.rank_k import her2k, herk, syr2k, syrk
from trnsci.core.arguments import agree, floating, square
from trnsci.core.backend.precision import CHOSEN, PrecisionLevel
from trnsci.core.errors import ShapeError
from trnsci.core.output import delivered

__all__ = [
    "gemm",
    "gemmt",
    "hemm",
    "her2k",
    "herk",
    "symm",
    "syr2k",
    "syrk",
    "trmm",
    "trsm",
]


def gemm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    transA: bool | str = False,
    transB: bool | str = False,
    *,
    out_dtype: torch.dtype | None = None,
    precision: PrecisionLevel | None = None,
    target_forward_error: float | None = None,
    componentwise: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ op(B) + beta * C``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (m, k), (k, m) if transposed, or a batch of such matrices.
        B: Matrix (k, n), (n, k) if transposed, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., m, n).
        transA: Transposition of A.
        transB: Transposition of B.
        out_dtype: Dtype of C and of the result: that of A and B (None), or float32 if A and B are
            float16, bfloat16 or float8.
        precision: Arithmetic of the product of float32 or float64 matrices: ``"bfloat16"``,
            ``"float16x3"``, ``"float32"``, or ``"doublefloat"``, which gives thirteen digits on a
            NeuronCore: every entry of op(A) @ op(B) is within 2**-45 times the 2-norms of its row
            and column. None for the level of ``trnblas.precision``, float32 by default. Torch
            computes at least as accurately.
        target_forward_error: The largest error of an entry of op(A) @ op(B), relative to the
            2-norms of its row and column: the cheapest level whose bound admits it is chosen, and
            the fewest slices at ``"doublefloat"``. float64 matrices have only that level.
        componentwise: Whether the error is at most 2**-45, or the target, times |op(A)| @ |op(B)|
            instead: at ``"doublefloat"`` rows and columns with entries of a wide range take more
            slices. A kernel refuses a range that takes more than 16.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or have no such precision, or a factor is incompatible.
        FlagError: An option is invalid, no level admits the target, or beta is not 0 without C.
    """
    if out_dtype is not None:
        A, B = widened("gemm", A, B, out_dtype)
    agree("gemm", "A", A, "B", B)
    product = checked_product("gemm", alpha, A, B, beta, C, transA, transB)
    if target_forward_error is not None or componentwise:
        level = targeted("gemm", precision, target_forward_error, componentwise, product)
    elif precision is None and not CHOSEN.used:
        level = None
    else:
        level = level_of("gemm", precision, A)
    result = run_gemm(product, out) if level is None else gemm_at(level, product)
    return result if out is None or result is out else delivered("gemm", result, out)


def symm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    side: str = "left",
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or ``alpha * B @ A + beta * C``, for a symmetric A.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result.
        side: Side of B on which A is.
        uplo: Triangle of A.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    result = _symmetric("symm", alpha, A, B, beta, C, side, uplo, precision)
    return delivered("symm", result, out)


def hemm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    side: str = "left",
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ B + beta * C``, or ``alpha * B @ A + beta * C``, for a Hermitian A.

    Imaginary parts on the diagonal of A are ignored. The arguments are those of ``symm``; for a
    real A both are equal.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    result = _symmetric("hemm", alpha, A, B, beta, C, side, uplo, precision)
    return delivered("hemm", result, out)


def gemmt(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar = 0.0,
    C: Tensor | None = None,
    uplo: str = "upper",
    transA: bool | str = False,
    transB: bool | str = False,
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return C with one triangle replaced by that of ``alpha * op(A) @ op(B) + beta * C``.

    The other triangle is that of C. It is zero if C is absent or ``beta == 0``.

    Args:
        alpha: Factor of the product.
        beta: Factor of C.
        A: Matrix (n, k), (k, n) if transposed, or a batch of such matrices.
        B: Matrix (k, n), (n, k) if transposed, or a batch that broadcasts with that of A.
        C: Accumulator, broadcast to the result's (..., n, n).
        uplo: Triangle that is computed.
        transA: Transposition of A.
        transB: Transposition of B.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible, or the product is not square.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    agree("gemmt", "A", A, "B", B)
    upper = is_upper("gemmt", uplo)
    product = checked_product("gemmt", alpha, A, B, beta, C, transA, transB)
    rows, columns = product.shape[-2:]
    if rows != columns:
        raise ShapeError(f"gemmt: op(A) @ op(B) must be square, got shape {(rows, columns)}")
    level = level_of("gemmt", precision, A)
    result = run_gemmt(product, upper) if level is None else gemmt_at(level, product, upper)
    return delivered("gemmt", result, out)


def trsm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Solve ``op(A) @ X = alpha * B`` or ``X @ op(A) = alpha * B`` for X, with a triangular A.

    A zero on the diagonal gives infinities or NaN, not an exception. float16 and bfloat16 are
    solved in float32 and rounded.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        side: Side of X on which A is.
        uplo: Triangle of A.
        trans: Transposition of A.
        diag: ``"unit"`` if the diagonal of A is ones and not read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or are integers, or alpha is incompatible.
        FlagError: An option is invalid.
    """
    agree("trsm", "A", A, "B", B)
    solution = solved("trsm", alpha, A, B, side, uplo, trans, diag, precision)
    return delivered("trsm", solution, out)


def trmm(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str = "left",
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ B``, or ``alpha * B @ op(A)``, for a triangular A.

    Args:
        alpha: Factor.
        A: Square matrix of which the triangle ``uplo`` is read, or a batch of such matrices.
        B: Matrix, or a batch that broadcasts with that of A.
        side: Side of B on which A is.
        uplo: Triangle of A.
        trans: Transposition of A.
        diag: ``"unit"`` if the diagonal of A is ones and not read.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or alpha is incompatible.
        FlagError: An option is invalid.
    """
    agree("trmm", "A", A, "B", B)
    left, upper, unit = is_left("trmm", side), is_upper("trmm", uplo), is_unit("trmm", diag)
    op = transposition("trmm", "trans", trans, A)
    square("trmm", "A", A)
    alpha, _ = sided_arguments("trmm", alpha, A, B, 0, None, left)
    level = level_of("trmm", precision, A)
    if level is None:
        result = run_trmm(alpha, A, B, left, upper, op, unit)
    else:
        result = trmm_at(level, alpha, A, B, left, upper, op, unit)
    return delivered("trmm", result, out)


def solved(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    side: str,
    uplo: str,
    trans: bool | str,
    diag: str,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``trsm`` or ``batched_trsm`` of operands with equal dtype and device."""
    left, upper, unit = is_left(function, side), is_upper(function, uplo), is_unit(function, diag)
    op = transposition(function, "trans", trans, A)
    floating(function, "A", A)
    square(function, "A", A)
    alpha, _ = sided_arguments(function, alpha, A, B, 0, None, left)
    level = level_of(function, precision, A)
    if level is None:
        return run_trsm(alpha, A, B, left, upper, op, unit)
    return trsm_at(level, alpha, A, B, left, upper, op, unit)


def _symmetric(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    side: str,
    uplo: str,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``symm`` or ``hemm``; they differ for complex matrices."""
    agree(function, "A", A, "B", B)
    left, upper = is_left(function, side), is_upper(function, uplo)
    square(function, "A", A)
    alpha, beta = sided_arguments(function, alpha, A, B, beta, C, left)
    level = level_of(function, precision, A)
    if function == "hemm" and A.is_complex():
        return run_hermitian("symm", torch_hemm, alpha, A, B, beta, C, left, upper)
    if level is not None:
        return symm_at(level, alpha, A, B, beta, C, left, upper)
    return run_symm(alpha, A, B, beta, C, left, upper)
