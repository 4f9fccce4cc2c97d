"""Choice of the path of a product: torch, or its ``Operation`` on a kernel.

Arguments are already validated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from trnsci.core.backend.decision import Choice
from trnsci.core.backend.explanation import Step, note
from trnsci.core.interop import is_fake, without_function_modes, without_modes
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.numbers.values import inert
from trnsparse._library import LIBRARY
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.block_products import blocks_times
from trnsparse._products.row_products import (
    RowMatrix,
    column_product,
    csr_product,
    products_like,
    sampled_product,
)
from trnsparse._products.screened import screened_product
from trnsparse._products.tiles import plan_product

TILED = (torch.float32, torch.bfloat16, torch.float16)
"""Dtypes of the kernels."""

kernels_wanted = LIBRARY.kernels_wanted


def run_spmm(matrix: RowMatrix, b: Tensor) -> Tensor:
    """Return the product of a matrix by rows and a dense vector or matrix."""
    choice = kernels_wanted()
    if choice is None:
        return csr_product(matrix, b)
    from trnsparse._paths.operations import SPMM, TILED_SPMM

    values, pattern = matrix.values, matrix.pattern
    if values.ndim > 1 or b.ndim > 2:
        SPMM.refuse("the kernel takes one matrix and one right-hand side, not batches")
        return csr_product(matrix, b)
    columns, tiles = b.unsqueeze(-1) if b.ndim == 1 else b, None
    if values.dtype in TILED and b.dtype is values.dtype:
        if choice.recorded:
            _show_plan(choice, matrix, columns)
        elif inert(values, b) and pattern.entries and b.numel():
            tiles = matrix.tiles.chosen(values, pattern, columns.shape[1])
    if tiles is None:
        found = SPMM.called(choice, values, pattern.pointers, pattern.indices, columns)
    else:
        places = tiles.pattern.pointers, tiles.pattern.indices
        found = TILED_SPMM.called(choice, tiles.data, *places, columns, pattern.rows)
    return found.squeeze(-1) if b.ndim == 1 else found


def spmm_like(matrix: RowMatrix, b: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function of products with operands like b; its path is chosen here."""
    return partial(run_spmm, matrix) if kernels_wanted() else products_like(matrix, b)


def run_column_spmv(transposed: RowMatrix, b: Tensor) -> Tensor | None:
    """Return the product of a CSC matrix and a vector; None if it must be converted to CSR."""
    return None if kernels_wanted() else column_product(transposed, b)


def _show_plan(choice: Choice, matrix: RowMatrix, b: Tensor) -> None:
    """Record the predicted times of a product for ``explain``."""
    from trnsparse._paths.operations import SPMM

    pattern = matrix.pattern
    path = SPMM.decide(choice, (matrix.values, pattern.pointers, pattern.indices, b)).path
    given = pattern.exposed  # derived tensors have no values in an explanation
    if path != "pytorch" and not any(map(is_fake, given)):
        with without_modes(), without_function_modes():
            plan = plan_product(Pattern(*given, pattern.shape), b.shape[1], dtype_name(b.dtype))
        note(Step(SPMM.qualified_name, path, f"predicted times\n{plan}"))


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
