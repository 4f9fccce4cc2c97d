"""Draws inside the transforms of ``torch.func``.

To a derivative, ``grad`` or ``jvp``, what is drawn is a constant. ``vmap`` says by its argument
``randomness`` what a draw means inside of it, as for torch's own functions: "error", its default,
refuses; "same" draws once for the whole batch, or from one position for each of its parameters;
"different" goes on in the stream from each member of the batch to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trnsci.core.eager import transforms_off
from trnsci.core.errors import DerivativeError

if TYPE_CHECKING:
    from trnrand.generator import Generator

__all__ = ["beneath", "holds", "is_transformed", "shown", "transforms_off", "values_of"]

# torch shows none of these in public.
_current_level = torch._C._functorch.maybe_current_level
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_unwrapped = torch._C._functorch.get_unwrapped

Draw = Callable[[Sequence[Any], tuple[int, ...]], Tensor]
"""Function of values, and of sizes to put in front of that of the result."""


def is_transformed() -> bool:
    """Return whether the current call is part of a transform."""
    return _current_level() is not None


def values_of(tensor: Tensor) -> Tensor:
    """Return the values beneath all transforms, those of a whole batch included."""
    while _is_wrapped(tensor):
        tensor = _unwrapped(tensor)
    return tensor.detach()


def holds(condition: Tensor) -> bool:
    """Return whether a condition holds for all values, those of a whole batch included."""
    with transforms_off():
        return bool(values_of(condition).all())


def shown(value: Any) -> Any:
    """Return a parameter as a message can show it."""
    return values_of(value) if isinstance(value, Tensor) else value


def beneath(
    function: str, generator: Generator, draw: Draw, values: Sequence[Any], batches: bool = False
) -> Tensor:
    """Return what is drawn beneath the transforms of the current call, if there are any.

    Args:
        function: Whose draw it is.
        generator: Where samples come from.
        draw: What draws, once all transforms are off.
        values: What it is given; tensors are taken out of the transforms.
        batches: Whether it may put sizes in front of that of its result.

    Raises:
        DerivativeError: ``vmap`` has ``randomness="error"``.
    """
    if not is_transformed():
        return draw(values, ())
    return _beneath(function, generator, draw, values, batches, ())


def _beneath(
    function: str,
    generator: Generator,
    draw: Draw,
    values: Sequence[Any],
    batches: bool,
    front: tuple[int, ...],
) -> Tensor:
    if not is_transformed():
        return draw(values, front)
    from torch._C._functorch import (
        TransformType,
        _add_batch_dim,
        _unwrap_batched,
        _unwrap_for_grad,
    )
    from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter

    interpreter: Any = retrieve_current_functorch_interpreter()
    level = interpreter.level()
    if interpreter.key() != TransformType.Vmap:
        inner = [_unwrap_for_grad(v, level) if isinstance(v, Tensor) else v for v in values]
        with interpreter.lower():
            return _beneath(function, generator, draw, inner, batches, front)
    randomness, size = interpreter.randomness(), interpreter.batch_size()
    if randomness == "error":
        raise DerivativeError(
            f"{function}: called inside of torch.func.vmap with randomness='error'; give vmap "
            "randomness='same' or 'different', or draw outside of it"
        )
    pairs = [_unwrap_batched(v, level) if isinstance(v, Tensor) else (v, None) for v in values]
    inner = [value for value, _ in pairs]
    batched = any(dim is not None for _, dim in pairs)
    with interpreter.lower():
        if randomness == "same" and not batched:
            return _beneath(function, generator, draw, inner, batches, front)
        if batches and not batched:
            drawn = _beneath(function, generator, draw, inner, batches, (size, *front))
        else:
            begin, parts = generator.offset, []
            for i in range(size):
                if randomness == "same":
                    generator.seek(begin)
                each = [v if dim is None else v.select(dim, i) for v, dim in pairs]
                parts.append(_beneath(function, generator, draw, each, batches, front))
            drawn = torch.stack(parts)
    found: Tensor = _add_batch_dim(drawn, 0, level)
    return found
