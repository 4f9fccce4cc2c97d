"""Automatic mixed precision: casts of an operation's arguments.

An operation declares one of three rules:

===========  =====================================================================================
``lower``    float32 and lower are cast to the autocast dtype, as in torch's products
``float32``  lower precisions are cast to float32, as in torch's sums and transforms
``keep``     nothing is cast
===========  =====================================================================================

Autocast is off inside an operation, since the rule has already been applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor

from trnsci.core.interop import constant_to_compile

Autocast = Literal["lower", "float32", "keep"]

_LOWER = (torch.float16, torch.bfloat16)


def autocast_device(args: Iterable[Any]) -> str | None:
    """Return the device type whose autocast applies to the arguments, or None."""
    for arg in args:
        if isinstance(arg, Tensor):
            kind = arg.device.type
            return kind if _has_autocast(kind) and torch.is_autocast_enabled(kind) else None
    return None


@constant_to_compile
def _has_autocast(kind: str) -> bool:
    # The compiler of torch 2.11 and before does not trace the function of torch.
    return torch.amp.is_autocast_available(kind)


def cast_arguments(rule: Autocast, device: str, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments, cast by a rule for the autocast of a device."""
    if rule == "keep":
        return tuple(args)
    wanted = torch.get_autocast_dtype(device) if rule == "lower" else torch.float32
    from_ = (torch.float32, *_LOWER) if rule == "lower" else _LOWER
    return tuple(
        arg.to(wanted) if isinstance(arg, Tensor) and arg.dtype in from_ else arg for arg in args
    )


def without_autocast(args: Iterable[Any]) -> AbstractContextManager[Any]:
    """Return a context in which autocast does not apply to the arguments."""
    device = autocast_device(args)
    return nullcontext() if device is None else torch.autocast(device, enabled=False)
