"""Choice of the attention path: NKI kernels, or one of torch's.

On a GPU: torch's FlexAttention. On a CPU: torch's flash attention over gathered blocks. All other
operands and all transforms: the definition, in plain products.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.nn import functional

from trnsci.core.numbers.values import inert
from trnsparse._attention.cuda import flex_attention_of, suits_flex
from trnsparse._attention.pattern import pattern_of
from trnsparse._attention.stream import streamed, suits_flash
from trnsparse._attention.torch_path import attention as defined
from trnsparse._library import LIBRARY
from trnsparse.masks import AttentionMask


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, scale: float, bias: Tensor | None
) -> Tensor:
    """Return the attention of validated operands with four dimensions.

    Args:
        q: Queries.
        k: Keys.
        v: Values.
        mask: An ``AttentionMask``; or a ``BlockMask`` of torch that ``suits_as_it_is`` accepts.
        scale: Factor of the scores.
        bias: Added to the scores.
    """
    kernels = LIBRARY.kernels_wanted()
    if not isinstance(mask, AttentionMask):
        return flex_attention_of(q, k, v, mask, scale, bias)
    if not kernels and suits_flex(q, k, v, bias, mask.block_size):
        return flex_attention_of(q, k, v, mask.to_block_mask(q.device), scale, bias)
    batch, heads, queries, _ = q.shape
    pattern = mask.encoded(batch, heads)
    flat = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    tables = _tables(mask, q)
    packed = None if bias is None else _packed(bias, mask, batch, heads)
    if kernels:
        from trnsparse._attention.operations import ATTENTION

        out = ATTENTION(*flat, packed, tables, pattern, scale)[0]
    elif packed is None and suits_flash(*flat):
        out = streamed(*flat, tables, pattern, scale)
    else:
        out = defined(*flat, packed, tables, pattern, scale)[0]
    found: Tensor = out.reshape(batch, heads, queries, v.shape[-1])
    return found


def _tables(mask: AttentionMask, like: Tensor) -> Tensor | None:
    """Return the additive masks of partial blocks; None if all blocks are full."""
    if not mask.partial():
        return None
    if is_compiling() or inert(like.detach()):
        return mask.hidden(str(like.device))
    return torch.tensor(mask.hidden_values(), device=like.device)


def _packed(bias: Tensor, mask: AttentionMask, batch: int, heads: int) -> Tensor:
    """Return the blocks of a bias at the blocks of the mask, stacked."""
    found = pattern_of(mask.encoded(batch, heads))
    (bq, bk), (down, across), (queries, keys) = found.sizes, found.grid, found.lengths
    bias = bias.reshape((1,) * (4 - bias.ndim) + tuple(bias.shape))
    own = bias.shape[:2]
    bias = bias.expand(*own, queries, keys)
    bias = functional.pad(bias, (0, across * bk - keys, 0, down * bq - queries))
    cut = bias.reshape(own[0] * own[1], down, bq, across, bk).transpose(2, 3)
    places: list[list[int]] = [[], [], []]
    for head in range(1 if own == (1, 1) and found.patterns == 1 else len(found.own)):
        b, h = divmod(head, heads)
        rows = found.own[head] * down
        first, last = found.starts[rows], found.starts[rows + down]
        for row in range(down):
            count = found.starts[rows + row + 1] - found.starts[rows + row]
            places[1] += [row] * count
        places[0] += [(b if own[0] > 1 else 0) * own[1] + (h if own[1] > 1 else 0)] * (last - first)
        places[2] += found.columns[first:last]
    at = [torch.tensor(x, dtype=torch.int64, device=bias.device) for x in places]
    return cut[at[0], at[1], at[2]]
