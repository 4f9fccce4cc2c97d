"""Batched BLAS: one operation on every matrix of a batch; batch dimensions broadcast."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = ["batched_gemm", "batched_trsm", "grouped_gemm"]


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

    On a GPU and on a NeuronCore, products with equal shapes, factors (as numbers) and options are
    computed as one batch: there a launch costs more than a copy.

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
    lists = [_for_each(name, value, count) for name, value in options.items()]
    for name, given in (("B", B), ("C", C), ("out", out)):
        if given is not None and len(given) != count:
            raise ShapeError(
                f"grouped_gemm: A and {name} must have as many matrices, "
                f"got {count} and {len(given)}"
            )
    products = []
    for i, (a, b) in enumerate(zip(A, B, strict=True)):
        if out_dtype is not None:
            a, b = widened("grouped_gemm", a, b, out_dtype)
        for name, value in ((f"A[{i}]", a), (f"B[{i}]", b)):
            tensor("grouped_gemm", name, value)
            matrix("grouped_gemm", name, value, batches=False)
        agree("grouped_gemm", f"A[{i}]", a, f"B[{i}]", b)
        factor, other, trans_a, trans_b = (values[i] for values in lists)
        c = None if C is None else C[i]
        product = checked_product("grouped_gemm", factor, a, b, other, c, trans_a, trans_b)
        products.append((level_of("grouped_gemm", precision, a), product))
    if products and (kernels_wanted() or products[0][1].A.is_cuda):
        results = _in_batches(products)
    else:
        results = [computed(product, level) for level, product in products]
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
    """Return one value for each of ``count`` products."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [value] * count
    if len(value) != count:
        raise ShapeError(
            f"grouped_gemm: {name} must be one value or {count} of them, got {len(value)}"
        )
    return value


def _in_batches(products: list[tuple[Level | None, Product]]) -> list[Tensor]:
    """Return the products; products with equal keys are computed as one batch."""
    kinds: dict[Any, list[int]] = {}
    for place, (level, product) in enumerate(products):
        kinds.setdefault((level, _kind(place, product)), []).append(place)
    results: dict[int, Tensor] = {}
    for (level, _), places in kinds.items():
        members = [products[place][1] for place in places]
        if len(members) == 1:
            results[places[0]] = computed(members[0], level)
            continue
        first = members[0]
        added = [product.C.expand(product.shape) for product in members if product.C is not None]
        batch = first._replace(
            A=torch.stack([product.A for product in members]),
            B=torch.stack([product.B for product in members]),
            C=torch.stack(added) if added else None,
            shape=(len(members), *first.shape),
        )
        results.update(zip(places, computed(batch, level).unbind(), strict=True))
    return [results[place] for place in range(len(products))]


def _kind(place: int, product: Product) -> Any:
    """Return the batching key of a product: equal keys can be computed as one batch.

    A product whose factor is a tensor gets a unique key, because the values may differ.
    """
    if isinstance(product.alpha, Tensor) or isinstance(product.beta, Tensor):
        return place
    tensors = [(x.shape, x.dtype, x.device) for x in (product.A, product.B)]
    options = product.alpha, product.beta, product.trans_a, product.trans_b, product.shape
    return (*tensors, product.C is None, *options)
