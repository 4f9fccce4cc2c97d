"""Whether the values of tensors can be read on the host, without a transform missing it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

__all__ = [
    "bare_matrix",
    "readable",
    "recorded",
    "settled",
    "transforms_off",
    "untracked",
    "untransformed",
    "unwatched",
]

_PLAIN = (Tensor, Parameter)

# Whether torch.compile traces: True to it alone, at a third of the price of ``is_compiling``, which
# also asks for tracing with fake tensors. Those are found by their type and their mode.
_traced = torch.compiler.is_dynamo_compiling
# torch shows none of these in public. Each costs under 100 ns, in calls of a microsecond.
_functorch_level = torch._C._functorch.maybe_current_level
_dispatch_modes = torch._C._len_torch_dispatch_stack
_autocast = torch._C._is_any_autocast_enabled
recorded = torch._C._is_tracing
"""Whether ``torch.jit.trace`` records: a result from elsewhere is a constant to it."""


def readable(a: Tensor, b: Tensor | None = None) -> bool:
    """Return whether these are eager CPU tensors whose operations nobody differentiates or traces.

    Only then may an operation leave torch: gradients of both modes, ``vmap`` and the other
    transforms of ``torch.func``, ``torch.compile``, ``torch.jit.trace`` and fake tensors all need
    to see it.
    """
    if _traced():
        return False
    if type(a) not in _PLAIN or not a.is_cpu:
        return False
    differentiated = a.requires_grad
    if b is not None:
        if type(b) not in _PLAIN or not b.is_cpu:
            return False
        differentiated = differentiated or b.requires_grad
    if differentiated and torch.is_grad_enabled():
        return False
    # What autocast makes of an operation only torch knows. This is ``settled`` without the call,
    # which takes a tenth of products of a few entries.
    return (
        _functorch_level() is None
        and not _dispatch_modes()
        and forward_ad._current_level < 0
        and not _autocast()
        and not recorded()
    )


def settled() -> bool:
    """Return whether nothing around eager calls, not even autocast, changes what they do."""
    return (
        _functorch_level() is None
        and not _dispatch_modes()
        and forward_ad._current_level < 0
        and not _autocast()
        and not recorded()
    )


def unwatched(tensor: Tensor) -> bool:
    """Return whether the value of an eager CPU tensor can be looked at, be it differentiated."""
    if _traced():
        return False
    return type(tensor) in _PLAIN and tensor.is_cpu and _untransformed()


def unchecked(tensor: Tensor) -> bool:
    """Return whether the values of a tensor cannot be looked at: traced, fake or transformed."""
    if _traced() or type(tensor) not in _PLAIN:
        return True
    return _functorch_level() is not None or _dispatch_modes() > 0 or recorded()


def bare_matrix(value: Any) -> bool:
    """Return whether this is one eager matrix on a CPU whose values can be looked at.

    It may be differentiated. These are many questions in one call, since small factorizations take
    no longer than fifty.
    """
    return (
        not _traced()
        and type(value) in _PLAIN
        and value.is_cpu
        and value.ndim == 2
        and _functorch_level() is None
        and not _dispatch_modes()
        and not recorded()
    )


def untracked(tensor: Tensor) -> bool:
    """Return whether an eager tensor, on any device, is neither differentiated nor transformed."""
    if _traced() or type(tensor) not in _PLAIN:
        return False
    return not (tensor.requires_grad and torch.is_grad_enabled()) and _untransformed()


def untransformed(*tensors: Tensor) -> bool:
    """Return whether eager tensors, on any device, are not transformed, be they differentiated."""
    if _traced():
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN:
            return False
    return _untransformed()


def transforms_off() -> AbstractContextManager[Any]:
    """Return a context in which tensors are made as if there were no transform."""
    if _functorch_level() is None:
        return nullcontext()
    from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

    return temporarily_clear_interpreter_stack()


def _untransformed() -> bool:
    return (
        _functorch_level() is None
        and not _dispatch_modes()
        and forward_ad._current_level < 0
        and not recorded()
    )
