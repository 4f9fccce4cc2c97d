"""Attention by its definition: all scores, hidden ones left out."""

from __future__ import annotations

import torch
from torch import Tensor


def dense_attention(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float, bias: Tensor | None = None
) -> Tensor:
    """Return softmax(scale q k^T + bias) v over the keys that are seen, 0 where none is."""
    heads = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(heads, 1), v.repeat_interleave(heads, 1)
    scores = scale * torch.einsum("bhid,bhjd->bhij", q, k)
    if bias is not None:
        scores = scores + bias
    weights = torch.where(seen, torch.exp(scores - scores.detach().amax(-1, keepdim=True)), 0.0)
    total = weights.sum(-1, keepdim=True)
    share = weights / torch.where(total == 0, 1.0, total)
    return torch.einsum("bhij,bhjd->bhid", share, v)
