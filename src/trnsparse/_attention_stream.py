"""Block-sparse attention on a CPU: torch's streaming kernel over gathered blocks.

Each row of blocks attends to its own few keys, gathered side by side, so torch's flash kernel for
CPUs runs over dense rows and never meets a block outside of the pattern. Blocks seen in full need
no mask; those seen in part form rows of their own, and the two results of a query are joined by
the logarithms of their total weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.eager import unwatched
from trnsparse._attention_parts import Part, Steps, parts_of
from trnsparse._attention_pattern import pattern_of
from trnsparse._attention_torch import attention, cut

__all__ = ["streamed", "streams"]

_forward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward

_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def streams(*tensors: Tensor) -> bool:
    """Return whether torch's kernel computes these: eager CPU tensors that nobody transforms."""
    if torch.is_autocast_enabled("cpu"):
        return False
    return all(unwatched(x) and x.dtype in _TYPES and x.numel() > 0 for x in tensors)


def streamed(
    q: Tensor, k: Tensor, v: Tensor, tables: Tensor | None, pattern: tuple[int, ...], scale: float
) -> Tensor:
    """Return the attention of tensors that ``streams`` accepts, with gradients."""
    wide = max(q.shape[-1], v.shape[-1])
    dv = v.shape[-1]
    q, k, v = (
        functional.pad(x, (0, wide - x.shape[-1])) if x.shape[-1] < wide else x for x in (q, k, v)
    )
    apply: Any = _Streamed.apply
    out: Tensor = apply(q, k, v, tables, pattern, scale)
    return out if dv == wide else out[..., :dv]


