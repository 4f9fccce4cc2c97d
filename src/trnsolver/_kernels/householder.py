"""The steps of a Householder tridiagonalisation: a matrix-vector product and a rank-2 update.

A step needs w = A v and then A - u v^T - v u^T. Both are separate kernels for matrices of any
order. The solver's own eigenproblems use ``jacobi`` instead.

Layout   rows of A on partitions, 128 at a time, columns 512 at a time
Limits   float32; vectors are columns, (n, 1)
Cost     A is read once, and for the update written once
Lever    one product broadcasts a vector to all partitions, one sums both outer products
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE


@nki.jit
def matvec_kernel(a: Tile, v: Tile) -> Tile:
    """Return ``a @ v``.

    Args:
        a: Matrix, (m, n).
        v: Column, (n, 1).
    """
    m, n = a.shape
    out = nl.ndarray((m, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    row = nl.ndarray((1, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=row, src=v.reshape((1, n)))
    ones = nl.ndarray((1, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    strips = (n + BANK - 1) // BANK
    for r in range(0, m, TILE):
        rows = min(TILE, m - r)
        parts = nl.ndarray((rows, strips), dtype=nl.float32, buffer=nl.sbuf)
        for s in range(strips):
            first, last = s * BANK, min((s + 1) * BANK, n)
            broadcast = nl.ndarray((rows, max(2, last - first)), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(
                dst=broadcast,
                stationary=ones[0:1, 0:rows],
                moving=at_least_two(row, first, last),
            )
            tile = nl.ndarray((rows, last - first), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[r : r + rows, first:last])
            nisa.tensor_tensor(
                dst=tile, data1=tile, data2=broadcast[0:rows, 0 : last - first], op=nl.multiply
            )
            nisa.tensor_reduce(dst=parts[0:rows, s : s + 1], op=nl.add, data=tile, axis=1)
        total = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=total, op=nl.add, data=parts, axis=1)
        nisa.dma_copy(dst=out[r : r + rows, 0:1], src=total)
    return out


@nki.jit
def rank2_update_kernel(a: Tile, u: Tile, v: Tile) -> Tile:
    """Return ``a - u @ v.T - v @ u.T``.

    Args:
        a: Square matrix, (n, n).
        u: Column, (n, 1).
        v: Column, (n, 1).
    """
    n = a.shape[0]
    out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    left = nl.ndarray((2, n), dtype=nl.float32, buffer=nl.sbuf)
    right = nl.ndarray((2, n), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=left[0:1, 0:n], src=u.reshape((1, n)))
    nisa.dma_copy(dst=left[1:2, 0:n], src=v.reshape((1, n)))
    nisa.dma_copy(dst=right[0:1, 0:n], src=v.reshape((1, n)))
    nisa.dma_copy(dst=right[1:2, 0:n], src=u.reshape((1, n)))
    for r in range(0, n, TILE):
        rows = min(TILE, n - r)
        for first in range(0, n, BANK):
            last = min(first + BANK, n)
            change = nl.ndarray((rows, max(2, last - first)), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(
                dst=change,
                stationary=left[0:2, r : r + rows],
                moving=at_least_two(right, first, last),
            )
            tile = nl.ndarray((rows, last - first), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=a[r : r + rows, first:last])
            nisa.tensor_tensor(
                dst=tile, data1=tile, data2=change[0:rows, 0 : last - first], op=nl.subtract
            )
            nisa.dma_copy(dst=out[r : r + rows, first:last], src=tile)
    return out


def at_least_two(rows: Tile, first: int, last: int) -> Tile:
    """Return columns of a tile; a single one is doubled, since some compilers reject it."""
    count, columns = rows.shape
    if last - first > 1:
        return rows[0:count, first:last]
    return rows.ap(pattern=[[columns, count], [0, 2]], offset=first)
