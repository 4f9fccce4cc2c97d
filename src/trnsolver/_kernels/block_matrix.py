"""Block matrices in SBUF, with rows divided into blocks: products, transposes, loads, stores.

A block matrix of order N is a tile (width, blocks, N): row ``i * width + p`` is on partition p, at
index i of the second axis. With rows on partitions the Tensor engine multiplies the transpose of
one block matrix with another, the only product needed.

Layout   width at most 128, N = width * blocks
Limits   float32; padding is zeros
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsci.core.tiles.hardware import BANK
from trnsolver._kernels.symmetric import identity, mirror_lower, rows_of_column


def new_matrix(width: int, blocks: int, columns: int) -> Tile:
    """Return an unwritten block matrix."""
    return nl.ndarray((width, blocks, columns), dtype=nl.float32, buffer=nl.sbuf)


def block(x: Tile, i: int, j: int) -> Tile:
    """Return the square block in block row ``i`` and block column ``j``."""
    width = x.shape[0]
    return x[0:width, i, j * width : (j + 1) * width]


def strip_starts(columns: int, step: int) -> list[int]:
    """Return the bounds of runs of columns that fit a PSUM bank each.

    Runs are whole multiples of ``step``, except for the last.
    """
    return run_starts(columns, max(1, BANK // step) * step)


def run_starts(columns: int, length: int) -> list[int]:
    """Return the bounds of runs of ``length`` columns."""
    starts = []
    for first in range(0, columns, length):
        starts.append(first)
    starts.append(columns)
    return starts


def copy_matrix(dst: Tile, src: Tile) -> None:
    """Copy a block matrix."""
    for i in range(src.shape[1]):
        nisa.tensor_copy(dst=dst[0 : src.shape[0], i, :], src=src[0 : src.shape[0], i, :])


def transposed_product(dst: Tile, left: Tile, right: Tile) -> None:
    """Write ``left.T @ right`` to ``dst``, which is neither of them."""
    width, blocks, rows = left.shape[0], left.shape[1], dst.shape[0]
    for i in range(dst.shape[1]):
        starts = strip_starts(right.shape[2], 1)
        for s in range(len(starts) - 1):
            first, last = starts[s], starts[s + 1]
            total = nl.ndarray((rows, last - first), dtype=nl.float32, buffer=nl.psum)
            for k in range(blocks):
                nisa.nc_matmul(
                    dst=total,
                    stationary=left[0:width, k, i * rows : (i + 1) * rows],
                    moving=right[0:width, k, first:last],
                    accumulate=k > 0,
                )
            nisa.tensor_copy(dst=dst[0:rows, i, first:last], src=total)


def multiply_in_place(left: Tile, x: Tile) -> None:
    """Replace ``x`` by ``left.T @ x``, one strip of columns at a time.

    A strip of results fills at most four PSUM banks before it overwrites its columns.
    """
    width, blocks = x.shape[0], x.shape[1]
    starts = run_starts(x.shape[2], min(BANK, 4 * BANK // blocks))
    for s in range(len(starts) - 1):
        first, last = starts[s], starts[s + 1]
        totals = []
        for i in range(blocks):
            total = nl.ndarray((width, last - first), dtype=nl.float32, buffer=nl.psum)
            for k in range(blocks):
                nisa.nc_matmul(
                    dst=total,
                    stationary=block(left, k, i),
                    moving=x[0:width, k, first:last],
                    accumulate=k > 0,
                )
            totals.append(total)
        for i in range(blocks):
            nisa.tensor_copy(dst=x[0:width, i, first:last], src=totals[i])


def transpose_matrix(dst: Tile, src: Tile) -> None:
    """Write the transpose of a block matrix to another."""
    for i in range(src.shape[1]):
        for j in range(dst.shape[1]):
            transpose_tile(block(dst, j, i), block(src, i, j))


def shifted_identity(dst: Tile, factor: float, shift: float) -> None:
    """Replace a square block matrix X by ``factor * X + shift * I``."""
    width = dst.shape[0]
    shifts = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=shifts, value=shift)
    diagonal = select(shifts, [[-1, width]], 1, 0, nl.equal)
    for i in range(dst.shape[1]):
        row = dst[0:width, i, :]
        if factor != 1.0:
            nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=factor)
        nisa.tensor_tensor(dst=block(dst, i, i), data1=block(dst, i, i), data2=diagonal, op=nl.add)


def pad_diagonal(x: Tile, n: int, step: int = 1) -> None:
    """Write ones to the diagonal of a block matrix from row ``n`` on.

    The diagonal entry of row i is in column ``step * i``, if there is such a column.
    """
    width, blocks, order = x.shape
    above = (blocks - 1) * width
    columns = order // step - above
    if n >= above + columns:
        return
    ones = select(identity(width), [[0, width]], 1, above - n, nl.greater_equal)
    corner = x.ap(
        pattern=[[blocks * order, width], [step, columns]],
        offset=(blocks - 1) * order + step * above,
    )
    nisa.tensor_tensor(dst=corner, data1=corner, data2=ones[0:width, 0:columns], op=nl.add)


def scale_matrix(x: Tile, column: Tile) -> None:
    """Multiply the rows of a block matrix by a column with one value per partition."""
    for i in range(x.shape[1]):
        row = x[0 : x.shape[0], i, :]
        nisa.tensor_scalar(dst=row, data=row, op0=nl.multiply, operand0=column)


def largest_of(x: Tile) -> Tile:
    """Return a column with the largest magnitude of a block matrix on all partitions."""
    width, blocks = x.shape[0], x.shape[1]
    sizes = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(blocks):
        row = nl.ndarray((width, x.shape[2]), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=row, data=x[0:width, i, :], op0=nl.abs, operand0=0.0)
        nisa.tensor_reduce(dst=sizes[0:width, i : i + 1], op=nl.maximum, data=row, axis=1)
    column = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.maximum, data=sizes, axis=1)
    rows = rows_of_column(column)
    nisa.tensor_reduce(dst=column, op=nl.maximum, data=rows, axis=1)
    return column


def load_symmetric(dst: Tile, a: Tile, q: int) -> None:
    """Fill a block matrix with the ``q``-th symmetric matrix, from its lower triangle."""
    width, blocks, n = dst.shape[0], dst.shape[1], a.shape[1]
    nisa.memset(dst=dst, value=0.0)
    for i in range(blocks):
        top, columns = i * width, min((i + 1) * width, n)
        rows = min(width, n - top)
        if rows > 0:
            nisa.dma_copy(dst=dst[0:rows, i, 0:columns], src=a[q, top : top + rows, 0:columns])
        mirror_lower(block(dst, i, i))
        for j in range(i):
            transpose_tile(block(dst, j, i), block(dst, i, j))


def load_matrix(dst: Tile, a: Tile, q: int) -> None:
    """Fill a block matrix with the ``q``-th matrix of ``a``, padded with zeros."""
    width, rows, columns = dst.shape[0], a.shape[1], a.shape[2]
    nisa.memset(dst=dst, value=0.0)
    for i in range(dst.shape[1]):
        count = min(width, rows - i * width)
        if count > 0:
            nisa.dma_copy(
                dst=dst[0:count, i, 0:columns], src=a[q, i * width : i * width + count, 0:columns]
            )


def store_matrix(out: Tile, q: int, x: Tile) -> None:
    """Store a block matrix, without its padding, as the ``q``-th matrix of ``out``."""
    width, rows, columns = x.shape[0], out.shape[1], out.shape[2]
    for i in range(x.shape[1]):
        count = min(width, rows - i * width)
        if count > 0:
            nisa.dma_copy(
                dst=out[q, i * width : i * width + count, 0:columns], src=x[0:count, i, 0:columns]
            )
