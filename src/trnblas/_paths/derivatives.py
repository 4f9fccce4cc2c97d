"""Derivatives of the operations with kernels, computed by operations with kernels.

G is the gradient of the result, and TA, TB, TC are tangents. The rules are those of real matrices.
Triangular and symmetric matrices have derivatives with respect to the elements that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.triangles import one_triangle
from trnsci.core.backend.operation import total

__all__ = [
    "Gradients",
    "Needed",
    "Tangents",
    "gemm_backward",
    "gemm_batched",
    "gemmt_backward",
    "gemmt_jvp",
    "multiplied",
    "symm_backward",
    "syr2k_backward",
    "syrk_backward",
    "syrk_jvp",
    "trmm_backward",
    "trmm_jvp",
    "trsm_backward",
    "trsm_batched",
    "trsm_jvp",
]

Gradients = tuple[Tensor | None, ...]
Needed = Sequence[bool]
Tangents = Sequence[Tensor | None]

_TRANSPOSED = {"N": "T", "T": "N"}


def multiplied(a: Tensor, b: Tensor, trans_a: str, trans_b: str, alpha: float = 1.0) -> Tensor:
    """Return a product computed by the operation for single matrices or for batches."""
    name = "gemm" if a.ndim == b.ndim == 2 else "batched_gemm"
    result: Tensor = LIBRARY.operations[name](a, b, None, alpha, 0.0, trans_a, trans_b)
    return result


# -- products --------------------------------------------------------------------------------------


def gemm_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
) -> Gradients:
    """Return G op(B)^T for A, op(A)^T G for B (transposed like the operand) and beta G for C."""
    for_a = for_b = None
    if needed[0]:
        operands = (grad, b, "N", _TRANSPOSED[trans_b])
        if trans_a != "N":
            operands = (b, grad, trans_b, "T")
        for_a = multiplied(*operands, alpha).sum_to_size(a.shape)
    if needed[1]:
        operands = (a, grad, _TRANSPOSED[trans_a], "N")
        if trans_b != "N":
            operands = (grad, a, "T", trans_a)
        for_b = multiplied(*operands, alpha).sum_to_size(b.shape)
    return for_a, for_b, grad * beta if needed[2] else None, None, None, None, None


def gemm_batched(
    info: Any,
    in_dims: Sequence[int | None],
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
) -> tuple[Tensor, int]:
    """Return a batch of products in one launch; a shared operand is not expanded."""
    front = [_in_front(x, d) for x, d in zip((a, b), in_dims, strict=False)]
    if front[0].ndim == front[1].ndim == 2:
        front[0] = front[0].expand(info.batch_size, *a.shape)
    if c is not None:
        c = _in_front(c, in_dims[2])
        c = c if in_dims[2] is not None else c.expand(info.batch_size, *c.shape)
    product = LIBRARY.operations["batched_gemm"]
    return product(*front, c, alpha, beta, trans_a, trans_b), 0


def gemmt_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    upper: bool,
) -> Gradients:
    """Return the ``gemm`` gradients for one triangle of G, and both triangles for C."""
    inside = one_triangle(grad, upper)
    factors = a, b, None, alpha, beta, trans_a, trans_b
    for_a, for_b, *_ = gemm_backward(inside, (*needed[:2], False), *factors)
    for_c = beta * inside + one_triangle(grad, not upper, 1) if needed[2] else None
    return for_a, for_b, for_c, None, None, None, None, None


def gemmt_jvp(
    tangents: Tangents,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans_a: str,
    trans_b: str,
    upper: bool,
) -> Tensor:
    """Return one triangle of the ``gemm`` tangent, and the other triangle of TC."""
    of_a, of_b, of_c = tangents[:3]
    product = LIBRARY.operations["gemmt"]
    flags = None, alpha, 0.0, trans_a, trans_b, upper
    parts = []
    if of_a is not None:
        parts.append(product(of_a, b, *flags))
    if of_b is not None:
        parts.append(product(a, of_b, *flags))
    if of_c is not None:
        parts.append(beta * one_triangle(of_c, upper) + one_triangle(of_c, not upper, 1))
    return total(parts)


# -- symmetric matrices ----------------------------------------------------------------------------


def symm_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    left: bool,
    upper: bool,
) -> Gradients:
    """Return sym(A) G for B and G B^T, folded onto the triangle, for A (A on the left)."""
    for_a = for_b = None
    if needed[0]:
        operands = (grad, b, "N", "T") if left else (b, grad, "T", "N")
        full = multiplied(*operands, alpha)
        for_a = one_triangle(full, upper) + one_triangle(full.mT, upper, 1)
    if needed[1]:
        for_b = LIBRARY.operations["symm"](a, grad, None, alpha, 0.0, left, upper)
    return for_a, for_b, grad * beta if needed[2] else None, None, None, None, None


def syrk_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans: str,
) -> Gradients:
    """Return (G + G^T) A, or A (G + G^T) if transposed, and beta G for C."""
    for_a = _sided(grad + grad.mT, a, trans, alpha) if needed[0] else None
    return for_a, grad * beta if needed[1] else None, None, None, None


def syrk_jvp(
    tangents: Tangents, a: Tensor, c: Tensor | None, alpha: float, beta: float, trans: str
) -> Tensor:
    """Return ``syr2k`` of TA and A, plus beta TC."""
    of_a, of_c = tangents[:2]
    parts = []
    if of_a is not None:
        parts.append(LIBRARY.operations["syr2k"](of_a, a, None, alpha, 0.0, trans))
    if of_c is not None:
        parts.append(beta * of_c)
    return total(parts)


def syr2k_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    c: Tensor | None,
    alpha: float,
    beta: float,
    trans: str,
) -> Gradients:
    """Return (G + G^T) B for A, (G + G^T) A for B (reversed if transposed) and beta G for C."""
    both = grad + grad.mT
    for_a = _sided(both, b, trans, alpha) if needed[0] else None
    for_b = _sided(both, a, trans, alpha) if needed[1] else None
    return for_a, for_b, grad * beta if needed[2] else None, None, None, None


def _sided(symmetric: Tensor, a: Tensor, trans: str, alpha: float) -> Tensor:
    operands = (symmetric, a) if trans == "N" else (a, symmetric)
    return multiplied(*operands, "N", "N", alpha)


# -- triangular matrices ---------------------------------------------------------------------------


def trmm_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    alpha: float,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
) -> Gradients:
    """Return op(A)^T G for B and the triangle of G B^T for A (A on the left)."""
    for_a = for_b = None
    if needed[0]:
        for_a = _read(_outer(grad, b, left, trans, alpha), upper, unit)
    if needed[1]:
        product = LIBRARY.operations["trmm"]
        for_b = product(a, grad, alpha, left, upper, _TRANSPOSED[trans], unit)
    return for_a, for_b, None, None, None, None, None


def trmm_jvp(
    tangents: Tangents,
    a: Tensor,
    b: Tensor,
    alpha: float,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
) -> Tensor:
    """Return the products with the triangle of TA and with TB."""
    of_a, of_b = tangents[:2]
    product = LIBRARY.operations["trmm"]
    parts = []
    if of_a is not None:
        parts.append(product(_read(of_a, upper, unit), b, alpha, left, upper, trans, False))
    if of_b is not None:
        parts.append(product(a, of_b, alpha, left, upper, trans, unit))
    return total(parts)


def trsm_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    alpha: float,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
    *,
    result: Tensor,
) -> Gradients:
    """Return alpha Z with op(A)^T Z = G for B, and the triangle of -Z X^T for A."""
    pulled = _solved(a, grad, 1.0, left, upper, _TRANSPOSED[trans], unit)
    for_a = None
    if needed[0]:
        outer = _outer(pulled, result, left, trans, -1.0)
        for_a = _read(outer.sum_to_size(a.shape), upper, unit)
    return for_a, alpha * pulled if needed[1] else None, None, None, None, None, None


def trsm_jvp(
    tangents: Tangents,
    a: Tensor,
    b: Tensor,
    alpha: float,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
    *,
    result: Tensor,
) -> Tensor:
    """Return the solution with right-hand side alpha TB - op(TA) X, where X is the result."""
    of_a, of_b = tangents[:2]
    parts = []
    if of_b is not None:
        parts.append(alpha * of_b)
    if of_a is not None:
        inside = _read(of_a, upper, unit)
        operands = (inside, result, trans, "N") if left else (result, inside, "N", trans)
        parts.append(multiplied(*operands, -1.0))
    return _solved(a, total(parts), 1.0, left, upper, trans, unit)


def trsm_batched(
    info: Any, in_dims: Sequence[int | None], a: Tensor, b: Tensor, *flags: Any
) -> tuple[Tensor, int]:
    """Return a batch of solutions in one launch; a shared matrix is not expanded."""
    sides = _in_front(b, in_dims[1])
    if in_dims[1] is None:
        sides = sides.expand(info.batch_size, *b.shape)
    return LIBRARY.operations["batched_trsm"](_in_front(a, in_dims[0]), sides, *flags), 0


def _solved(a: Tensor, b: Tensor, *flags: Any) -> Tensor:
    name = "trsm" if b.ndim == 2 else "batched_trsm"
    result: Tensor = LIBRARY.operations[name](a, b, *flags)
    return result


def _outer(grad: Tensor, other: Tensor, left: bool, trans: str, alpha: float) -> Tensor:
    """Return the gradient by A of op(A) times ``other``, or of ``other`` times op(A)."""
    if left:
        operands = (grad, other, "N", "T") if trans == "N" else (other, grad, "N", "T")
    else:
        operands = (other, grad, "T", "N") if trans == "N" else (grad, other, "T", "N")
    return multiplied(*operands, alpha)


def _read(matrix: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return the elements that are read: the triangle, without its diagonal if ``unit``."""
    return one_triangle(matrix, upper, 1 if unit else 0)


def _in_front(x: Tensor, dim: int | None) -> Tensor:
    return x if dim is None else x.movedim(dim, 0)
