"""The ``out`` argument of operations."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.errors import DerivativeError, ShapeError

__all__ = ["delivered"]


def delivered(function: str, result: Tensor, out: Tensor | None) -> Tensor:
    """Return ``result``, or ``out`` with its values.

    The result is complete before ``out`` changes, so ``out`` may be an operand, as C is in BLAS.

    Raises:
        ShapeError: ``out`` has another shape than the result; it is never resized.
        DTypeError: ``out`` has another dtype.
        DerivativeError: A gradient is required, which ``out`` does not support.
    """
    if out is None:
        return result
    agree(function, "the result", result, "out", out)
    if out.shape != result.shape:
        raise ShapeError(
            f"{function}: out must have the result's shape {tuple(result.shape)}, "
            f"got {tuple(out.shape)}"
        )
    if torch.is_grad_enabled() and (result.requires_grad or out.requires_grad):
        raise DerivativeError(f"{function}: out must be None where a gradient is required")
    return out.copy_(result)
