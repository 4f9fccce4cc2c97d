"""The operations of trnsparse that have a kernel, each declared once.

Arguments are of the types that a torch operator supports: values, index tensors, dense operands and
numbers. Indices have no derivatives; derivatives by values and dense operands are products too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnsci.core.backend.derivatives import total
from trnsci.core.backend.operation import Operation
from trnsci.core.numbers.planes import embedded, joined, parts
from trnsparse._library import LIBRARY
from trnsparse._patterns.pattern import pattern_of
from trnsparse._products.block_products import block_product, cut, sampled_blocks
from trnsparse._products.row_products import RowMatrix, csr_product, sampled_product
from trnsparse._products.screened import screened_product

_DTYPES = ("float32", "bfloat16", "float16", "int32", "int64")


def _operation(name: str, **declaration: Any) -> Operation:
    return Operation(LIBRARY, name, launch=f"trnsparse._paths.kernel_path:{name}", **declaration)


def _two_columns(row_ptrs: Tensor, col_indices: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pattern in which each entry is the two columns of its parts."""
    return 2 * row_ptrs, torch.stack([2 * col_indices, 2 * col_indices + 1], -1).flatten()


# -- by rows ---------------------------------------------------------------------------------------


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


def _spmm_flops(values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor) -> float:
    return 2.0 * values.numel() * b.shape[-1]


def _spmm_by_parts(
    real: Callable[..., Tensor], values: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor
) -> Tensor:
    return joined(real(parts(values), *_two_columns(row_ptrs, col_indices), embedded(b)))


