"""Checks that the arguments of an operation fit, with errors that name the function and argument.

An operation of 8 x 8 matrices takes two microseconds, so what usually holds is tested first and
messages are made only when something is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Complex, Real
from typing import TypeAlias

import torch
from torch import Tensor

from trnsci.core.eager import readable
from trnsci.core.errors import DTypeError, ShapeError

__all__ = [
    "Number",
    "Scalar",
    "agree",
    "broadcast",
    "broadcast_batch",
    "expandable",
    "floating",
    "matrix",
    "number",
    "square",
    "tensor",
    "vector",
]

Number: TypeAlias = int | float | complex
Scalar: TypeAlias = Number | Tensor


def tensor(function: str, name: str, value: Tensor) -> None:
    """Raise unless ``value`` is a tensor of numbers."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{function}: {name} must be a torch.Tensor, got {type(value).__name__}")
    if value.dtype is torch.bool:
        raise DTypeError(f"{function}: {name} must hold numbers, got torch.bool")


def agree(function: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless ``a`` and ``b`` are tensors of one dtype on one device."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        dtype = a.dtype
        if dtype is b.dtype and dtype is not torch.bool and a.device == b.device:
            return
    tensor(function, first, a)
    tensor(function, second, b)
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"{function}: {first} and {second} must have one dtype, got {a.dtype} and {b.dtype}"
        )
    raise RuntimeError(
        f"{function}: {first} and {second} must be on one device, got {a.device} and {b.device}"
    )


def floating(function: str, name: str, value: Tensor) -> None:
    """Raise for a tensor of integers."""
    if not (value.is_floating_point() or value.is_complex()):
        raise DTypeError(f"{function}: {name} must be floating point or complex, got {value.dtype}")


def vector(function: str, name: str, value: Tensor) -> None:
    """Raise unless ``value`` has one dimension."""
    if value.ndim != 1:
        raise ShapeError(f"{function}: {name} must be 1-D, got shape {tuple(value.shape)}")


def matrix(function: str, name: str, value: Tensor, batches: bool = True) -> None:
    """Raise unless ``value`` is a matrix or, where ``batches`` is true, a batch of matrices."""
    if value.ndim != 2 and (value.ndim < 2 or not batches):
        wanted = "at least 2-D" if batches else "2-D"
        raise ShapeError(f"{function}: {name} must be {wanted}, got shape {tuple(value.shape)}")


def square(function: str, name: str, value: Tensor, batches: bool = True) -> None:
    """Raise unless ``value`` is a square matrix or, if allowed, a batch of them."""
    matrix(function, name, value, batches)
    if value.shape[-1] != value.shape[-2]:
        raise ShapeError(f"{function}: {name} must be square, got shape {tuple(value.shape)}")


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


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape that two shapes broadcast to, or None where they do not."""
    if a == b:
        return tuple(a)
    size = max(len(a), len(b))
    wide_a = (1,) * (size - len(a)) + tuple(a)
    wide_b = (1,) * (size - len(b)) + tuple(b)
    if any(m != n and 1 not in (m, n) for m, n in zip(wide_a, wide_b, strict=True)):
        return None
    return tuple(n if m == 1 else m for m, n in zip(wide_a, wide_b, strict=True))


def expandable(function: str, name: str, value: Tensor, shape: Sequence[int]) -> None:
    """Raise unless ``value`` broadcasts to ``shape``, without making it larger."""
    have = value.shape
    if have == shape:
        return
    tail = shape[len(shape) - len(have) :] if len(have) <= len(shape) else ()
    if len(tail) < len(have) or any(n not in (1, m) for n, m in zip(have, tail, strict=True)):
        raise ShapeError(
            f"{function}: {name} must broadcast to the result's shape {tuple(shape)}, "
            f"got {tuple(have)}"
        )


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
