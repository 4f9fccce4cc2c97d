"""The product of a matrix held as dense tiles and a dense matrix, in one launch.

Only tiles of 128 by 128 with entries are held, each transposed, so that nothing is transposed on
chip: a tile is the stationary operand of one product.

Layout   tiles with the matrix's columns on partitions, in the order of rows of tiles; the dense
         operand's rows on partitions, its columns move
Reuse    a panel of the dense operand stays in SBUF while its rows fit, loaded at first use; else
         each tile loads its own rows
Limits   any shape, edges are zeros of the tiles; float32 or 16 bits, sums in float32; the last
         bank of columns has more than one, the caller adds one of zeros. A NaN or an infinity in
         a row of the dense operand reaches all rows of the tiles that touch it
Cost     per tile one product of 128 by 128 by N and its bytes, once per panel
Lever    sixteen tiles per transfer, in runs of 8 KiB; sums accumulate in PSUM along a row of tiles.
         The pattern of tiles is a compile-time argument
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.transfers import copy
from trnsparse._kernels.bsr_spmm import BlockRows
from trnsparse._kernels.row_products import (
    add_chunk,
    new_sums,
    panels,
    store_nothing,
    store_sums,
)
from trnsparse._products.row_order import GROUP, RESIDENT


@nki.jit
def tiled_spmm(tiles: Tile, b: Tile, pattern: BlockRows, rows: int) -> Tile:
    """Return the product, (rows, N), in the dtype of the operands.

    Args:
        tiles: Element (k, t, m) is that of column k and row m of tile t, (128, tiles, 128).
        b: Dense operand, (n, N) with N at least 2.
        pattern: Positions of the tiles.
        rows: Rows of the result.
    """
    depth, columns = b.shape
    out = nl.ndarray((rows, columns), dtype=b.dtype, buffer=nl.shared_hbm)
    edges, resident = panels(columns, depth, 4 if b.dtype == nl.float32 else 2, RESIDENT)
    for p in range(len(edges) - 1):
        c0, c1 = edges[p], edges[p + 1]
        held: list[Tile] = []
        if resident:
            for _ in range(0, depth, GROUP * TILE):
                held.append(None)
        for i in range(len(pattern.starts) - 1):
            m0, m1 = i * TILE, min((i + 1) * TILE, rows)
            first, last = pattern.starts[i], pattern.starts[i + 1]
            if first == last:
                store_nothing(out, m0, m1, c0, c1)
                continue
            sums = new_sums(m1 - m0, c1 - c0)
            for t0 in range(first, last, GROUP):
                t1 = min(t0 + GROUP, last)
                loaded = nl.ndarray((TILE, t1 - t0, TILE), dtype=tiles.dtype, buffer=nl.sbuf)
                copy(loaded, tiles[0:TILE, t0:t1, 0:TILE])
                for t in range(t0, t1):
                    k = pattern.columns[t]
                    wide = min(TILE, depth - k * TILE)
                    if resident:
                        group, within = k // GROUP, k % GROUP
                        if held[group] is None:
                            held[group] = dense_rows(b, group * GROUP, GROUP, c0, c1)
                        moving = held[group][0:wide, within, 0 : c1 - c0]
                    else:
                        moving = dense_rows(b, k, 1, c0, c1)[0:wide, 0, 0 : c1 - c0]
                    add_chunk(sums, loaded[0:wide, t - t0, 0 : m1 - m0], moving, t == first)
            store_sums(out, m0, c0, sums)
    return out


def dense_rows(b: Tile, first: int, count: int, c0: int, c1: int) -> Tile:
    """Return tiles of rows of the dense operand, (128, tiles, columns), from tile ``first`` on."""
    depth, columns = b.shape
    last = min(first + count, (depth + TILE - 1) // TILE)
    panel = nl.ndarray((TILE, last - first, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
    whole = min(last, depth // TILE) - first
    if whole > 0:
        rows = b.ap(
            pattern=[[columns, TILE], [TILE * columns, whole], [1, c1 - c0]],
            offset=first * TILE * columns + c0,
        )
        copy(panel[0:TILE, 0:whole, 0 : c1 - c0], rows, second=True)
    if first + whole < last:
        k0 = (first + whole) * TILE
        copy(panel[0 : depth - k0, whole, 0 : c1 - c0], b[k0:depth, c0:c1], second=True)
    return panel
