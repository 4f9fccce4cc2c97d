"""Lower Cholesky factors of symmetric positive definite matrices, a whole batch in one launch.

Block columns of 128 are factored from left to right, see ``elimination``. Matrices of order up to
64 share a tile.

Layout   the factor as a block matrix with rows on partitions; the transposes of its blocks, which
         products need, in place of the upper triangle
Limits   order at most 2048, whose matrix takes 128 KiB of each partition. Diagonals near 1. Only
         the lower triangle is read. A matrix that is not positive definite has a factor with NaN on
         its diagonal
Cost     for b = n / 128: b^3 / 6 products of 128 x 128 x 128, and 8 b panels of 16 columns
Lever    one read of half of the matrix, which is stored as it is factored; rows below the diagonal
         block are eliminated with it, so that no inverse is needed
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select
from trnsci.core.tiles.hardware import TILE
from trnsolver._kernels.block_matrix import block, new_matrix
from trnsolver._kernels.elimination import Group, factor_column, group_of
from trnsolver._kernels.limits import CHOLESKY_ORDER
from trnsolver._kernels.symmetric import identity, mirror_lower


@nki.jit
def cholesky(a: Tile, copies: int) -> Tile:
    """Return the lower factors of matrices, with zeros above the diagonals.

    Args:
        a: Symmetric positive definite matrices, (batch, n, n); the lower triangles are read.
        copies: Number of matrices that share a tile, 1 for orders above 64.
    """
    batch, n = a.shape[0], a.shape[1]
    assert n <= CHOLESKY_ORDER, f"cholesky: order at most {CHOLESKY_ORDER}, got {n}"
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    if n <= TILE:
        group = group_of(n, copies)
        for first in range(0, batch, copies):
            small_factors(out, a, first, min(copies, batch - first), group)
        return out
    group = group_of(TILE, 1)
    zeros = nl.ndarray((TILE, n - TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    blocks = (n + TILE - 1) // TILE
    for q in range(batch):
        x = new_matrix(TILE, blocks, blocks * TILE)
        load_lower(x, a, q)
        for j in range(blocks):
            factor_column(x, j, min(TILE, n - j * TILE), group)
            top, end = j * TILE, min((j + 1) * TILE, n)
            nisa.dma_copy(dst=out[q, top:end, 0:end], src=x[0 : end - top, j, 0:end])
            if end < n:
                nisa.dma_copy(dst=out[q, top:end, end:n], src=zeros[0 : end - top, 0 : n - end])
    return out


def load_lower(x: Tile, a: Tile, q: int) -> None:
    """Fill the lower triangle of blocks of a block matrix, and both triangles of its diagonal."""
    blocks, n = x.shape[1], a.shape[1]
    for i in range(blocks):
        top, end = i * TILE, min((i + 1) * TILE, n)
        if end < top + TILE:
            nisa.memset(dst=x[0:TILE, i, 0 : top + TILE], value=0.0)
        nisa.dma_copy(dst=x[0 : end - top, i, 0:end], src=a[q, top:end, 0:end])
        mirror_lower(block(x, i, i))


def small_factors(out: Tile, a: Tile, first: int, count: int, group: Group) -> None:
    """Factor the matrices of one tile."""
    n = group.order
    slots = n * group.copies
    x = new_matrix(slots, 1, slots)
    d = x[0:slots, 0, 0:slots]
    nisa.memset(dst=d, value=0.0)
    for k in range(count):
        nisa.dma_copy(dst=d[k * n : (k + 1) * n, k * n : (k + 1) * n], src=a[first + k])
    mirror_lower(d)
    if count < group.copies:
        # Unused positions hold the identity.
        empty = select(identity(slots), [[0, slots]], 1, -count * n, nl.greater_equal)
        nisa.tensor_tensor(dst=d, data1=d, data2=empty, op=nl.add)
    factor_column(x, 0, n, group)
    for k in range(count):
        nisa.dma_copy(dst=out[first + k], src=d[k * n : (k + 1) * n, k * n : (k + 1) * n])
