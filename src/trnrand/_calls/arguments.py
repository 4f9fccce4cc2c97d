"""Validation of the arguments of distributions; errors name the function and the argument."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnrand._calls.transforms import is_transformed, values_of
from trnrand.errors import DeviceError, DTypeError, ParameterError, ShapeError
from trnsci.core.interop import without_transforms

Parameter: TypeAlias = float | Tensor
Size: TypeAlias = int | Sequence[int]
Device: TypeAlias = str | torch.device | None


def parsed_size(function: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape that positional arguments give: integers, or one sequence of them."""
    single = len(size) == 1 and isinstance(size[0], (list, tuple, torch.Size))
    numbers = size[0] if single else size
    try:
        shape = tuple(map(index, numbers))
    except TypeError:
        shape = None
    if shape is None or bool in map(type, numbers):
        raise ShapeError(f"{function}: size must be integers, got {tuple(size)}")
    if shape and min(shape) < 0:
        raise ShapeError(f"{function}: size must be non-negative, got {shape}")
    return shape


def real(
    function: str,
    name: str,
    value: Parameter,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    finite: bool = True,
) -> Parameter:
    """Return a parameter as a float, or as a float64 tensor without gradient.

    Args:
        function: Name of the called function.
        name: Name of the parameter.
        value: A number, or a tensor that broadcasts with the size of the call.
        above: Exclusive lower bound.
        least: Inclusive lower bound.
        most: Inclusive upper bound.
        finite: Whether infinities are refused; NaN always is.

    Raises:
        ParameterError: ``value`` is not a real number, or outside of its range.
    """
    if isinstance(value, Tensor) and value.is_complex():
        raise ParameterError(f"{function}: {name} must be real, got a tensor of {value.dtype}")
    if isinstance(value, Tensor) and is_transformed():
        with without_transforms():
            within = values_of(value)
            real(function, name, within, above=above, least=least, most=most, finite=finite)
        return value.detach().to(torch.float64)
    if isinstance(value, Tensor) and value.ndim:
        # A copy, since ``out`` may share its memory.
        number = value.detach().to(torch.float64, copy=True)
    else:
        try:
            plain = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise ParameterError(
                f"{function}: {name} must be a real number, got {value!r}"
            ) from None
        inside = (above is None or plain > above) and (least is None or plain >= least)
        known = math.isfinite(plain) if finite else not math.isnan(plain)
        if inside and known and (most is None or plain <= most):
            return plain
        number = torch.tensor(plain, dtype=torch.float64)
    wrong = number.isnan()
    ranges = []
    if finite:
        wrong |= number.isinf()
    if above is not None:
        wrong |= number <= above
        ranges.append("positive" if above == 0 else f"greater than {above:g}")
    if least is not None:
        wrong |= number < least
        ranges.append("non-negative" if least == 0 and most is None else f"at least {least:g}")
    if most is not None:
        wrong |= number > most
        ranges.append(f"at most {most:g}")
    if wrong.any():
        accepted = " and ".join([*ranges, "finite" if finite else "not NaN"])
        got = number[wrong].flatten()[0].item()
        raise ParameterError(f"{function}: {name} must be {accepted}, got {got}")
    return number


def positive(function: str, **parameters: Parameter) -> dict[str, Parameter]:
    """Return parameters above zero by name, as ``real`` does."""
    return {name: real(function, name, value, above=0.0) for name, value in parameters.items()}


def loc_and_scale(function: str, loc: Parameter, scale: Parameter) -> dict[str, Parameter]:
    """Return the location and the positive scale of a distribution by name."""
    return {"loc": real(function, "loc", loc), **positive(function, scale=scale)}


def like_out(
    function: str, size: Sequence[Any], dtype: torch.dtype | None, device: Device, out: Tensor
) -> tuple[Sequence[Any], torch.dtype, torch.device]:
    """Return the size, dtype and device of ``out``; raise if given ones contradict them."""
    if not isinstance(out, Tensor):
        raise DTypeError(f"{function}: out must be a torch.Tensor, got {type(out).__name__}")
    if size and parsed_size(function, size) != tuple(out.shape):
        raise ShapeError(
            f"{function}: out must have the size of the call, got {tuple(out.shape)} "
            f"and {parsed_size(function, size)}"
        )
    if dtype is not None and dtype is not out.dtype:
        raise DTypeError(f"{function}: out must have dtype {dtype}, got {out.dtype}")
    if device is not None and torch.device(device).type != out.device.type:
        raise DeviceError(f"{function}: out must be on {device}, got {out.device}")
    return (tuple(out.shape),), out.dtype, out.device


def broadcast(function: str, tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    """Return the shape that parameters broadcast to."""
    shape: tuple[int, ...] = ()
    for name, value in tensors.items():
        both = _joined(shape, tuple(value.shape))
        if both is None:
            shapes = ", ".join(f"{k} {tuple(t.shape)}" for k, t in tensors.items())
            raise ShapeError(f"{function}: {name} must broadcast with the rest, got {shapes}")
        shape = both
    return shape


def check_expands(function: str, name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless a parameter broadcasts to the shape of the call."""
    if _joined(tuple(value.shape), shape) != shape:
        raise ShapeError(
            f"{function}: {name} must broadcast to the size {shape}, got {tuple(value.shape)}"
        )


def _joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two shapes broadcast to, or None if they do not broadcast."""
    length = max(len(a), len(b))
    pairs = zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True)
    joined = tuple(n if m == 1 else m if n in (1, m) else -1 for m, n in pairs)
    return None if -1 in joined else joined
