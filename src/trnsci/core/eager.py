"""Two predicates on tensors: may their values be read, and may their operations leave torch?"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import Parameter

from trnsci.core.interop import (
    any_autocast,
    dispatch_modes,
    forward_level,
    transform_level,
)

__all__ = ["concrete", "inert", "recorded"]

_PLAIN = (Tensor, Parameter)

recorded: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]
"""Whether ``torch.jit.trace`` records: results computed outside of torch would be constants."""


def concrete(*tensors: Tensor) -> bool:
    """Return whether the values of these tensors can be read on the host.

    False while ``torch.compile``, ``torch.export``, ``torch.jit.trace``, fake tensors or a
    transform of ``torch.func`` sees the operations, for subclasses of ``Tensor`` and for meta
    tensors. The tensors may require gradients and may be on any device.
    """
    if torch.compiler.is_compiling():
        return False
    for tensor in tensors:
        if type(tensor) not in _PLAIN or tensor.is_meta:
            return False
    return transform_level() is None and not dispatch_modes() and not recorded()


def inert(*tensors: Tensor) -> bool:
    """Return whether an operation on these tensors may be computed outside of torch.

    They are ``concrete``, and neither autograd, nor forward mode, nor autocast has to see the
    operation.
    """
    if not concrete(*tensors) or forward_level() >= 0 or any_autocast():
        return False
    if not torch.is_grad_enabled():
        return True
    return not any(tensor.requires_grad for tensor in tensors)
