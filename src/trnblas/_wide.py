"""Products of narrow numbers with float32 results.

A product of two float16, bfloat16 or float8 numbers is exact in float32, and so are its factors. So
the operands become float32 and nothing is rounded but the sums, which are float32 as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import agree, tensor
from trnsci.core.errors import DTypeError

__all__ = ["widened"]

_NARROW = (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)


def widened(
    function: str, A: Tensor, B: Tensor, out_dtype: torch.dtype | None
) -> tuple[Tensor, Tensor]:
    """Return operands of the dtype that a product is wanted in."""
    if out_dtype is None:
        return A, B
    tensor(function, "A", A)
    tensor(function, "B", B)
    if A.dtype is out_dtype and B.dtype is out_dtype:
        return A, B
    agree(function, "A", A, "B", B)
    if out_dtype is not torch.float32 or A.dtype not in _NARROW:
        raise DTypeError(
            f"{function}: out_dtype must be the operands' {A.dtype}"
            f"{' or torch.float32' if A.dtype in _NARROW else ''}, got {out_dtype}"
        )
    return A.to(out_dtype), B.to(out_dtype)
