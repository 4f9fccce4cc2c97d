"""Block-sparse attention on a GPU: torch's FlexAttention, compiled once.

It takes the mask as the four tensors that it is; a bias is read where the kernel computes a score,
so no blocks of it are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from trnsci.core.eager import untracked
from trnsparse.masks import AttentionMask

__all__ = ["attention", "suits"]

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_LEAST_WIDTH = 16
"""Head dimension below which FlexAttention refuses."""
_BLOCK = 128
"""FlexAttention's kernels cut blocks of multiples of this."""


def suits(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, bias: Tensor | None) -> bool:
    """Return whether FlexAttention computes these."""
    if not q.is_cuda:
        return False
    tensors = (q, k, v) if bias is None else (q, k, v, bias)
    if not all(untracked(x.detach()) and x.numel() > 0 for x in tensors):
        return False
    widths = min(q.shape[-1], v.shape[-1])
    whole = all(size % _BLOCK == 0 for size in mask.block_size)
    return q.dtype in _TYPES and widths >= _LEAST_WIDTH and whole


def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, scale: float, bias: Tensor | None
) -> Tensor:
    """Return the attention of operands that ``suits`` accepts, with gradients."""
    found: Tensor = _compiled()(
        q,
        k,
        v,
        score_mod=None if bias is None else _adding(bias, q, k),
        block_mask=mask.to_block_mask(q.device),
        scale=scale,
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return found


def _adding(bias: Tensor, q: Tensor, k: Tensor) -> Callable[..., Tensor]:
    full = bias.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])

    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + full[b, h, i, j]

    return score_mod


@lru_cache(maxsize=1)
def _compiled() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)
