"""Products with matrices of dense blocks: one batched product, then sums by block row.

Only stored blocks are read, forward and backward, and rows are not padded to the longest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import inert, one_cotangent
from trnsparse._patterns.layouts import as_scipy_bsr, as_torch_bsr, has_mkl
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import NARROW, RowMatrix

# Below these block sizes a batched product is dominated by overhead and the libraries' own block
# loops are faster. MKL's takes 1/7 of the time at 16 and twice the time at 32 (one core of an
# x86-64 with AVX-512), SciPy's half at 4 and the same at 8 (one core of an Arm Neoverse N1).
_SMALL_TO_MKL, _SMALL_TO_SCIPY = 32, 8


def cut(b: Tensor, block: int) -> Tensor:
    """Return the rows of ``b`` (..., n, N) in blocks (..., ceil(n / block), block, N), padded."""
    missing = -b.shape[-2] % block
    if missing:
        b = pad(b, (0, 0, 0, missing))
    return b.reshape(*b.shape[:-2], b.shape[-2] // block, block, b.shape[-1])


def block_product(blocks: Tensor, pattern: Pattern, b: Tensor, rows: int) -> Tensor:
    """Return the product of stored blocks at a pattern and a dense (..., n, N)."""
    return blocks_times(RowMatrix(blocks, pattern), b, rows)


def blocks_times(matrix: RowMatrix, b: Tensor, rows: int) -> Tensor:
    """Return the product of a block matrix and a dense (..., n, N).

    Args:
        matrix: The stored blocks, with their pattern in blocks.
        b: The dense operand.
        rows: Rows of the result, at most those of the block rows.
    """
    blocks, pattern = matrix.values, matrix.pattern
    if b.dtype in NARROW:  # round the sum over the blocks of a row once
        return block_product(blocks.float(), pattern, b.float(), rows).to(b.dtype)
    if (
        blocks.ndim == 3 and b.ndim > 2
    ):  # one matrix: concatenate the columns of all right-hand sides
        wide = b.movedim(-2, 0)
        flat = blocks_times(matrix, wide.reshape(b.shape[-2], -1), rows)
        return flat.reshape(rows, *wide.shape[1:]).movedim(0, -2)
    right = cut(b, blocks.shape[-1])
    if blocks.ndim == 3 and inert(blocks, b):
        return _computed(matrix, right)[:rows]
    if blocks.ndim == 3 and inert(blocks.detach(), b.detach()):  # reverse mode
        return _block_product(blocks, right, matrix)[:rows]
    return _summed(blocks, pattern, right)[..., :rows, :]


def sampled_blocks(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    """Return the blocks of ``c @ d.mT`` at a pattern, for c and d in blocks of rows (-1, s, N)."""
    left = c.index_select(0, pattern.row_indices)
    return left @ d.index_select(0, pattern.indices).mT


def _computed(matrix: RowMatrix, right: Tensor) -> Tensor:
    """Return the product with a right-hand side in blocks, as rows."""
    blocks, pattern = matrix.values, matrix.pattern
    mkl = has_mkl()
    small = blocks.shape[-1] < (_SMALL_TO_MKL if mkl else _SMALL_TO_SCIPY)
    known = blocks.is_cpu and blocks.dtype in (torch.float32, torch.float64)
    if not (small and known and pattern.entries and right.numel()):
        return _summed(blocks, pattern, right)
    flat = right.flatten(0, 1)
    if mkl:
        return matrix.made_by(as_torch_bsr) @ flat
    return torch.from_numpy(matrix.made_by(as_scipy_bsr) @ array_of(flat))


def _summed(blocks: Tensor, pattern: Pattern, right: Tensor) -> Tensor:
    """Return the same in torch operations, differentiable in every mode."""
    terms = blocks @ right.index_select(-3, pattern.indices)
    zeros = terms.new_zeros(*terms.shape[:-3], pattern.rows, *terms.shape[-2:])
    return zeros.index_add(-3, pattern.row_indices, terms).flatten(-3, -2)


class _BlockProduct(torch.autograd.Function):
    """A block product as one autograd node, which stores no per-block products."""

    @staticmethod
    def forward(ctx: Any, blocks: Tensor, right: Tensor, matrix: RowMatrix) -> Tensor:
        """Return the product as rows."""
        ctx.save_for_backward(blocks, right)
        ctx.pattern = matrix.pattern
        return _computed(matrix, right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the stored blocks and by the right-hand side."""
        one_cotangent("trnsparse.spmm", *grads)
        (blocks, right), pattern = ctx.saved_tensors, ctx.pattern
        size = blocks.shape[-1]
        grad = cut(grads[0], size)
        by_blocks = by_right = None
        if ctx.needs_input_grad[0]:
            by_blocks = sampled_blocks(pattern, grad, right.conj())
        if ctx.needs_input_grad[1]:
            transposed, order = pattern.transposed
            adjoint = blocks.index_select(0, order).mH
            rows = transposed.rows * size
            by_right = cut(block_product(adjoint, transposed, grad.flatten(0, 1), rows), size)
        return by_blocks, by_right, None


_block_product: Any = _BlockProduct.apply
