"""Permutations, and choices from a population with or without putting back.

An order is that of random keys of 64 bits, one per member; members with equal keys, of which there
are none in 99.9 % of orders of 10**8, stay in their own order.
"""

from __future__ import annotations

from operator import index

import torch
from torch import Tensor

from trnrand._arguments import Device, Parameter, Size, parsed_size, real
from trnrand._laws import FLOATS
from trnrand._requests import Request, prepared
from trnrand._sampling import sampled, units
from trnrand._words import WIDE, Domain, Source, paired
from trnrand.discrete import randint
from trnrand.errors import ParameterError
from trnrand.generator import Generator

__all__ = ["choice", "randperm"]

_INDICES = (torch.int64, torch.int32, torch.int16, torch.uint8, *FLOATS)


def randperm(
    n: int,
    *,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return the integers 0, ..., n - 1 in random order, int64 unless asked.

    It counts as a request of n samples: the ranks of a partition draw different permutations, as
    one rank does in successive calls.

    Raises:
        ParameterError: ``n`` is negative or no integer, or ``dtype`` does not hold n - 1.
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
        dtypes=_INDICES,
        default=torch.int64,
    )
    wanted = request.dtype
    exact = 2 / torch.finfo(wanted).eps if wanted.is_floating_point else torch.iinfo(wanted).max
    if length - 1 > exact:
        raise ParameterError(f"randperm: dtype must hold n - 1, got {wanted} and n = {length}")
    return request.result(_order(request.source(), length))


def choice(
    population: int | Tensor,
    *size: Size,
    replace: bool = True,
    p: Tensor | None = None,
    generator: Generator | None = None,
    device: Device = None,
) -> Tensor:
    """Return members of a population, drawn at random.

    The population is a tensor, whose members lie along its first dimension, or a number n for the
    integers 0, ..., n - 1. ``p`` has the weights of the members; without it all are equal. Without
    ``replace`` no member comes twice, and the call counts as a request of as many samples as the
    population has members.

    Raises:
        ParameterError: The population is empty, the weights do not fit it, or it is smaller than
            the draw and ``replace`` is false.
    """
    members = len(population) if isinstance(population, Tensor) and population.ndim else population
    length = _length("choice", members)
    shape = parsed_size("choice", size or ((),))
    request = prepared(
        "choice", (shape,), torch.int64, generator, device, None, None, None, _INDICES
    )
    weights = None if p is None else _weights(p, length, request.device)
    available = length if weights is None else int((weights > 0).sum())
    if length == 0 or (not replace and request.count > available):
        raise ParameterError(
            f"choice: population must have members for the draw of {request.count}, got {available}"
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
            dtypes=_INDICES,
        )
        order = _order(every.source(), length, weights)
        return order[: request.count].reshape(request.shape)
    if weights is None:
        return randint(
            request.shape, high=length, generator=request.generator, device=request.device
        )
    bounds = weights.cumsum(0)

    def sampler(source: Source, count: int) -> Tensor:
        aim = units(source, Domain.CHOICE, count) * bounds[-1]
        # Rounding may aim at the very end, which no member of positive weight has.
        return torch.searchsorted(bounds, aim, right=True).clamp_(max=last)

    last = int(weights.nonzero().max())
    return sampled(request, sampler)


def _order(source: Source, length: int, weights: Tensor | None = None) -> Tensor:
    """Return a random order; with weights, that in which weighted draws come."""
    if weights is None:
        keys = paired(source.words(Domain.PERMUTATION | WIDE, 2 * length, 2))
        return torch.argsort(keys, stable=True)
    # Whose exponential clock of rate w rings first, second, ...: drawn without putting back
    # (Efraimidis and Spirakis, 2006).
    u = units(source, Domain.PERMUTATION, length)
    return torch.argsort(-torch.log1p(-u) / weights, stable=True)


def _weights(p: Parameter, length: int, device: torch.device) -> Tensor:
    weights = real("choice", "p", p, least=0.0)
    if not isinstance(weights, Tensor) or tuple(weights.shape) != (length,):
        raise ParameterError(f"choice: p must have a weight for each of {length} members, got {p}")
    if not 0 < float(weights.sum()) < float("inf"):
        raise ParameterError("choice: p must have a positive, finite sum")
    return weights.to(device)


def _length(function: str, n: int | Tensor) -> int:
    try:
        length = index(n)
    except TypeError:
        raise ParameterError(f"{function}: n must be an integer, got {n!r}") from None
    if length < 0:
        raise ParameterError(f"{function}: n must be non-negative, got {length}")
    return length
