"""The parts of a draw that one rank draws, as consecutive samples of the stream.

The samples of a tensor follow each other in the stream by rows. A part of the tensor is a range
along each dimension. Its samples form runs that are consecutive in the stream: one run for each
index of the dimensions before the last split one. A box is a range of each dimension whose samples
are consecutive; it may contain samples of other ranks, where these are cheaper drawn than skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

Ranges = tuple[range, ...]
_GAP = 1 << 14
"""Samples of other ranks between two runs from which on it is faster to make two calls."""
_BLOCK = 1 << 20
"""Most samples of a box with samples of other ranks; one run of this rank may be longer."""


def boxes(shape: Sequence[int], part: Ranges, *, exact: bool) -> Iterator[Ranges]:
    """Yield boxes that cover a part of a tensor of a given shape, in order.

    Args:
        shape: Shape of the whole tensor.
        part: The part, a range of each dimension.
        exact: Whether boxes must not contain other samples.
    """
    if not shape or not all(map(len, part)):
        yield part
        return
    split = [dim for dim, own in enumerate(part) if len(own) < shape[dim]]
    last = dim = split[-1] if split else 0
    while not exact and prod(map(len, part[:dim])) > 1 and _gap(shape, part, dim) < _GAP:
        split.pop()
        dim = split[-1] if split else 0
    step = len(part[dim])
    if dim < last:
        while dim < last and prod(shape[dim + 1 :]) > _BLOCK:
            dim += 1
        step = max(1, _BLOCK // prod(shape[dim + 1 :]))
    whole = tuple(range(size) for size in shape[dim + 1 :])
    own = part[dim]
    for outer in product(*part[:dim]):
        for start in range(own.start, own.stop, step):
            here = range(start, min(start + step, own.stop))
            yield (*(range(at, at + 1) for at in outer), here, *whole)


def first_of(shape: Sequence[int], box: Ranges) -> int:
    """Return the index of the first sample of a box in the whole tensor."""
    found = 0
    for size, own in zip(shape, box, strict=True):
        found = found * size + own.start
    return found


def _gap(shape: Sequence[int], part: Ranges, dim: int) -> int:
    return (shape[dim] - len(part[dim])) * prod(shape[dim + 1 :])
