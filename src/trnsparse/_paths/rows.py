"""Products of a matrix by rows: on torch, or on a kernel by an operation.

Arguments are validated. Those of an operation are of the types that a torch operator supports:
values, index tensors, dense operands and numbers. Indices have no derivatives; derivatives by
values and dense operands are products too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trnsci.core.backend.decision import Choice
from trnsci.core.backend.explanation import Step, note
from trnsci.core.backend.launch import Launcher
from trnsci.core.interop import is_fake, without_function_modes, without_modes
from trnsci.core.numbers.conversions import dtype_name
from trnsci.core.numbers.planes import embedded, joined, parts
from trnsci.core.numbers.values import inert
from trnsci.core.tiles.hardware import TILE
from trnsparse._library import LIBRARY
from trnsparse._paths.blocks import TILED_SPMM
from trnsparse._paths.leveled import Leveled
from trnsparse._paths.operands import (
    host_numbers,
    leading_columns,
    of_batch,
    several_columns,
    unsigned,
)
from trnsparse._patterns.pattern import Pattern, pattern_of
from trnsparse._products.row_order import (
    chunk_columns,
    chunk_counts,
    in_order,
    plan_rows,
    segment_order,
    tile_starts,
)
from trnsparse._products.row_products import (
    RowMatrix,
    column_product,
    csr_product,
    products_like,
    sampled_product,
    slot_product,
)
from trnsparse._products.tiles import plan_product

TILED = (torch.float32, torch.bfloat16, torch.float16)
"""Dtypes of the kernels."""

kernels_wanted = LIBRARY.kernels_wanted


def run_spmm(matrix: RowMatrix, b: Tensor) -> Tensor:
    """Return the product of a matrix by rows and a dense vector or matrix."""
    choice = kernels_wanted()
    if choice is None:
        return csr_product(matrix, b)
    values, pattern = matrix.values, matrix.pattern
    if values.ndim > 1:
        SPMM.refuse("the kernel takes one matrix, not a batch")
        return csr_product(matrix, b)
    if b.ndim > 2:
        return of_batch(partial(run_spmm, matrix), b)
    columns, tiles = b.unsqueeze(-1) if b.ndim == 1 else b, None
    if values.dtype in TILED and b.dtype is values.dtype and not choice.widening:
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


def run_slot_spmv(slots: RowMatrix, b: Tensor) -> Tensor | None:
    """Return the product of an ELL matrix and a vector; None if it must be converted to CSR."""
    return None if kernels_wanted() else slot_product(slots, b)


def _show_plan(choice: Choice, matrix: RowMatrix, b: Tensor) -> None:
    """Record the predicted times of a product for ``explain``."""
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
    if c.ndim > 2 or d.ndim > 2:
        SDDMM.refuse("the kernel takes two matrices, not batches")
        return sampled_product(pattern, c, d)
    return SDDMM(pattern.pointers, pattern.indices, c, d)


# -- the operations --------------------------------------------------------------------------------


def _two_columns(row_ptrs: Tensor, col_indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pattern in which each entry is the two columns of its parts."""
    return 2 * row_ptrs, torch.stack([2 * col_indices, 2 * col_indices + 1], -1).flatten()


def _spmm(values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor) -> Tensor:
    pattern = pattern_of(row_ptrs, col_indices, b.shape[-2])
    return csr_product(RowMatrix(values, pattern), b)


def _spmm_backward(
    grad: Tensor, needed: Any, values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor
) -> tuple[Tensor | None, ...]:
    pattern = pattern_of(row_ptrs, col_indices, b.shape[-2])
    by_values = by_b = None
    if needed[0]:
        by_values = SDDMM(row_ptrs, col_indices, grad, b)
    if needed[3]:
        transposed, order = pattern.transposed
        by_b = SPMM(values.index_select(0, order), transposed.pointers, transposed.indices, grad)
    return by_values, None, None, by_b


def _spmm_by_parts(
    real: Callable[..., Tensor], values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor
) -> Tensor:
    return joined(real(parts(values), *_two_columns(row_ptrs, col_indices), embedded(b)))


def _spmm_launch(
    launch: Launcher, values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor
) -> Tensor:
    from trnsparse._kernels.spmm import spmm_one_hot, spmm_segments  # here, because it imports NKI

    pointers = host_numbers(row_ptrs)
    rows, width = len(pointers) - 1, b.shape[1]
    b = several_columns(b)
    segments = plan_rows(pointers, width, dtype_name(b.dtype)).kernel == "segments"
    if segments:
        order, place, slots = segment_order(pointers)
        counts = np.array([count for group in slots for count in group], np.int64)
        at = torch.from_numpy(place[chunk_columns(counts)]).to(values.device)
        places = None
        if not in_order(pointers):
            numbers = chunk_counts(np.array([0, rows]))
            places = unsigned(torch.from_numpy(order[chunk_columns(numbers)]))
        operands = values[at], unsigned(col_indices[at]), places
        result = launch(spmm_segments, *operands, b, slots, rows)
    else:
        starts = tile_starts(pointers)
        entries = chunk_columns(chunk_counts(starts))
        at = torch.from_numpy(entries).to(values.device)
        local = np.repeat(np.arange(rows) % TILE, np.diff(pointers)).astype(np.float32)
        operands = values[at], torch.from_numpy(local[entries]), unsigned(col_indices[at])
        result = launch(spmm_one_hot, *operands, b, tuple(starts.tolist()), rows)
    return leading_columns(result, width)


SPMM = Leveled(
    "spmm",
    launch=_spmm_launch,
    reference=_spmm,
    by_parts=_spmm_by_parts,
    backward=_spmm_backward,
    linear=(0, 3),
    flops=lambda values, pointers, indices, b: 2.0 * values.numel() * b.shape[-1],
)


def _sddmm(row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor) -> Tensor:
    return sampled_product(pattern_of(row_ptrs, col_indices, d.shape[-2]), c, d)


def _sddmm_backward(
    grad: Tensor, needed: Any, row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor
) -> tuple[Tensor | None, ...]:
    by_c = by_d = None
    if needed[2]:
        by_c = SPMM(grad, row_ptrs, col_indices, d)
    if needed[3]:
        transposed, order = pattern_of(row_ptrs, col_indices, d.shape[-2]).transposed
        by_d = SPMM(grad.index_select(0, order), transposed.pointers, transposed.indices, c)
    return None, None, by_c, by_d


def _sddmm_by_parts(
    real: Callable[..., Tensor], row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor
) -> Tensor:
    return joined(real(*_two_columns(row_ptrs, col_indices), parts(c), embedded(d.mT).mT))


def _sddmm_launch(
    launch: Launcher, row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor
) -> Tensor:
    from trnsparse._kernels.sddmm import sddmm

    pointers = host_numbers(row_ptrs)
    rows = np.repeat(np.arange(len(pointers) - 1), np.diff(pointers))
    at = chunk_columns(chunk_counts(pointers[[0, -1]]))
    index = unsigned(torch.from_numpy(rows[at])), unsigned(col_indices[torch.from_numpy(at)])
    return launch(sddmm, c, d, *index).mT.reshape(-1)[: len(rows)].clone()


SDDMM = Leveled(
    "sddmm",
    launch=_sddmm_launch,
    reference=_sddmm,
    by_parts=_sddmm_by_parts,
    backward=_sddmm_backward,
    linear=(2, 3),
    flops=lambda pointers, indices, c, d: 2.0 * indices.numel() * c.shape[-1],
)
