"""Where a product runs: on torch, or through its ``Operation`` on a kernel.

The functions take arguments that were checked. While no kernel is wanted, which one question to the
library tells, the torch function is called and nothing else happens.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import Tensor

from trnsparse._block_products import block_product
from trnsparse._cpu import product_by_rule
from trnsparse._library import LIBRARY
from trnsparse._patterns import Pattern
from trnsparse._screened import screened_product
from trnsparse._torch import csr_product, is_usual, sampled_product

__all__ = [
    "kernels_wanted",
    "run_bsr_spmm",
    "run_often",
    "run_screened_spmm",
    "run_sddmm",
    "run_spmm",
]

kernels_wanted = LIBRARY.kernels_wanted


def run_often(values: Tensor, pattern: Pattern, like: Tensor) -> Callable[[Tensor], Tensor] | None:
    """Return the usual product as a function of tensors like one, or None where it is another."""
    if kernels_wanted() or not is_usual(values, pattern, like):
        return None
    return partial(product_by_rule, values, pattern)


def run_spmm(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return the product of a matrix by rows and a dense vector or matrix."""
    if not kernels_wanted():
        return csr_product(values, pattern, b)
    from trnsparse._operations import SPMM

    if values.ndim > 1 or b.ndim > 2:
        SPMM.refuse("the kernel takes one matrix and one right-hand side, not batches")
        return csr_product(values, pattern, b)
    wide = b.unsqueeze(-1) if b.ndim == 1 else b
    result = SPMM(values, pattern.pointers, pattern.indices, wide)
    return result.squeeze(-1) if b.ndim == 1 else result


def run_sddmm(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    """Return the elements of ``c @ d.mT`` at the entries of a pattern."""
    if not kernels_wanted():
        return sampled_product(pattern, c, d)
    from trnsparse._operations import SDDMM

    if c.ndim > 2 or d.ndim > 2:
        SDDMM.refuse("the kernel takes two matrices, not batches")
        return sampled_product(pattern, c, d)
    return SDDMM(pattern.pointers, pattern.indices, c, d)


def run_bsr_spmm(blocks: Tensor, pattern: Pattern, b: Tensor, rows: int) -> Tensor:
    """Return the product of a block matrix and a dense vector or matrix."""
    if b.ndim == 1:
        return run_bsr_spmm(blocks, pattern, b.unsqueeze(-1), rows).squeeze(-1)
    if not kernels_wanted():
        return block_product(blocks, pattern, b, rows)
    from trnsparse._operations import BSR_SPMM

    if blocks.ndim > 3 or b.ndim > 2:
        BSR_SPMM.refuse("the kernel takes one matrix and one right-hand side, not batches")
        return block_product(blocks, pattern, b, rows)
    return BSR_SPMM(blocks, pattern.pointers, pattern.indices, b, rows)


def run_screened_spmm(
    a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> Tensor:
    """Return the product with the elements whose bound is above a cutoff."""
    if not kernels_wanted():
        return screened_product(a, row_bounds, col_bounds, b, cutoff)
    from trnsparse._operations import SCREENED_SPMM

    return SCREENED_SPMM(a, row_bounds, col_bounds, b, cutoff)
