"""Block-sparse attention: computes only the blocks of a mask.

The mask is built once (``trnsparse.masks``) and passed to every call. The full matrix of scores is
never formed.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import agree, floating
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.interop import constant_to_compile, without_modes
from trnsparse._attention import dispatch as dispatch
from trnsparse._attention.cuda import suits_as_it_is
from trnsparse._library import LIBRARY
from trnsparse.masks import AttentionMask

__all__ = ["block_sparse_attention"]


def block_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Any,
    scale: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Return ``softmax(scale * q @ k^T + bias) @ v`` over the unmasked keys of each query.

    Args:
        q: Queries, (batch, heads, queries, d); batch, or batch and heads, may be left out.
        k: Keys, (batch, groups, keys, d), where groups divides heads: the heads of a group share
            keys (grouped-query attention).
        v: Values, (batch, groups, keys, dv).
        mask: An ``AttentionMask``, a ``BlockMask`` of torch, or a block-sparse matrix whose pattern
            is the mask. Its batch and heads are those of q, or 1. On a GPU a ``BlockMask`` is used
            directly; otherwise a mask that is no ``AttentionMask`` is converted in every call, and
            ``AttentionMask.of(mask)`` converts it once.
        scale: Factor of the scores; ``1 / sqrt(d)`` by default.
        bias: Added to the scores; broadcasts to (batch, heads, queries, keys). Only blocks of the
            mask are read.

    Returns:
        (batch, heads, queries, dv) in the dtype of q. The rows of fully masked queries are zero.

    Raises:
        ShapeError: The shapes do not fit each other or the mask.
        DTypeError: The dtypes differ or are not floating point.
        DeviceError: The operands are on different devices.
    """
    function = "block_sparse_attention"
    four = _checked(function, q, k, v)
    d = q.shape[-1]
    scale = (1.0 / math.sqrt(d) if d else 1.0) if scale is None else float(scale)
    convert = LIBRARY.kernels_wanted() or not suits_as_it_is(mask, *four, bias)
    if convert and not isinstance(mask, AttentionMask):
        mask = _mask_of(mask)
    _fitting(function, tuple(mask.shape), four, bias)
    out = dispatch.attention(*four, mask, scale, bias)
    return out.reshape(*q.shape[:-1], v.shape[-1])


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
    given: tuple[int, ...],
    four: tuple[Tensor, Tensor, Tensor],
    bias: Tensor | None,
) -> None:
    q, k, _ = four
    batch, heads, queries, _ = q.shape
    expected = (batch, heads, queries, k.shape[2])
    fits = given[2:] == expected[2:] and given[0] in (1, batch) and given[1] in (1, heads)
    if not fits:
        raise ShapeError(
            f"{function}: mask must have batch, heads, queries and keys {expected}, or 1 for the "
            f"first two, got {given}"
        )
    if bias is not None:
        agree(function, "q", q, "bias", bias)
        shape = (1,) * (4 - bias.ndim) + tuple(bias.shape)
        if len(shape) != 4 or any(m not in (1, n) for m, n in zip(shape, expected, strict=True)):
            raise ShapeError(
                f"{function}: bias must broadcast to (batch, heads, queries, keys) = {expected}, "
                f"got {tuple(bias.shape)}"
            )


def _mask_of(mask: Any) -> AttentionMask:
    with without_modes(), torch.no_grad():
        return AttentionMask.of(mask)


constant_to_compile(_mask_of)
