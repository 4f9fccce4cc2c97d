"""Argument validation, with errors that name the function and the argument.

An operation on 8 x 8 matrices takes two microseconds, so the common case is tested first and
messages are formatted only on failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from operator import index
from typing import ParamSpec, SupportsIndex, TypeVar

import torch
from torch import Tensor

from trnsci.core.errors import (
    DerivativeError,
    DeviceError,
    DTypeError,
    FlagError,
    ShapeError,
    TrnsciError,
)

_STORED = {torch.bool} | {
    dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype.itemsize == 1
}
"""Dtypes that torch stores and converts, but does not add or multiply."""

P = ParamSpec("P")
R = TypeVar("R")


def also_spelled(name: str, *others: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of functions that accept other spellings of an argument as keywords.

    They serve callers of published releases and of SciPy, and are not in the signature::

        @also_spelled("max_iter", "maxiter")
        def cg(A, b, max_iter=1000): ...

    Raises:
        FlagError: The argument is given in two spellings.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        place = list(signature(function).parameters).index(name)

        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            for other in others:
                if other in options:
                    if name in options or len(args) > place:
                        raise FlagError(
                            f"{function.__name__}: {other} is another spelling of {name}; got both"
                        )
                    options[name] = options.pop(other)
            return function(*args, **options)

        return call

    return decorate


def whole(
    function: str,
    name: str,
    value: SupportsIndex | None,
    least: int | None = None,
    most: int | None = None,
    error: type[TrnsciError] = DTypeError,
) -> int:
    """Return an integer of any type as an ``int`` (or ``SymInt``) that torch accepts.

    A bool is rejected, as in torch: it would be a flag in the place of a size.

    Args:
        function: The function, for messages.
        name: The argument, for messages.
        value: The value to check.
        least: The smallest accepted; None for any.
        most: The largest accepted; None for any.
        error: The exception raised for a value that is no integer or is out of bounds.
    """
    if type(value) is not int:
        given: object = value
        if isinstance(given, torch.SymInt):  # reading its value would tie a graph to it
            return given  # type: ignore[return-value]
        try:
            if value is None or type(given).__name__ == "bool":  # Python's or NumPy's
                raise TypeError
            value = index(value)
        except TypeError:
            kind = type(given).__name__
            raise error(
                f"{function}: {name} must be {_accepted(least, most)}, got {kind}"
            ) from None
    if (least is not None and value < least) or (most is not None and value > most):
        raise error(f"{function}: {name} must be {_accepted(least, most)}, got {value}")
    return value


def several(
    function: str,
    name: str,
    value: int | Sequence[int],
    least: int | None = None,
    error: type[TrnsciError] = DTypeError,
) -> list[int]:
    """Return one or several integers as a list; the other arguments are those of ``whole``."""
    entries = value if isinstance(value, Sequence) else (value,)
    return [whole(function, name, entry, least, error=error) for entry in entries]


def integers(
    function: str, name: str, value: Sequence[int], least: int | None = None
) -> tuple[int, ...]:
    """Return a sequence of integers, such as a shape, as a tuple.

    Raises:
        DTypeError: It is no sequence, or an entry is no integer.
        ShapeError: An entry is below ``least``.
    """
    given: object = value
    if not isinstance(given, Sequence) or isinstance(given, str):
        kind = type(value).__name__
        raise DTypeError(f"{function}: {name} must be a sequence of integers, got {kind}")
    found = tuple(whole(function, name, entry) for entry in value)
    if least is not None and any(entry < least for entry in found):
        raise ShapeError(f"{function}: {name} must be at least {least} everywhere, got {found}")
    return found


def not_negative(function: str, **values: float | None) -> None:
    """Raise unless tolerances and other numbers are at least 0; None is one that is not given."""
    for name, value in values.items():
        if value is not None and not value >= 0:
            raise FlagError(f"{function}: {name} must be at least 0, got {value}")


def flag(function: str, name: str, value: bool) -> None:
    """Raise unless ``value`` is a bool."""
    if not isinstance(value, bool):
        raise FlagError(f"{function}: {name} must be a bool, got {value!r}")


def data_type(function: str, name: str, value: torch.dtype) -> None:
    """Raise unless ``value`` is a dtype of torch."""
    if not isinstance(value, torch.dtype):
        raise DTypeError(f"{function}: {name} must be a torch.dtype, got {value!r}")


def tensor(function: str, name: str, value: Tensor) -> None:
    """Raise unless ``value`` is a tensor of numbers with which torch computes."""
    if not isinstance(value, Tensor):
        raise DTypeError(f"{function}: {name} must be a torch.Tensor, got {type(value).__name__}")
    if value.dtype in _STORED:
        raise DTypeError(
            f"{function}: {name} must hold numbers of at least 16 bits, or integers, "
            f"got {value.dtype}"
        )


def agree(function: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless ``a`` and ``b`` are tensors of one dtype on one device."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        dtype = a.dtype
        if dtype is b.dtype and dtype not in _STORED and a.device == b.device:
            return
    tensor(function, first, a)
    tensor(function, second, b)
    if a.dtype is not b.dtype:
        raise DTypeError(
            f"{function}: {first} and {second} must have one dtype, got {a.dtype} and {b.dtype}"
        )
    raise DeviceError(
        f"{function}: {first} and {second} must be on one device, got {a.device} and {b.device}"
    )


def one_shape(function: str, first: str, a: Tensor, second: str, b: Tensor) -> None:
    """Raise unless ``a`` and ``b`` have one shape."""
    if a.shape != b.shape:
        raise ShapeError(
            f"{function}: {first} and {second} must have one shape, got {tuple(a.shape)} and "
            f"{tuple(b.shape)}"
        )


def floating(function: str, name: str, value: Tensor) -> None:
    """Raise unless the dtype is floating point or complex, and one with which torch computes."""
    if not (value.is_floating_point() or value.is_complex()):
        raise DTypeError(f"{function}: {name} must be floating point or complex, got {value.dtype}")
    if value.dtype in _STORED:
        tensor(function, name, value)


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


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """Return the shape that two shapes broadcast to, or None if they do not broadcast."""
    if a == b:
        return tuple(a)
    size = max(len(a), len(b))
    wide_a = (1,) * (size - len(a)) + tuple(a)
    wide_b = (1,) * (size - len(b)) + tuple(b)
    if any(m != n and 1 not in (m, n) for m, n in zip(wide_a, wide_b, strict=True)):
        return None
    return tuple(n if m == 1 else m for m, n in zip(wide_a, wide_b, strict=True))


def expandable(function: str, name: str, value: Tensor, shape: Sequence[int]) -> None:
    """Raise unless ``value`` broadcasts to exactly ``shape``."""
    have = value.shape
    if have == shape:
        return
    tail = shape[len(shape) - len(have) :] if len(have) <= len(shape) else ()
    if len(tail) < len(have) or any(n not in (1, m) for n, m in zip(have, tail, strict=True)):
        raise ShapeError(
            f"{function}: {name} must broadcast to the result's shape {tuple(shape)}, "
            f"got {tuple(have)}"
        )


def _accepted(least: int | None, most: int | None) -> str:
    if least is None:
        return "an integer" if most is None else f"an integer of at most {most}"
    if most is None:
        return f"an integer of at least {least}"
    return f"an integer from {least} to {most}"


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
