"""Block-sparse attention on a GPU: torch's FlexAttention, compiled once per kind of operands.

The mask is passed as its four tensors. A bias is read where the kernel computes a score, so its
blocks are not gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from trnsci.core.interop import forward_level
from trnsci.core.numbers.values import concrete

_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_LEAST_WIDTH = 16
"""Smallest head dimension of FlexAttention."""
_BLOCK = 128
"""FlexAttention's kernels need block sizes that are multiples of this."""
_COMPILED = 64
"""Number of kinds of operands whose compiled code is cached."""


def suits_flex(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, block_size: tuple[int, int]
) -> bool:
    """Return whether FlexAttention supports these operands (validated, four dimensions)."""
    tensors = (q, k, v) if bias is None else (q, k, v, bias)
    return (
        q.is_cuda
        and q.dtype in _TYPES
        and min(q.shape[-1], v.shape[-1]) >= _LEAST_WIDTH
        and all(size % _BLOCK == 0 for size in block_size)
        and all(x.numel() > 0 for x in tensors)
        and concrete(*tensors)
        and forward_level() < 0
    )


def suits_as_it_is(mask: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> bool:
    """Return whether FlexAttention can use a mask unconverted: a ``BlockMask`` on a GPU."""
    if not (hasattr(mask, "kv_num_blocks") and hasattr(mask, "mask_mod")):
        return False
    same_device: bool = mask.kv_num_blocks.device == q.device
    return same_device and suits_flex(q, k, v, bias, tuple(mask.BLOCK_SIZE))


def flex_attention_of(
    q: Tensor, k: Tensor, v: Tensor, block_mask: Any, scale: float, bias: Tensor | None
) -> Tensor:
    """Return the attention of operands that ``suits_flex`` accepts, with gradients."""
    shown = getattr(block_mask.mask_mod, "__code__", None)
    widths = q.shape[1], q.shape[3], k.shape[1], v.shape[3]
    blocks = tuple(block_mask.shape[:-2]), tuple(block_mask.BLOCK_SIZE)
    kind = shown, q.dtype, q.device, widths, blocks
    score_mod = None if bias is None else _adding(bias.expand(*q.shape[:3], k.shape[2]))
    found: Tensor = _compiled(kind, scale, q.shape[1] != k.shape[1])(q, k, v, block_mask, score_mod)
    return found


def _adding(full: Tensor) -> Callable[..., Tensor]:
    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + full[b, h, i, j]

    return score_mod


@lru_cache(maxsize=_COMPILED)
def _compiled(kind: Hashable, scale: float, grouped: bool) -> Any:
    """Return FlexAttention for operands of one kind, compiled.

    torch compiles one function at most eight times and then runs it uncompiled, which computes all
    scores. So each kind has its own function; lengths and batch sizes are not part of a kind and
    become symbolic.
    """
    from torch.nn.attention.flex_attention import flex_attention

    def attention(q: Tensor, k: Tensor, v: Tensor, block_mask: Any, score_mod: Any) -> Any:
        return flex_attention(q, k, v, score_mod, block_mask, scale, grouped)

    code, names, cells = attention.__code__.replace(), attention.__globals__, attention.__closure__
    return torch.compile(FunctionType(code, names, "attention", None, cells))
