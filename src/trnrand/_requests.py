"""What a call asks for: a shape, a dtype, a device, and parameters that make sense.

A distribution describes its call in a ``Request``, which takes samples from the generator only
after everything was checked: a call that raises does not move a stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnrand._streams import FLOATS
from trnrand._words import Source
from trnrand.errors import ParameterError
from trnrand.generator import Generator, get_default_generator
from trnsci.core.dtypes import dtype_name

__all__ = ["Device", "Parameter", "Request", "Size", "parsed_size", "prepared", "real"]

Parameter: TypeAlias = float | Tensor
Size: TypeAlias = int | Sequence[int]
Device: TypeAlias = str | torch.device | None

# Bytes that a process can address on today's 64-bit processors.
_ADDRESSABLE = 1 << 47


@dataclass(frozen=True)
class Request:
    """A call whose size and options were checked.

    Attributes:
        function: Name of the called function.
        shape: Of the result.
        dtype: Of the result.
        device: Of the result.
        generator: Where samples come from.
        out: Where the result goes, None for a new tensor.
        total: Length of the first dimension over all ranks, None where ranks draw alike.
    """

    function: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    generator: Generator
    out: Tensor | None
    total: int | None

    @property
    def count(self) -> int:
        """How many samples the result has."""
        return math.prod(self.shape)

    def source(self) -> Source:
        """Take the samples, and return where they are."""
        each = math.prod(self.shape[1:])
        return self.generator.reserve(self.function, self.count, self.device, self.total, each)

    def flat(self, parameter: Parameter) -> Parameter:
        """Return a parameter with one value per sample, or the one number that it is."""
        if not isinstance(parameter, Tensor):
            return parameter
        return parameter.to(self.device).expand(self.shape).reshape(-1)

    @property
    def working(self) -> torch.dtype:
        """The dtype to compute in: float64 for itself, float32 for the rest."""
        return torch.float64 if self.dtype is torch.float64 else torch.float32

    def typed(self, parameter: Parameter, dtype: torch.dtype) -> Tensor:
        """Return a parameter rounded to a dtype; a number becomes a 0-d tensor."""
        if isinstance(parameter, Tensor):
            return parameter.to(self.device, dtype)
        return torch.tensor(parameter, dtype=dtype)

    def buffer(self, dtype: torch.dtype | None = None) -> Tensor:
        """Return a one-dimensional tensor to fill: ``out`` itself where its memory will do."""
        wanted = dtype or self.dtype
        if self.out is not None and self.out.dtype is wanted and self.out.is_contiguous():
            return self.out.detach().view(-1)
        try:
            return torch.empty(self.count, dtype=wanted, device=self.device)
        except RuntimeError as error:  # also what torch raises for more than 2**63 bytes
            raise ParameterError(
                f"{self.function}: size must fit in the memory of {self.device}, got {self.shape} "
                f"of {wanted}, {self.count * wanted.itemsize:.3g} bytes"
            ) from error

    def result(self, values: Tensor) -> Tensor:
        """Return the values in the shape and dtype of the call, in ``out`` if there is one."""
        shaped = values.reshape(self.shape)
        if self.out is None:
            return shaped.to(self.dtype)
        if shaped.data_ptr() != self.out.data_ptr() or shaped.dtype is not self.out.dtype:
            self.out.detach().copy_(shaped)
        return self.out


def prepared(
    function: str,
    size: Sequence[Any],
    dtype: torch.dtype | None,
    generator: Generator | None,
    device: Device,
    out: Tensor | None,
    total: int | None,
    parameters: Mapping[str, Parameter] | None = None,
    dtypes: Iterable[torch.dtype] = FLOATS,
    default: torch.dtype = torch.float32,
) -> Request:
    """Return the request of a call.

    Args:
        function: Name of the called function.
        size: Its positional arguments: integers, or one sequence of them; without any, the shape
            is that of ``out``, or else what the parameters broadcast to.
        dtype: Of the result; None for that of ``out``, or else ``default``.
        generator: None for the default one.
        device: None for that of ``out``, or else the generator's.
        out: Where the result goes.
        total: Length of the first dimension over all ranks.
        parameters: Checked parameters by name.
        dtypes: Which dtypes the function accepts.
        default: The dtype of a call that names none.

    Raises:
        ParameterError: Any of these is not as the function needs it.
    """
    if generator is None:
        generator = get_default_generator()
    elif not isinstance(generator, Generator):
        raise ParameterError(
            f"{function}: generator must be a trnrand.Generator, got {type(generator).__name__}"
        )
    tensors = {k: v for k, v in (parameters or {}).items() if isinstance(v, Tensor)}
    if out is not None:
        size, dtype, device = _like_out(function, size, dtype, device, out)
    shape = parsed_size(function, size) if size else _broadcast(function, tensors)
    dtype = default if dtype is None else dtype
    if dtype not in dtypes:
        names = ", ".join(dtype_name(d) for d in dtypes)
        raise ParameterError(f"{function}: dtype must be one of {names}, got {dtype}")
    if math.prod(shape) * dtype.itemsize >= _ADDRESSABLE:
        raise ParameterError(f"{function}: size {shape} in {dtype} is more than any memory holds")
    for name, value in tensors.items():
        _check_expands(function, name, value, shape)
    if total is not None:
        _check_total(function, shape, generator, total)
    where = torch.device(generator.device if device is None else device)
    return Request(function, shape, dtype, where, generator, out, total)


def parsed_size(function: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape that positional arguments give: integers, or one sequence of them."""
    single = len(size) == 1 and isinstance(size[0], list | tuple | torch.Size)
    numbers = size[0] if single else size
    try:
        shape = tuple(index(n) for n in numbers if not isinstance(n, bool))
    except TypeError:
        shape = ()
    if len(shape) != len(numbers):
        raise ParameterError(f"{function}: size must be integers, got {tuple(size)}")
    if any(n < 0 for n in shape):
        raise ParameterError(f"{function}: size must be non-negative, got {shape}")
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
        name: Of the parameter.
        value: A number, or a tensor that broadcasts with the size of the call.
        above: What it must be greater than.
        least: The smallest that it may be.
        most: The largest that it may be.
        finite: Whether infinities are refused; NaN always is.

    Raises:
        ParameterError: It is no number, or not in the range.
    """
    if isinstance(value, Tensor) and value.ndim and not value.is_complex():
        # A copy, since the result may be written over it.
        number = value.detach().to(torch.float64, copy=True)
    else:
        try:
            plain = float(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise ParameterError(f"{function}: {name} must be a number, got {value!r}") from None
        inside = (above is None or plain > above) and (least is None or plain >= least)
        known = math.isfinite(plain) if finite else not math.isnan(plain)
        if inside and known and (most is None or plain <= most):
            return plain
        number = torch.tensor(plain, dtype=torch.float64)
    wrong = number.isnan()
    wanted = []
    if finite:
        wrong |= number.isinf()
    if above is not None:
        wrong |= number <= above
        wanted.append("positive" if above == 0 else f"greater than {above:g}")
    if least is not None:
        wrong |= number < least
        wanted.append("non-negative" if least == 0 and most is None else f"at least {least:g}")
    if most is not None:
        wrong |= number > most
        wanted.append(f"at most {most:g}")
    if wrong.any():
        accepted = " and ".join([*wanted, "finite" if finite else "not NaN"])
        got = number[wrong].flatten()[0].item()
        raise ParameterError(f"{function}: {name} must be {accepted}, got {got}")
    return number


def _like_out(
    function: str, size: Sequence[Any], dtype: torch.dtype | None, device: Device, out: Tensor
) -> tuple[Sequence[Any], torch.dtype, torch.device]:
    if not isinstance(out, Tensor):
        raise ParameterError(f"{function}: out must be a torch.Tensor, got {type(out).__name__}")
    if size and parsed_size(function, size) != tuple(out.shape):
        raise ParameterError(
            f"{function}: out must have the size of the call, got {tuple(out.shape)} "
            f"and {parsed_size(function, size)}"
        )
    if dtype is not None and dtype is not out.dtype:
        raise ParameterError(f"{function}: out must have dtype {dtype}, got {out.dtype}")
    if device is not None and torch.device(device).type != out.device.type:
        raise ParameterError(f"{function}: out must be on {device}, got {out.device}")
    return (tuple(out.shape),), out.dtype, out.device


def _broadcast(function: str, tensors: Mapping[str, Tensor]) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    for name, value in tensors.items():
        both = _joined(shape, tuple(value.shape))
        if both is None:
            shapes = ", ".join(f"{k} {tuple(t.shape)}" for k, t in tensors.items())
            raise ParameterError(f"{function}: {name} must broadcast with the rest, got {shapes}")
        shape = both
    return shape


def _check_expands(function: str, name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    if _joined(tuple(value.shape), shape) != shape:
        raise ParameterError(
            f"{function}: {name} must broadcast to the size {shape}, got {tuple(value.shape)}"
        )


def _joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that two shapes broadcast to, or None where they do not."""
    length = max(len(a), len(b))
    pairs = zip((1,) * (length - len(a)) + a, (1,) * (length - len(b)) + b, strict=True)
    joined = tuple(n if m == 1 else m if n in (1, m) else -1 for m, n in pairs)
    return None if -1 in joined else joined


def _check_total(function: str, shape: tuple[int, ...], generator: Generator, total: int) -> None:
    if not shape:
        raise ParameterError(f"{function}: total needs a size with a first dimension, got ()")
    start, stop = generator.share(total)
    if shape[0] != stop - start:
        raise ParameterError(
            f"{function}: total {total} gives rank {generator.partition_rank} of "
            f"{generator.partition_size} a first dimension of {stop - start}, got {shape[0]}"
        )
