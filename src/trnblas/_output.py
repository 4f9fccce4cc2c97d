"""Products that torch writes where the caller wants them."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._arguments import Scalar
from trnblas._flags import Trans, applied
from trnsci.core.eager import untracked

__all__ = ["written_product"]


def written_product(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    trans_a: Trans,
    trans_b: Trans,
    out: Tensor | None,
) -> Tensor | None:
    """Return ``out`` with ``gemm`` of checked arguments, written there at once, or None.

    It cannot where ``out`` shares memory with A or B, which torch would read after it has changed,
    where someone watches, or where factors are tensors or leave something unread.
    """
    if not isinstance(out, Tensor):
        return None
    if isinstance(alpha, Tensor) or isinstance(beta, Tensor) or alpha == 0:
        return None
    if A.ndim != B.ndim or A.ndim not in (2, 3) or A.shape[:-2] != B.shape[:-2]:
        return None
    left, right = applied(trans_a, A), applied(trans_b, B)
    tensors = [A, B, out] if C is None else [A, B, C, out]
    fits = out.shape == (*left.shape[:-1], right.shape[-1])
    if not fits or out.dtype is not A.dtype or not all(map(untracked, tensors)):
        return None
    if (C is not None and beta == 0) or any(t.device != A.device for t in tensors):
        return None
    # C may be out, element by element, but not another view of its memory.
    others = [A, B] if C is None or C is out else [A, B, C]
    memory = out.untyped_storage().data_ptr()
    if any(t.untyped_storage().data_ptr() == memory for t in others):
        return None
    added = torch.addmm if A.ndim == 2 else torch.baddbmm
    start = A.new_empty(()) if C is None else C
    added(start, left, right, alpha=alpha, beta=beta, out=out)
    return out
