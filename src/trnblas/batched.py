"""Batched BLAS: one operation on every matrix of a batch; batch dimensions broadcast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnblas._paths.arguments import Scalar, checked_product, widened
from trnblas._paths.dispatch import kernels_wanted, run_gemm
from trnblas.level3 import gemm, solved
from trnsci.core.arguments import agree, matrix, tensor
from trnsci.core.errors import ShapeError
from trnsci.core.output import delivered

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
        out: Output tensor; None allocates one.

    Raises:
        ShapeError: The shapes are incompatible, or neither A nor B is a batch.
        DTypeError: The dtypes differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    agree("batched_gemm", "A", A, "B", B)
    if out_dtype is not None:
        A, B = widened("batched_gemm", A, B, out_dtype)
    _check_batch("batched_gemm", A, B)
    product = checked_product("batched_gemm", alpha, A, B, beta, C, transA, transB)
    result = run_gemm(product, out)
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
        out: Output tensors, one per product; None allocates them.

    Raises:
        ShapeError: The numbers of matrices differ, an operand is not a matrix, or the shapes are
            incompatible.
        DTypeError: The dtypes of a product differ, or a factor is incompatible.
        FlagError: An option is invalid, or beta is not 0 without C.
    """
    count = len(A)
    lists = [_for_each(name, value, count) for name, value in _named(alpha, beta, transA, transB)]
    for name, given in (("B", B), ("C", C), ("out", out)):
        if given is not None and len(given) != count:
            raise ShapeError(
                f"grouped_gemm: A and {name} must have as many matrices, "
                f"got {count} and {len(given)}"
            )
    calls = []
    for i, (a, b) in enumerate(zip(A, B, strict=True)):
        for name, value in ((f"A[{i}]", a), (f"B[{i}]", b)):
            tensor("grouped_gemm", name, value)
            matrix("grouped_gemm", name, value, batches=False)
        factor, other, trans_a, trans_b = (values[i] for values in lists)
        c = None if C is None else C[i]
        calls.append((factor, a, b, other, c, trans_a, trans_b))
    results = _in_batches(calls, out_dtype) if _launches_cost(calls) else None
    if results is None:
        results = [gemm(*call, out_dtype=out_dtype) for call in calls]
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
    solution = solved("batched_trsm", alpha, A, B, side, uplo, trans, diag)
    return delivered("batched_trsm", solution, out)


def _check_batch(function: str, A: Tensor, B: Tensor) -> None:
    if A.ndim < 3 and B.ndim < 3:
        raise ShapeError(
            f"{function}: A or B must be a batch of matrices (3-D or more), "
            f"got {tuple(A.shape)} and {tuple(B.shape)}"
        )


def _named(alpha: Any, beta: Any, trans_a: Any, trans_b: Any) -> Iterable[tuple[str, Any]]:
    return {"alpha": alpha, "beta": beta, "transA": trans_a, "transB": trans_b}.items()


def _for_each(name: str, value: Any, count: int) -> Sequence[Any]:
    """Return one value for each of ``count`` products."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        return [value] * count
    if len(value) != count:
        raise ShapeError(
            f"grouped_gemm: {name} must be one value or {count} of them, got {len(value)}"
        )
    return value


def _launches_cost(calls: list[tuple[Any, ...]]) -> bool:
    return len(calls) > 0 and (kernels_wanted() or calls[0][1].is_cuda)


def _in_batches(calls: list[tuple[Any, ...]], out_dtype: torch.dtype | None) -> list[Tensor]:
    """Return the products; products with equal keys are computed as one batch."""
    kinds: dict[Any, list[int]] = {}
    for place, call in enumerate(calls):
        kinds.setdefault(_kind(place, call), []).append(place)
    results: list[Tensor] = [calls[0][1]] * len(calls)
    for places in kinds.values():
        alpha, _, _, beta, _, *options = calls[places[0]]
        if len(places) == 1:
            results[places[0]] = gemm(*calls[places[0]], out_dtype=out_dtype)
            continue
        a, b, c = (
            None if calls[places[0]][at] is None else torch.stack([calls[i][at] for i in places])
            for at in (1, 2, 4)
        )
        assert a is not None
        assert b is not None
        products = batched_gemm(alpha, a, b, beta, c, *options, out_dtype=out_dtype)
        for place, product in zip(places, products.unbind(), strict=True):
            results[place] = product
    return results


def _kind(place: int, call: tuple[Any, ...]) -> Any:
    """Return the batching key of a product: equal keys can be computed as one batch.

    A product whose factor is a tensor gets a unique key, because the values may differ.
    """
    parts: list[Any] = []
    for part in call:
        if not isinstance(part, Tensor):
            parts.append((type(part), part))
        elif part.ndim:
            parts.append((part.shape, part.dtype, part.device))
        else:
            parts.append(place)
    return tuple(parts)
