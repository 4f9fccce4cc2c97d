"""Draws inside the transforms of ``torch.func``.

Samples are constants under ``grad`` and ``jvp``. The argument ``randomness`` of ``vmap`` selects
the behaviour of a draw, as for torch's functions: "error", the default, raises; "same" draws once
for the whole batch, or from one position for each member of a batch of parameters; "different"
continues the stream from one member of the batch to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from trnsci.core.errors import DerivativeError
from trnsci.core.interop import (
    current_transform,
    is_wrapped,
    transform_level,
    unwrapped,
    without_transforms,
)

Draw = Callable[[Sequence[Any], tuple[int, ...]], Tensor]
"""Function of values, and of batch sizes to prepend to the size of the result."""


class Seekable(Protocol):
    """A stream with a position that can be read and set, such as a ``Generator``."""

    @property
    def offset(self) -> int:
        """Position in the stream, in samples."""

    def seek(self, offset: int) -> None:
        """Move to a position."""


def is_transformed() -> bool:
    """Return whether the current call is part of a transform."""
    return transform_level() is not None


def values_of(tensor: Tensor) -> Tensor:
    """Return the values below all transforms, of a whole batch."""
    while is_wrapped(tensor):
        tensor = unwrapped(tensor)
    return tensor.detach()


def holds(condition: Tensor) -> bool:
    """Return whether a condition holds for all values of a whole batch."""
    with without_transforms():
        return bool(values_of(condition).all())


def shown(value: Any) -> Any:
    """Return a parameter without transforms, for an error message."""
    return values_of(value) if isinstance(value, Tensor) else value


def beneath(
    function: str,
    generator: Seekable,
    draw: Draw,
    values: Sequence[Any],
    batches: bool = False,
    front: tuple[int, ...] = (),
) -> Tensor:
    """Return the result of a draw below the transforms of the current call, wrapped in them.

    Args:
        function: Name of the function that draws.
        generator: Generator of the samples.
        draw: Function that draws without transforms.
        values: Its arguments; tensors are unwrapped.
        batches: Whether ``draw`` supports batch sizes.
        front: Batch sizes of the transforms that are already unwrapped.

    Raises:
        DerivativeError: ``vmap`` has ``randomness="error"``.
    """
    transform = current_transform()
    if transform is None:
        return draw(values, front)
    if transform.randomness == "error":
        raise DerivativeError(
            f"{function}: called inside of torch.func.vmap with randomness='error'; give vmap "
            "randomness='same' or 'different', or draw outside of it"
        )
    pairs = transform.lowered(values)
    inner = [value for value, _ in pairs]
    batched = any(dim is not None for _, dim in pairs)
    size, same = transform.batch_size, transform.randomness == "same"
    with transform.below():
        if size is None or (same and not batched):
            return beneath(function, generator, draw, inner, batches, front)
        if batches and not batched:
            drawn = beneath(function, generator, draw, inner, batches, (size, *front))
        else:
            begin, parts = generator.offset, []
            for i in range(size):
                if same:
                    generator.seek(begin)
                each = [v if dim is None else v.select(dim, i) for v, dim in pairs]
                parts.append(beneath(function, generator, draw, each, batches, front))
            drawn = torch.stack(parts)
    return transform.batched(drawn)
