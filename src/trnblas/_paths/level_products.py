"""Matrix products at levels of precision other than float32, as operations.

Operands are matrices or batches that broadcast; factors, accumulators and transpositions are
applied outside. With ``upper`` the result is the upper triangle of the product, zeros below. A
level is not lowered by autocast, and derivatives have the level of the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from trnblas._library import LIBRARY
from trnblas._paths.triangles import one_triangle
from trnblas._precise.slicing import MOST_DEPTH, MOST_SLICES, PROMISE, bound
from trnsci.core.backend.autocast import without_autocast
from trnsci.core.backend.derivatives import Gradients, Needed
from trnsci.core.backend.operation import Operation
from trnsci.core.numbers.conversions import widest
from trnsci.core.numbers.planes import embedded, joined, parts, real_length
from trnsci.core.numbers.products import matmul


def aligned_batch(in_dims: Sequence[int | None], a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return two operands that broadcast, for a ``vmap`` rule: its batch dimension in front."""
    rank = max(x.ndim - (dim is not None) for x, dim in zip((a, b), in_dims, strict=False))

    def aligned(x: Tensor, dim: int | None) -> Tensor:
        if dim is None:
            return x
        x = x.movedim(dim, 0)
        return x.reshape(x.shape[0], *(1,) * (rank + 1 - x.ndim), *x.shape[1:])

    return aligned(a, in_dims[0]), aligned(b, in_dims[1])


def _by_parts(real: Callable[..., Tensor], a: Tensor, b: Tensor, *options: Any) -> Tensor:
    # A triangle of the complex result is not a triangle of the real matrix of its parts.
    *level, upper = options
    product = joined(real(parts(a), embedded(b), *level, False))
    return one_triangle(product, True) if upper else product


class _Product(Operation):
    """A product A B of a level: linear in both operands, and differentiated at the level."""

    def __init__(
        self, name: str, by_parts: Callable[..., Tensor] = _by_parts, **declaration: Any
    ) -> None:
        super().__init__(
            LIBRARY,
            name,
            launch=f"trnblas._paths.level_launches:{name}",
            by_parts=by_parts,
            backward=self._gradients,
            linear=(0, 1),
            batched=self._batch,
            flops=_flops,
            **declaration,
        )

    def _gradients(
        self, grad: Tensor, needed: Needed, a: Tensor, b: Tensor, *options: Any
    ) -> Gradients:
        """Return G B^T and A^T G, for the triangle of G."""
        *level, upper = options
        inside = one_triangle(grad, True) if upper else grad
        for_a = for_b = None
        if needed[0]:
            for_a = self(inside, b.mT, *level, False).sum_to_size(a.shape)
        if needed[1]:
            for_b = self(a.mT, inside, *level, False).sum_to_size(b.shape)
        return for_a, for_b, *(None for _ in options)

    def _batch(
        self, info: Any, in_dims: Sequence[int | None], a: Tensor, b: Tensor, *options: Any
    ) -> tuple[Tensor, int]:
        return self(*aligned_batch(in_dims, a, b), *options), 0


def _bfloat16_by_parts(real: Callable[..., Tensor], a: Tensor, b: Tensor, upper: bool) -> Tensor:
    product = joined(real(parts(a), parts(b), False, 2))
    return one_triangle(product, True) if upper else product


def _plain(a: Tensor, b: Tensor, upper: bool) -> Tensor:
    with without_autocast((a,)):  # it would lower the level
        product = matmul(a, b)
    return one_triangle(product, True) if upper else product


def _within(a: Tensor, b: Tensor, roundings: float) -> Tensor:
    """Return a product with at most so many roundings of |A| |B|, twice as many of complex entries.

    A sum has as many as terms, in any order; that of n blocks n - 1 more than a block, that of two
    halves one more than a half. Blocks are not added by BLAS, which may add single terms to C.
    """
    depth = a.shape[-1]
    if depth <= max(roundings, 1):
        return matmul(a, b)
    for count in range(2, int(roundings)):
        size = -(-depth // count)
        if size + count - 1 <= roundings:
            starts = range(0, depth, size)
            blocks = (matmul(a[..., k : k + size], b[..., k : k + size, :]) for k in starts)
            return reduce(torch.add, blocks)
    half = depth // 2
    first = _within(a[..., :half], b[..., :half, :], roundings - 1)
    return first + _within(a[..., half:], b[..., half:, :], roundings - 1)


def _doublefloat(a: Tensor, b: Tensor, target: float, componentwise: bool, upper: bool) -> Tensor:
    # At least 15 roundings: no target of doublefloat is below 2**-48.
    roundings = target / (1 + target) * 2 ** (52 if a.is_complex() else 53)
    with without_autocast((a,)):
        product = _within(widest(a), widest(b), roundings)
    return (one_triangle(product, True) if upper else product).to(a.dtype)


def _flops(a: Tensor, b: Tensor, *rest: Any) -> float:
    return 2.0 * a.numel() * b.shape[-1]


def _unproved(a: Tensor, b: Tensor, target: float, *rest: Any) -> str:
    depth = real_length(a, a.shape[-1])
    if target == PROMISE and depth <= MOST_DEPTH:
        return ""
    if depth <= MOST_DEPTH and bound(MOST_SLICES, depth) <= target:
        return ""
    return f"an error of {target:.3g} is not proved for a contraction of {depth}"


BFLOAT16_GEMM = _Product(
    "bfloat16_gemm", by_parts=_bfloat16_by_parts, reference=_plain, dtypes=("float32",)
)
FLOAT16X3_GEMM = _Product("float16x3_gemm", reference=_plain, dtypes=("float32",))
DOUBLEFLOAT_GEMM = _Product(
    "doublefloat_gemm",
    reference=_doublefloat,
    dtypes=("float32", "float64"),
    unsuited=_unproved,
)


def doublefloat_product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` at doublefloat with the error that the level promises."""
    result: Tensor = DOUBLEFLOAT_GEMM(a, b, PROMISE, False, False)
    return result
