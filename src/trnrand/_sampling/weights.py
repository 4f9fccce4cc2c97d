"""Sampling of indices with given weights."""

from __future__ import annotations

import torch
from torch import Tensor

from trnrand._sampling.samplers import Sampler, units
from trnrand._stream.words import FLOATS, Domain, Source
from trnrand.errors import DTypeError, ParameterError

INDICES = (torch.int64, torch.int32, torch.int16, torch.uint8, *FLOATS)
"""Dtypes that hold indices."""


def check_holds(function: str, what: str, number: int, dtype: torch.dtype) -> None:
    """Raise unless all whole numbers up to ``number`` are exact in a dtype."""
    exact = 2 / torch.finfo(dtype).eps if dtype.is_floating_point else torch.iinfo(dtype).max
    if number > exact:
        raise DTypeError(f"{function}: dtype must hold {what}, got {dtype} and {number}")


def scaled_weights(function: str, weights: Tensor) -> Tensor:
    """Return weights divided by the largest of their row, so sums do not under- or overflow.

    Raises:
        ParameterError: A row has no positive weight.
    """
    largest = weights.amax(-1, keepdim=True) if weights.shape[-1] else weights.new_zeros(1)
    if not bool((largest > 0).all()):
        raise ParameterError(f"{function}: p must have a positive weight in each row")
    return weights / largest


def of_weights(weights: Tensor) -> Sampler:
    """Return a sampler of indices with probabilities proportional to weights."""
    bounds = weights.cumsum(0)
    last = int(weights.nonzero().max())

    def sampler(source: Source, count: int) -> Tensor:
        aim = units(source, Domain.CHOICE, count) * bounds[-1]
        # Rounding may reach the upper end, which belongs to no index of positive weight.
        return torch.searchsorted(bounds, aim, right=True).clamp_(max=last)

    return sampler


def of_rows(table: Tensor) -> Sampler:
    """Return a sampler of indices with one row of weights for each sample."""
    width = table.shape[1]
    bounds = table.cumsum(1)
    places = torch.arange(width, device=table.device)
    last = torch.where(table > 0, places, 0).amax(1)
    flat, ends = bounds.reshape(-1), bounds[:, -1]

    def sampler(source: Source, count: int, row: Tensor) -> Tensor:
        aim = units(source, Domain.CHOICE, count) * ends[row]
        # Bisection: the first bound above the target is in [low, high].
        low, high = torch.zeros_like(row), last[row]
        for _ in range((width - 1).bit_length()):
            middle = (low + high) >> 1
            beyond = flat[row * width + middle] > aim
            low, high = torch.where(beyond, low, middle + 1), torch.where(beyond, middle, high)
            low = torch.minimum(low, high)
        return low

    return sampler
