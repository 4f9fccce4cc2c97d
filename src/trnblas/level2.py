"""BLAS level 2: a matrix and vectors.

Every function returns a new tensor, changes no argument and can be differentiated. Of a symmetric
or triangular matrix only the chosen triangle is read.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas import _scipy
from trnblas._accumulation import accumulated, is_number, scaled, vanished
from trnblas._arguments import Scalar, number
from trnblas._flags import Trans, applied, flipped, is_unit, is_upper, transposition
from trnblas._products import vector_product
from trnblas._quick import quick_vector
from trnblas._triangles import mirrored, triangular
from trnsci.core.arguments import agree, expandable, matrix, square, vector
from trnsci.core.errors import ShapeError

__all__ = ["gemv", "ger", "symv", "trmv"]


def gemv(
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar = 0.0,
    y: Tensor | None = None,
    trans: bool | str = False,
) -> Tensor:
    """Return ``alpha * op(A) @ x + beta * y``.

    Args:
        alpha: Number or 0-d tensor, factor of the product. What a zero multiplies is not read.
        beta: Number or 0-d tensor, factor of y.
        A: Matrix (m, n).
        x: Vector of n elements, of m if A is transposed.
        y: Anything that broadcasts to the result.
        trans: ``False`` or ``"N"``: op(A) is A; ``True`` or ``"T"``: transposed; ``"C"``:
            conjugated as well.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: trans is none of the above.
    """
    quick = quick_vector(alpha, A, x, beta, y, trans)
    if quick is not None:
        return quick
    agree("gemv", "A", A, "x", x)
    op = transposition("gemv", "trans", trans, A)
    alpha, beta = _vector_arguments("gemv", alpha, A, x, beta, y, op)
    return vector_product(alpha, applied(op, A), x, beta, y)


def symv(
    alpha: Scalar,
    A: Tensor,
    x: Tensor,
    beta: Scalar = 0.0,
    y: Tensor | None = None,
    uplo: str = "upper",
) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for a symmetric A, given by one triangle.

    Args:
        alpha: Number or 0-d tensor, factor of the product.
        beta: Number or 0-d tensor, factor of y.
        A: Matrix (n, n) of which the triangle ``uplo`` is read.
        x: Vector of n elements.
        y: Anything that broadcasts to the result.
        uplo: ``"upper"`` or ``"lower"``, or their first letters.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or a factor does not suit them.
        FlagError: uplo is none of the above.
    """
    agree("symv", "A", A, "x", x)
    upper = is_upper("symv", uplo)
    square("symv", "A", A, batches=False)
    alpha, beta = _vector_arguments("symv", alpha, A, x, beta, y, "N")
    if not is_number(alpha, 0):
        product = _scipy.symv(alpha, A, x, upper)
        if product is not None:
            return accumulated(product, beta, y)
    return vector_product(alpha, mirrored(A, upper), x, beta, y)


def trmv(
    A: Tensor,
    x: Tensor,
    uplo: str = "upper",
    trans: bool | str = False,
    diag: str = "nonunit",
) -> Tensor:
    """Return ``op(A) @ x`` for a triangular A.

    Args:
        A: Matrix (n, n) of which the triangle ``uplo`` is read.
        x: Vector of n elements.
        uplo: ``"upper"`` or ``"lower"``, or their first letters.
        trans: As in ``gemv``.
        diag: ``"nonunit"`` or ``"unit"``, or their first letters: with unit the diagonal is not
            read, and is one.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ.
        FlagError: An option is none of the above.
    """
    agree("trmv", "A", A, "x", x)
    upper, unit = is_upper("trmv", uplo), is_unit("trmv", diag)
    op = transposition("trmv", "trans", trans, A)
    square("trmv", "A", A, batches=False)
    _check_vector("trmv", A, x, op)
    product = _scipy.trmv(A, x, upper, op, unit)
    if product is not None:
        return product
    return torch.mv(applied(op, triangular(A, upper, unit)), x)


def ger(alpha: Scalar, x: Tensor, y: Tensor, A: Tensor | None = None) -> Tensor:
    """Return ``alpha * outer(x, y) + A``, nothing conjugated.

    Args:
        alpha: Number or 0-d tensor; at zero, x and y are not read.
        x: Vector of m elements.
        y: Vector of n elements.
        A: Anything that broadcasts to the result's (m, n).

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: The dtypes differ, or alpha does not suit them.
    """
    agree("ger", "x", x, "y", y)
    vector("ger", "x", x)
    vector("ger", "y", y)
    alpha = number("ger", "alpha", alpha, x)
    shape = (x.shape[0], y.shape[0])
    if A is not None:
        agree("ger", "x", x, "A", A)
        expandable("ger", "A", A, shape)
    if isinstance(alpha, Tensor):
        return accumulated(scaled(alpha, torch.outer(x, y)), 1, A)
    if alpha == 0:
        return accumulated(vanished(shape, x, y), 1, A)
    if A is None:
        return torch.outer(scaled(alpha, x), y)
    return torch.addr(A, x, y, alpha=alpha)


def _vector_arguments(
    function: str, alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product with a vector whose other arguments fit."""
    matrix(function, "A", A, batches=False)
    _check_vector(function, A, x, op)
    alpha = number(function, "alpha", alpha, A)
    if y is None:
        return alpha, 0
    agree(function, "A", A, "y", y)
    expandable(function, "y", y, (A.shape[1 if flipped(op) else 0],))
    return alpha, number(function, "beta", beta, A)


def _check_vector(function: str, A: Tensor, x: Tensor, op: Trans) -> None:
    vector(function, "x", x)
    if x.shape[0] != A.shape[0 if flipped(op) else 1]:
        raise ShapeError(
            f"{function}: op(A) and x must agree in the contracted dimension, "
            f"got A {tuple(A.shape)} ({op}) and x {tuple(x.shape)}"
        )
