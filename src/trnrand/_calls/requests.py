"""Validated calls of distributions: shape, dtype, device and parameters.

A ``Request`` moves the generator only after everything is validated: a call that raises does not
move a stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnrand._calls.arguments import (
    Device,
    Parameter,
    broadcast,
    check_expands,
    like_out,
    parsed_size,
)
from trnrand._stream.words import FLOATS, Source
from trnrand.defaults import get_default_generator
from trnrand.errors import DTypeError, ShapeError
from trnrand.generator import Generator
from trnsci.core.numbers.conversions import dtype_name

# Bytes that a process can address on current 64-bit processors.
_ADDRESSABLE = 1 << 47


class Request(NamedTuple):
    """A call with validated arguments.

    Attributes:
        function: Name of the called function.
        shape: Shape of the result.
        dtype: Dtype of the result.
        device: Device of the result.
        generator: Generator of the samples.
        out: Tensor for the result, None for a new one.
        total: Length of the first dimension over all ranks, None if all ranks have equal sizes.
        parameters: Validated parameters by name, without gradients.
    """

    function: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    generator: Generator
    out: Tensor | None
    total: int | None
    parameters: Mapping[str, Parameter]

    @property
    def numel(self) -> int:
        """Number of samples of the result."""
        return math.prod(self.shape)

    def source(self) -> Source:
        """Move the generator past the samples, and return their source."""
        each, count = math.prod(self.shape[1:]), self.numel
        source = self.generator.reserve(self.function, count, self.device, self.total, each)
        return source.sized(count)

    def flat(self, parameter: Parameter) -> Parameter:
        """Return a tensor parameter with one value per sample; a number is returned as it is."""
        if not isinstance(parameter, Tensor):
            return parameter
        return parameter.to(self.device).expand(self.shape).reshape(-1)

    @property
    def working(self) -> torch.dtype:
        """The dtype of the computation: float64 for float64, float32 for the rest."""
        return torch.float64 if self.dtype is torch.float64 else torch.float32

    def typed(self, parameter: Parameter, dtype: torch.dtype) -> Tensor:
        """Return a parameter rounded to a dtype; a number becomes a 0-d tensor."""
        if isinstance(parameter, Tensor):
            return parameter.to(self.device, dtype)
        return torch.tensor(parameter, dtype=dtype)

    def buffer(self, dtype: torch.dtype | None = None) -> Tensor:
        """Return a one-dimensional tensor to fill: a view of ``out`` if dtype and layout fit."""
        dtype = dtype or self.dtype
        if self.out is not None and self.out.dtype is dtype and self.out.is_contiguous():
            return self.out.detach().view(-1)
        try:
            return torch.empty(self.numel, dtype=dtype, device=self.device)
        except RuntimeError as error:  # torch raises it for more than 2**63 bytes, too
            raise ShapeError(
                f"{self.function}: size must fit in the memory of {self.device}, got {self.shape} "
                f"of {dtype}, {self.numel * dtype.itemsize:.3g} bytes"
            ) from error

    def result(self, values: Tensor) -> Tensor:
        """Return the values in the shape and dtype of the call, in ``out`` if there is one."""
        shaped = values.reshape(self.shape)
        if self.out is None:
            return shaped if shaped.dtype is self.dtype else shaped.to(self.dtype)
        if shaped.data_ptr() != self.out.data_ptr() or shaped.dtype is not self.out.dtype:
            self.out.detach().copy_(shaped)
        return self.out


def generator_of(function: str, generator: Generator | None) -> Generator:
    """Return the generator of a call, None for the default one; raise for any other object."""
    if generator is None:
        return get_default_generator()
    if not isinstance(generator, Generator):
        raise DTypeError(
            f"{function}: generator must be a trnrand.Generator, got {type(generator).__name__}"
        )
    return generator


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
        size: Its positional arguments: integers, or one sequence of them. Without any, the result
            has the shape of ``out``, or else of the broadcast parameters.
        dtype: Dtype of the result; None is the dtype of ``out``, or else ``default``.
        generator: Generator of the samples; None for the default one.
        device: Device of the result; None is the device of ``out``, or else of the generator.
        out: Tensor for the result.
        total: Length of the first dimension over all ranks.
        parameters: Validated parameters by name.
        dtypes: Dtypes that the function accepts.
        default: Dtype of a call without one.

    Raises:
        ParameterError: An argument is invalid.
    """
    generator = generator_of(function, generator)
    parameters = {} if parameters is None else parameters
    tensors = {k: v for k, v in parameters.items() if isinstance(v, Tensor)}
    if out is not None:
        size, dtype, device = like_out(function, size, dtype, device, out)
    shape = parsed_size(function, size) if size else broadcast(function, tensors)
    dtype = default if dtype is None else dtype
    if dtype not in dtypes:
        names = ", ".join(dtype_name(d) for d in dtypes)
        raise DTypeError(f"{function}: dtype must be one of {names}, got {dtype}")
    if math.prod(shape) * dtype.itemsize >= _ADDRESSABLE:
        raise ShapeError(f"{function}: size {shape} in {dtype} is more than any memory holds")
    for name, value in tensors.items():
        check_expands(function, name, value, shape)
    if total is not None:
        _check_total(function, shape, generator, total)
    where = torch.device(generator.device if device is None else device)
    return Request(function, shape, dtype, where, generator, out, total, parameters)


def prepared_vectors(
    function: str,
    size: Sequence[Any],
    width: int,
    batch: Mapping[str, Parameter],
    dtype: torch.dtype | None,
    generator: Generator | None,
    device: Device,
    total: int | None,
    dtypes: Iterable[torch.dtype] = FLOATS,
) -> Request:
    """Return the request of a call for vectors.

    Args:
        function: Name of the called function.
        size: Batch shape of the vectors, as positional arguments; without any, the shape that
            ``batch`` broadcasts to.
        width: Number of components of a vector.
        batch: Parameters by name, each without its last dimension.
        dtype: Dtype of the result.
        generator: Generator of the samples; None for the default one.
        device: Device of the result; None for the generator's.
        total: Length of the first dimension over all ranks.
        dtypes: Dtypes that the function accepts.

    Raises:
        ParameterError: An argument is invalid.
    """
    tensors = {k: v for k, v in batch.items() if isinstance(v, Tensor)}
    vectors = parsed_size(function, size) if size else broadcast(function, tensors)
    for name, value in tensors.items():
        check_expands(function, name, value, vectors)
    request = prepared(
        function, ((*vectors, width),), dtype, generator, device, None, None, None, dtypes
    )
    if total is not None:
        _check_total(function, vectors, request.generator, total)
    return request._replace(total=total)


def _check_total(function: str, shape: tuple[int, ...], generator: Generator, total: int) -> None:
    if not shape:
        raise ShapeError(f"{function}: total needs a size with a first dimension, got ()")
    start, stop = generator.share(total)
    if shape[0] != stop - start:
        raise ShapeError(
            f"{function}: total {total} gives rank {generator.partition_rank} of "
            f"{generator.partition_size} a first dimension of {stop - start}, got {shape[0]}"
        )
