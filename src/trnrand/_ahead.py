"""Small draws, out of samples that were made ahead.

A call of a few samples costs what its dozen of steps cost, not what the samples do. What sample i
of a distribution is depends on the seed, on i and on the parameters alone; so where calls follow
each other in a stream, a few hundred samples are made at once and handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trnrand import generator as _generators
from trnrand._library import LIBRARY
from trnrand._state import ENGINE, OFFSET, OFFSET_HIGH, SEED, SIZE
from trnrand._words import INDEX_LIMIT
from trnrand.generator import Generator

__all__ = ["MOST", "drawn_ahead"]

MOST = 64
"""Calls of more samples than this are made by themselves."""

# Samples that are made ahead at first, and at most; a stream that goes on gets more each time.
_FIRST, _LAST = 64, 4096
# Different calls that a generator has samples for; one more, and all are dropped.
_KINDS = 16

# Values that are equal where their types and they are, and cannot change.
_CONSTANTS = frozenset((float, int, bool, type(None), torch.dtype))
_SEQUENCES = (tuple, list, torch.Size)
_NOTHING = np.zeros(0)


@dataclass(frozen=True, slots=True)
class _Made:
    """Samples of one call that were made ahead: those from ``first`` on, none at the beginning.

    NumPy has no bfloat16: it holds the bits, and ``dtype`` says what they are.
    """

    seed: int
    engine: int
    first: int
    count: int
    values: NDArray[Any]
    dtype: torch.dtype | None = None


def drawn_ahead(
    function: Callable[..., Tensor],
    size: Sequence[Any],
    generator: Generator,
    options: Mapping[str, Any],
) -> Tensor | None:
    """Return what a call draws, and move the generator; None where it is to be made by itself.

    Args:
        function: Of sizes, ``generator`` and the options; a sample must depend on its position and
            on the options alone.
        size: Positional arguments of the call.
        generator: Where samples come from, on the CPU.
        options: Keyword arguments, without the generator.
    """
    if len(size) == 1 and type(size[0]) in _SEQUENCES:
        size = size[0]
    count = 1
    for n in size:
        if type(n) is not int or n <= 0:
            return None
        count *= n
    slots = generator._slots
    if count > MOST or not size or slots[SIZE] != 1 or slots[OFFSET_HIGH]:
        return None
    if LIBRARY.kernels_wanted():
        return None
    key: tuple[Any, ...] = (function,)
    for name, value in options.items():
        kind = type(value)
        if kind not in _CONSTANTS:
            return None
        key += (name, kind, value)
    made = generator._ahead.get(key)
    with _generators._lock:
        position = slots[OFFSET]
        known = made is not None and made.seed == slots[SEED] and made.engine == slots[ENGINE]
        begin = position - made.first if made is not None and known else -1
        if made is not None and 0 <= begin <= made.count - count:
            slots[OFFSET] = position + count  # not past the end, since these were made
            part = made.values[begin : begin + count].copy()
            # By NumPy, which takes a microsecond for what takes torch several.
            drawn = torch.from_numpy(part if len(size) == 1 else part.reshape(size))
            return drawn if made.dtype is None else drawn.view(made.dtype)
    ahead = _FIRST if made is None else min(max(_FIRST, 4 * made.count), _LAST)
    if made is None or not 0 <= begin <= made.count or position + ahead > INDEX_LIMIT:
        _expect(generator, key, position + count)
        return None
    scratch = Generator.over(generator._state.clone(), "cpu")
    scratch.seek(position)
    values = function(ahead, generator=scratch, **options)
    dtype = values.dtype if values.dtype is torch.bfloat16 else None
    array = (values if dtype is None else values.view(torch.int16)).numpy()
    generator._ahead[key] = _Made(slots[SEED], slots[ENGINE], position, ahead, array, dtype)
    return drawn_ahead(function, size, generator, options)


def _expect(generator: Generator, key: tuple[Any, ...], position: int) -> None:
    """Remember that a call was made, so that one that goes on from there is worth more samples."""
    if len(generator._ahead) >= _KINDS:
        generator._ahead.clear()
    slots = generator._slots
    generator._ahead[key] = _Made(slots[SEED], slots[ENGINE], position, 0, _NOTHING)
