"""Products with matrices of dense blocks: one batched product, then sums by block row.

Only stored blocks are touched, forward and backward, and rows are never padded to the longest.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trnsci.core.eager import readable, untracked
from trnsparse._cpu import blocks_by_mkl, blocks_by_scipy
from trnsparse._layouts import as_torch_bsr
from trnsparse._patterns import Pattern

__all__ = ["block_product", "cut", "sampled_blocks"]

_NARROW = (torch.float16, torch.bfloat16)

# Multiplications of one block that take twenty times as long as to call for them.
_LARGE_PRODUCT = 1 << 20


def cut(b: Tensor, block: int) -> Tensor:
    """Return the rows of ``b`` (..., n, N) in blocks (..., ceil(n / block), block, N), padded."""
    missing = -b.shape[-2] % block
    if missing:
        b = pad(b, (0, 0, 0, missing))
    return b.reshape(*b.shape[:-2], b.shape[-2] // block, block, b.shape[-1])


def block_product(blocks: Tensor, pattern: Pattern, b: Tensor, rows: int) -> Tensor:
    """Return the product of a block matrix and a dense (..., n, N).

    Args:
        blocks: The stored blocks, (nb, s, s) or (..., nb, s, s).
        pattern: Where they are, in blocks.
        b: The dense operand.
        rows: Rows of the result, at most those of the block rows.
    """
    if b.dtype in _NARROW:  # the sum over the blocks of a row is rounded once
        return block_product(blocks.float(), pattern, b.float(), rows).to(b.dtype)
    size = blocks.shape[-1]
    if blocks.ndim == 3 and b.ndim > 2:  # one matrix: all right-hand sides side by side
        wide = b.movedim(-2, 0)
        flat = block_product(blocks, pattern, wide.reshape(b.shape[-2], -1), rows)
        return flat.reshape(rows, *wide.shape[1:]).movedim(0, -2)
    if blocks.ndim == 3 and untracked(blocks) and untracked(b):
        if b.is_cpu and blocks_by_mkl(blocks, b):
            return (as_torch_bsr(blocks, pattern) @ b)[:rows]
        return _summed(blocks, pattern, cut(b, size))[:rows]
    if blocks.ndim == 3 and untracked(blocks.detach()) and untracked(b.detach()):
        return _block_product(blocks, cut(b, size), pattern)[:rows]
    return _summed(blocks, pattern, cut(b, size))[..., :rows, :]


def sampled_blocks(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    """Return the blocks of ``c @ d.mT`` at a pattern, for c and d in blocks of rows (-1, s, N)."""
    left = c.index_select(0, pattern.row_indices)
    return left @ d.index_select(0, pattern.indices).mT


def _summed(blocks: Tensor, pattern: Pattern, right: Tensor) -> Tensor:
    """Return the product with a right-hand side in blocks, as rows."""
    if blocks.ndim == 3 and readable(blocks, right):
        if (found := blocks_by_scipy(blocks, pattern, right)) is not None:
            return found
        if blocks.shape[-1] * blocks.shape[-2] * right.shape[-1] >= _LARGE_PRODUCT:
            return _added(blocks, pattern, right)
    terms = blocks @ right.index_select(-3, pattern.indices)
    zeros = terms.new_zeros(*terms.shape[:-3], pattern.rows, *terms.shape[-2:])
    return zeros.index_add(-3, pattern.row_indices, terms).flatten(-3, -2)


def _added(blocks: Tensor, pattern: Pattern, right: Tensor) -> Tensor:
    """Return the same, each product added where it belongs.

    Neither rows nor products are gathered, memory for which would be new to every call.
    """
    result = right.new_zeros(pattern.rows, blocks.shape[-2], right.shape[-1])
    rows, columns = result.unbind(0), right.unbind(0)
    places = pattern.row_indices.tolist(), pattern.indices.tolist()
    for block, row, column in zip(blocks.unbind(0), *places, strict=True):
        rows[row].addmm_(block, columns[column])
    return result.flatten(0, 1)


class _BlockProduct(torch.autograd.Function):
    """A block product as one node: it keeps no product of a single block for its gradient."""

    @staticmethod
    def forward(ctx: Any, blocks: Tensor, right: Tensor, pattern: Pattern) -> Tensor:
        """Return the product as rows."""
        ctx.save_for_backward(blocks, right)
        ctx.pattern = pattern
        return _summed(blocks, pattern, right)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the stored blocks and by the right-hand side."""
        (blocks, right), pattern = ctx.saved_tensors, ctx.pattern
        size = blocks.shape[-1]
        grad = cut(grads[0], size)
        by_blocks = by_right = None
        if ctx.needs_input_grad[0]:
            by_blocks = sampled_blocks(pattern, grad, right.conj())
        if ctx.needs_input_grad[1]:
            turned, order = pattern.transposed
            adjoint = blocks.index_select(0, order).mH
            rows = turned.rows * size
            by_right = cut(block_product(adjoint, turned, grad.flatten(0, 1), rows), size)
        return by_blocks, by_right, None


_block_product: Any = _BlockProduct.apply
