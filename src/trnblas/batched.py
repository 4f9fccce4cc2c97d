"""Batched BLAS: one operation on every matrix of a batch; batch dimensions broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from trnblas._library import kernels_wanted
from trnblas._paths.arguments import (
    Product,
    Scalar,
    checked_product,
    triangle_arguments,
    widened,
)
from trnblas._paths.levels import level_of
from trnblas._precise.ladder import Level
from trnblas.matrix_products import computed
from trnblas.triangular_systems import solved
from trnsci.core.arguments import agree, delivered, matrix, tensor
from trnsci.core.backend.precision import PrecisionLevel
from trnsci.core.errors import ShapeError
from trnsci.core.numbers.values import shapes_are_static

__all__ = ["batched_gemm", "batched_trsm", "grouped_gemm"]

# On a CPU, matrices with more elements are multiplied faster one by one than as a copied batch.
_STACKED = 1024


def batched_gemm(
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
    out: Tensor | None = None,
) -> Tensor:
    """Return ``alpha * op(A[i]) @ op(B[i]) + beta * C[i]`` for every i of a batch.

    Batch dimensions broadcast: a 2-D A or B is shared by the whole batch. Strided views are used
    as strided batches. Neither is copied.

    Args:
        alpha: Number or 0-d tensor, factor of the product. A zero leaves its operand unread.
        beta: Number or 0-d tensor, factor of C.
        A: Matrices (..., m, k), (..., k, m) if transposed.
        B: Matrices (..., k, n), (..., n, k) if transposed.
        C: Accumulator, broadcast to the result's (..., m, n).
        transA: Transposition of A: ``False``, ``True``, ``"N"``, ``"T"`` or ``"C"``.
        transB: Transposition of B.
        out_dtype: Dtype of C and of the result: that of A and B (None), or float32 if A and B are
            float16, bfloat16 or float8.
        precision: Arithmetic of the product; see ``gemm``.
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible, or neither A nor B is a batch.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    if out_dtype is not None:
        A, B = widened("batched_gemm", A, B, out_dtype)
    agree("batched_gemm", "A", A, "B", B)
    _check_batch("batched_gemm", A, B)
    product = checked_product("batched_gemm", alpha, A, B, beta, C, transA, transB)
    level = level_of("batched_gemm", precision, A)
    result = computed(product, level, out)
    return result if out is None or result is out else delivered("batched_gemm", result, out)


