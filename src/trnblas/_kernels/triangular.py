"""Panels, diagonal blocks and layout flags shared by TRSM and TRMM.

All combinations of side and flags are reduced to a square matrix M and a panel Z of columns:

    left   M = op(A),    Z holds columns of B
    right  M = op(A)^T,  Z holds columns of B^T, that is rows of B: X op(A) = B is M X^T = B^T

M is A itself or its transpose (``transposed``), and lower or upper (``lower``). A matmul requires
the contraction on the partitions of both operands, so a block M[i, k] is used as its transpose: as
stored if M is the transpose of A, else transposed once by the Tensor engine after the load.

Layout   rows of M and Z on partitions, 128 at a time; a panel is (128, blocks, columns)
Limits   no extent is 0; a panel has at most 2048 columns, so that a row of results fills four PSUM
         banks of 512 and leaves four for transposes and for the next row
Cost     on the right, one transpose of each tile of B after the load and one before the store
Lever    the panel stays in SBUF for the whole operation: Z is read and written once
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile, transpose_tiles
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import column_start, column_tiles, row_tiles
from trnsci.core.tiles.transfers import copy

BANKS = 4
"""Maximum PSUM banks of one row of results."""
PANEL_BYTES = 144 * 1024
"""SBUF bytes per partition of resident panels; the rest of 180,224 (gen2) is for other tiles."""

Chunk = tuple[int, int, int, int]


class Triangle(NamedTuple):
    """Side, triangle and diagonal of the triangular operand A, and of the matrix M (see above).

    Attributes:
        left: Whether op(A) is the left factor.
        upper: Whether the upper triangle of A is stored.
        transposed: Whether M is the transpose of A, else A itself.
        lower: Whether M is lower triangular.
        unit: Whether the diagonal counts as ones.
    """

    left: bool
    upper: bool
    transposed: bool
    lower: bool
    unit: bool


def triangle(left: bool, upper: bool, trans: bool, unit: bool) -> Triangle:
    """Return the flags of a BLAS call as the kernels use them."""
    transposed = left == trans
    return Triangle(left, upper, transposed, upper == transposed, unit)


def block_rows(i: int, extent: int) -> int:
    """Return the rows of block ``i``; the last may have fewer than 128."""
    return min(TILE, extent - i * TILE)


def even_width(extent: int, limit: int) -> int:
    """Return the width of the fewest nearly equal pieces: 513 columns are 257 and 256."""
    pieces = (extent + limit - 1) // limit
    return (extent + pieces - 1) // pieces


def panel_width(blocks: int, itemsize: int, reserved: int) -> int:
    """Return the maximum columns of a panel if ``reserved`` columns of SBUF are taken."""
    return min(PANEL_BYTES // (blocks * itemsize) - reserved, BANKS * BANK)


def column_chunks(first: int, batch: int, columns: int, width: int) -> list[Chunk]:
    """Return the panels of a batch as (first matrix, matrices, first column, columns of each).

    Narrow matrices share a panel, so that each block of M is loaded once for many of them.
    """
    chunks = []
    if columns <= width:
        count = width // max(2, columns)
        for q in range(first, first + batch, count):
            chunks.append((q, min(count, first + batch - q), 0, columns))
        return chunks
    piece = even_width(columns, width)
    for q in range(first, first + batch):
        for c in range(0, columns, piece):
            chunks.append((q, 1, c, min(piece, columns - c)))
    return chunks


def load_panel(b: Tile, chunk: Chunk, left: bool, dtype: Any) -> Tile:
    """Return columns of B, or rows of B transposed into columns, as a panel of ``dtype``.

    Rows of B are loaded 512 elements (four blocks) at a time before they are transposed.
    """
    first, count, start, width = chunk
    extent = b.shape[1] if left else b.shape[2]
    blocks = row_tiles(extent)
    # Some compilers reject a matmul with one moving column: a column of zeros is added to it.
    pitch = max(2, width)
    panel = nl.ndarray((TILE, blocks, count * pitch), dtype=dtype, buffer=nl.sbuf)
    if width == 1:
        nisa.memset(dst=panel, value=0.0)
    if left:
        for i in range(blocks):
            nisa.dma_copy(dst=panel_rows(panel, i, chunk, extent), src=matrix_rows(b, i, chunk))
        return panel
    for q in range(count):
        at = q * pitch
        for r in range(0, width, TILE):
            rows = min(TILE, width - r)
            for c in range(0, extent, BANK):
                columns = min(BANK, extent - c)
                wide = nl.ndarray((rows, columns), dtype=dtype, buffer=nl.sbuf)
                nisa.dma_copy(
                    dst=wide, src=b[first + q, start + r : start + r + rows, c : c + columns]
                )
                transpose_tiles(panel, c // TILE, at + r, wide)
    return panel


def panel_rows(panel: Tile, i: int, chunk: Chunk, extent: int) -> Tile:
    """Return block ``i`` of a panel of ``extent`` rows as (rows, matrices, columns)."""
    count, width = chunk[1], chunk[3]
    blocks, columns = panel.shape[1], panel.shape[2]
    pattern = [[blocks * columns, block_rows(i, extent)], [columns // count, count], [1, width]]
    return panel.ap(pattern=pattern, offset=i * columns)


def matrix_rows(b: Tile, i: int, chunk: Chunk) -> Tile:
    """Return block ``i`` of the rows of a chunk in HBM as (rows, matrices, columns)."""
    first, count, start, width = chunk
    extent, columns = b.shape[1], b.shape[2]
    pattern = [[columns, block_rows(i, extent)], [extent * columns, count], [1, width]]
    return b.ap(pattern=pattern, offset=(first * extent + i * TILE) * columns + start)


def store_panel(out: Tile, chunk: Chunk, left: bool, panel: Tile) -> None:
    """Store a panel, the inverse of ``load_panel``, rounded to the dtype of ``out``."""
    first, count, start, width = chunk
    extent = out.shape[1] if left else out.shape[2]
    if left:
        for i in range(row_tiles(extent)):
            nisa.dma_copy(dst=matrix_rows(out, i, chunk), src=panel_rows(panel, i, chunk, extent))
        return
    for q in range(count):
        at = q * (panel.shape[2] // count)
        for r in range(0, width, TILE):
            rows = min(TILE, width - r)
            for c in range(0, extent, BANK):
                columns = min(BANK, extent - c)
                wide = nl.ndarray((rows, columns), dtype=panel.dtype, buffer=nl.sbuf)
                for k in range(0, columns, TILE):
                    depth = min(TILE, columns - k)
                    transpose_tile(
                        wide[0:rows, k : k + depth],
                        panel[0:depth, (c + k) // TILE, at + r : at + r + rows],
                    )
                nisa.dma_copy(
                    dst=out[first + q, start + r : start + r + rows, c : c + columns], src=wide
                )


def store_zeros(out: Tile) -> None:
    """Fill a (batch, rows, columns) tensor in HBM with zeros."""
    batch, rows, columns = out.shape
    width = min(columns, BANKS * BANK)
    zeros = nl.ndarray((TILE, width), dtype=out.dtype, buffer=nl.sbuf)
    nisa.memset(dst=zeros, value=0.0)
    for q in range(batch):
        for r in range(0, rows, TILE):
            for c in range(0, columns, width):
                height, across = min(TILE, rows - r), min(width, columns - c)
                nisa.dma_copy(
                    dst=out[q, r : r + height, c : c + across], src=zeros[0:height, 0:across]
                )


def load_diagonals(dst: Tile, a: Tile, q: int, i: int, matrices: int, eye: Tile) -> None:
    """Load diagonal blocks from block ``i`` on, with both triangles, of matrices from ``q`` on.

    Args:
        dst: The blocks, (rows, blocks, rows).
        a: The matrices.
        q: The first matrix.
        i: The first block.
        matrices: Number of matrices. Block ``i`` of all of them comes before block ``i + 1``.
        eye: Identity; a smaller last block is extended by its other rows and columns.
    """
    size, order = dst.shape[0], a.shape[1]
    for f in range(0, dst.shape[1], matrices):
        block = i + f // matrices
        rows = block_rows(block, order)
        if rows < size:
            for m in range(matrices):
                nisa.tensor_copy(dst=dst[0:size, f + m, 0:size], src=eye[0:size, 0:size])
        pattern = [[order, rows], [order * order, matrices], [1, rows]]
        offset = q * order * order + block * TILE * (order + 1)
        copy(dst[0:rows, f : f + matrices, 0:rows], a.ap(pattern=pattern, offset=offset))


def load_diagonal(a: Tile, i: int, dtype: Any) -> Tile:
    """Return diagonal block ``i`` of the first matrix, with both triangles as they are stored."""
    size = block_rows(i, a.shape[1])
    block = nl.ndarray((size, 1, size), dtype=dtype, buffer=nl.sbuf)
    load_diagonals(block, a, 0, i, 1, block)
    return block


def select_triangle(blocks: Tile, upper: bool, diagonal: bool) -> Tile:
    """Return one triangle of each block, with or without its diagonal; zeros elsewhere."""
    size, count = blocks.shape[0], blocks.shape[1]
    sign = 1 if upper else -1
    op = nl.greater_equal if diagonal else nl.greater
    return select(blocks, [[0, count], [sign, size]], -sign, 0, op)


def load_transposed(a: Tile, q: int, i: int, k: int, transposed: bool, dtype: Any) -> Tile:
    """Return the transpose of M[i, k], off the diagonal: k on partitions, i on the free axis."""
    rows, depth = block_rows(i, a.shape[1]), block_rows(k, a.shape[1])
    top, side = i * TILE, k * TILE
    block = nl.ndarray((depth, rows), dtype=dtype, buffer=nl.sbuf)
    if transposed:
        nisa.dma_copy(dst=block, src=a[q, side : side + depth, top : top + rows])
        return block
    stored = nl.ndarray((rows, depth), dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=stored, src=a[q, top : top + rows, side : side + depth])
    transpose_tile(block, stored)
    return block


def result_strips(rows: int, width: int) -> list[Tile]:
    """Return PSUM tiles, a bank each, for a row of results of ``width`` columns."""
    strips = []
    for s in range(column_tiles(width)):
        columns = column_start(s + 1, width) - column_start(s, width)
        strips.append(nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum))
    return strips


def panel_strip(panel: Tile, rows: int, i: int, s: int) -> Tile:
    """Return the columns of block ``i`` of a panel that belong to strip ``s`` of the results."""
    width = panel.shape[2]
    return panel[0:rows, i, column_start(s, width) : column_start(s + 1, width)]


def add_product(strips: list[Tile], stationary: Tile, panel: Tile, k: int, first: bool) -> None:
    """Add ``stationary.T`` times block ``k`` of a panel to a row of results, or write it."""
    for s in range(len(strips)):
        nisa.nc_matmul(
            dst=strips[s],
            stationary=stationary,
            moving=panel_strip(panel, stationary.shape[0], k, s),
            accumulate=not first,
        )
