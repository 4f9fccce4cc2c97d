"""Attention and its gradient, declared to the core.

The pattern is a list of integers, for which a kernel is compiled. The gradient is a separate
operation, so it runs on a kernel as well. Second and forward-mode derivatives use the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.operation import Operation
from trnsparse._attention.pattern import pattern_of
from trnsparse._attention.torch_path import attention, attention_backward
from trnsparse._library import LIBRARY

_MOST_WIDTH = 512
"""Largest head dimension of the kernels."""


def _backward(
    grads: tuple[Tensor | None, Tensor | None],
    needed: Sequence[bool],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
    *,
    result: tuple[Tensor, Tensor],
) -> tuple[Tensor | None, ...]:
    given = (
        torch.zeros_like(part) if grad is None else grad
        for grad, part in zip(grads, result, strict=True)
    )
    found = ATTENTION_BACKWARD(*given, q, k, v, *result, bias, tables, pattern, scale)
    return (
        *(g if need else None for g, need in zip(found[:3], needed[:3], strict=True)),
        found[3] if bias is not None and needed[3] else None,
        None,
        None,
        None,
    )


def _flops(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> float:
    found = pattern_of(rest[2])
    blocks = found.packed[-1]
    return 2.0 * blocks * found.sizes[0] * found.sizes[1] * (q.shape[-1] + v.shape[-1])


def _backward_flops(grad: Tensor, grad_logs: Tensor, *rest: Any) -> float:
    q, k, v, _, _, *others = rest
    return 2.5 * _flops(q, k, v, *others)


def _too_wide(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> str:
    wide = max(q.shape[-1], v.shape[-1])
    return (
        f"the kernel takes head dimensions up to {_MOST_WIDTH}, not {wide}"
        if wide > _MOST_WIDTH
        else ""
    )


def _gradient_too_wide(grad: Tensor, grad_logs: Tensor, *rest: Any) -> str:
    return _too_wide(*rest)


ATTENTION = Operation(
    LIBRARY,
    "attention",
    reference=attention,
    launch="trnsparse._paths.kernel_path:attention",
    backward=_backward,
    from_result=True,
    autocast="lower",
    flops=_flops,
    unsuited=_too_wide,
)
ATTENTION_BACKWARD = Operation(
    LIBRARY,
    "attention_backward",
    reference=attention_backward,
    launch="trnsparse._paths.kernel_path:attention_backward",
    flops=_backward_flops,
    unsuited=_gradient_too_wide,
)