def grouped_gemm(
    alpha: Scalar | Sequence[Scalar],
    A: Sequence[Tensor],
    B: Sequence[Tensor],
    beta: Scalar | Sequence[Scalar] = 0.0,
    C: Sequence[Tensor] | None = None,
    transA: bool | str | Sequence[bool | str] = False,
    transB: bool | str | Sequence[bool | str] = False,
    *,
    out_dtype: torch.dtype | None = None,
    precision: PrecisionLevel | None = None,
    out: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """Return ``gemm`` of every A[i] and B[i]; all shapes may differ.

    Products with equal shapes, factors (as numbers) and options are computed as one batch. On a CPU
    without kernels that is limited to matrices of up to 1024 elements, for which a call takes
    longer than a copy. torch.compile without kernels traces single products. Results of one batch
    are views of one tensor. The order of a sum can depend on the batch, and so can the last bits of
    a result. Every result has the error bound of
    ``gemm``: ``k * u * |alpha| * |A| @ |B|``, with u the unit roundoff, and three roundings of
    factors and C.

    Args:
        alpha: Factor of all products, or one per product.
        A: Matrices (m, k), (k, m) if transposed.
        B: The same number of matrices (k, n), (n, k) if transposed.
        beta: Factor of every C[i], or one per product.
        C: The same number of accumulators.
        transA: Transposition of A, or one option per product.
        transB: Transposition of B, or one option per product.
        out_dtype: As in ``gemm``.
        precision: As in ``gemm``.
        out: Output tensors, one per product; None allocates them.

    Raises:
        ShapeError: The numbers of matrices differ, an operand is not a matrix, or the shapes are
            incompatible.
        DTypeError: The dtypes of a product differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    count = len(A)
    options = {"alpha": alpha, "beta": beta, "transA": transA, "transB": transB}
    lists = {name: _for_each(name, value, count) for name, value in options.items()}
    for name, given in (("B", B), ("C", C), ("out", out)):
        if given is not None and len(given) != count:
            raise ShapeError(
                f"grouped_gemm: A and {name} must have as many matrices, "
                f"got {count} and {len(given)}"
            )
    kinds: list[Any] = [
        (a.shape, a.dtype, a.device, b.shape, b.dtype, b.device)
        if isinstance(a, Tensor) and isinstance(b, Tensor)
        else i  # no tensors: an error below
        for i, (a, b) in enumerate(zip(A, B, strict=True))
    ]
    others = [_values(each) for name, each in lists.items() if each is options[name]]
    if C is not None:
        others.append([(c.shape, c.dtype, c.device) if isinstance(c, Tensor) else 0 for c in C])
    if others:
        kinds = list(zip(kinds, *others, strict=True))
    if shapes_are_static() and not kernels_wanted():
        kinds = list(range(count))  # sizes can be symbols, which have no hash
    alike: dict[Any, list[int]] = {}
    last: Any = None
    for i, kind in enumerate(kinds):
        if kind != last:  # equal kinds are neighbours in most lists
            last, members = kind, alike.setdefault(kind, [])
        members.append(i)
    results: list[Any] = [None] * count
    for members in alike.values():
        i = members[0]  # one validation for products of one kind
        a, b = A[i], B[i]
        if out_dtype is not None:
            a, b = widened("grouped_gemm", a, b, out_dtype)
        for name, value in ((f"A[{i}]", a), (f"B[{i}]", b)):
            tensor("grouped_gemm", name, value)
            matrix("grouped_gemm", name, value, batches=False)
        agree("grouped_gemm", f"A[{i}]", a, f"B[{i}]", b)
        factor, other, trans_a, trans_b = (each[i] for each in lists.values())
        c = None if C is None else C[i]
        product = checked_product("grouped_gemm", factor, a, b, other, c, trans_a, trans_b)
        level = level_of("grouped_gemm", precision, a)
        operands = [[x[i] for i in members] for x in (A, B, C) if x is not None]
        for i, result in zip(members, _computed_alike(product, level, operands), strict=True):
            results[i] = result
    if out is None:
        return results
    return [delivered("grouped_gemm", *pair) for pair in zip(results, out, strict=True)]


def batched_trsm(
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
    """Return the solutions X[i] of ``op(A[i]) @ X[i] = alpha * B[i]``, or with A on the right.

    The arguments are those of ``trsm``. A, B or both are batches; batch dimensions broadcast.

    Raises:
        ShapeError: The shapes are incompatible, or neither A nor B is a batch.
        DTypeError: The dtypes differ or are integers, or alpha is incompatible.
        FlagError: An option is invalid.
    """
    agree("batched_trsm", "A", A, "B", B)
    _check_batch("batched_trsm", A, B)
    flags = triangle_arguments("batched_trsm", A, side, uplo, trans, diag)
    return delivered("batched_trsm", solved("batched_trsm", alpha, A, B, flags, precision), out)


def _check_batch(function: str, A: Tensor, B: Tensor) -> None:
    if A.ndim < 3 and B.ndim < 3:
        raise ShapeError(
            f"{function}: A or B must be a batch of matrices (3-D or more), "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )


def _for_each(name: str, value: Any, count: int) -> Sequence[Any]:
    """Return one value for each of ``count`` products; a sequence is returned itself."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [value] * count
    if len(value) != count:
        raise ShapeError(
            f"grouped_gemm: {name} must be one value or {count} of them, got {len(value)}"
        )
    return value


def _values(factors: Sequence[Any]) -> list[Any]:
    """Return keys: equal for equal numbers of one type, or for one and the same object."""
    return [(type(x), x) if type(x) in (int, float, complex) else id(x) for x in factors]


def _computed_alike(
    product: Product, level: Level | None, operands: list[list[Tensor]]
) -> Sequence[Tensor]:
    """Return the products of lists of A, B and, if given, C; all products are of one kind."""
    alpha, A, _, beta, _, trans_a, trans_b, shape = product
    dtype, count = A.dtype, len(operands[0])
    if count > 1 and (kernels_wanted() or not A.is_cpu or _largest(product) <= _STACKED):
        stacks = [torch.stack(x) for x in operands[:2]]
        stacks += [torch.stack([c.expand(shape) for c in each]) for each in operands[2:]]
        operands, shape = [[x] for x in stacks], (count, *shape)
    results = []
    for a, b, *c in zip(*operands, strict=True):
        if a.dtype is not dtype:
            a, b = a.to(dtype), b.to(dtype)
        each = Product(alpha, a, b, beta, c[0] if c else None, trans_a, trans_b, shape)
        results.append(computed(each, level))
    if len(results) == count:
        return results
    stacked = results[0]
    # Autograd raises where a result of unbind is changed in place.
    return [stacked[i] for i in range(count)] if stacked.requires_grad else stacked.unbind()


def _largest(product: Product) -> int:
    return max(product.A.numel(), product.B.numel(), prod(product.shape))
