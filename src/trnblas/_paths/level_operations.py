"""Operations at levels of precision other than float32: products, and triangular solutions.

Operands are matrices or batches that broadcast; factors, accumulators and transpositions are
applied outside. With ``upper`` the result is the upper triangle of the product, zeros below. A
level is not lowered by autocast, and derivatives have the level of the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.derivatives import Gradients, Needed, Tangents
from trnblas._paths.triangles import one_triangle
from trnblas._precise.slicing import MOST_DEPTH, MOST_SLICES, PROMISE, bound
from trnsci.core.backend.operation import Operation, total
from trnsci.core.products import matmul

__all__ = ["BFLOAT16_GEMM", "DOUBLEFLOAT_GEMM", "DOUBLEFLOAT_TRSM", "FLOAT16X3_GEMM"]

_TRANSPOSED = {"N": "T", "T": "N"}


def _operation(name: str, **declaration: Any) -> Operation:
    launch = f"trnblas._paths.level_launches:{name}"
    return Operation(LIBRARY, name, launch=launch, batched=_batched(name), **declaration)


def _batched(name: str) -> Callable[..., tuple[Tensor, int]]:
    """Return the ``vmap`` rule of an operation of two operands that broadcast."""

    def rule(
        info: Any, in_dims: Sequence[int | None], a: Tensor, b: Tensor, *options: Any
    ) -> tuple[Tensor, int]:
        pairs = list(zip((a, b), in_dims, strict=False))
        rank = max(x.ndim - (dim is not None) for x, dim in pairs)
        aligned = []
        for x, dim in pairs:
            if dim is not None:
                x = x.movedim(dim, 0)
                x = x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])
            aligned.append(x)
        return LIBRARY.operations[name](*aligned, *options), 0

    return rule


# -- products --------------------------------------------------------------------------------------


def _product_backward(name: str) -> Callable[..., Gradients]:
    """Return the rule of a product A B: G B^T and A^T G at its level, for the triangle of G."""

    def backward(grad: Tensor, needed: Needed, a: Tensor, b: Tensor, *options: Any) -> Gradients:
        product = LIBRARY.operations[name]
        *level, upper = options
        inside = one_triangle(grad, True) if upper else grad
        for_a = for_b = None
        if needed[0]:
            for_a = product(inside, b.mT, *level, False).sum_to_size(a.shape)
        if needed[1]:
            for_b = product(a.mT, inside, *level, False).sum_to_size(b.shape)
        return for_a, for_b, *(None for _ in options)

    return backward


def _plain(a: Tensor, b: Tensor, upper: bool) -> Tensor:
    with torch.autocast(a.device.type, enabled=False):  # it would lower the level
        product = matmul(a, b)
    return one_triangle(product, True) if upper else product


def _doublefloat(a: Tensor, b: Tensor, target: float, componentwise: bool, upper: bool) -> Tensor:
    return _plain(a.double(), b.double(), upper).to(a.dtype)


def _flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return 2.0 * a.numel() * b.shape[-1]


def _unproved(a: Tensor, b: Tensor, target: float, *rest: Any) -> str:
    depth = a.shape[-1]
    if target == PROMISE and depth <= MOST_DEPTH:
        return ""
    if depth <= MOST_DEPTH and bound(MOST_SLICES, depth) <= target:
        return ""
    return f"an error of {target:.3g} is not proved for a contraction of {depth}"


BFLOAT16_GEMM = _operation(
    "bfloat16_gemm",
    reference=_plain,
    backward=_product_backward("bfloat16_gemm"),
    linear=(0, 1),
    dtypes=("float32",),
    flops=_flops,
)
FLOAT16X3_GEMM = _operation(
    "float16x3_gemm",
    reference=_plain,
    backward=_product_backward("float16x3_gemm"),
    linear=(0, 1),
    dtypes=("float32",),
    flops=_flops,
)
DOUBLEFLOAT_GEMM = _operation(
    "doublefloat_gemm",
    reference=_doublefloat,
    backward=_product_backward("doublefloat_gemm"),
    linear=(0, 1),
    dtypes=("float32", "float64"),
    flops=_flops,
    unsuited=_unproved,
)


# -- triangular solutions --------------------------------------------------------------------------


def _solution(a: Tensor, b: Tensor, left: bool, upper: bool, trans: str, unit: bool) -> Tensor:
    matrix, flipped = (a, False) if trans == "N" else (a.mT, True)
    return torch.linalg.solve_triangular(
        matrix.double(), b.double(), upper=upper != flipped, left=left, unitriangular=unit
    ).to(a.dtype)


def _product(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = DOUBLEFLOAT_GEMM(a, b, PROMISE, False, False)
    return result


def _solution_backward(
    grad: Tensor,
    needed: Needed,
    a: Tensor,
    b: Tensor,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
    *,
    result: Tensor,
) -> Gradients:
    """Return Z with op(A)^T Z = G for B, and the triangle of -Z X^T for A (A on the left)."""
    pulled = DOUBLEFLOAT_TRSM(a, grad, left, upper, _TRANSPOSED[trans], unit)
    for_a = None
    if needed[0]:
        outer = _product(pulled, result.mT) if left else _product(result.mT, pulled)
        outer = -outer if trans == "N" else -outer.mT
        for_a = one_triangle(outer.sum_to_size(a.shape), upper, 1 if unit else 0)
    for_b = pulled.sum_to_size(b.shape) if needed[1] else None
    return for_a, for_b, None, None, None, None


def _solution_jvp(
    tangents: Tangents,
    a: Tensor,
    b: Tensor,
    left: bool,
    upper: bool,
    trans: str,
    unit: bool,
    *,
    result: Tensor,
) -> Tensor:
    """Return the solution with right-hand side TB - op(TA) X, where X is the result."""
    of_a, of_b = tangents[:2]
    parts = [] if of_b is None else [of_b]
    if of_a is not None:
        inside = one_triangle(of_a, upper, 1 if unit else 0)
        inside = inside if trans == "N" else inside.mT
        parts.append(-(_product(inside, result) if left else _product(result, inside)))
    solution: Tensor = DOUBLEFLOAT_TRSM(a, total(parts), left, upper, trans, unit)
    return solution


def _solution_flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return 1.0 * b.numel() * a.shape[-1]


def _too_large(a: Tensor, *rest: Any) -> str:
    from trnblas._kernels.trsm import MAX_ORDER

    order = a.shape[-1]
    return f"the kernel solves up to order {MAX_ORDER}, not {order}" if order > MAX_ORDER else ""


DOUBLEFLOAT_TRSM = _operation(
    "doublefloat_trsm",
    reference=_solution,
    backward=_solution_backward,
    jvp=_solution_jvp,
    from_result=True,
    dtypes=("float32", "float64"),
    flops=_solution_flops,
    unsuited=_too_large,
)
