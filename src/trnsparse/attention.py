"""Attention that computes the blocks of a mask and no others.

The mask is built once (``trnsparse.masks``) and passed to every call; torch's ``BlockMask`` is
taken as it is. Nothing of the size of the whole matrix of scores is ever made.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from trnsci.core.arguments import agree, floating
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.tracing import constant_to_compile
from trnsparse import _attention_cuda as cuda
from trnsparse import _attention_dispatch as dispatch
from trnsparse._library import LIBRARY
from trnsparse.masks import AttentionMask

kernels_wanted = LIBRARY.kernels_wanted

_PLANS = 64
"""Kinds of calls that a mask remembers."""
_TENSORS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "block_row_ptrs",
    "block_col_indices",
)

__all__ = ["block_sparse_attention", "block_sparse_attention_tiled"]


def block_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Return ``softmax(scale * q @ k^T + bias) @ v`` over the keys that each query sees.

    Args:
        q: Queries, (batch, heads, queries, d); batch, or batch and heads, may be left out.
        k: Keys, (batch, groups, keys, d), where groups divides heads: a group of heads reads the
            same keys.
        v: Values, (batch, groups, keys, dv).
        mask: An ``AttentionMask``, a ``BlockMask`` of torch, or a block-sparse matrix whose pattern
            is the mask. Its batch and heads are those of q, or 1.
        scale: Factor of the scores; ``1 / sqrt(d)`` by default.
        bias: What is added to the scores, of a shape that broadcasts to (batch, heads, queries,
            keys). Only blocks of the mask are read.

    Returns:
        (batch, heads, queries, dv) in the dtype of q. A query that sees no key has zeros.

    Raises:
        ShapeError: The shapes do not fit each other or the mask.
        DTypeError: The dtypes differ or are not floating point.
        DeviceError: The operands are on different devices.
    """
    found = _mask_of(mask)
    scale = None if scale is None else float(scale)
    kind = None if kernels_wanted() else cuda.kind_of_call(q, k, v, scale, bias)
    plan = None if kind is None else found.plans.get(kind)
    if plan is not None:  # a call like this was checked before
        return plan(q, k, v, bias)
    function = "block_sparse_attention"
    four = _checked(function, q, k, v)
    _fitting(function, found, four, bias)
    queries, d = four[0].shape[2:]
    if scale is None:
        scale = 1.0 / math.sqrt(d) if d else 1.0
    if kind is not None and cuda.suits(*four, found, bias):
        if len(found.plans) >= _PLANS:
            found.plans.clear()
        plan = found.plans[kind] = cuda.Plan(*four, found, scale, q.shape[:-2])
        return plan(q, k, v, bias)
    out = dispatch.attention(*four, found, scale, bias)
    return out.reshape(*q.shape[:-2], queries, v.shape[-1])


def block_sparse_attention_tiled(
    Q: Tensor, K: Tensor, V: Tensor, mask_bsr: Any, scale: float | None = None
) -> Tensor:
    """Return the attention of one head over the stored blocks of a block-sparse matrix.

    Args:
        Q: Queries, (seq_len, head_dim).
        K: Keys, of the same shape.
        V: Values, of the same shape.
        mask_bsr: Square block-sparse matrix of ``seq_len`` rows; its pattern is read and its values
            are not. Any mask of ``block_sparse_attention`` will do.
        scale: Factor of the scores; ``head_dim ** -0.5`` by default.

    Raises:
        ShapeError: An operand is no matrix, or the shapes do not fit.
    """
    for name, value in (("Q", Q), ("K", K), ("V", V)):
        if not isinstance(value, Tensor) or value.ndim != 2:
            raise ShapeError(
                f"block_sparse_attention_tiled: {name} must be a tensor (seq_len, head_dim), got "
                f"{tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__}"
            )
    return block_sparse_attention(Q, K, V, mask_bsr, scale)


def _checked(function: str, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the operands with four dimensions each."""
    agree(function, "q", q, "k", k)
    agree(function, "q", q, "v", v)
    floating(function, "q", q)
    if q.is_complex():
        raise DTypeError(f"{function}: q must be real, got {q.dtype}")
    if not 2 <= q.ndim <= 4 or k.ndim != q.ndim or v.ndim != q.ndim:
        raise ShapeError(
            f"{function}: q, k and v must all have 2, 3 or 4 dimensions, got {tuple(q.shape)}, "
            f"{tuple(k.shape)} and {tuple(v.shape)}"
        )
    q, k, v = (x.reshape((1,) * (4 - x.ndim) + tuple(x.shape)) for x in (q, k, v))
    if k.shape[:3] != v.shape[:3] or q.shape[3] != k.shape[3] or q.shape[0] != k.shape[0]:
        raise ShapeError(
            f"{function}: q, k and v must be (batch, heads, queries, d), (batch, groups, keys, d) "
            f"and (batch, groups, keys, dv), got {tuple(q.shape)}, {tuple(k.shape)} and "
            f"{tuple(v.shape)}"
        )
    if q.shape[1] % max(k.shape[1], 1) or (k.shape[1] == 0) != (q.shape[1] == 0):
        raise ShapeError(
            f"{function}: the heads of k must divide those of q, got {k.shape[1]} and {q.shape[1]}"
        )
    return q, k, v


def _fitting(
    function: str,
    mask: AttentionMask,
    four: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
) -> None:
    q, k, _ = four
    batch, heads, queries, _ = q.shape
    wanted = (batch, heads, queries, k.shape[2])
    given = mask.shape
    fits = given[2:] == wanted[2:] and given[0] in (1, batch) and given[1] in (1, heads)
    if not fits:
        raise ShapeError(
            f"{function}: mask must have batch, heads, queries and keys {wanted}, or 1 for the "
            f"first two, got {given}"
        )
    if bias is not None:
        agree(function, "q", q, "bias", bias)
        shape = (1,) * (4 - bias.ndim) + tuple(bias.shape)
        if len(shape) != 4 or any(m not in (1, n) for m, n in zip(shape, wanted, strict=True)):
            raise ShapeError(
                f"{function}: bias must broadcast to (batch, heads, queries, keys) = {wanted}, "
                f"got {tuple(bias.shape)}"
            )


def _mask_of(mask: Any) -> AttentionMask:
    """Return a mask as ours, the same object for the same argument as long as that lives."""
    if isinstance(mask, AttentionMask):
        return mask
    kept = getattr(mask, "_trnsparse_mask", None)
    if kept is not None and kept[0] == _version(mask):
        found: AttentionMask = kept[1]
        return found
    with _disable_current_modes(), torch.no_grad():
        found = AttentionMask.of(mask)
    try:
        mask._trnsparse_mask = (_version(mask), found)
    except AttributeError:
        return found
    return found


def _version(mask: Any) -> tuple[tuple[int, int], ...]:
    """Return what changes when the tensors of a mask do."""
    tensors = [getattr(mask, name, None) for name in _TENSORS]
    return tuple((id(t), t._version) for t in tensors if isinstance(t, Tensor))


constant_to_compile(_mask_of)
