"""Block-sparse attention on a CPU: torch's flash attention over gathered blocks.

The keys of each row of blocks are gathered into a dense tensor, so the operator computes only
blocks of the pattern. Rows with the same number of blocks are computed together. The operator also
returns the logarithm of each query's total weight (logsumexp), from which the gradients are
computed without storing scores.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.interop import flash_attention, flash_attention_backward
from trnsci.core.numbers.values import inert, one_cotangent
from trnsparse._attention.pattern import Bucket, buckets, pattern_of
from trnsparse._attention.torch_path import attention, cut, index

_TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def suits_flash(*tensors: Tensor) -> bool:
    """Return whether the operator supports these: CPU tensors, reverse mode at most."""
    if flash_attention is None or flash_attention_backward is None:
        return False
    known = all(x.is_cpu and x.dtype in _TYPES and x.numel() > 0 for x in tensors)
    return known and inert(*(x.detach() for x in tensors))


def streamed(
    q: Tensor, k: Tensor, v: Tensor, tables: Tensor | None, pattern: tuple[int, ...], scale: float
) -> Tensor:
    """Return the attention of tensors that ``suits_flash`` accepts, with gradients."""
    wide = max(q.shape[-1], v.shape[-1])
    dv = v.shape[-1]
    q, k, v = (
        functional.pad(x, (0, wide - x.shape[-1])) if x.shape[-1] < wide else x for x in (q, k, v)
    )
    apply: Any = _Streamed.apply
    out: Tensor = apply(q, k, v, tables, pattern, scale)
    return out if dv == wide else out[..., :dv]


class _Streamed(torch.autograd.Function):
    """Streaming attention with streaming gradients."""

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
        one_cotangent("trnsparse.block_sparse_attention", *grads)
        q, k, v, out, logs = ctx.saved_tensors
        tables, pattern, scale = ctx.rest
        if torch.is_grad_enabled():  # second derivatives: by the definition
            again, _ = attention(q, k, v, None, tables, pattern, scale)
            inputs = [x for x, need in zip((q, k, v), ctx.needs_input_grad, strict=False) if need]
            found = iter(torch.autograd.grad(again, inputs, grads[0], create_graph=True))
            three: list[Any] = [next(found) if need else None for need in ctx.needs_input_grad[:3]]
        else:
            three = [*_gradients(grads[0], q, k, v, out, logs, tables, pattern, scale)]
        return (*three, None, None, None)


def _attend(
    q: Tensor, k: Tensor, v: Tensor, tables: Tensor | None, pattern: tuple[int, ...], scale: float
) -> tuple[Tensor, Tensor]:
    """Return the attention, and the logarithm of each query's total weight by rows of blocks."""
    found = pattern_of(pattern)
    (bq, bk), (down, across) = found.sizes, found.grid
    queries, keys, values = cut(q, bq, down), cut(k, bk, across), cut(v, bk, across)
    out = torch.zeros_like(queries)
    wide = torch.float64 if q.dtype is torch.float64 else torch.float32
    logs = queries.new_full(queries.shape[:2], -torch.inf, dtype=wide)
    for bucket in buckets(pattern, k.shape[0]):
        rows, columns = index(bucket.rows, q), index(bucket.columns, q)
        mask, visible = _mask(bucket, tables, q.dtype)
        operands = _rows(queries, rows), _columns(keys, columns), _columns(values, columns)
        mixed, tops = flash_attention(*operands, attn_mask=mask, scale=scale)
        tops = tops.reshape(-1, bq).to(wide)
        out.index_copy_(0, rows, mixed.reshape(-1, *queries.shape[1:]))
        logs.index_copy_(0, rows, tops if visible is None else tops.where(visible, -torch.inf))
    out = out.reshape(len(found.own), down * bq, -1)[:, : found.lengths[0]]
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
    wide = logs.dtype  # the operator is three times faster in float32 than in less
    queries, grads, outs = (cut(x.to(wide), bq, down) for x in (q, grad, out))
    keys, values = (cut(x.to(wide), bk, across) for x in (k, v))
    sums = [torch.zeros_like(x) for x in (queries, keys, values)]
    # For a fully masked query every weight is 0: exp(s - inf).
    tops = torch.where(logs == -torch.inf, torch.inf, logs)
    for bucket in buckets(pattern, k.shape[0]):
        rows, columns = index(bucket.rows, q), index(bucket.columns, q)
        mask, _ = _mask(bucket, tables, wide)
        terms = flash_attention_backward(
            _rows(grads, rows),
            _rows(queries, rows),
            _columns(keys, columns),
            _columns(values, columns),
            _rows(outs, rows),
            _rows(tops, rows),
            0.0,
            False,
            attn_mask=mask,
            scale=scale,
        )
        flat = columns.reshape(-1)
        for total, places, term in zip(sums, (rows, flat, flat), terms, strict=True):
            # torch adds terms that are not contiguous one element at a time.
            total.index_add_(0, places, term.contiguous().reshape(-1, *total.shape[1:]))
    return [
        total.reshape(like.shape[0], -1, like.shape[-1])[:, : like.shape[1]].to(like.dtype)
        for total, like in zip(sums, (q, k, v), strict=True)
    ]


def _rows(blocks: Tensor, rows: Tensor) -> Tensor:
    """Return rows of blocks as the heads of one batch."""
    return blocks.index_select(0, rows).unsqueeze(0)


def _columns(blocks: Tensor, columns: Tensor) -> Tensor:
    """Return the key or value blocks of each row, stacked, as the heads of one batch."""
    chosen = blocks.index_select(0, columns.reshape(-1))
    return chosen.reshape(1, columns.shape[0], -1, blocks.shape[-1])


def _mask(
    bucket: Bucket, tables: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    """Return the additive mask of a bucket, and the queries that attend to any key."""
    if bucket.plain or tables is None:
        return None, None
    # Rows with equal tables, as in causal masks, share one mask.
    alike = all(row == bucket.tables[0] for row in bucket.tables)
    chosen = tables[index(bucket.tables[:1] if alike else bucket.tables, tables)]
    hidden = (chosen < 0).transpose(1, 2).flatten(2)  # (rows or 1, bq, blocks * bk)
    mask = torch.zeros_like(hidden, dtype=dtype).masked_fill_(hidden, -torch.inf).unsqueeze(0)
    return mask, ~hidden.all(-1)
