"""The Bernoulli distribution, and uniform integers of a range."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnrand._calls.arguments import Device, Parameter, Size, real
from trnrand._calls.calls import distribution
from trnrand._calls.requests import prepared
from trnrand._sampling.samplers import Offsets, accepted, at, by_group, sampled
from trnrand._stream.words import FLOATS, WIDE, Domain, Source, paired, unsigned
from trnrand.engines import MASK
from trnrand.errors import DTypeError, FlagError, ParameterError, ShapeError
from trnrand.generator import Generator

__all__ = ["bernoulli", "randint"]

Bound: TypeAlias = int | Tensor

_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
_TWO32 = 1 << 32
_SIGN = -(1 << 63)


@distribution()
def bernoulli(
    *size: Size,
    p: Parameter = 0.5,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return 1 with probability ``p``, exact to 64 bits, else 0.

    ``dtype`` may also be bool or an integer dtype.

    Raises:
        ParameterError: ``p`` is not in [0, 1], or another argument is outside of its range.
    """
    parameters = {"p": real("bernoulli", "p", p, least=0.0, most=1.0)}
    dtypes = (*FLOATS, torch.bool, *_WHOLE)
    request = prepared("bernoulli", size, dtype, generator, device, out, total, parameters, dtypes)
    return sampled(request, _bernoulli, *parameters.values())