SPMM = _operation(
    "spmm",
    reference=_spmm,
    by_parts=_spmm_by_parts,
    backward=_spmm_backward,
    linear=(0, 3),
    dtypes=_DTYPES,
    flops=_spmm_flops,
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


def _sddmm_flops(row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor) -> float:
    return 2.0 * col_indices.numel() * c.shape[-1]


def _sddmm_by_parts(
    real: Callable[..., Tensor], row_ptrs: Tensor, col_indices: Tensor, c: Tensor, d: Tensor
) -> Tensor:
    return joined(real(*_two_columns(row_ptrs, col_indices), parts(c), embedded(d.mT).mT))


SDDMM = _operation(
    "sddmm",
    reference=_sddmm,
    by_parts=_sddmm_by_parts,
    backward=_sddmm_backward,
    linear=(2, 3),
    dtypes=_DTYPES,
    flops=_sddmm_flops,
)


# -- in blocks -------------------------------------------------------------------------------------


def _bsr_spmm(
    blocks: Tensor, block_row_ptrs: Tensor, block_col_indices: Tensor, b: Tensor, rows: int
) -> Tensor:
    return block_product(blocks, _grid(blocks, block_row_ptrs, block_col_indices, b), b, rows)


def _grid(blocks: Tensor, pointers: Tensor, indices: Tensor, b: Tensor) -> Any:
    return pattern_of(pointers, indices, -(-b.shape[-2] // blocks.shape[-1]))


def _bsr_backward(
    grad: Tensor,
    needed: Any,
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    rows: int,
) -> tuple[Tensor | None, ...]:
    pattern, size = _grid(blocks, block_row_ptrs, block_col_indices, b), blocks.shape[-1]
    by_blocks = by_b = None
    if needed[0]:
        by_blocks = BSR_SDDMM(block_row_ptrs, block_col_indices, grad, b, size)
    if needed[3]:
        transposed, order = pattern.transposed
        adjoint = blocks.index_select(0, order).mT.contiguous()
        by_b = BSR_SPMM(adjoint, transposed.pointers, transposed.indices, grad, b.shape[-2])
    return by_blocks, None, None, by_b, None


def _bsr_flops(
    blocks: Tensor, block_row_ptrs: Tensor, block_col_indices: Tensor, b: Tensor, rows: int
) -> float:
    return 2.0 * blocks.numel() * b.shape[-1]


def _bsr_by_parts(
    real: Callable[..., Tensor],
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    rows: int,
) -> Tensor:
    """Return the product of blocks of twice the size, on the left of vectors."""
    left, columns = embedded(blocks.mT).mT, parts(b.mT).mT
    return joined(real(left, block_row_ptrs, block_col_indices, columns, 2 * rows).mT).mT


BSR_SPMM = _operation(
    "bsr_spmm",
    reference=_bsr_spmm,
    by_parts=_bsr_by_parts,
    backward=_bsr_backward,
    linear=(0, 3),
    autocast="lower",
    dtypes=_DTYPES,
    flops=_bsr_flops,
)


def _tiled_spmm(
    tiles: Tensor, tile_ptrs: Tensor, tile_columns: Tensor, b: Tensor, rows: int
) -> Tensor:
    blocks = tiles.permute(1, 2, 0)
    return block_product(blocks, _grid(blocks, tile_ptrs, tile_columns, b), b, rows)


TILED_SPMM = _operation(
    "tiled_spmm",
    reference=_tiled_spmm,
    autocast="lower",
    dtypes=_DTYPES,
    flops=_bsr_flops,
)


def _bsr_sddmm(
    block_row_ptrs: Tensor, block_col_indices: Tensor, c: Tensor, d: Tensor, size: int
) -> Tensor:
    pattern = pattern_of(block_row_ptrs, block_col_indices, -(-d.shape[-2] // size))
    return sampled_blocks(pattern, cut(c, size), cut(d, size))


def _bsr_sddmm_backward(
    grad: Tensor,
    needed: Any,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    c: Tensor,
    d: Tensor,
    size: int,
) -> tuple[Tensor | None, ...]:
    by_c = by_d = None
    if needed[2]:
        by_c = BSR_SPMM(grad, block_row_ptrs, block_col_indices, d, c.shape[-2])
    if needed[3]:
        transposed, order = _grid(grad, block_row_ptrs, block_col_indices, d).transposed
        adjoint = grad.index_select(0, order).mT.contiguous()
        by_d = BSR_SPMM(adjoint, transposed.pointers, transposed.indices, c, d.shape[-2])
    return None, None, by_c, by_d, None


def _bsr_sddmm_flops(
    block_row_ptrs: Tensor, block_col_indices: Tensor, c: Tensor, d: Tensor, size: int
) -> float:
    return 2.0 * block_col_indices.numel() * size * size * c.shape[-1]


def _too_small_blocks(
    block_row_ptrs: Tensor, block_col_indices: Tensor, c: Tensor, d: Tensor, size: int
) -> str:
    return "" if size > 1 else "the kernel takes blocks of at least 2"


def _bsr_sddmm_by_parts(
    real: Callable[..., Tensor],
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    c: Tensor,
    d: Tensor,
    size: int,
) -> Tensor:
    """Return the products of all parts with all, summed up to the numbers of a block."""
    rows = (torch.view_as_real(x.resolve_conj()).mT.flatten(0, 1) for x in (c, d))
    found = real(block_row_ptrs, block_col_indices, *rows, 2 * size)
    each = found.reshape(-1, size, 2, size, 2)
    by_real, by_imaginary = each[:, :, 0], each[:, :, 1]
    real_part = by_real[..., 0] - by_imaginary[..., 1]
    return torch.complex(real_part, by_real[..., 1] + by_imaginary[..., 0])


BSR_SDDMM = _operation(
    "bsr_sddmm",
    reference=_bsr_sddmm,
    by_parts=_bsr_sddmm_by_parts,
    backward=_bsr_sddmm_backward,
    linear=(2, 3),
    autocast="lower",
    dtypes=_DTYPES,
    flops=_bsr_sddmm_flops,
    unsuited=_too_small_blocks,
)


# -- screened --------------------------------------------------------------------------------------


def _screened_backward(
    grad: Tensor,
    needed: Any,
    a: Tensor,
    row_bounds: Tensor,
    col_bounds: Tensor,
    b: Tensor,
    cutoff: float,
) -> tuple[Tensor | None, ...]:
    by_a = by_b = None
    if needed[0]:
        kept = torch.outer(row_bounds, col_bounds) > cutoff
        by_a = (grad @ b.mT).masked_fill(~kept, 0.0)
    if needed[3]:
        by_b = SCREENED_SPMM(a.mT.contiguous(), col_bounds, row_bounds, grad, cutoff)
    return by_a, None, None, by_b, None


def _screened_jvp(
    tangents: Any, a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> Tensor:
    parts = []
    if tangents[0] is not None:
        parts.append(SCREENED_SPMM(tangents[0], row_bounds, col_bounds, b, cutoff))
    if tangents[3] is not None:
        parts.append(SCREENED_SPMM(a, row_bounds, col_bounds, tangents[3], cutoff))
    return total(parts) if parts else b.new_zeros(a.shape[0], b.shape[1])


def _screened_flops(
    a: Tensor, row_bounds: Tensor, col_bounds: Tensor, b: Tensor, cutoff: float
) -> float:
    return 2.0 * a.numel() * b.shape[-1]


def _screened_by_parts(
    real: Callable[..., Tensor],
    a: Tensor,
    row_bounds: Tensor,
    col_bounds: Tensor,
    b: Tensor,
    cutoff: float,
) -> Tensor:
    bounds = row_bounds, col_bounds.repeat_interleave(2)
    return joined(real(parts(a), *bounds, embedded(b), cutoff))


SCREENED_SPMM = _operation(
    "screened_spmm",
    reference=screened_product,
    by_parts=_screened_by_parts,
    backward=_screened_backward,
    jvp=_screened_jvp,
    autocast="lower",
    flops=_screened_flops,
)
