"""Block-sparse attention in torch: the definition and its gradients, under any transform.

Operands are (heads, queries, d), (groups, keys, d) and (groups, keys, dv); head h reads the keys of
group ``h * groups // heads``. ``bias`` has one block for each block of the pattern, of all heads
or of the one pattern that they share. ``tables`` is 0 where a partial block attends to a key and
``HIDDEN`` where it is masked. Rows with the same number of blocks are computed together; the whole
matrix of scores is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trnsparse._attention.pattern import Bucket, Pattern, buckets, pattern_of

Places = list[int] | list[list[int]]


class Scores(NamedTuple):
    """The gathered operands and scores of a bucket.

    Attributes:
        queries: (rows, bq, d).
        keys: (rows, blocks * bk, d).
        scores: (rows, bq, blocks * bk); minus infinity where masked, but 0 in a fully masked row.
        visible: (rows, bq, 1), whether a query attends to any key.
    """

    queries: Tensor
    keys: Tensor
    scores: Tensor
    visible: Tensor


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    pattern: Sequence[int],
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Return the attention, (heads, queries, dv), and the logarithm of each query's total weight.

    A fully masked query has attention 0 and logarithm minus infinity.
    """
    found = pattern_of(pattern)
    queries, keys, values = _blocks(q, k, v, found)
    outs, tops, order = [], [], []
    for bucket in buckets(pattern, k.shape[0]):
        part = _scores(queries, keys, bias, tables, bucket, found, scale)
        wide = part.scores.float() if q.dtype.itemsize < 4 else part.scores
        logs = wide.logsumexp(-1, keepdim=True)
        weights = torch.exp(wide - logs).to(v.dtype)
        mixed = torch.bmm(weights, _gathered(values, bucket))
        outs.append(torch.where(part.visible, mixed, 0.0))
        tops.append(torch.where(part.visible, logs, -torch.inf))
        order.append(index(bucket.rows, q))
    rows, (size, _) = queries.shape[0], found.sizes
    # Without any block the result must still be connected to the graph of the operands.
    anchors = [x.reshape(-1)[:0] for x in (q, k, v, bias) if x is not None]
    out = _placed(outs, order, (rows, size, v.shape[-1]), 0.0, anchors)
    logs = _placed(tops, order, (rows, size, 1), -torch.inf, [x.to(_wide(q)) for x in anchors])
    whole = found.grid[0] * size  # explicit, because -1 is ambiguous without heads
    return (
        out.reshape(len(found.own), whole, v.shape[-1])[:, : found.lengths[0]],
        logs.reshape(len(found.own), whole)[:, : found.lengths[0]],
    )


def attention_backward(
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
    """Return the gradients by queries, keys, values and bias, the last of length 0 without one."""
    found = pattern_of(pattern)
    queries, keys, values = _blocks(q, k, v, found)
    wide = _wide(q)
    grads = cut(grad, found.sizes[0], found.grid[0])
    inner = (grad.to(wide) * out.to(wide)).sum(-1) - grad_logs.to(wide)
    inner_rows = cut(inner.unsqueeze(-1), found.sizes[0], found.grid[0])
    # For a fully masked query every weight is 0: exp(s - inf).
    tops = torch.where(logs == -torch.inf, torch.inf, logs)
    log_rows = cut(tops.unsqueeze(-1), found.sizes[0], found.grid[0])
    d_queries = torch.zeros_like(queries, dtype=wide)
    d_keys = torch.zeros_like(keys, dtype=wide)
    d_values = torch.zeros_like(values, dtype=wide)
    d_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)
    for bucket in buckets(pattern, k.shape[0]):
        rows, columns = index(bucket.rows, q), index(bucket.columns, q).reshape(-1)
        part = _scores(queries, keys, bias, tables, bucket, found, scale)
        weights = torch.exp(part.scores.to(wide) - log_rows[rows])
        weights = torch.where(part.visible, weights, 0.0)
        d_out = grads[rows]
        d_weights = torch.bmm(d_out, _gathered(values, bucket).mT).to(wide)
        d_scores = weights * (d_weights - inner_rows[rows])
        low = d_scores.to(q.dtype)
        shape = (-1, found.sizes[1])
        d_queries = d_queries.index_add(0, rows, scale * torch.bmm(low, part.keys).to(wide))
        by_key = scale * torch.bmm(low.mT, part.queries).to(wide)
        d_keys = d_keys.index_add(0, columns, by_key.reshape(*shape, q.shape[-1]))
        by_value = torch.bmm(weights.to(v.dtype).mT, d_out).to(wide)
        d_values = d_values.index_add(0, columns, by_value.reshape(*shape, v.shape[-1]))
        if bias is not None and d_bias is not None:
            places = index(_bias_places(bucket, bias, found), q).reshape(-1)
            split = d_scores.reshape(*d_scores.shape[:2], bucket.blocks, -1).transpose(1, 2)
            d_bias = d_bias.index_add(0, places, split.reshape(-1, *found.sizes))
    return (
        _lengthwise(d_queries, q, found.grid[0]),
        _lengthwise(d_keys, k, found.grid[1]),
        _lengthwise(d_values, v, found.grid[1]),
        q.new_empty(0) if bias is None or d_bias is None else d_bias.to(bias.dtype),
    )


