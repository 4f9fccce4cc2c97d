"""Choice of the path of a product: torch, or its ``Operation`` on a kernel.

Arguments are already validated.
"""

from __future__ import annotations

from torch import Tensor

from trnsparse._library import LIBRARY
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.block_products import blocks_times
from trnsparse._products.row_products import RowMatrix, csr_product, sampled_product
from trnsparse._products.screened import screened_product

kernels_wanted = LIBRARY.kernels_wanted


def run_spmm(matrix: RowMatrix, b: Tensor) -> Tensor:
    """Return the product of a matrix by rows and a dense vector or matrix."""
    if not kernels_wanted():
        return csr_product(matrix, b)
    from trnsparse._paths.operations import SPMM

    values, pattern = matrix.values, matrix.pattern
    if values.ndim > 1 or b.ndim > 2:
        SPMM.refuse("the kernel takes one matrix and one right-hand side, not batches")
        return csr_product(matrix, b)
    wide = b.unsqueeze(-1) if b.ndim == 1 else b
    result = SPMM(values, pattern.pointers, pattern.indices, wide)
    return result.squeeze(-1) if b.ndim == 1 else result


def run_sddmm(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    """Return the elements of ``c @ d.mT`` at the entries of a pattern."""
    if not kernels_wanted():
        return sampled_product(pattern, c, d)
    from trnsparse._paths.operations import SDDMM

    if c.ndim > 2 or d.ndim > 2:
        SDDMM.refuse("the kernel takes two matrices, not batches")
        return sampled_product(pattern, c, d)
    return SDDMM(pattern.pointers, pattern.indices, c, d)


def run_bsr_spmm(matrix: RowMatrix, b: Tensor, rows: int) -> Tensor:
    """Return the product of a block matrix and a dense vector or matrix."""
    if b.ndim == 1:
        return run_bsr_spmm(matrix, b.unsqueeze(-1), rows).squeeze(-1)
    if not kernels_wanted():
        return blocks_times(matrix, b, rows)
    from trnsparse._paths.operations import BSR_SPMM

    blocks, pattern = matrix.values, matrix.pattern
    if blocks.ndim > 3 or b.ndim > 2:
        BSR_SPMM.refuse("the kernel takes one matrix and one right-hand side, not batches")
        return blocks_times(matrix, b, rows)
    return BSR_SPMM(blocks, pattern.pointers, pattern.indices, b, rows)


def run_screened_spmm(
    a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> Tensor:
    """Return the product with the elements whose bound is above a cutoff."""
    if not kernels_wanted():
        return screened_product(a, row_bounds, col_bounds, b, cutoff)
    from trnsparse._paths.operations import SCREENED_SPMM

    return SCREENED_SPMM(a, row_bounds, col_bounds, b, cutoff)
