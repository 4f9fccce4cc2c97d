"""Checks of the operands of products: shapes, the accumulator and the factors.

Each returns the factors alpha and beta, beta being 0 where there is no accumulator.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._arguments import Scalar, broadcast_batch, number
from trnblas._flags import Trans, flipped
from trnsci.core.arguments import agree, expandable, matrix
from trnsci.core.errors import ShapeError

__all__ = ["product_arguments", "rank_k_arguments", "sided_arguments"]


def product_arguments(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    trans_a: Trans,
    trans_b: Trans,
) -> tuple[Scalar, Scalar]:
    """Return the factors of ``op(A) @ op(B)``; A and B agree in dtype and device already."""
    batched = A.ndim != 2 or B.ndim != 2
    if batched:
        matrix(function, "A", A)
        matrix(function, "B", B)
    shape_a, shape_b = A.shape, B.shape
    turned_a, turned_b = trans_a != "N", trans_b != "N"
    if shape_a[-2 if turned_a else -1] != shape_b[-1 if turned_b else -2]:
        raise ShapeError(
            f"{function}: A and B must agree in the contracted dimension, "
            f"got {_shown(A, trans_a)} and {_shown(B, trans_b)}"
        )
    batch = broadcast_batch(function, A, B) if batched else ()
    alpha = number(function, "alpha", alpha, A)
    if C is None:
        return alpha, 0
    shape = (*batch, shape_a[-1 if turned_a else -2], shape_b[-2 if turned_b else -1])
    return alpha, _factor_of(C, function, beta, A, shape)


def sided_arguments(
    function: str,
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    left: bool,
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of a square A on one side of B; both agree already."""
    matrix(function, "B", B)
    if A.shape[-1] != B.shape[-2 if left else -1]:
        side = "left" if left else "right"
        raise ShapeError(
            f"{function}: A and B must agree in the contracted dimension, "
            f"got {tuple(A.shape)} on the {side} of {tuple(B.shape)}"
        )
    batch = broadcast_batch(function, A, B)
    alpha = number(function, "alpha", alpha, A)
    if C is None:
        return alpha, 0
    return alpha, _factor_of(C, function, beta, A, (*batch, *B.shape[-2:]))


def rank_k_arguments(
    function: str, alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of A with its own transpose."""
    matrix(function, "A", A)
    alpha = number(function, "alpha", alpha, A)
    if C is None:
        return alpha, 0
    n = A.shape[-1 if flipped(op) else -2]
    return alpha, _factor_of(C, function, beta, A, (*A.shape[:-2], n, n))


def _factor_of(C: Tensor, function: str, beta: Scalar, A: Tensor, shape: tuple[int, ...]) -> Scalar:
    """Return the factor of an accumulator that fits."""
    agree(function, "A", A, "C", C)
    expandable(function, "C", C, shape)
    return number(function, "beta", beta, A)


def _shown(matrix: Tensor, trans: Trans) -> str:
    shape = str(tuple(matrix.shape))
    return shape if trans == "N" else f"{shape} transposed"
