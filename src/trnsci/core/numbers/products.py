"""Matrix products of torch, and ``alpha * product + beta * C``.

Where torch has neither MKL nor processor instructions for float16 or bfloat16, as on many ARM
processors, it uses a scalar loop that is hundreds of times slower than float32, and warns with a
trace of its own calls. In float32 the products of 16-bit values are exact and their sums are those
that torch would round, so results are the same. Everywhere else the products are torch's functions.

An operand whose factor is the number 0 is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.interop import has_bfloat16_products
from trnsci.core.numbers.values import inert

Product: TypeAlias = Callable[..., Tensor]

# Elements of a block of a 16-bit sum.
_BLOCK = 2**15


def _without_routine() -> frozenset[torch.dtype]:
    """Return the dtypes without a fast matrix product in torch on this CPU."""
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return frozenset()
    # oneDNN reports float16 on ARM too, but computes it by its slow reference.
    if has_bfloat16_products():
        return frozenset((torch.float16,))
    return frozenset((torch.float16, torch.bfloat16))


def in_float32(product: Product, narrow: frozenset[torch.dtype]) -> Product:
    """Return a product of torch that computes in float32 for CPU operands of these dtypes."""
    if not narrow:
        return product

    @wraps(product)
    def call(*operands: Tensor, **options: Any) -> Tensor:
        dtype = operands[0].dtype
        if dtype not in narrow:
            return product(*operands, **options)
        if not all(operand.dtype is dtype and operand.is_cpu for operand in operands):
            return product(*operands, **options)  # computes, or raises
        out: Tensor | None = options.pop("out", None)
        found = product(*(operand.float() for operand in operands), **options).to(dtype)
        return found if out is None else out.copy_(found)

    return call


_NARROW = _without_routine()

addmm: Product = in_float32(torch.addmm, _NARROW)
baddbmm: Product = in_float32(torch.baddbmm, _NARROW)
bmm: Product = in_float32(torch.bmm, _NARROW)
matmul: Product = in_float32(torch.matmul, _NARROW)
mm: Product = in_float32(torch.mm, _NARROW)


Number: TypeAlias = int | float | complex
Scalar: TypeAlias = Number | Tensor


def is_number(value: Scalar, wanted: complex) -> bool:
    """Return whether ``value`` is a Python number equal to ``wanted``."""
    return not isinstance(value, Tensor) and value == wanted


def scaled(alpha: Scalar, value: Tensor) -> Tensor:
    """Return ``alpha * value`` in the dtype of ``value``; may be ``value`` itself.

    An ``alpha`` tensor equal to zero gives zero also for NaN and infinities, as a number does in
    BLAS. The product is still computed: the derivative by ``alpha`` requires it.
    """
    if isinstance(alpha, Tensor):
        value = value.resolve_conj()  # isfinite of a conjugate view has no vmap
        skipped = (alpha == 0) & ~value.isfinite()
        return alpha.to(value.dtype) * value.masked_fill(skipped, 0)
    return value if alpha == 1 else value * alpha


def accumulated(product: Tensor, beta: Scalar, accumulator: Tensor | None) -> Tensor:
    """Return ``product + beta * accumulator``; with ``beta == 0`` the accumulator is not read."""
    if accumulator is None:
        return product
    if accumulator.dtype is not product.dtype:  # autocast lowered the product
        accumulator = accumulator.to(product.dtype)
    if isinstance(beta, Tensor):
        return product + scaled(beta, accumulator)
    if beta == 0:
        return product + _untouched(accumulator) if _differentiated(accumulator) else product
    if product.is_cpu and product.itemsize == 2 and not product.is_complex():
        return _sum_in_float32(product, beta, accumulator)
    return torch.add(product, accumulator, alpha=beta)


def _sum_in_float32(product: Tensor, beta: Number, accumulator: Tensor) -> Tensor:
    """Return ``product + beta * accumulator`` of 16-bit numbers, rounded once.

    torch rounds the product by beta for some elements of a 16-bit sum and not for others. Large
    sums are computed by blocks of rows, whose float32 copies fit in a processor's cache.
    """
    rows = _BLOCK * len(product) // product.numel() if product.ndim and product.numel() else 0
    if not 0 < rows < len(product) or not inert(product, accumulator):
        return torch.add(product.float(), accumulator.float(), alpha=beta).to(product.dtype)
    result = torch.empty_like(product)
    operands = product, accumulator.expand_as(product), result
    for part, added, total in zip(*(torch.split(x, rows) for x in operands), strict=True):
        total.copy_(torch.add(part.float(), added.float(), alpha=beta))
    return result


def vanished(shape: Sequence[int], *operands: Tensor) -> Tensor:
    """Return zeros, independent of the operand values, with zero gradients for the operands."""
    zeros = operands[0].new_zeros(shape)
    for operand in operands:
        if _differentiated(operand):
            zeros = zeros + _untouched(operand)
    return zeros


def _differentiated(tensor: Tensor) -> bool:
    return tensor.requires_grad and torch.is_grad_enabled()


def _untouched(tensor: Tensor) -> Tensor:
    """Return 0 as the sum of no elements: nothing is read, and the gradient is zero, not None."""
    return tensor.reshape(-1)[:0].sum()
