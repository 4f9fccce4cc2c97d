"""The functions of ``trnsparse.nki``: validation, and one operation each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.library import backend_names
from trnsci.core.errors import NkiFallbackWarning, ShapeError
from trnsparse._library import LIBRARY
from trnsparse.formats import BSRMatrix, CSRMatrix
from trnsparse.products import spmm
from trnsparse.published import block_sparse_attention_tiled, bsr_spmm
from trnsparse.screening import screened_spmm

__all__ = [
    "NkiFallbackWarning",
    "nki_bsr_attn_bwd",
    "nki_bsr_attn_tiled",
    "nki_bsr_spmm",
    "nki_screened_spmm",
    "nki_spmm",
]


def nki_spmm(A: CSRMatrix, B: Tensor) -> Tensor:
    """Return ``A @ B`` of a CSR and a dense matrix: gather, multiply, scatter."""
    return spmm(A, B)


def nki_bsr_spmm(A: BSRMatrix, B: Tensor) -> Tensor:
    """Return ``A @ B`` of a BSR and a dense matrix."""
    return bsr_spmm(A, B)


def nki_screened_spmm(A: Tensor, diag_integrals: Tensor, B: Tensor, threshold: float) -> Tensor:
    """Return the product of the elements of A with a bound above a threshold and B."""
    return screened_spmm(A, diag_integrals, B, threshold)


def nki_bsr_attn_tiled(
    Q: Tensor, K: Tensor, V: Tensor, mask_bsr: Any, scale: float | None = None
) -> Tensor:
    """Return the attention of one head over the stored blocks of a block-sparse matrix."""
    return block_sparse_attention_tiled(Q, K, V, mask_bsr, scale)


def nki_bsr_attn_bwd(
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    dO: Tensor,
    mask_bsr: Any,
    scale: float | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of one head's attention by queries, keys and values.

    Args:
        Q: Queries, (seq_len, head_dim).
        K: Keys.
        V: Values.
        dO: The gradient by the attention.
        mask_bsr: As in ``nki_bsr_attn_tiled``.
        scale: Factor of the scores.

    Raises:
        ShapeError: The shapes do not fit.
    """
    leaves = [x.detach().requires_grad_() for x in (Q, K, V)]
    out = block_sparse_attention_tiled(leaves[0], leaves[1], leaves[2], mask_bsr, scale)
    if dO.shape != out.shape:
        raise ShapeError(
            f"nki_bsr_attn_bwd: dO must have the shape of the attention {tuple(out.shape)}, got "
            f"{tuple(dO.shape)}"
        )
    by_q, by_k, by_v = torch.autograd.grad(out, leaves, dO)
    return by_q, by_k, by_v


__getattr__ = backend_names(__name__, LIBRARY)
