"""Matrix products by the torch routines that include alpha, beta and C."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from trnblas._paths.arguments import Number, Scalar
from trnsci.core.arguments import broadcast
from trnsci.core.numbers.products import (
    accumulated,
    addmm,
    baddbmm,
    bmm,
    matmul,
    mm,
    scaled,
    vanished,
)
from trnsci.core.numbers.values import inert


def matrix_product(alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None) -> Tensor:
    """Return ``alpha * A @ B + beta * C`` for matrices or batches of compatible shapes."""
    if isinstance(alpha, Tensor) or isinstance(beta, Tensor):
        return accumulated(scaled(alpha, matmul(A, B)), beta, C)
    if alpha == 0:
        zeros = vanished((*_batch(A, B), A.shape[-2], B.shape[-1]), A, B)
        return accumulated(zeros, beta, C)
    if A.ndim > 2 or B.ndim > 2:
        return _batched(alpha, A, B, beta, C)
    if C is not None and beta != 0:
        return addmm(C, A, B, alpha=alpha, beta=beta)
    product = mm(A, B) if alpha == 1 else addmm(_nothing(A), A, B, alpha=alpha, beta=0)
    return product if C is None else accumulated(product, 0, C)


def written_product(
    alpha: Scalar, A: Tensor, B: Tensor, beta: Scalar, C: Tensor | None, out: Tensor
) -> bool:
    """Write ``alpha * A @ B + beta * C`` to ``out`` if possible; return whether it was written.

    It is not written if ``out`` shares memory with A or B or is a conjugate or negative view, if
    the operation is traced or differentiated, if a factor is a tensor, or if alpha is 0.
    """
    if isinstance(alpha, Tensor) or isinstance(beta, Tensor) or alpha == 0:
        return False
    if A.ndim != B.ndim or A.ndim not in (2, 3) or A.shape[:-2] != B.shape[:-2]:
        return False
    tensors = [A, B, out] if C is None else [A, B, C, out]
    fits = out.shape == (*A.shape[:-1], B.shape[-1])
    if not fits or out.dtype is not A.dtype or not inert(*tensors):
        return False
    if any(t.device != A.device for t in tensors):
        return False
    # torch.baddbmm writes the product to a conjugate view as if it were none.
    if out.is_conj() or out.is_neg():
        return False
    # C may be out itself, but not a different view of its memory.
    others = [A, B] if C is None or C is out else [A, B, C]
    memory = out.untyped_storage().data_ptr()
    if any(t.untyped_storage().data_ptr() == memory for t in others):
        return False
    added = addmm if A.ndim == 2 else baddbmm
    start = _nothing(A) if C is None else C
    added(start, A, B, alpha=alpha, beta=beta, out=out)
    return True


def vector_product(alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None) -> Tensor:
    """Return ``alpha * A @ x + beta * y`` for a matrix and vectors, or batches of them."""
    if A.ndim != 2 or x.ndim != 1:
        batch = broadcast(A.shape[:-2], x.shape[:-1]) or ()
        column = None if y is None else y.expand(*batch, A.shape[-2])[..., None]
        return matrix_product(alpha, A, x[..., None], beta, column)[..., 0]
    if isinstance(alpha, Tensor) or isinstance(beta, Tensor):
        return accumulated(scaled(alpha, torch.mv(A, x)), beta, y)
    if alpha == 0:
        return accumulated(vanished((A.shape[0],), A, x), beta, y)
    # For an empty A the result of torch.addmv has the shape of its first argument.
    rows = A.shape[0]
    if y is not None and beta != 0:
        return torch.addmv(y.expand(rows), A, x, alpha=alpha, beta=beta)
    if alpha == 1:
        return accumulated(torch.mv(A, x), 0, y)
    product = torch.addmv(_nothing(A).expand(rows), A, x, alpha=alpha, beta=0)
    return accumulated(product, 0, y)


def _batch(A: Tensor, B: Tensor) -> tuple[int, ...]:
    return broadcast(A.shape[:-2], B.shape[:-2]) or ()


def _nothing(A: Tensor) -> Tensor:
    """Return the first argument of ``addmm`` for a product to which nothing is added.

    ``addmm`` does not read it if beta is 0, but under ``vmap`` torch multiplies it by beta, which
    gives NaN where uninitialized memory holds NaN or infinity.
    """
    return A.new_zeros(())


def _batched(alpha: Number, A: Tensor, B: Tensor, beta: Number, C: Tensor | None) -> Tensor:
    if A.ndim == B.ndim == 3 and A.shape[0] == B.shape[0]:
        return _stacked(alpha, A, B, beta, C)
    if alpha == 1 and C is None:
        return matmul(A, B)
    batch = _batch(A, B)
    rows, inner, columns = A.shape[-2], A.shape[-1], B.shape[-1]
    shape = (*batch, rows, columns)
    if B.ndim == 2 and A.is_contiguous():
        # One large product instead of many small ones that share their right operand.
        below = None if C is None else C.expand(shape).flatten(0, -2)
        wide = A.reshape(prod(batch) * rows, inner)
        return matrix_product(alpha, wide, B, beta, below).view(shape)
    count = prod(batch)
    stack_a = A.expand(*batch, rows, inner).reshape(count, rows, inner)
    stack_b = B.expand(*batch, inner, columns).reshape(count, inner, columns)
    stack_c = None if C is None else C.expand(shape).reshape(count, rows, columns)
    return _stacked(alpha, stack_a, stack_b, beta, stack_c).view(shape)


def _stacked(alpha: Number, A: Tensor, B: Tensor, beta: Number, C: Tensor | None) -> Tensor:
    if C is not None and beta != 0:
        return baddbmm(C, A, B, alpha=alpha, beta=beta)
    product = bmm(A, B) if alpha == 1 else baddbmm(_nothing(A), A, B, alpha=alpha, beta=0)
    return accumulated(product, 0, C)