def randint(
    *bounds_and_size: Bound | Sequence[int],
    low: Bound | None = None,
    high: Bound | None = None,
    size: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return integers from ``low`` to ``high - 1``, each equally likely, int64 by default.

    The arguments are as in ``torch.randint``: ``randint(high, size)`` or ``randint(low, high,
    size)``, or the same names as keywords; with ``low`` and ``high`` by keyword, the shape may be
    integers by position, ``randint(2, 3, low=0, high=6)``.

    Args:
        bounds_and_size: ``high`` and ``size``, or ``low``, ``high`` and ``size``, by position, or
            the lengths of the result.
        low: Least integer; by default 0.
        high: Integer above the largest one. It must be given.
        size: Shape of the result, as a sequence; it may be omitted where ``out``, or a bound that
            is a tensor, has the shape.
        dtype: An integer or floating dtype in which all results are exact.
        generator: Generator of the samples; None for the default one.
        device: Device of the result; None for the generator's.
        out: Tensor for the result.
        total: Length of the first dimension over all ranks.

    Raises:
        ParameterError: ``low`` is not less than ``high``, ``high`` or ``size`` is missing, or
            another argument is outside of its range.
    """
    bottom, top, shape = _arranged(bounds_and_size, low, high, size)
    shaped = out is not None or isinstance(bottom, Tensor) or isinstance(top, Tensor)
    if shape is None and not shaped:
        raise ShapeError(f"randint: size is missing; {_FORMS}")
    return integers(
        *(() if shape is None else (shape,)),
        low=bottom,
        high=top,
        dtype=dtype,
        generator=generator,
        device=device,
        out=out,
        total=total,
    )


_FORMS = "accepted are randint(high, size) and randint(low, high, size), as in torch"


def _arranged(given: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[Any, Any, Any]:
    """Return low, high and size of a call, from its arguments by position and by keyword."""
    bounds = list(given)
    if bounds and isinstance(bounds[-1], (tuple, list)):  # torch.Size is a tuple
        if size is not None:
            raise FlagError(f"randint: size is given twice, {bounds[-1]} and {size}")
        size = bounds.pop()
    elif low is not None and high is not None and size is None and bounds:
        return low, high, bounds
    if size is not None and not isinstance(size, (tuple, list)):
        raise ShapeError(f"randint: size must be a sequence of integers, got {size!r}")
    # The last positional bound is high, unless high is given by keyword.
    if bounds and high is None:
        high = bounds.pop()
    if bounds and low is None:
        low = bounds.pop()
    if bounds:
        raise FlagError(f"randint: got {len(given)} arguments by position; {_FORMS}")
    if high is None:
        raise ParameterError(f"randint: high is missing; {_FORMS}")
    return 0 if low is None else low, high, size


@distribution(dtype=torch.int64, name="randint")
def integers(
    *size: Size,
    low: Bound,
    high: Bound,
    dtype: torch.dtype | None = None,
    generator: Generator | None = None,
    device: Device = None,
    out: Tensor | None = None,
    total: int | None = None,
) -> Tensor:
    """Return integers from ``low`` to ``high - 1``, as ``randint``, with the size in front."""
    bounds = {"low": _bound("low", low), "high": _bound("high", high)}
    bottom, top = bounds.values()
    request = prepared(
        "randint",
        size,
        dtype,
        generator,
        device,
        out,
        total,
        bounds,
        (*_WHOLE, *FLOATS),
        torch.int64,
    )
    if not torch.as_tensor(bottom < top).all():
        raise ParameterError(f"randint: low must be less than high, got {low} and {high}")
    _check_exact(bottom, top, request.dtype)
    span = top - bottom
    if isinstance(span, Tensor) and (span <= 0).any():
        raise ParameterError("randint: high - low must be below 2**63 where they are tensors")
    return sampled(request, _integers, bottom, span)


def _bernoulli(source: Source, count: int, p: Parameter) -> Tensor:
    scaled = torch.as_tensor(p, dtype=torch.float64, device=source.device) * _TWO32
    whole = scaled.floor()
    words = unsigned(source.words(Domain.BERNOULLI, count))
    ones = words < whole
    tied = (words == whole).nonzero()[:, 0]
    if tied.numel():
        second = unsigned(source.word_at(Domain.BERNOULLI, tied, 1))
        fraction = ((scaled - whole) * _TWO32).expand(count)[tied]
        ones[tied] = second < fraction
    return ones


def _bound(name: str, value: int | Tensor) -> int | Tensor:
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex() or value.dtype is torch.bool:
            raise DTypeError(f"randint: {name} must hold integers, got {value.dtype}")
        return value.detach().long() if value.ndim else int(value)
    try:
        number = index(value)
    except TypeError:
        raise ParameterError(f"randint: {name} must be an integer, got {value!r}") from None
    if not -(1 << 63) <= number <= 1 << 63:
        raise ParameterError(f"randint: {name} must fit 64 bits, got {number}")
    return number


def _check_exact(low: int | Tensor, high: int | Tensor, dtype: torch.dtype) -> None:
    if dtype.is_floating_point:
        limit = round(2 / torch.finfo(dtype).eps)  # integers to here are exact
        first, last = -limit, limit
    else:
        first, last = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    smallest = int(low.min()) if isinstance(low, Tensor) and low.numel() else low
    largest = int(high.max()) if isinstance(high, Tensor) and high.numel() else high
    if isinstance(smallest, Tensor) or isinstance(largest, Tensor):
        return  # an empty tensor has no bounds
    if smallest < first or largest - 1 > last:
        raise DTypeError(f"randint: low and high must fit {dtype}, got {smallest}, {largest}")


def _integers(source: Source, count: int, low: int | Tensor, span: int | Tensor) -> Tensor:
    narrow = span <= _TWO32
    values = by_group(source, count, narrow, (_by_product, _by_mask), span)
    # For a span above 2**63 the sum wraps to the correct value.
    return values.add_(low)


def _by_product(source: Source, offsets: Offsets, span: int | Tensor) -> Tensor:
    """Return integers below spans up to 2**32, by Lemire's method: the high word of word x span."""
    biased = _TWO32 % span

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        if isinstance(some, int):
            words = source.words(Domain.RANDINT, some)
        else:
            words = source.word_at(Domain.RANDINT, some, attempt)
        if words.is_cpu and isinstance(span, int) and source.compiled:
            return _compiled_products(words, span)
        product = unsigned(words).mul_(at(span, places))
        good = (product & MASK) >= at(biased, places)
        upper = product.bitwise_right_shift_(32)
        # A product of 64 bits was sign-extended by the shift.
        return upper if isinstance(span, int) and span <= 1 << 31 else upper & MASK, good

    return accepted(offsets, propose)


def _compiled_products(words: Tensor, span: int) -> tuple[Tensor, Tensor]:
    from trnrand._sampling.compiled_integers import products

    values = torch.empty(len(words), dtype=torch.int64)
    good = torch.empty(len(words), dtype=torch.bool)
    numbers = np.uint64(span), np.uint64(_TWO32 % span)
    products(words.contiguous().numpy().view(np.uint32), *numbers, values.numpy(), good.numpy())
    return values, good


def _by_mask(source: Source, offsets: Offsets, span: int | Tensor) -> Tensor:
    """Return integers below any spans, by rejection of masked words."""
    if isinstance(span, Tensor):
        last: int | Tensor = span - 1
        mask = last
        for shift in (1, 2, 4, 8, 16, 32):
            mask = mask | mask >> shift
    else:
        last, mask = _signed(span - 1), _signed((1 << (span - 1).bit_length()) - 1)

    def propose(some: Offsets, places: Offsets, attempt: int) -> tuple[Tensor, Tensor]:
        pairs = paired(source.slots(Domain.RANDINT | WIDE, some, attempt))
        value = pairs[:, 0] & at(mask, places)
        # Flipping the sign bits compares as unsigned.
        return value, (value ^ _SIGN) <= (at(last, places) ^ _SIGN)

    return accepted(offsets, propose)


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits
