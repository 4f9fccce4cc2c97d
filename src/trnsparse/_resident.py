"""Conjugate gradients on a matrix of blocks as one operation, so that the device does all of it.

On torch the methods of ``iterative`` are faster and say more; this is what a kernel computes, and
what torch computes in its place. It has no derivatives: solvers here have none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.eager import untracked
from trnsci.core.finite import power_below
from trnsci.core.iterations import Solution
from trnsci.core.operation import Operation
from trnsparse._block_products import block_product
from trnsparse._krylov import finished
from trnsparse._library import LIBRARY
from trnsparse._patterns import pattern_of
from trnsparse.formats import BSRMatrix

__all__ = ["BSR_CG", "resident_cg"]

_TINY = 1e-30
_MOST_BLOCK = 128
_MOST_BYTES = 160 * 1024
"""What the kernel keeps in SBUF, in bytes per partition."""
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
        wide = torch.float64 if b.dtype is torch.float64 else torch.float32
        matrix, right, found = blocks.to(wide), b.to(wide), x.to(wide)

        def product(v: Tensor) -> Tensor:
            return block_product(matrix, pattern, v, b.shape[0])

        limit = (right * right).sum(0) * (tol * tol)
        rest = right - product(found)
        way, rho = rest, (rest * rest).sum(0)
        alive, steps = rho > limit, torch.zeros_like(rho)
        for _ in range(most):
            if untracked(b) and not bool(alive.any()):
                break
            image = product(way)
            curvature = (way * image).sum(0)
            alive = alive & (curvature > _TINY)
            alpha = torch.where(alive, rho / torch.where(alive, curvature, 1.0), 0.0)
            found, rest = found + alpha * way, rest - alpha * image
            before, rho = rho, (rest * rest).sum(0)
            beta = torch.where(alive, rho / torch.where(alive, before, 1.0), 0.0)
            way, steps = rest + beta * way, steps + alive
            alive = alive & (rho > limit)
        rest = right - product(found)
        return found.to(b.dtype), steps, (rest * rest).sum(0)


def _too_large(
    blocks: Tensor, block_row_ptrs: Tensor, block_col_indices: Tensor, b: Tensor, *rest: Any
) -> str:
    count, size = blocks.shape[0], blocks.shape[-1]
    if size > _MOST_BLOCK:
        return f"the kernel takes blocks of up to {_MOST_BLOCK}, not {size}"
    grid = -(-b.shape[0] // size)
    need = 4 * (count * size + _VECTORS * max(b.shape[1], 2) * grid)
    if need > _MOST_BYTES:
        return f"the kernel keeps {_MOST_BYTES} bytes per partition in SBUF, not {need}"
    return ""


def _flops(
    blocks: Tensor, row_ptrs: Tensor, col_indices: Tensor, b: Tensor, x: Tensor, *rest: Any
) -> float:
    return 2.0 * blocks.numel() * b.shape[1] * min(rest[1], b.shape[0])


BSR_CG = Operation(
    LIBRARY,
    "bsr_cg",
    reference=_conjugate_gradients,
    launch="trnsparse._launches:bsr_cg",
    dtypes=("float32", "bfloat16", "int32", "int64"),
    flops=_flops,
    unsuited=_too_large,
)


def resident_cg(A: BSRMatrix, b: Tensor, x: Tensor, tol: float, most: int) -> Solution:
    """Return the solution of a positive definite system in blocks, found on the device."""
    # The kernel squares numbers in float32, so they are brought to the size of 1.
    size, unit = power_below(A.blocks), power_below(b)
    given = b / unit, x * (size / unit)
    right, start = (v.unsqueeze(-1) if v.ndim == 1 else v for v in given)
    operands = A.blocks / size, A.block_row_ptrs, A.block_col_indices
    found, steps, squares = BSR_CG(*operands, right, start, float(tol), int(most))
    sizes = torch.linalg.vector_norm(right.double(), dim=0)
    relative = squares.double().sqrt() / torch.where(sizes == 0, torch.inf, sizes)
    residual, iterations = float(relative.max()), int(steps.max())
    reason: Any = "limit" if iterations >= most else "stagnated"
    solved = (found.squeeze(-1) if b.ndim == 1 else found) * (unit / size)
    return finished(solved, iterations, residual, tol, reason, [residual], iterations + 2)