class _Streamed(torch.autograd.Function):
    """Streaming attention, whose gradients stream as well."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        tables: Tensor | None,
        pattern: tuple[int, ...],
        scale: float,
    ) -> Tensor:
        out, logs = _attend(q, k, v, tables, pattern, scale)
        ctx.save_for_backward(q, k, v, out, logs)
        ctx.rest = tables, pattern, scale
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        q, k, v, out, logs = ctx.saved_tensors
        tables, pattern, scale = ctx.rest
        if torch.is_grad_enabled():  # gradients of gradients: by the definition
            again, _ = attention(q, k, v, None, tables, pattern, scale)
            wanted = [x for x, need in zip((q, k, v), ctx.needs_input_grad, strict=False) if need]
            found = iter(torch.autograd.grad(again, wanted, grads[0], create_graph=True))
            three: list[Any] = [next(found) if need else None for need in ctx.needs_input_grad[:3]]
        else:
            three = [*_gradients(grads[0], q, k, v, out, logs, tables, pattern, scale)]
        return (*three, None, None, None)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, tables: Tensor | None, pattern: tuple[int, ...], scale: float
) -> tuple[Tensor, Tensor]:
    found = pattern_of(pattern)
    (bq, bk), (down, across) = found.sizes, found.grid
    queries, keys, values = cut(q, bq, down), cut(k, bk, across), cut(v, bk, across)
    parts = parts_of(pattern, k.shape[0])
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    joined = any(part.again for part in parts)
    out = torch.zeros_like(queries, dtype=wide if joined else q.dtype)
    logs = queries.new_full(queries.shape[:2], -torch.inf, dtype=wide)
    for part in parts:
        mask, visible = _mask(part, tables, q.dtype)
        own, seen, carried = (
            _rows(queries, part),
            _columns(keys, part),
            _columns(values, part),
        )
        mixed, tops = _forward(own, seen, carried, attn_mask=mask, scale=scale)
        mixed = mixed.reshape(-1, *queries.shape[1:])
        tops = tops.reshape(-1, bq).to(wide)
        if visible is not None:
            tops = torch.where(visible, tops, -torch.inf)
        if not part.again:
            out.index_copy_(0, part.rows, mixed.to(out.dtype))
            logs.index_copy_(0, part.rows, tops)
            continue
        before = logs.index_select(0, part.rows)
        total = torch.logaddexp(before, tops)
        # Rows that no part before has seen are minus infinity, and keep what is new.
        share = (before - total).exp().masked_fill(total == -torch.inf, 0.0).unsqueeze(-1)
        old = out.index_select(0, part.rows)
        out.index_copy_(0, part.rows, torch.lerp(mixed.to(wide), old, share))
        logs.index_copy_(0, part.rows, total)
    shape = (len(found.own), down * bq)
    out = out.reshape(*shape, -1)[:, : found.lengths[0]].to(q.dtype)
    return out.contiguous(), logs


def _gradients(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    logs: Tensor,
    tables: Tensor | None,
    pattern: tuple[int, ...],
    scale: float,
) -> list[Tensor]:
    found = pattern_of(pattern)
    (bq, bk), (down, across) = found.sizes, found.grid
    wide = logs.dtype  # torch's kernel is three times faster in float32 than in less
    queries, grads, outs = (cut(x.to(wide), bq, down) for x in (q, grad, out))
    keys, values = (cut(x.to(wide), bk, across) for x in (k, v))
    sums = [torch.zeros_like(x) for x in (queries, keys, values)]
    # Where nothing is seen every weight is 0: exp(s - inf).
    tops = torch.where(logs == -torch.inf, torch.inf, logs)
    for part in parts_of(pattern, k.shape[0]):
        mask, _ = _mask(part, tables, wide)
        terms = _backward(
            _rows(grads, part),
            _rows(queries, part),
            _columns(keys, part),
            _columns(values, part),
            _rows(outs, part),
            _rows(tops, part),
            0.0,
            False,
            attn_mask=mask,
            scale=scale,
        )
        ways = (part.rows, part.row_steps), *[(part.columns, part.column_steps)] * 2
        for (places, steps), total, term in zip(ways, sums, terms, strict=True):
            _add(total, places, steps, term)
    return [
        total.reshape(like.shape[0], -1, like.shape[-1])[:, : like.shape[1]].to(like.dtype)
        for total, like in zip(sums, (q, k, v), strict=True)
    ]


def _add(total: Tensor, places: Tensor, steps: Steps | None, term: Tensor) -> None:
    """Add to blocks what came of them, in the order in which they were chosen."""
    size = total.shape[1]
    if steps is None or not steps.apart:
        # Of terms that are not dense torch would add one element after the other.
        total.index_add_(0, places, term.contiguous().reshape(-1, *total.shape[1:]))
        return
    for number in range(term.shape[2] // size):
        mine = term[:, :, number * size : (number + 1) * size]
        _stepped(total[number:], steps, size).add_(mine)


def _rows(blocks: Tensor, part: Part) -> Tensor:
    """Return the rows of a part, with two dimensions in front of those of a block."""
    if part.row_steps is None:
        size = part.together * blocks.shape[1]
        chosen = blocks.index_select(0, part.rows).reshape(1, -1, size, *blocks.shape[2:])
        return chosen if part.column_steps is None else _folded(chosen, part.column_steps)
    return _stepped(blocks, part.row_steps, blocks.shape[1])


def _columns(blocks: Tensor, part: Part) -> Tensor:
    """Return the blocks that each row of a part sees, one below the other, in front the same."""
    size = part.blocks * blocks.shape[1]
    if part.column_steps is not None:
        return _stepped(blocks, part.column_steps, size)
    chosen = blocks.index_select(0, part.columns).reshape(1, -1, size, blocks.shape[-1])
    return chosen if part.row_steps is None else _folded(chosen, part.row_steps)


def _stepped(blocks: Tensor, steps: Steps, size: int) -> Tensor:
    """Return blocks by their steps, without a copy; a block has ``size`` rows."""
    block = blocks.stride(0)
    return blocks.as_strided(
        (steps.outer_count, steps.inner_count, size, *blocks.shape[2:]),
        (steps.outer * block, steps.inner * block, *blocks.stride()[1:]),
        blocks.storage_offset() + steps.first * block,
    )


def _folded(chosen: Tensor, steps: Steps) -> Tensor:
    return chosen.reshape(steps.outer_count, steps.inner_count, *chosen.shape[2:])


def _mask(part: Part, tables: Tensor | None, dtype: torch.dtype) -> tuple[Any, Tensor | None]:
    """Return what is added to the scores of a part, and which queries see anything."""
    if part.tables is None or tables is None:
        return None, None
    chosen = tables[part.tables]  # (rows or 1, count, bq, bk)
    hidden = (chosen < 0).transpose(1, 2).flatten(2)
    mask = torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, -torch.inf).unsqueeze(0)
    steps = part.row_steps or part.column_steps
    if steps is not None and mask.shape[1] > 1:
        mask = _folded(mask, steps)
    return mask, ~hidden.all(-1)
