"""Predicates on tensors: values can be read, operations may be computed outside of torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Parameter

from trnsci.core.errors import DerivativeError
from trnsci.core.interop import (
    dispatch_modes,
    forward_level,
    is_batched,
    is_wrapped,
    transform_level,
    unwrapped,
)

__all__ = [
    "autocast_on",
    "batched",
    "concrete",
    "inert",
    "one_problem",
    "recorded",
    "shapes_are_static",
]

_PLAIN = (Tensor, Parameter)

recorded: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]
"""Whether ``torch.jit.trace`` records: results computed outside of torch would be constants."""


def autocast_on(*tensors: Tensor) -> bool:
    """Return whether autocast is on for the device of one of these tensors.

    False for meta tensors: torch has no autocast for them.
    """
    seen = ""
    for tensor in tensors:
        kind = tensor.device.type
        if kind != seen and not tensor.is_meta and torch.is_autocast_enabled(kind):
            return True
        seen = kind
    return False


def shapes_are_static() -> bool:
    """Return whether shapes must not depend on values: in graphs, and of fake tensors."""
    return torch.compiler.is_compiling() or bool(dispatch_modes())


def concrete(*tensors: Tensor) -> bool:
    """Return whether the values of these tensors can be read on the host.

    False under ``torch.compile``, ``torch.export``, ``torch.jit.trace``, fake tensor modes and
    transforms of ``torch.func``, and for subclasses of ``Tensor`` and meta tensors. The tensors may
    require gradients and may be on any device.
    """
    if torch.compiler.is_dynamo_compiling():  # torch.export has fake tensors if it does not use it
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.is_meta:
            return False
    return transform_level() is None and not dispatch_modes() and not recorded()


def inert(*tensors: Tensor) -> bool:
    """Return whether an operation on these tensors may be computed outside of torch.

    True if they are ``concrete`` and neither autograd, forward mode nor autocast applies.
    """
    if not concrete(*tensors) or forward_level() >= 0 or autocast_on(*tensors):
        return False
    for tensor in tensors:
        if tensor.requires_grad:
            return not torch.is_grad_enabled()
    return True


def batched(tensor: Tensor) -> bool:
    """Return whether ``torch.vmap`` runs over a tensor, inside of other transforms or outside."""
    while is_wrapped(tensor):
        if is_batched(tensor):
            return True
        tensor = unwrapped(tensor)
    return False


def one_problem(function: str, *tensors: Tensor, instead: str = "") -> None:
    """Raise for tensors of ``torch.vmap``, in a function whose steps depend on their values.

    Args:
        function: The function, for the message.
        *tensors: Its operands.
        instead: What to do instead, for the message.
    """
    if torch.compiler.is_compiling() or transform_level() is None:
        return
    if any(map(batched, tensors)):
        raise DerivativeError(
            f"{function}: torch.vmap has no values for steps that depend on them"
            f"{instead and '; '}{instead}"
        )
