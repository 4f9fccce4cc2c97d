"""Conjugate gradients on a block matrix as one operation, run entirely on the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from trnsci.core.backend.launch import Launcher
from trnsci.core.backend.operation import Operation
from trnsci.core.iterations import Reason
from trnsci.core.krylov.operators import LinearOperator
from trnsci.core.krylov.runs import Product, Run, Watch, ended
from trnsci.core.krylov.short_recurrences import conjugate_gradients, kernel_reference
from trnsci.core.numbers.conversions import real_dtype
from trnsci.core.numbers.planes import embedded, joined, parts, real_length
from trnsci.core.numbers.values import inert, power_below
from trnsparse._library import LIBRARY
from trnsparse._paths.operands import host_numbers
from trnsparse._patterns.pattern import pattern_of
from trnsparse._products.block_products import block_product
from trnsparse.formats import BSRMatrix

_MOST_BLOCK = 128
_MOST_BYTES = 160 * 1024
"""SBUF capacity of the kernel, in bytes per partition."""
_VECTORS = 7


def _conjugate_gradients(
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    x: Tensor,
    tol: float,
    most: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return solutions (n, k), the iterations of each column and its squared residual."""
    with torch.no_grad(), torch.autocast(b.device.type, enabled=False):
        pattern = pattern_of(block_row_ptrs, block_col_indices, -(-b.shape[0] // blocks.shape[-1]))
        real = _real(b)
        wide = real.to_complex() if b.is_complex() else real
        matrix, right = blocks.to(wide), b.to(wide)

        def product(v: Tensor) -> Tensor:
            return block_product(matrix, pattern, v, b.shape[0])

        goal = tol * torch.linalg.vector_norm(right, dim=0, keepdim=True)
        found, _, steps = kernel_reference(
            product, right, x.to(wide), goal, most, dim=0, recorded=not inert(blocks, b, x)
        )
        rest = right - product(found)
        return found.to(b.dtype), steps.squeeze(0).to(real), (rest * rest.conj()).real.sum(0)


def _real(b: Tensor) -> torch.dtype:
    """Return the dtype of the sums of squares."""
    return torch.float64 if real_dtype(b.dtype) is torch.float64 else torch.float32


def _by_parts(
    real: Callable[..., Any],
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    x: Tensor,
    *limits: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the solution of the symmetric system of parts: its steps are those of the other."""
    vectors = (parts(v.mT).mT for v in (b, x))
    pattern = block_row_ptrs, block_col_indices
    found, steps, squares = real(embedded(blocks.mT).mT, *pattern, *vectors, *limits)
    return joined(found.mT).mT, steps, squares


def _too_large(
    blocks: Tensor, block_row_ptrs: Tensor, block_col_indices: Tensor, b: Tensor, *rest: Any
) -> str:
    count, size = blocks.shape[0], real_length(blocks, blocks.shape[-1])
    if size > _MOST_BLOCK:
        return f"the kernel takes blocks of up to {_MOST_BLOCK}, not {size}"
    grid = -(-b.shape[0] // blocks.shape[-1])
    need = 4 * (count * size + _VECTORS * max(b.shape[1], 2) * grid)
    if need > _MOST_BYTES:
        return f"the kernel keeps {_MOST_BYTES} bytes per partition in SBUF, not {need}"
    return ""


def _flops(
    blocks: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor, x: Tensor, *rest: Any
) -> float:
    return 2.0 * blocks.numel() * b.shape[1] * min(rest[1], b.shape[0])


def _shape(
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    x: Tensor,
    tol: float,
    most: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return empty tensors like the results of the reference."""
    column = b.new_empty(b.shape[1], dtype=_real(b))
    return torch.empty_like(b), column, torch.empty_like(column)


def _bsr_cg_launch(
    launch: Launcher,
    blocks: Tensor,
    block_row_ptrs: Tensor,
    block_col_indices: Tensor,
    b: Tensor,
    x: Tensor,
    tol: float,
    most: int,
) -> tuple[Tensor, Tensor, Tensor]:
    from trnsparse._kernels.bsr_cg import bsr_cg  # here, because it imports NKI

    starts, columns = host_numbers(block_row_ptrs), host_numbers(block_col_indices)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    grid, size = len(starts) - 1, blocks.shape[-1]
    (length, sides), missing = b.shape, grid * size - b.shape[0]
    entries: list[list[tuple[int, int]]] = [[] for _ in range(grid)]
    for block, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        entries[column].append((block, row))
    if missing:
        # Elements of a block outside of the matrix must have no effect.
        inside = torch.arange(size, device=blocks.device) < size - missing
        last = torch.from_numpy(rows == grid - 1).to(blocks.device)
        right = torch.from_numpy(columns == grid - 1).to(blocks.device)
        kept = (inside | ~last[:, None])[:, :, None] & (inside | ~right[:, None])[:, None, :]
        blocks = torch.where(kept, blocks, 0.0)
    limits = b.float().square().sum(0, keepdim=True) * (tol * tol)
    more = max(2 - sides, 0)  # some compilers reject a single moving column
    operands = (functional.pad(v, (0, more, 0, missing)) for v in (b, x))
    found, steps, squares = launch(
        bsr_cg,
        blocks,
        *operands,
        functional.pad(limits, (0, more)),
        tuple(tuple(column) for column in entries),
        int(most),
    )
    return found[:length, :sides].clone(), steps[0, :sides].clone(), squares[0, :sides].clone()


BSR_CG = Operation(
    LIBRARY,
    "bsr_cg",
    reference=_conjugate_gradients,
    fake=_shape,
    launch=_bsr_cg_launch,
    by_parts=_by_parts,
    dtypes=("float32", "bfloat16", "int32", "int64"),
    flops=_flops,
    unsuited=_too_large,
)


def resident_cg(op: LinearOperator, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return a run on the device for a BSR matrix without M and callback, else by products."""
    A = op.matrix
    if not isinstance(A, BSRMatrix) or A.blocks.ndim != 3 or M is not None or watch.callback:
        return conjugate_gradients(op, b, x, M, watch)
    # The kernel computes squares in float32, so the matrix is scaled to magnitude 1, as b is.
    unit = power_below(A.blocks)
    right, start = (v.unsqueeze(-1) if v.ndim == 1 else v for v in (b, x * unit))
    # One tolerance for all columns: the smallest of the non-zero right-hand sides.
    tol = watch.goal / watch.scale
    if isinstance(tol, Tensor):
        tol = min((each for each in tol.flatten().tolist() if each > 0), default=0.0)
    operands = A.blocks / unit, A.pattern.pointers, A.pattern.indices, right, start
    refusal = BSR_CG.refusal(*operands, tol, watch.limit)
    if refusal:
        BSR_CG.refuse(refusal)
        return conjugate_gradients(op, b, x, M, watch)
    found, steps, squares = BSR_CG(*operands, tol, watch.limit)
    norms = squares.double().sqrt().unsqueeze(0) if b.ndim == 2 else float(squares[0]) ** 0.5
    iterations = int(steps.max())
    reason: Reason = "limit" if iterations >= watch.limit else "stagnated"
    run = Run(found.reshape(b.shape) / unit, [0.0], iterations, iterations + 2, reason)
    return ended(run, watch, norms)
