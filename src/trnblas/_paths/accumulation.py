"""alpha * product + beta * accumulator, reading nothing that a zero factor leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnblas._paths.arguments import Scalar

__all__ = ["accumulated", "is_number", "scaled", "vanished"]


def is_number(value: Scalar, wanted: complex) -> bool:
    """Return whether ``value`` is a Python number equal to ``wanted``."""
    return not isinstance(value, Tensor) and value == wanted


def scaled(alpha: Scalar, value: Tensor) -> Tensor:
    """Return ``alpha * value`` in the dtype of ``value``; may be ``value`` itself.

    A tensor equal to zero gives zero also for NaN and infinities, as a number does in BLAS. It
    cannot skip the product, since the derivative by ``alpha`` needs it.
    """
    if isinstance(alpha, Tensor):
        skipped = (alpha == 0) & ~value.isfinite()
        return alpha.to(value.dtype) * value.masked_fill(skipped, 0)
    return value if alpha == 1 else value * alpha


def accumulated(product: Tensor, beta: Scalar, accumulator: Tensor | None) -> Tensor:
    """Return ``product + beta * accumulator`` without reading what ``beta == 0`` leaves out."""
    if accumulator is None:
        return product
    if accumulator.dtype is not product.dtype:  # autocast has lowered the product
        accumulator = accumulator.to(product.dtype)
    if isinstance(beta, Tensor):
        return product + scaled(beta, accumulator)
    if beta == 0:
        return product + _untouched(accumulator) if _differentiated(accumulator) else product
    return torch.add(product, accumulator, alpha=beta)


def vanished(shape: Sequence[int], *operands: Tensor) -> Tensor:
    """Return zeros that no value of the operands reaches, though gradients (zero) flow to them."""
    zeros = operands[0].new_zeros(shape)
    for operand in operands:
        if _differentiated(operand):
            zeros = zeros + _untouched(operand)
    return zeros


def _differentiated(tensor: Tensor) -> bool:
    return tensor.requires_grad and torch.is_grad_enabled()


def _untouched(tensor: Tensor) -> Tensor:
    """Return 0 as the sum of no element: nothing is read, and the gradient is zero, not absent."""
    return tensor.reshape(-1)[:0].sum()
