"""What automatic mixed precision makes of the arguments of an operation.

Three rules, one of which an operation declares:

===========  =====================================================================================
``lower``    float32 and lower become the precision that autocast asks for, as in torch's products
``float32``  lower precisions become float32, as in torch's sums and transforms
``keep``     everything stays as it is
===========  =====================================================================================

Inside of an operation autocast is off: the rule has been applied, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

__all__ = ["Autocast", "autocast_device", "cast_arguments", "without_autocast"]

Autocast = Literal["lower", "float32", "keep"]

_LOWER = (torch.float16, torch.bfloat16)


def autocast_device(args: Iterable[Any]) -> str | None:
    """Return the type of device whose autocast reaches the arguments, None where none does."""
    for arg in args:
        if isinstance(arg, Tensor):
            kind = arg.device.type
            return kind if torch.is_autocast_enabled(kind) else None
    return None


def cast_arguments(rule: Autocast, device: str, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments as a rule has them under the autocast of a device."""
    if rule == "keep":
        return tuple(args)
    wanted = torch.get_autocast_dtype(device) if rule == "lower" else torch.float32
    from_ = (torch.float32, *_LOWER) if rule == "lower" else _LOWER
    return tuple(
        arg.to(wanted) if isinstance(arg, Tensor) and arg.dtype in from_ else arg for arg in args
    )


def without_autocast(args: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a block inside which autocast does not reach the arguments."""
    device = autocast_device(args)
    return nullcontext() if device is None else torch.autocast(device, enabled=False)
