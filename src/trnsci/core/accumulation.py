"""alpha * product + beta * accumulator; operands with a zero factor are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["Number", "Scalar", "accumulated", "is_number", "scaled", "vanished"]

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
    return torch.add(product, accumulator, alpha=beta)


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
