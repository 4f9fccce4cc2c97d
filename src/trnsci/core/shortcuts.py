"""Functions that torch has for the code that it compiles, where asking takes longer than computing.

They are not public. Where a torch has none of them, or others, the public ones are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor

__all__ = ["never", "new_on", "outline", "recogniser"]

_guards: Any = getattr(getattr(torch._C, "_dynamo", None), "guards", None)


def new_on(device: str) -> Callable[[tuple[int, ...], tuple[int, ...], torch.dtype], Tensor]:
    """Return what makes a tensor of a size, strides and a dtype on a kind of device.

    For compiled code torch has functions that ask nothing, which take half the time of the public
    one. Nobody who watches sees them, which is to be asked before.
    """
    found = getattr(_guards, f"_empty_strided_{device}", None)
    if found is not None:
        return cast("Callable[..., Tensor]", found)

    def new(size: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.empty_strided(size, strides, dtype=dtype, device=device)

    return new


def outline(
    shape: Sequence[int], dtype: torch.dtype, turned: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...], torch.dtype]:
    """Return the size, the strides and the dtype of a tensor, as ``new_on`` takes them.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        turned: Whether its last dimension is the outermost one in memory; else it is contiguous.
    """
    if turned:
        like = torch.empty(*shape[-1:], *shape[:-1], device="meta").movedim(0, -1)
    else:
        like = torch.empty(*shape, device="meta")
    return tuple(like.shape), like.stride(), dtype


def recogniser(x: Tensor) -> Callable[[Tensor], bool]:
    """Return what tells tensors like this one, in circumstances like these, from all others.

    That is the question by which torch knows whether what it compiled for a tensor fits another
    one: of one type, device, dtype, shape and strides, neither differentiated, with nothing left
    for later, under the same transforms, tracing and autocast. It takes as long as to ask a tensor
    two questions.

    Not asked are modes that see functions or operations, of which it overlooks those of fake
    tensors and of tracing, levels of forward gradients, and whether gradients are wanted: of a
    tensor that can be differentiated it recognises nothing.
    """
    if x.requires_grad or not _tells_apart():
        return never
    sizes, strides = [[*x.shape]], [[*x.stride()]]
    found = _guards.TensorGuards(x, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
    return cast("Callable[[Tensor], bool]", found.check)


def never(x: Tensor) -> bool:
    """Return that a tensor is unknown."""
    return False


@cache
def _tells_apart() -> bool:
    """Return whether torch has the question, with the meaning that it is known by."""
    try:
        x = torch.zeros(2, 3, dtype=torch.complex64, device="cpu")
        sizes, strides = [[2, 3]], [[3, 1]]
        guard = _guards.TensorGuards(x, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        others = (
            x.conj(),
            torch._neg_view(x),
            x.mT.contiguous().mT,
            x[:, :2],
            x.to(torch.complex128),
            x.clone().requires_grad_(),
            torch._efficientzerotensor((2, 3), dtype=torch.complex64),
        )
        seen = [guard.check(other) for other in others]
        with torch.autocast("cpu"):
            seen.append(guard.check(x))
        with torch.inference_mode():
            seen.append(guard.check(x))
        # As vmap does, which would first load all that it may need.
        torch._C._functorch._vmap_increment_nesting(1, "error")
        try:
            seen.append(guard.check(x))
        finally:
            torch._C._functorch._vmap_decrement_nesting()
        return guard.check(x) is True and guard.check(x.clone()) is True and not any(seen)
    except Exception:  # whatever another torch makes of it
        return False
