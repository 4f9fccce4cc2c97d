"""Chunked samplers, and rejection sampling with fixed slots of words.

A sampler is a function of a source, a number of samples and parameters. For sample i it uses the
words of slot (i, attempt) of its domains, so a sample depends on the seed, its own position and its
own parameters, and not on other samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from trnrand._calls.arguments import Parameter
from trnrand._calls.requests import Request
from trnrand._stream.words import WIDE, Source, chunk_samples, paired, unit53

Offsets: TypeAlias = Tensor | int
"""Offsets of samples from the start of a source; a number n means the first n samples."""

Sampler: TypeAlias = Callable[..., Tensor]
"""Function of (source, count, *parameters) that returns ``count`` samples."""

_P = TypeVar("_P")

_ATTEMPTS = 1 << 24


def sampled(request: Request, sampler: Sampler, *parameters: Parameter) -> Tensor:
    """Return the result of a request, computed in chunks; parameters broadcast to its shape."""
    flat = [request.flat(p) for p in parameters]
    out, source = request.buffer(), request.source()
    chunk = _chunk(source)
    for first in range(0, request.numel, chunk):
        part = slice(first, min(first + chunk, request.numel))
        values = (p[part] if isinstance(p, Tensor) else p for p in flat)
        out[part] = sampler(source.later(first), part.stop - first, *values)
    return request.result(out)


def each(sampler: Sampler) -> Callable[[Request], Tensor]:
    """Return the function that draws a request by the sampler of its parameters."""
    return lambda request: sampled(request, sampler, *request.parameters.values())


def sampled_vectors(request: Request, sampler: Sampler, numbers: Parameter, rows: Tensor) -> Tensor:
    """Return the result of a request for vectors, computed in chunks.

    Args:
        request: The validated call; its last dimension has the components of a vector.
        sampler: Function of (source, count, numbers, rows, row) that returns ``count`` vectors; row
            has, for each vector, the index of its row in the matrix ``rows``.
        numbers: A parameter of the vectors, which broadcasts to their batch shape.
        rows: Parameters of the components in the last dimension; the others broadcast, too.
    """
    *batch, width = request.shape
    vectors = math.prod(batch)
    each = numbers if not isinstance(numbers, Tensor) else numbers.expand(batch).reshape(-1)
    table = rows.reshape(-1, width).to(request.device)
    number = torch.arange(len(table), device=request.device).view(rows.shape[:-1])
    number = number.expand(batch).reshape(-1)
    out, source = request.buffer(), request.source()
    chunk = max(1, _chunk(source) // width)
    for first in range(0, vectors, chunk):
        part = slice(first, min(first + chunk, vectors))
        some = each[part].to(request.device) if isinstance(each, Tensor) else each
        later, count = source.later(first * width), part.stop - first
        values = sampler(later, count, some, table, number[part])
        out[part.start * width : part.stop * width] = values.reshape(-1)
    return request.result(out)


def _chunk(source: Source) -> int:
    """Return the number of samples per chunk: on CPUs, enough to amortise later attempts."""
    return (8 if source.device.type == "cpu" else 4) * chunk_samples(source.device)


def float64(parameter: Parameter, source: Source) -> Tensor:
    """Return a parameter as a float64 tensor on the device of the source."""
    return torch.as_tensor(parameter, dtype=torch.float64, device=source.device)


def hypotenuse(x: Tensor, y: Tensor) -> Tensor:
    """Return sqrt(x**2 + y**2) of non-negative numbers, not both 0, without overflow.

    ``torch.hypot`` rounds differently at the end of an array, where it is not vectorised.
    """
    larger = torch.maximum(x, y)
    ratio = torch.minimum(x, y) / larger
    return larger * torch.sqrt(1 + ratio * ratio)


def many(offsets: Offsets) -> int:
    """Return the number of samples."""
    return offsets if isinstance(offsets, int) else offsets.numel()


def at(parameter: _P, offsets: Offsets) -> _P:
    """Return the values of a parameter at some samples; a scalar is returned as it is."""
    if isinstance(offsets, int) or not isinstance(parameter, Tensor) or not parameter.ndim:
        return parameter
    return cast(_P, parameter.index_select(0, offsets))


def accepted(
    offsets: Offsets, propose: Callable[[Offsets, Offsets, int], tuple[Tensor, Tensor]]
) -> Tensor:
    """Return the first accepted proposal of each sample.

    Args:
        offsets: Offsets of the samples.
        propose: Function of some offsets, of their indices among all offsets, and of the number of
            the attempt. It returns values, and a mask of the accepted ones.
    """
    values, good = propose(offsets, many(offsets), 0)
    if good.all():  # three times as fast as ``nonzero``
        return values
    pending = _indices(~good)
    for attempt in range(1, _ATTEMPTS):
        if not pending.numel():
            return values
        of_these = pending if isinstance(offsets, int) else offsets[pending]
        fresh, good = propose(of_these, pending, attempt)
        values[pending[good]] = fresh[good]
        pending = pending[~good]
    raise RuntimeError("a rejection sampler found no value in 2**24 attempts")


def _indices(condition: Tensor) -> Tensor:
    if condition.is_cpu:
        return torch.from_numpy(np.flatnonzero(condition.numpy()))  # faster than ``nonzero``
    return condition.nonzero()[:, 0]


def by_group(
    source: Source,
    offsets: Offsets,
    first: bool | Tensor,
    samplers: tuple[Callable[..., Tensor], Callable[..., Tensor]],
    *parameters: Parameter,
) -> Tensor:
    """Return samples of two groups, each from its sampler.

    Args:
        source: Source of the words.
        offsets: Offsets of the samples.
        first: Whether the first sampler is used, for all samples or for each.
        samplers: Functions of (source, offsets, *parameters).
        parameters: Flat parameters.
    """
    if not isinstance(first, Tensor):
        return samplers[0 if first else 1](source, offsets, *parameters)
    out: Tensor | None = None
    for group, sampler in zip((first, ~first), samplers, strict=True):
        where = group.nonzero()[:, 0]
        if where.numel():
            some = where if isinstance(offsets, int) else offsets[where]
            values = sampler(source, some, *(at(p, where) for p in parameters))
            out = values.new_empty(len(first)) if out is None else out
            out[where] = values
    assert out is not None
    return out


def units(source: Source, domain: int, count: int) -> Tensor:
    """Return float64 in [0, 1), from two words per sample."""
    return unit53(paired(source.words(domain | WIDE, 2 * count, 2)))


def open_units(source: Source, domain: int, count: int) -> Tensor:
    """Return float64 in (0, 1): ``units``, with 0 replaced by half a step."""
    return units(source, domain, count).clamp_(min=2.0**-54)
