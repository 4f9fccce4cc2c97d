"""Block-sparse attention on a GPU: torch's FlexAttention, compiled once for each kind of call.

It takes the mask as the four tensors that it is; a bias is read where the kernel computes a score,
so no blocks of it are gathered. The kernel is done before Python has launched the next one, so a
call is checked once: what it found out is kept with the mask as a plan, under everything that the
checks looked at, and the next call like it is one look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
from torch import Tensor

from trnsci.core.eager import untransformed
from trnsparse.masks import AttentionMask

__all__ = ["Plan", "kind_of_call", "suits"]

_DEVICE = "cuda"
_BACKEND = "inductor"
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_LEAST_WIDTH = 16
"""Head dimension below which FlexAttention refuses."""
_BLOCK = 128
"""FlexAttention's kernels cut blocks of multiples of this."""
_COMPILED = 64
"""Kinds of calls whose compiled code is kept."""
_UNGUARDED = getattr(torch.compiler, "skip_guard_on_globals_unsafe", None)
_OPTIONS = None if _UNGUARDED is None else {"guard_filter_fn": _UNGUARDED}
"""The globals of the compiled code are modules and functions of torch, which nobody exchanges."""


def kind_of_call(
    q: Tensor, k: Tensor, v: Tensor, scale: float | None, bias: Tensor | None
) -> Hashable | None:
    """Return all that checks of these operands look at, or None where there is no plan for them.

    There is none under a transform of torch, for subclasses of tensors and on other devices.
    """
    if not untransformed(q, k, v):
        return None
    device = q.device
    if device.type != _DEVICE:
        return None
    kind = q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, device, k.device, v.device, scale
    if bias is None:
        return kind
    return (kind, bias.shape, bias.dtype, bias.device) if untransformed(bias) else None


def suits(q: Tensor, k: Tensor, v: Tensor, mask: AttentionMask, bias: Tensor | None) -> bool:
    """Return whether FlexAttention computes checked operands with four dimensions."""
    tensors = (q, k, v) if bias is None else (q, k, v, bias)
    widths = min(q.shape[-1], v.shape[-1])
    whole = all(size % _BLOCK == 0 for size in mask.block_size)
    filled = all(x.numel() > 0 for x in tensors)
    return q.dtype in _TYPES and widths >= _LEAST_WIDTH and whole and filled


class Plan:
    """FlexAttention for calls of one kind with one mask.

    Args:
        q: Queries, keys and values that ``suits`` accepts, in four dimensions.
        k: Keys.
        v: Values.
        mask: The mask.
        scale: Factor of the scores.
        leading: Batch and heads that the caller gave, of which either may be missing.
    """

    __slots__ = ("block_mask", "compiled", "leading", "missing", "scores")

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: AttentionMask,
        scale: float,
        leading: tuple[int, ...],
    ) -> None:
        self.block_mask = mask.to_block_mask(q.device)
        self.leading = leading
        self.missing = (1,) * (2 - len(leading))
        self.scores = (*q.shape[:3], k.shape[2])
        shown = getattr(self.block_mask.mask_mod, "__code__", None)
        constants = q.shape[1], q.shape[3], k.shape[1], v.shape[3], mask.shape[:2], mask.block_size
        kind = shown, q.dtype, q.device, constants
        self.compiled = _compiled(kind, scale, q.shape[1] != k.shape[1])

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """Return the attention, with gradients."""
        score_mod = None if bias is None else _adding(bias.expand(self.scores))
        missing = self.missing
        if not missing:
            found: Tensor = self.compiled(q, k, v, self.block_mask, score_mod)
            return found
        four = [x.reshape(missing + x.shape) for x in (q, k, v)]
        found = self.compiled(*four, self.block_mask, score_mod)
        return found.reshape(self.leading + found.shape[2:])


def _adding(full: Tensor) -> Callable[..., Tensor]:
    def score_mod(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + full[b, h, i, j]

    return score_mod


@lru_cache(maxsize=_COMPILED)
def _compiled(kind: Hashable, scale: float, grouped: bool) -> Any:
    """Return FlexAttention for calls of one kind, compiled.

    torch gives up on code that it has compiled eight times, and computes all scores from then on.
    Each kind that it would compile anew is therefore code of its own; lengths and batches are
    left, which it comes to compile for any size.
    """
    from torch.nn.attention.flex_attention import flex_attention

    def attention(q: Tensor, k: Tensor, v: Tensor, block_mask: Any, score_mod: Any) -> Any:
        return flex_attention(q, k, v, score_mod, block_mask, scale, grouped)

    code, names, cells = attention.__code__.replace(), attention.__globals__, attention.__closure__
    own = FunctionType(code, names, "attention", None, cells)
    return torch.compile(own, backend=_BACKEND, options=_OPTIONS)
