"""Checks of the operands of products: shapes, the accumulator and the factors.

Each returns the factors alpha and beta, beta being 0 where there is no accumulator. A beta that has
nothing to multiply is refused: it would be the sign of an accumulator that was forgotten.
"""

from __future__ import annotations

from torch import Tensor

from trnblas._arguments import Scalar, broadcast_batch, number
from trnblas._flags import Trans, flipped
from trnsci.core.arguments import agree, broadcast, expandable, matrix, tensor
from trnsci.core.errors import FlagError, ShapeError

__all__ = [
    "contracted",
    "no_accumulator",
    "product_arguments",
    "rank_k_arguments",
    "sided_arguments",
    "square_accumulator",
    "vector_arguments",
]


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
        return alpha, no_accumulator(function, beta, "C")
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
        return alpha, no_accumulator(function, beta, "C")
    return alpha, _factor_of(C, function, beta, A, (*batch, *B.shape[-2:]))


def rank_k_arguments(
    function: str, alpha: Scalar, A: Tensor, beta: Scalar, C: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of A with its own transpose."""
    matrix(function, "A", A)
    alpha = number(function, "alpha", alpha, A)
    if C is None:
        return alpha, no_accumulator(function, beta, "C")
    n = A.shape[-1 if flipped(op) else -2]
    square_accumulator(function, "C", C, n)
    return alpha, _factor_of(C, function, beta, A, (*A.shape[:-2], n, n))


def vector_arguments(
    function: str, alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None, op: Trans
) -> tuple[Scalar, Scalar]:
    """Return the factors of a product of a matrix and a vector, or of batches of them."""
    batch = contracted(function, A, x, op)
    alpha = number(function, "alpha", alpha, A)
    if y is None:
        return alpha, no_accumulator(function, beta, "y")
    agree(function, "A", A, "y", y)
    expandable(function, "y", y, (*batch, A.shape[-1 if flipped(op) else -2]))
    return alpha, number(function, "beta", beta, A)


def contracted(function: str, A: Tensor, x: Tensor, op: Trans) -> tuple[int, ...]:
    """Return the batch dimensions of ``op(A) @ x``, after the check that A and x fit."""
    matrix(function, "A", A)
    if x.ndim == 0:
        raise ShapeError(f"{function}: x must be at least 1-D, got shape ()")
    if x.shape[-1] != A.shape[-2 if flipped(op) else -1]:
        raise ShapeError(
            f"{function}: op(A) and x must agree in the contracted dimension, "
            f"got A {tuple(A.shape)} ({op}) and x {tuple(x.shape)}"
        )
    if A.ndim == 2 and x.ndim == 1:
        return ()
    batch = broadcast(A.shape[:-2], x.shape[:-1])
    if batch is None:
        raise ShapeError(
            f"{function}: the batch dimensions of A and x must broadcast, "
            f"got {tuple(A.shape)} and {tuple(x.shape)}"
        )
    return batch


def no_accumulator(function: str, beta: Scalar, name: str) -> int:
    """Return 0, the factor of an accumulator that is not there."""
    if isinstance(beta, Tensor) or beta != 0:
        raise FlagError(f"{function}: beta must be 0 where {name} is not given, got {beta!r}")
    return 0


def square_accumulator(function: str, name: str, value: Tensor, order: int) -> None:
    """Raise unless the matrices of ``value``, of which one triangle is read, have this order."""
    tensor(function, name, value)
    if value.shape[-2:] != (order, order):
        raise ShapeError(
            f"{function}: {name} must hold matrices ({order}, {order}), got {tuple(value.shape)}"
        )


def _factor_of(C: Tensor, function: str, beta: Scalar, A: Tensor, shape: tuple[int, ...]) -> Scalar:
    """Return the factor of an accumulator that fits."""
    agree(function, "A", A, "C", C)
    expandable(function, "C", C, shape)
    return number(function, "beta", beta, A)


def _shown(matrix: Tensor, trans: Trans) -> str:
    shape = str(tuple(matrix.shape))
    return shape if trans == "N" else f"{shape} transposed"
