"""torch's products of matrices, by way of float32 where it has no routine for narrower numbers.

Where torch has neither MKL nor instructions of the processor for float16 or bfloat16, as on many
ARM processors, it multiplies such numbers one by one, which takes hundreds of times as long as
float32 does, and says so in a warning with a trace of its own calls. In float32 the products of
narrow numbers are exact and their sums are those that torch would round, so that nothing else
changes. Everywhere else the names here are torch's own functions.
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
    """Return the dtypes whose products torch has no routine for on this CPU."""
    if torch.backends.mkl.is_available():  # type: ignore[no-untyped-call]
        return frozenset()
    # oneDNN reports float16 on ARM too, but computes it by its slow reference.
    if has_bfloat16_products():
        return frozenset((torch.float16,))
    return frozenset((torch.float16, torch.bfloat16))


def in_float32(product: Product, narrow: frozenset[torch.dtype]) -> Product:
    """Return a product of torch that computes in float32 on the CPU what is of these dtypes."""
    if not narrow:
        return product

    @wraps(product)
    def call(*operands: Tensor, **options: Any) -> Tensor:
        dtype = operands[0].dtype
        if dtype not in narrow:
            return product(*operands, **options)
        if not all(operand.dtype is dtype and operand.is_cpu for operand in operands):
            return product(*operands, **options)  # which computes, or refuses
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
