"""BLAS level 2: a matrix and vectors, and batches of both in leading dimensions.

Every function returns a new tensor and is differentiable. Only ``out`` is written to. Only the
chosen triangle of a symmetric, Hermitian or triangular matrix is read. Without y, ``beta`` must be
0.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._library import no_kernel
from trnblas._paths import scipy_blas
from trnblas._paths.arguments import (
    Scalar,
    applied,
    contracted,
    is_unit,
    is_upper,
    transposition,
    vector_arguments,
)
from trnblas._paths.levels import is_doublefloat, level_of, vector_at
from trnblas._paths.triangles import mirrored, triangular
from trnblas.rank_one import ger, gerc, her, her2, syr, syr2
from trnblas.triangular_systems import solution
from trnsci.core.arguments import agree, delivered, floating, square
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.numbers.products import is_number

__all__ = [
    "gemv",
    "ger",
    "gerc",
    "hemv",
    "her",
    "her2",
    "symv",
    "syr",
    "syr2",
    "trmv",
    "trsv",
]


def gemv(
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar = 0.0,
    y: Tensor | None = None,
    trans: bool | str = False,
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A) @ x + beta * y``.

    Args:
        alpha: Number or 0-d tensor, factor of the product. A zero leaves its operand unread.
        beta: Number or 0-d tensor, factor of y.
        A: Matrix (m, n), or a batch of such matrices.
        x: Vector of n elements, of m if A is transposed, or a batch that broadcasts with that of A.
        y: Tensor that broadcasts to the result.
        trans: ``False`` or ``"N"``: op(A) is A; ``True`` or ``"T"``: transposed; ``"C"``:
            conjugated as well.
        precision: Arithmetic of the product: ``"doublefloat"`` computes as in ``gemm``, a lower
            level in the dtype of A. None for the level of ``trnblas.precision``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: trans is invalid, or beta is not 0 without y.
    """
    agree("gemv", "A", A, "x", x)
    op = transposition("gemv", "trans", trans, A)
    alpha, beta = vector_arguments("gemv", alpha, A, x, beta, y, op)
    level = level_of("gemv", precision, A)
    result = vector_at("gemv", level, alpha, applied(op, A), x, beta, y)
    return delivered("gemv", result, out)


def symv(
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar = 0.0,
    y: Tensor | None = None,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for a symmetric A, given by one triangle.

    Args:
        alpha: Number or 0-d tensor, factor of the product.
        beta: Number or 0-d tensor, factor of y.
        A: Matrix (n, n) of which the triangle ``uplo`` is read, or a batch of such matrices.
        x: Vector of n elements, or a batch that broadcasts with that of A.
        y: Tensor that broadcasts to the result.
        uplo: ``"upper"`` or ``"lower"``, or their first letters.
        precision: Arithmetic of the product: ``"doublefloat"`` computes as in ``gemm``, a lower
            level in the dtype of A. None for the level of ``trnblas.precision``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: uplo is invalid, or beta is not 0 without y.
    """
    return delivered("symv", _symmetric("symv", alpha, A, x, beta, y, uplo, precision), out)


def hemv(
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar = 0.0,
    y: Tensor | None = None,
    uplo: str = "upper",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for a Hermitian A, given by one triangle.

    Imaginary parts on the diagonal of A are ignored. The arguments are those of ``symv``; for a
    real A both are equal.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: uplo is invalid, or beta is not 0 without y.
    """
    return delivered("hemv", _symmetric("hemv", alpha, A, x, beta, y, uplo, precision), out)


def trmv(
    A: Tensor,
    x: Tensor,
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``op(A) @ x`` for a triangular A.

    Args:
        A: Matrix (n, n) of which the triangle ``uplo`` is read, or a batch of such matrices.
        x: Vector of n elements, or a batch that broadcasts with that of A.
        uplo: ``"upper"`` or ``"lower"``, or their first letters.
        trans: As in ``gemv``.
        diag: ``"nonunit"`` or ``"unit"``, or their first letters; ``"unit"`` means a diagonal
            of ones, which is not read.
        precision: Arithmetic of the product: ``"doublefloat"`` computes as in ``gemm``, a lower
            level in the dtype of A. None for the level of ``trnblas.precision``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ.
        FlagError: An option is invalid.
    """
    agree("trmv", "A", A, "x", x)
    upper, unit = is_upper("trmv", uplo), is_unit("trmv", diag)
    op = transposition("trmv", "trans", trans, A)
    square("trmv", "A", A)
    contracted("trmv", A, x, op)
    level = level_of("trmv", precision, A)
    product = None if is_doublefloat(level) else scipy_blas.trmv(A, x, upper, op, unit)
    if product is None:
        full = applied(op, triangular(A, upper, unit))
        product = vector_at("trmv", level, 1.0, full, x, 0, None)
    else:
        no_kernel("trmv")
    return delivered("trmv", product, out)


def trsv(
    A: Tensor,
    x: Tensor,
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
    *,
    precision: PrecisionLevel | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the solution z of ``op(A) @ z = x`` for a triangular A.

    The arguments are those of ``trmv``. A zero on the diagonal gives infinities or NaN, not an
    exception. It runs as ``trsm`` of one column.

    Raises:
        ShapeError: The shapes are incompatible.
        DTypeError: The dtypes differ or are integers.
        FlagError: An option is invalid.
    """
    agree("trsv", "A", A, "x", x)
    upper, unit = is_upper("trsv", uplo), is_unit("trsv", diag)
    op = transposition("trsv", "trans", trans, A)
    floating("trsv", "A", A)
    square("trsv", "A", A)
    contracted("trsv", A, x, op)
    level = level_of("trsv", precision, A)
    found = solution(1.0, A, x[..., None], (True, upper, op, unit), level)
    return delivered("trsv", found[..., 0], out)


def _symmetric(
    function: str,
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar,
    y: Tensor | None,
    uplo: str,
    precision: PrecisionLevel | None,
) -> Tensor:
    """Return ``symv`` or ``hemv``; they differ for complex matrices."""
    agree(function, "A", A, "x", x)
    upper = is_upper(function, uplo)
    square(function, "A", A)
    alpha, beta = vector_arguments(function, alpha, A, x, beta, y, "N")
    conjugate = function == "hemv" and A.is_complex()
    level = level_of(function, precision, A)
    if not is_number(alpha, 0) and not is_doublefloat(level):
        result = scipy_blas.symv(alpha, A, x, beta, y, upper, conjugate)
        if result is not None:
            no_kernel(function)
            return result
    return vector_at(function, level, alpha, mirrored(A, upper, conjugate), x, beta, y)
