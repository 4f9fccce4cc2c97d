"""Products of a matrix of blocks: on torch, or on a kernel by an operation.

Arguments are those of ``trnsparse._paths.rows``. Block patterns are compile-time constants: a
kernel's loops contain only the stored blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.numbers.planes import embedded, joined, parts, real_length
from trnsparse._library import LIBRARY
from trnsparse._paths.leveled import Leveled
from trnsparse._paths.operands import (
    KERNEL_DTYPES,
    MOST_DEPTH,
    host_numbers,
    leading_columns,
    of_batch,
    several_columns,
)
from trnsparse._patterns.pattern import pattern_of
from trnsparse._products.block_products import block_product, blocks_times, cut, sampled_blocks
from trnsparse._products.row_products import RowMatrix


def run_bsr_spmm(matrix: RowMatrix, b: Tensor, rows: int) -> Tensor:
    """Return the product of a block matrix and a dense vector or matrix."""
    if b.ndim == 1:
        return run_bsr_spmm(matrix, b.unsqueeze(-1), rows).squeeze(-1)
    if not LIBRARY.kernels_wanted():
        return blocks_times(matrix, b, rows)
    blocks, pattern = matrix.values, matrix.pattern
    if blocks.ndim > 3:
        BSR_SPMM.refuse("the kernel takes one matrix, not a batch")
        return blocks_times(matrix, b, rows)
    if b.ndim > 2:
        return of_batch(lambda wide: run_bsr_spmm(matrix, wide, rows), b)
    return BSR_SPMM(blocks, pattern.pointers, pattern.indices, b, rows)


# -- the operations --------------------------------------------------------------------------------


def _bsr_spmm(blocks: Tensor, pointers: Tensor, indices: Tensor, b: Tensor, rows: int) -> Tensor:
    return block_product(blocks, _grid(blocks, pointers, indices, b), b, rows)


def _grid(blocks: Tensor, pointers: Tensor, indices: Tensor, b: Tensor) -> Any:
    return pattern_of(pointers, indices, -(-b.shape[-2] // blocks.shape[-1]))


def _bsr_backward(
    grad: Tensor,
    needed: Any,
    blocks: Tensor,
    pointers: Tensor,
    indices: Tensor,
    b: Tensor,
    rows: int,
) -> tuple[Tensor | None, ...]:
    pattern, size = _grid(blocks, pointers, indices, b), blocks.shape[-1]
    by_blocks = by_b = None
    if needed[0]:
        by_blocks = BSR_SDDMM(pointers, indices, grad, b, size)
    if needed[3]:
        transposed, order = pattern.transposed
        adjoint = blocks.index_select(0, order).mT.contiguous()
        by_b = BSR_SPMM(adjoint, transposed.pointers, transposed.indices, grad, b.shape[-2])
    return by_blocks, None, None, by_b, None


def _bsr_by_parts(
    real: Callable[..., Tensor],
    blocks: Tensor,
    pointers: Tensor,
    indices: Tensor,
    b: Tensor,
    rows: int,
) -> Tensor:
    """Return the product of blocks of twice the size, on the left of vectors."""
    left, columns = embedded(blocks.mT).mT, parts(b.mT).mT
    return joined(real(left, pointers, indices, columns, 2 * rows).mT).mT


def _block_rows(pointers: Tensor, indices: Tensor) -> Any:
    from trnsparse._kernels.bsr_spmm import BlockRows  # here, because it imports NKI

    return BlockRows(tuple(host_numbers(pointers).tolist()), tuple(host_numbers(indices).tolist()))


def _bsr_spmm_launch(
    launch: Launcher, blocks: Tensor, pointers: Tensor, indices: Tensor, b: Tensor, rows: int
) -> Tensor:
    from trnsparse._kernels.bsr_spmm import bsr_spmm

    pattern = _block_rows(pointers, indices)
    return leading_columns(
        launch(bsr_spmm, blocks, several_columns(b), pattern, int(rows)), b.shape[1]
    )


def _too_large(blocks: Tensor, *rest: Any) -> str:
    size = real_length(blocks, blocks.shape[-1])
    if size <= MOST_DEPTH:
        return ""
    return f"the kernel of doublefloat takes blocks of up to {MOST_DEPTH}, not {size}"


BSR_SPMM = Leveled(
    "bsr_spmm",
    refused=_too_large,
    launch=_bsr_spmm_launch,
    reference=_bsr_spmm,
    by_parts=_bsr_by_parts,
    backward=_bsr_backward,
    linear=(0, 3),
    autocast="lower",
    flops=lambda blocks, pointers, indices, b, rows: 2.0 * blocks.numel() * b.shape[-1],
)


def _tiled_spmm(tiles: Tensor, pointers: Tensor, indices: Tensor, b: Tensor, rows: int) -> Tensor:
    blocks = tiles.permute(1, 2, 0)
    return block_product(blocks, _grid(blocks, pointers, indices, b), b, rows)


def _tiled_spmm_launch(
    launch: Launcher, tiles: Tensor, pointers: Tensor, indices: Tensor, b: Tensor, rows: int
) -> Tensor:
    from trnsparse._kernels.tiled_spmm import tiled_spmm

    pattern = _block_rows(pointers, indices)
    return leading_columns(
        launch(tiled_spmm, tiles, several_columns(b), pattern, int(rows)), b.shape[1]
    )


TILED_SPMM = Operation(
    LIBRARY,
    "tiled_spmm",
    launch=_tiled_spmm_launch,
    reference=_tiled_spmm,
    autocast="lower",
    dtypes=KERNEL_DTYPES,
    flops=lambda blocks, pointers, indices, b, rows: 2.0 * blocks.numel() * b.shape[-1],
)


def _bsr_sddmm(pointers: Tensor, indices: Tensor, c: Tensor, d: Tensor, size: int) -> Tensor:
    pattern = pattern_of(pointers, indices, -(-d.shape[-2] // size))
    return sampled_blocks(pattern, cut(c, size), cut(d, size))


def _bsr_sddmm_backward(
    grad: Tensor, needed: Any, pointers: Tensor, indices: Tensor, c: Tensor, d: Tensor, size: int
) -> tuple[Tensor | None, ...]:
    by_c = by_d = None
    if needed[2]:
        by_c = BSR_SPMM(grad, pointers, indices, d, c.shape[-2])
    if needed[3]:
        transposed, order = _grid(grad, pointers, indices, d).transposed
        adjoint = grad.index_select(0, order).mT.contiguous()
        by_d = BSR_SPMM(adjoint, transposed.pointers, transposed.indices, c, d.shape[-2])
    return None, None, by_c, by_d, None


def _bsr_sddmm_by_parts(
    real: Callable[..., Tensor], pointers: Tensor, indices: Tensor, c: Tensor, d: Tensor, size: int
) -> Tensor:
    """Return the products of all parts with all, summed up to the numbers of a block."""
    rows = (torch.view_as_real(x.resolve_conj()).mT.flatten(0, 1) for x in (c, d))
    found = real(pointers, indices, *rows, 2 * size)
    each = found.reshape(-1, size, 2, size, 2)
    by_real, by_imaginary = each[:, :, 0], each[:, :, 1]
    real_part = by_real[..., 0] - by_imaginary[..., 1]
    return torch.complex(real_part, by_real[..., 1] + by_imaginary[..., 0])


def _bsr_sddmm_launch(
    launch: Launcher, pointers: Tensor, indices: Tensor, c: Tensor, d: Tensor, size: int
) -> Tensor:
    from trnsparse._kernels.sddmm import bsr_sddmm

    pattern = _block_rows(pointers, indices)
    whole = (functional.pad(x, (0, 0, 0, -x.shape[0] % size)) for x in (c, d))
    return launch(bsr_sddmm, *whole, pattern, int(size))


BSR_SDDMM = Leveled(
    "bsr_sddmm",
    launch=_bsr_sddmm_launch,
    reference=_bsr_sddmm,
    by_parts=_bsr_sddmm_by_parts,
    backward=_bsr_sddmm_backward,
    linear=(2, 3),
    autocast="lower",
    flops=lambda pointers, indices, c, d, size: 2.0 * indices.numel() * size**2 * c.shape[-1],
    unsuited=lambda *args: "" if args[-1] > 1 else "the kernel takes blocks of at least 2",
)
