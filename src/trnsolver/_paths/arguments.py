"""Validation of solver arguments beyond the checks of the core.

float16 and bfloat16 are solved in float32, and float32 at the level ``doublefloat`` in float64:
checks of matrices widen, ``restored`` rounds, once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import prod
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from trnsci.core.arguments import agree, broadcast, floating, matrix, square, tensor
from trnsci.core.backend.precision import CHOSEN
from trnsci.core.errors import (
    ConvergenceError,
    FlagError,
    LinAlgError,
    NotPositiveDefiniteError,
    ShapeError,
    SingularMatrixError,
)
from trnsci.core.numbers.conversions import complex_dtype, real_dtype, widest
from trnsci.core.numbers.values import autocast_on, finite, only_finite
from trnsolver._library import LIBRARY

P = ParamSpec("P")
R = TypeVar("R")

_NARROW = (torch.float16, torch.bfloat16)
_SINGLE = (torch.float32, torch.complex64)
_DOUBLE = (torch.float64, torch.complex128)


def working(value: Tensor) -> Tensor:
    """Return a tensor in a dtype that solvers support: float16 and bfloat16 become float32."""
    return value.float() if value.dtype in _NARROW else value


def at_level(value: Tensor) -> Tensor:
    """Return ``working``, of single precision in double at the level ``doublefloat``."""
    widens = CHOSEN.used and value.dtype in _SINGLE and LIBRARY.widening()
    return widest(value) if widens else working(value)


def restored(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a real or complex result in the precision of the operand."""
    if dtype not in _NARROW and value.dtype not in _DOUBLE:
        return value
    if value.is_complex():
        return value.to(complex_dtype(dtype))
    return value.to(real_dtype(dtype))


def restored_parts(parts: tuple[Tensor, ...], A: Tensor) -> tuple[Tensor, ...]:
    """Return factors in the dtype of the operand."""
    return parts if parts[0].dtype is A.dtype else tuple(restored(part, A.dtype) for part in parts)


def in_full_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that automatic mixed precision does not change.

    ``torch.linalg`` computes in float32 under autocast, and so must functions built on it.
    """

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        operand = next((arg for arg in args if isinstance(arg, Tensor)), None)
        if operand is None or not autocast_on(operand):
            return function(*args, **options)
        with torch.autocast(operand.device.type, enabled=False):
            return function(*args, **options)

    return call


def any_matrix(function: str, name: str, value: Tensor) -> Tensor:
    """Return floating-point or complex matrices, in a dtype that solvers support."""
    tensor(function, name, value)
    floating(function, name, value)
    matrix(function, name, value)
    return at_level(value)


def square_matrix(function: str, name: str, value: Tensor) -> Tensor:
    """Return square floating-point or complex matrices, in a dtype that solvers support."""
    tensor(function, name, value)
    floating(function, name, value)
    square(function, name, value)
    return at_level(value)


def right_side(function: str, A: Tensor, B: Tensor, name: str = "B") -> tuple[Tensor, bool]:
    """Return right-hand sides in a dtype that solvers support, and whether they are vectors.

    As in ``torch.linalg``, A and B have one dtype.

    B is a vector, a matrix, or a batch of either: of vectors if it has one dimension less than A
    and the batch dimensions of A, else of matrices, as in ``torch.linalg.solve``.
    """
    agree(function, "A", A, name, B)
    vectors = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape[:-1] == A.shape[:-2])
    rows = B.shape[-1 if vectors else -2] if B.ndim else -1
    if rows != A.shape[-2]:
        raise ShapeError(
            f"{function}: A and {name} must have as many rows, got shapes {tuple(A.shape)} and "
            f"{tuple(B.shape)}"
        )
    if B.ndim > 2 and broadcast(A.shape[:-2], B.shape[: -1 if vectors else -2]) is None:
        raise ShapeError(
            f"{function}: the batch dimensions of A and {name} must broadcast, got "
            f"{tuple(A.shape)} and {tuple(B.shape)}"
        )
    return at_level(B), vectors


def columns_of(B: Tensor, vectors: bool) -> Tensor:
    """Return right-hand sides as matrices."""
    return B.unsqueeze(-1) if vectors else B


def batch_of(value: Tensor) -> Tensor:
    """Return matrices with exactly one batch dimension, 1 for a single matrix."""
    return value.reshape(prod(value.shape[:-2]), *value.shape[-2:])


def batch_shape(a: Tensor, b: Tensor) -> tuple[int, ...]:
    """Return the broadcast batch dimensions of two validated batches of matrices."""
    shape = broadcast(a.shape[:-2], b.shape[:-2])
    assert shape is not None, "batches that do not broadcast were not refused"
    return shape


def order_and_dtype(function: str, A: object, n: int | None) -> tuple[int, torch.dtype]:
    """Return the order of an operator, or ``n`` where it has none, and its dtype, or float32."""
    shape, dtype = getattr(A, "shape", None), getattr(A, "dtype", None)
    order = getattr(A, "order", None) or (n if shape is None else int(shape[-1]))
    if order is None:
        raise ShapeError(f"{function}: n must give the order of the operator")
    return order, dtype if isinstance(dtype, torch.dtype) else torch.float32


def chosen(function: str, name: str, value: str, accepted: tuple[str, ...]) -> str:
    """Return an option; raise unless it is one of those accepted."""
    if value not in accepted:
        raise FlagError(f"{function}: {name} must be one of {', '.join(accepted)}, got {value!r}")
    return value


def finite_below(function: str, name: str, value: Tensor) -> None:
    """Raise if an entry of the lower triangle or the diagonal is NaN or infinite."""
    if not only_finite(value):
        finite(function, name, value.tril())


def not_positive_definite(function: str, name: str, error: Exception | str) -> Exception:
    """Return the error for a matrix without a Cholesky factor."""
    if isinstance(error, LinAlgError):
        return error
    return NotPositiveDefiniteError(
        f"{function}: {name} must be symmetric positive definite: {_reason(error)}"
    )


def singular(function: str, name: str, error: Exception | str) -> Exception:
    """Return the error for a singular matrix."""
    if isinstance(error, LinAlgError):
        return error
    return SingularMatrixError(f"{function}: {name} must not be singular: {_reason(error)}")


def spectral_error(function: str, value: Tensor, error: Exception) -> Exception:
    """Return the error for a failed iteration: ``NotFiniteError`` if the operand is the cause."""
    if isinstance(error, LinAlgError):
        return error
    finite(function, "A", value)
    return ConvergenceError(f"{function}: {_reason(error)}")


def _reason(error: Exception | str) -> str:
    return str(error).partition("\n")[0]
