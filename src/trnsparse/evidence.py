"""The cases that validate the kernels of trnsparse: ragged patterns, against float64."""

from __future__ import annotations

import torch
from torch import Tensor

import trnsparse
from trnsci.core.evidence import Case, product_bound
from trnsci.core.testing import random_tensor, unit_roundoff

__all__ = ["CASES"]

_TORCH = "torch in float64"
_U = unit_roundoff(torch.float32)


def _chosen(rows: int, columns: int, share: float, seed: int = 0) -> Tensor:
    """Return which elements of a matrix are there, none in its second row and all in its last."""
    chosen = torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed)) < share
    chosen[1], chosen[-1] = False, True
    return chosen


def _ragged() -> tuple[Tensor, Tensor]:
    """Return a matrix with rows of any length, and a right-hand side."""
    kept = torch.where(_chosen(300, 200, 0.05), random_tensor(300, 200), 0.0)
    return kept, random_tensor(200, 70, seed=1)


def _even() -> tuple[Tensor, Tensor]:
    """Return a band matrix, whose rows have one length."""
    n = 256
    distance = (torch.arange(n)[:, None] - torch.arange(n)).remainder(n)
    band = torch.where(distance < 7, random_tensor(n, n), 0.0)
    return band, random_tensor(n, 70, seed=1)


def _blocky() -> tuple[Tensor, Tensor]:
    """Return a matrix with blocks of 128, the last ones cut, and a right-hand side."""
    blocks = _chosen(3, 3, 0.5).repeat_interleave(128, 0).repeat_interleave(128, 1)
    kept = torch.where(blocks[:300, :260], random_tensor(300, 260), 0.0)
    return kept, random_tensor(260, 70, seed=1)


def _by_rows(a: Tensor, b: Tensor) -> Tensor:
    return trnsparse.spmm(trnsparse.from_dense(a), b)


def _in_blocks(a: Tensor, b: Tensor) -> Tensor:
    return trnsparse.bsr_spmm(trnsparse.BSRMatrix.from_dense(a, 128), b)


def _product(a: Tensor, b: Tensor) -> Tensor:
    return a.double() @ b.double()


def _screened() -> tuple[Tensor, Tensor, Tensor]:
    diagonal = torch.linspace(0.0, 1.0, 260).square()
    return random_tensor(260, 260), diagonal, random_tensor(260, 70, seed=1)


def _above(a: Tensor, diagonal: Tensor, b: Tensor) -> Tensor:
    bounds = diagonal.abs().sqrt()
    return torch.where(torch.outer(bounds, bounds) > 0.5, a, 0.0)


def _heads() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return queries, keys, values and which blocks of 64 are seen: ragged, one row empty."""
    q, k, v = (random_tensor(2, 200, 32, seed=i) for i in range(3))
    return q, k, v, _chosen(4, 4, 0.4, seed=2)


def _mask(blocks: Tensor) -> trnsparse.AttentionMask:
    return trnsparse.AttentionMask.from_blocks(blocks, (200, 200), 64, causal=True)


def _attention(q: Tensor, k: Tensor, v: Tensor, blocks: Tensor) -> Tensor:
    return trnsparse.block_sparse_attention(q, k, v, _mask(blocks))


def _attention_gradients(q: Tensor, k: Tensor, v: Tensor, blocks: Tensor) -> tuple[Tensor, ...]:
    q, k, v = (x.clone().requires_grad_() for x in (q, k, v))
    with torch.enable_grad():
        return torch.autograd.grad(_attention(q, k, v, blocks).square().sum(), (q, k, v))


def _dense_attention(q: Tensor, k: Tensor, v: Tensor, blocks: Tensor) -> Tensor:
    """Return the attention with all scores, hidden ones left out."""
    seen = blocks.repeat_interleave(64, 0).repeat_interleave(64, 1)[:200, :200].tril()
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5
    weights = torch.where(seen, scores.exp(), 0.0)
    total = weights.sum(-1, keepdim=True)
    return weights / torch.where(total == 0, 1.0, total) @ v.double()


def _dense_gradients(q: Tensor, k: Tensor, v: Tensor, blocks: Tensor) -> tuple[Tensor, ...]:
    q, k, v = (x.double().requires_grad_() for x in (q, k, v))
    with torch.enable_grad():
        return torch.autograd.grad(_dense_attention(q, k, v, blocks).square().sum(), (q, k, v))


def _attention_bound(q: Tensor, k: Tensor, *rest: Tensor) -> float:
    """Return a few roundings of the largest score, by which weights are off relatively."""
    return 8 * (4 + float((q @ k.mT).abs().max()) / q.shape[-1] ** 0.5) * _U


def _gradient_bound(q: Tensor, k: Tensor, *rest: Tensor) -> float:
    return 4 * _attention_bound(q, k)


CASES = (
    Case(
        "spmm_one_hot",
        "sparse product by rows, ragged",
        _ragged,
        _by_rows,
        _product,
        _TORCH,
        product_bound,
    ),
    Case(
        "spmm_segments",
        "sparse product by rows, even",
        _even,
        _by_rows,
        _product,
        _TORCH,
        product_bound,
    ),
    Case("bsr_spmm", "block-sparse product", _blocky, _in_blocks, _product, _TORCH, product_bound),
    Case(
        "screened_spmm",
        "screened product",
        _screened,
        lambda a, diagonal, b: trnsparse.screened_spmm(a, diagonal, b, 0.25),
        lambda a, diagonal, b: _product(_above(a, diagonal, b), b),
        _TORCH,
        lambda a, diagonal, b: product_bound(_above(a, diagonal, b), b),
    ),
    Case(
        "attention",
        "block-sparse attention",
        _heads,
        _attention,
        _dense_attention,
        _TORCH,
        _attention_bound,
    ),
    Case(
        "attention_backward",
        "its gradients",
        _heads,
        _attention_gradients,
        _dense_gradients,
        _TORCH,
        _gradient_bound,
    ),
)