def cut(x: Tensor, size: int, count: int) -> Tensor:
    """Return (heads, length, d) as (heads * count, size, d), padded with zeros."""
    rest = count * size - x.shape[1]
    if rest:
        x = functional.pad(x, (0, 0, 0, rest))
    return x.reshape(x.shape[0] * count, size, x.shape[-1])


def _lengthwise(blocks: Tensor, like: Tensor, count: int) -> Tensor:
    """Return the inverse of ``cut``: (heads, length, d)."""
    heads, length, width = like.shape
    whole = blocks.reshape(heads, count * blocks.shape[1], width)
    return whole[:, :length].to(like.dtype)


def index(places: Places, like: Tensor) -> Tensor:
    """Return integers as a new tensor on the device of another; not cached, for torch's modes."""
    return torch.tensor(places, dtype=torch.int64, device=like.device)


def _blocks(q: Tensor, k: Tensor, v: Tensor, found: Pattern) -> tuple[Tensor, Tensor, Tensor]:
    (rows, columns), (down, across) = found.sizes, found.grid
    return cut(q, rows, down), cut(k, columns, across), cut(v, columns, across)


def _gathered(blocks: Tensor, bucket: Bucket) -> Tensor:
    """Return the key or value blocks of each row of a bucket, stacked."""
    return blocks[index(bucket.columns, blocks)].flatten(1, 2)


def _scores(
    queries: Tensor,
    keys: Tensor,
    bias: Tensor | None,
    tables: Tensor | None,
    bucket: Bucket,
    found: Pattern,
    scale: float,
) -> Scores:
    own, seen = queries[index(bucket.rows, queries)], _gathered(keys, bucket)
    scores = scale * torch.bmm(own, seen.mT)
    if bias is not None:
        chosen = bias[index(_bias_places(bucket, bias, found), queries)]
        scores = scores + chosen.transpose(1, 2).flatten(2)
    if tables is None or bucket.plain:
        if bias is None:
            return Scores(own, seen, scores, torch.ones_like(scores[..., :1], dtype=torch.bool))
    else:
        hidden = tables[index(bucket.tables, queries)].transpose(1, 2).flatten(2) < 0
        scores = scores.masked_fill(hidden, -torch.inf)
    visible = (scores != -torch.inf).any(-1, keepdim=True)
    return Scores(own, seen, torch.where(visible, scores, 0.0), visible)


def _bias_places(bucket: Bucket, bias: Tensor, found: Pattern) -> Places:
    shared = found.patterns == 1 and bias.shape[0] == len(found.columns)
    return bucket.shared if shared else bucket.places


def _placed(
    parts: list[Tensor],
    order: list[Tensor],
    shape: tuple[int, ...],
    empty: float,
    anchors: list[Tensor],
) -> Tensor:
    """Return rows of blocks scattered to their positions, ``empty`` elsewhere."""
    if not parts:
        return torch.cat([*anchors, anchors[0].new_full((prod(shape),), empty)]).reshape(shape)
    whole = torch.cat(parts)
    missing = shape[0] - whole.shape[0]
    if missing:
        whole = torch.cat([whole, whole.new_full((1, *shape[1:]), empty)])
    source = torch.full((shape[0],), whole.shape[0] - 1, dtype=torch.int64, device=whole.device)
    place = torch.cat(order)
    return whole[source.index_copy(0, place, torch.arange(len(place), device=place.device))]


def _wide(q: Tensor) -> torch.dtype:
    return torch.float64 if q.dtype is torch.float64 else torch.float32
