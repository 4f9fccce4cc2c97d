"""Attention and its gradient, declared to the core.

The pattern is a list of integers, for which a kernel is compiled. The gradient is a separate
operation, so it runs on a kernel as well. Second and forward-mode derivatives use the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsparse._attention.pattern import Pattern, pattern_of
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


def _too_wide(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> str:
    wide = max(q.shape[-1], v.shape[-1])
    if wide <= _MOST_WIDTH:
        return ""
    return f"the kernel takes head dimensions up to {_MOST_WIDTH}, not {wide}"


def _attention_launch(
    launch: Launcher,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    from trnsparse._kernels.attention import attention as kernel  # here, because it imports NKI
    from trnsparse._kernels.attention_pieces import HIDDEN

    found = pattern_of(pattern)
    queries, width = q.shape[1], v.shape[2]
    bias = _of_every_head(bias, found)
    q, k, v = (_whole(x, *sides) for x, sides in zip((q, k, v), _sides(bias, found), strict=True))
    out, logs = launch(kernel, q, k, v, bias, tables, _blocks(found), float(scale))
    logs = logs[:, :queries, 0]
    return _part(out, queries, width), torch.where(logs < HIDDEN / 2, -torch.inf, logs)


def _attention_backward_launch(
    launch: Launcher,
    grad: Tensor,
    grad_logs: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logs: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from trnsparse._kernels.attention_backward import attention_backward as kernel
    from trnsparse._kernels.attention_pieces import HIDDEN

    found = pattern_of(pattern)
    shapes = q.shape, k.shape, v.shape
    shared = None if bias is None else bias.shape[0]
    bias = _of_every_head(bias, found)
    sides = _sides(bias, found)
    q, k, v = (_whole(x, *side) for x, side in zip((q, k, v), sides, strict=True))
    grad, out = _whole(grad, *sides[0]), _whole(out, *sides[0])
    # For a fully masked query every weight is 0: exp(s - 3e38).
    logs = torch.where(logs == -torch.inf, -HIDDEN, logs).float()
    columns = [
        functional.pad(x.float(), (0, q.shape[1] - x.shape[1])).unsqueeze(-1)
        for x in (grad_logs, logs)
    ]
    operands = grad, columns[0], q, k, v, out, columns[1], bias, tables
    results = launch(kernel, *operands, _blocks(found), float(scale))
    three = [_part(x, *shape[1:]) for x, shape in zip(results[:3], shapes, strict=True)]
    by_bias = q.new_empty(0) if bias is None else results[3]
    if shared is not None and shared != by_bias.shape[0]:
        by_bias = by_bias.reshape(len(found.own), shared, *found.sizes).sum(0)
    return three[0], three[1], three[2], by_bias


def _blocks(found: Pattern) -> Any:
    from trnsparse._kernels.attention_pieces import Blocks

    return Blocks(found.sizes, found.own, found.starts, found.columns, found.which, found.packed)


def _of_every_head(bias: Tensor | None, found: Pattern) -> Tensor | None:
    """Return the blocks of a bias that heads share, repeated for each head."""
    blocks = found.packed[-1]
    if bias is None or bias.shape[0] == blocks:
        return bias
    return bias.repeat(len(found.own), 1, 1)


def _sides(bias: Tensor | None, found: Pattern) -> list[tuple[int, int]]:
    """Return the minimum length and width of queries, keys and values for the kernels.

    The gradient by a bias is written in whole blocks; keys past the end are masked by the tables of
    the last column of blocks. Some compilers reject a single moving column.
    """
    if bias is None:
        return [(0, 2)] * 3
    rows, columns = (size * count for size, count in zip(found.sizes, found.grid, strict=True))
    return [(rows, 2), (columns, 2), (columns, 2)]


def _whole(x: Tensor, length: int, width: int) -> Tensor:
    """Return (heads, length, width), padded with zeros."""
    missing = max(length - x.shape[1], 0), max(width - x.shape[2], 0)
    return functional.pad(x, (0, missing[1], 0, missing[0])) if any(missing) else x


def _part(x: Tensor, length: int, width: int) -> Tensor:
    """Return ``x`` without the padding of ``_whole``; a copy, because views break forward mode."""
    return x if x.shape[1:] == (length, width) else x[:, :length, :width].clone()


ATTENTION = Operation(
    LIBRARY,
    "attention",
    reference=attention,
    launch=_attention_launch,
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
    launch=_attention_backward_launch,
    flops=lambda grad, grad_logs, q, k, v, out, logs, *rest: 2.5 * _flops(q, k, v, *rest),
    unsuited=lambda grad, grad_logs, *rest: _too_wide(*rest),
)
