"""Prefetch buffers of a generator for small draws.

A draw of a few samples takes tens of microseconds of fixed costs. Sample i of a law depends on
engine, seed, i and the parameters alone, so where calls with equal arguments follow each other in a
stream, some hundred samples are drawn at once and handed out.

A buffer holds samples and the stream and positions that they are from, and no position of its own.
A generator that was moved, seeded, restored or copied therefore draws the same numbers with any
contents of its buffers, and its saved state does not need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnrand._paths.library import LIBRARY
from trnrand._stream.words import INDEX_LIMIT

__all__ = ["Prefetch", "Stream", "Stretch"]

# Larger calls draw for themselves.
_MOST = 64
# Samples of the first buffer for some arguments, and of the largest; each is four times the last.
_FIRST, _LAST = 64, 4096
# Buffers of a generator; all are dropped when there would be one more.
_BUFFERS = 16

# Types of options whose ``repr`` is their value.
_CONSTANTS = frozenset((float, int, bool, type(None), torch.dtype))
_SEQUENCES = (tuple, list, torch.Size)


class Stream(Protocol):
    """The part of a generator that prefetching uses."""

    @property
    def device(self) -> str | torch.device:
        """Default device of the samples."""

    @property
    def partition_size(self) -> int:
        """Number of ranks that share every request."""

    @property
    def stream(self) -> tuple[int, int]:
        """Number of the engine, and the 64 bits of the seed."""

    @property
    def offset(self) -> int:
        """Position in the stream, in samples."""

    def take(self, stretch: Stretch, count: int) -> int | None:
        """Move by ``count`` samples of a stretch, and return their index in it; None if outside."""

    def clone_state(self) -> Self:
        """Return an independent generator with the same state."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive samples of one stream, from position ``first`` on.

    NumPy, whose slices and copies take a fraction of torch's time, has no bfloat16: ``values`` are
    its bits then.
    """

    stream: tuple[int, int]
    first: int
    values: NDArray[Any]
    is_bfloat16: bool = False

    def taken(self, generator: Stream, shape: Sequence[int], count: int) -> Tensor | None:
        """Return a copy of the generator's next samples and move it; None if they are not here."""
        begin = generator.take(self, count)
        if begin is None:
            return None
        part = torch.from_numpy(self.values[begin : begin + count].reshape(shape).copy())
        return part.view(torch.bfloat16) if self.is_bfloat16 else part


class Prefetch:
    """The buffers of one generator, by the law and its options."""

    def __init__(self) -> None:
        self._stretches: dict[str, Stretch] = {}

    def drawn(
        self,
        function: Callable[..., Tensor],
        size: Sequence[Any],
        generator: Stream,
        options: Mapping[str, Any],
    ) -> Tensor | None:
        """Return the result of a call and move the generator; None if the call must draw itself.

        Args:
            function: Function of sizes, ``generator`` and the options, whose samples depend on
                their position and the options alone.
            size: Positional arguments of the call.
            generator: The generator that these buffers belong to.
            options: Keyword arguments of the call, without the generator.
        """
        shape = size[0] if len(size) == 1 and type(size[0]) in _SEQUENCES else size
        for n in shape:
            if type(n) is not int or n <= 0:
                return None
        count = math.prod(shape)
        if not shape or count > _MOST or LIBRARY.kernels_wanted():
            return None
        if str(generator.device) != "cpu" or generator.partition_size != 1:
            return None
        for value in options.values():
            if type(value) not in _CONSTANTS:
                return None
        if options.get("total") is not None:
            return None
        key = f"{function.__name__} {options}"
        stretch = self._stretches.get(key)
        samples = None if stretch is None else stretch.taken(generator, shape, count)
        if samples is None:
            if len(self._stretches) >= _BUFFERS and stretch is None:
                self._stretches.clear()
            stretch = _next(stretch, function, count, generator, options)
            self._stretches[key] = stretch
            samples = stretch.taken(generator, shape, count)
        return samples


def _next(
    last: Stretch | None,
    function: Callable[..., Tensor],
    count: int,
    generator: Stream,
    options: Mapping[str, Any],
) -> Stretch:
    """Return the samples from the generator's position on, none for a call by itself.

    A call is worth a buffer where it begins in the last stretch of its kind, or so near to the end
    of it as other small draws get.
    """
    position = generator.offset
    if last is not None and 0 <= position - last.first <= len(last.values) + _MOST:
        more = min(max(_FIRST, 4 * len(last.values)), _LAST)
        if position + more < INDEX_LIMIT:
            return _filled(function, more, generator, options)
    return Stretch(generator.stream, position + count, np.empty(0))


def _filled(
    function: Callable[..., Tensor], count: int, generator: Stream, options: Mapping[str, Any]
) -> Stretch:
    """Return the generator's next samples, which it keeps to draw."""
    ahead = generator.clone_state()
    first = ahead.offset
    values = function(count, generator=ahead, **options)
    narrow = values.dtype is torch.bfloat16
    array = (values.view(torch.int16) if narrow else values).numpy()
    return Stretch(ahead.stream, first, array, narrow)
