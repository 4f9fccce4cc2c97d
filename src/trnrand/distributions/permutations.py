"""Permutations, and choices from a population with or without replacement.

A permutation is the stable order of random 64-bit keys, one per member. In 99.9 % of permutations
of 10**8 members no two keys are equal.
"""

from __future__ import annotations

from operator import index

import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, parsed_size, real
from trnrand._calls.calls import Shape, distribution
from trnrand._calls.requests import Request, prepared
from trnrand._sampling.samplers import open_units, sampled
from trnrand._sampling.sorting import sorting_order
from trnrand._sampling.weights import INDICES, check_holds, of_weights, scaled_weights
from trnrand._stream.words import WIDE, Domain, Source, paired
from trnrand.distributions.discrete import integers
from trnrand.errors import ParameterError, ShapeError
from trnrand.generator import Generator

__all__ = ["choice", "randperm", "shuffle"]


def _whole(n: int, **_: object) -> Shape:
    return (n,)


def _members(population: int | Tensor, size: Shape, **_: object) -> Shape:
    return (*size, *population.shape[1:]) if isinstance(population, Tensor) else size


@distribution(leading=1, shape=_whole, dtype=torch.int64)
def randperm(
    n: int,
    *,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the integers 0, ..., n - 1 in random order, int64 by default.

    Consumes n samples of the stream: the ranks of a partition draw different permutations, as one
    rank does in successive calls.

    Raises:
        ParameterError: ``n`` is negative or not an integer, or ``dtype`` does not hold n - 1.
    """
    length = _length("randperm", n)
    request = prepared(
        "randperm",
        ((length,),),
        dtype,
        generator,
        device,
        out,
        None,
        dtypes=INDICES,
        default=torch.int64,
    )
    check_holds("randperm", "n - 1", length - 1, request.dtype)
    return request.result(_order(request.source(), length))


def shuffle(
    values: Tensor,
    dim: int = 0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return a copy of a tensor with its slices along a dimension in random order.

    Consumes the stream and orders the slices exactly as ``randperm(n)`` for n slices.

    Raises:
        ParameterError: ``values`` is not a tensor with this dimension.
    """
    if not isinstance(values, Tensor) or not -values.ndim <= index(dim) < values.ndim:
        kind = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise ShapeError(f"shuffle: values must be a tensor with dimension {dim}, got {kind}")
    order = randperm(values.shape[dim], generator=generator, device=values.device)
    return values.index_select(dim, order)


@distribution(leading=1, shape=_members, dtype=None)
def choice(
    population: int | Tensor,
    *size: Size,
    replace: bool = True,
    p: Tensor | None = None,
    generator: Generator | None = None,
    device: Device = None,
) -> Tensor:
    """Return members of a population, drawn at random.

    The population is a tensor with members along its first dimension, or a number n for the
    integers 0, ..., n - 1. ``p`` holds the weights of the members, which are equal by default. With
    ``replace=False`` no member is drawn twice, and the call consumes as many samples of the stream
    as the population has members.

    Raises:
        ParameterError: The population is empty, the weights do not fit it, or it is smaller than
            the draw and ``replace`` is false.
    """
    members = len(population) if isinstance(population, Tensor) and population.ndim else population
    length = _length("choice", members)
    shape = parsed_size("choice", size or ((),))
    request = prepared(
        "choice", (shape,), torch.int64, generator, device, None, None, None, INDICES
    )
    weights = None if p is None else _weights(p, length, request.device)
    available = length if weights is None else int((weights > 0).sum())
    if length == 0 or (not replace and request.numel > available):
        raise ShapeError(
            f"choice: population must have members for the draw of {request.numel}, got {available}"
        )
    picked = _picked(request, length, weights, replace)
    return population.to(request.device)[picked] if isinstance(population, Tensor) else picked


def _picked(request: Request, length: int, weights: Tensor | None, replace: bool) -> Tensor:
    """Return indices of members."""
    if not replace:
        every = prepared(
            "choice",
            ((length,),),
            torch.int64,
            request.generator,
            request.device,
            None,
            None,
            dtypes=INDICES,
        )
        order = _order(every.source(), length, weights)
        return order[: request.numel].reshape(request.shape)
    if weights is None:
        return integers(
            request.shape, low=0, high=length, generator=request.generator, device=request.device
        )
    return sampled(request, of_weights(weights))


def _order(source: Source, length: int, weights: Tensor | None = None) -> Tensor:
    """Return a random order; with weights, the order of weighted draws without replacement."""
    if weights is None:
        keys = paired(source.words(Domain.PERMUTATION | WIDE, 2 * length, 2))
        return sorting_order(keys)
    # Exponential variates with rates w, in ascending order, are weighted draws without replacement
    # (Efraimidis and Spirakis, 2006).
    logarithms = torch.log(-torch.log1p(-open_units(source, Domain.PERMUTATION, length)))
    # Sorted by their logarithms, which are finite except for rate 0.
    return torch.argsort(logarithms - torch.log(weights), stable=True)


def _weights(p: Parameter, length: int, device: torch.device) -> Tensor:
    weights = real("choice", "p", p, least=0.0)
    if not isinstance(weights, Tensor) or tuple(weights.shape) != (length,):
        raise ShapeError(f"choice: p must have a weight for each of {length} members, got {p}")
    return scaled_weights("choice", weights).to(device) if length else weights


def _length(function: str, n: int | Tensor) -> int:
    try:
        length = index(n)
    except TypeError:
        raise ParameterError(f"{function}: n must be an integer, got {n!r}") from None
    if length < 0:
        raise ParameterError(f"{function}: n must be non-negative, got {length}")
    return length
