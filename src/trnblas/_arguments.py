"""What BLAS asks of arguments beyond the checks of the core: factors and batches that fit."""

from __future__ import annotations

from numbers import Complex, Real
from typing import TypeAlias

import torch
from torch import Tensor

from trnsci.core.arguments import broadcast
from trnsci.core.eager import readable
from trnsci.core.errors import DTypeError, ShapeError

__all__ = [
    "Number",
    "Scalar",
    "broadcast_batch",
    "number",
]

Number: TypeAlias = int | float | complex
Scalar: TypeAlias = Number | Tensor


def broadcast_batch(function: str, a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Return the batch dimensions that those of matrices A and B broadcast to."""
    if a.ndim == b.ndim == 2:
        return ()
    batch = broadcast(a.shape[:-2], b.shape[:-2])
    if batch is None:
        raise ShapeError(
            f"{function}: the batch dimensions of A and B must broadcast, "
            f"got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return batch


def number(function: str, name: str, value: Scalar, like: Tensor) -> Scalar:
    """Return ``value`` as a factor of ``like`` that does not change the dtype.

    A 0-d tensor becomes a Python number where its value can be read on the host for nothing; one
    that requires grad, is on another device or is being traced stays a tensor.
    """
    if type(value) is float and like.is_floating_point():
        return value
    if isinstance(value, Tensor):
        return _tensor_number(function, name, value, like)
    # NumPy's scalars are such numbers too, though the type checker knows nothing of it.
    given: object = value
    if not isinstance(given, Complex):
        raise DTypeError(
            f"{function}: {name} must be a number or a 0-d tensor, got {type(value).__name__}"
        )
    if like.is_complex():
        return complex(given)
    if not isinstance(given, Real):
        raise DTypeError(f"{function}: {name} must be real for {like.dtype}, got {value!r}")
    if like.is_floating_point():
        return float(given)
    if not float(given).is_integer():
        raise DTypeError(f"{function}: {name} must be whole for {like.dtype}, got {value!r}")
    return int(value) if isinstance(value, int) else int(float(given))


def _tensor_number(function: str, name: str, value: Tensor, like: Tensor) -> Scalar:
    if value.ndim != 0:
        raise ShapeError(
            f"{function}: {name} must be a number or a 0-d tensor, got shape {tuple(value.shape)}"
        )
    if readable(value):
        return number(function, name, value.item(), like)
    if torch.result_type(value, like.new_empty(1)) is not like.dtype:
        raise DTypeError(
            f"{function}: {name} must not change the dtype of the result, "
            f"got a tensor of {value.dtype} for {like.dtype}"
        )
    return value
