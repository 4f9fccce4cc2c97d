"""torch's matrix products, computed in float32 where torch has no fast 16-bit routine.

Where torch has neither MKL nor processor instructions for float16 or bfloat16, as on many ARM
processors, it uses a scalar loop that is hundreds of times slower than float32, and warns with a
trace of its own calls. In float32 the products of 16-bit values are exact and their sums are those
that torch would round, so results are the same. Everywhere else these names are torch's functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.interop import has_bfloat16_products

__all__ = ["addmm", "baddbmm", "bmm", "in_float32", "matmul", "mm"]

Product: TypeAlias = Callable[..., Tensor]


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
