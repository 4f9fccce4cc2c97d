"""Prefetch buffers of a generator for small draws.

A small draw has tens of microseconds of fixed costs. Sample i of a distribution depends only on
engine, seed, i and the parameters, so consecutive calls with equal arguments are served from a
buffer of some hundred samples that are drawn at once.

A buffer stores samples with their stream and positions; it has no read position. A generator that
is moved, seeded, restored or copied therefore draws the same numbers with any contents of its
buffers, and its saved state does not include them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnrand._library import LIBRARY
from trnrand._stream.words import INDEX_LIMIT

# Calls for more samples than this are not buffered.
_MOST = 64
# Samples of the first and of the largest buffer for some arguments; each has four times the last.
_FIRST, _LAST = 64, 4096
# Largest number of buffers of a generator; one more clears them all.
_BUFFERS = 16

# Types of options with a ``repr`` that identifies the value.
_CONSTANTS = frozenset((float, int, bool, type(None), torch.dtype))
_SEQUENCES = (tuple, list, torch.Size)
_CPUS = ("cpu", torch.device("cpu"))


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


class Stretch(NamedTuple):
    """Consecutive samples of one stream.

    Attributes:
        stream: Number of the engine, and the 64 bits of the seed.
        first: Position of the first sample.
        length: Number of samples.
        values: The samples as a NumPy array, which is sliced and copied faster than a tensor;
            bfloat16, which NumPy lacks, is stored as bits.
        is_bfloat16: Whether the values are bits of bfloat16.
    """

    stream: tuple[int, int]
    first: int
    length: int
    values: NDArray[Any]
    is_bfloat16: bool = False


class Prefetch:
    """The buffers of one generator, by distribution and options."""

    def __init__(self) -> None:
        self._stretches: dict[str, Stretch] = {}

    def drawn(
        self,
        law: str,
        function: Callable[..., Tensor],
        size: Sequence[Any],
        generator: Stream,
        device: str | torch.device | None,
        options: Mapping[str, Any],
    ) -> Tensor | None:
        """Return the result of a call and move the generator; None if the call must draw itself.

        Args:
            law: Name of the distribution.
            function: Function of sizes, ``generator`` and the options; its samples depend on
                their position and the options alone.
            size: Positional arguments of the call.
            generator: The generator that these buffers belong to.
            device: Device of the result; None for the generator's.
            options: Other keyword arguments of the call.
        """
        shape = size[0] if len(size) == 1 and type(size[0]) in _SEQUENCES else size
        for n in shape:
            if type(n) is not int or n <= 0:
                return None
        count = math.prod(shape)
        if not shape or count > _MOST or LIBRARY.kernels_wanted():
            return None
        if (generator.device if device is None else device) not in _CPUS:
            return None
        for value in options.values():
            if type(value) not in _CONSTANTS:
                return None
        key = f"{law} {options}"
        stretch = self._stretches.get(key)
        begin = None if stretch is None else generator.take(stretch, count)
        if stretch is None or begin is None:
            if options.get("total") is not None or generator.partition_size != 1:
                return None
            if len(self._stretches) >= _BUFFERS and stretch is None:
                self._stretches.clear()
            stretch = _next(stretch, function, count, generator, options)
            self._stretches[key] = stretch
            begin = generator.take(stretch, count)
            if begin is None:
                return None
        part = torch.from_numpy(stretch.values[begin : begin + count].reshape(shape).copy())
        return part.view(torch.bfloat16) if stretch.is_bfloat16 else part


def _next(
    last: Stretch | None,
    function: Callable[..., Tensor],
    count: int,
    generator: Stream,
    options: Mapping[str, Any],
) -> Stretch:
    """Return the samples from the generator's position on, an empty stretch for an isolated call.

    A call fills a buffer if it begins inside the last stretch of its kind, or at most one small
    draw behind it.
    """
    position = generator.offset
    if last is not None and 0 <= position - last.first <= last.length + _MOST:
        more = min(max(_FIRST, 4 * last.length), _LAST)
        if position + more < INDEX_LIMIT:
            return _filled(function, more, generator, options)
    return Stretch(generator.stream, position + count, 0, np.empty(0))


def _filled(
    function: Callable[..., Tensor], count: int, generator: Stream, options: Mapping[str, Any]
) -> Stretch:
    """Return the generator's next samples without moving it."""
    copy = generator.clone_state()
    first = copy.offset
    values = function(count, generator=copy, **options)
    narrow = values.dtype is torch.bfloat16
    array = (values.view(torch.int16) if narrow else values).numpy()
    return Stretch(copy.stream, first, count, array, narrow)
