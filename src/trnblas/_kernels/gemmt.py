"""One triangle of alpha * op(a) @ op(b) + beta * c; the other one is copied from c, or zero.

Layout   as GEMM; square blocks of the result as in SYRK
Limits   2-D, a square result; float32 or 16 bits, all operands of one dtype; the other triangle of
         c is copied unchanged for any alpha and beta; it is zero without c
Cost     (t + 1) / (2 t) of GEMM's products for t = M/512; at most the HBM bytes of ``syrk_tiling``
         with two operands
Lever    products of the other triangle are skipped; the rest is as in GEMM
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_schedule import loaded
from trnsci.core.tiles.gemm_tiles import (
    Tile,
    extents,
    finish,
    group_starts,
    new_totals,
    row_sums,
    triangle_mask,
)
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import Blocks, column_tiles


@nki.jit
def gemmt(
    a: Tile,
    b: Tile,
    c: Tile | None,
    alpha: float,
    beta: float,
    trans_a: bool,
    trans_b: bool,
    upper: bool,
    blocks: Blocks,
) -> Tile:
    """Return one triangle of ``alpha * op(a) @ op(b) + beta * c``, the rest from ``c`` or zero.

    Args:
        a: (M, K), or (K, M) with ``trans_a``.
        b: (K, M), or (M, K) with ``trans_b``.
        c: (M, M), or None when nothing is added.
        alpha: Scale of the product; not 0.
        beta: Scale of ``c``, not 0 when ``c`` is given.
        trans_a: Whether ``a`` is passed transposed.
        trans_b: Whether ``b`` is passed transposed.
        upper: Whether the upper triangle is computed, else the lower.
        blocks: The ``blocks`` of ``syrk_tiling`` with two operands.
    """
    a_layout = "rows" if trans_a else "columns"
    b_layout = "columns" if trans_b else "rows"
    depth, size = extents(a, a_layout)
    out = nl.ndarray((size, size), dtype=a.dtype, buffer=nl.shared_hbm)
    mask = triangle_mask(upper)
    step, depth_step = blocks.row_tiles * TILE, blocks.depth_tiles * TILE
    whole = depth_step >= depth
    for m in range(0, size, TILE):
        fill_other_triangle(out, c, m, min(TILE, size - m), upper)
    for i0 in range(0, size, step):
        i1 = min(i0 + step, size)
        first_block, last_block = (i0, size) if upper else (0, i1)
        left = None
        for j0 in range(first_block, last_block, step):
            j1 = min(j0 + step, size)
            totals = new_totals(i1 - i0, j1 - j0, not whole)
            for k0 in range(0, depth, depth_step):
                k1 = min(k0 + depth_step, depth)
                if j0 == first_block or not whole:
                    left = loaded(a, a_layout, k0, k1, i0, i1, blocks)
                right = loaded(b, b_layout, k0, k1, j0, j1, blocks)
                for m in range(i0, i1, TILE):
                    mw = min(TILE, i1 - m)
                    # The columns of the triangle in this row of tiles, counted from the block's
                    # first column.
                    first = max(m - j0, 0) if upper else 0
                    width = (j1 if upper else min(j1, m + mw)) - j0 - first
                    for t in range(0, column_tiles(width), blocks.group):
                        last = min(t + blocks.group, column_tiles(width))
                        starts = group_starts(t, last, width, -first)
                        sums = row_sums([left], [right], k0, k1, m - i0, mw, starts, totals)
                        if k1 == depth:
                            store_triangle(out, c, m, j0, starts, sums, alpha, beta, mask)
    return out


def fill_other_triangle(out: Tile, c: Tile | None, m: int, mw: int, upper: bool) -> None:
    """Write the other triangle's part of one row of tiles: copied from ``c``, or zeros."""
    size = out.shape[1]
    first, last = (0, m) if upper else (m + mw, size)
    for n in range(first, last, BANK):
        nw = min(BANK, last - n)
        passed = nl.ndarray((mw, nw), dtype=out.dtype, buffer=nl.sbuf)
        if c is None:
            nisa.memset(dst=passed, value=0.0)
        else:
            nisa.dma_copy(dst=passed, src=c[m : m + mw, n : n + nw])
        nisa.dma_copy(dst=out[m : m + mw, n : n + nw], src=passed)


def store_triangle(
    out: Tile,
    c: Tile | None,
    m: int,
    n0: int,
    starts: list[int],
    sums: list[Tile],
    alpha: float,
    beta: float,
    mask: Tile,
) -> None:
    """Finish and store tiles of one row of tiles; a diagonal tile only in its triangle."""
    mw = sums[0].shape[0]
    for j in range(len(sums)):
        n, width = n0 + starts[j], starts[j + 1] - starts[j]
        piece = nl.ndarray((mw, width), dtype=out.dtype, buffer=nl.sbuf)
        if c is not None:
            nisa.dma_copy(dst=piece, src=c[m : m + mw, n : n + width])
        diagonal = None
        if n <= m and m < n + width:
            diagonal = nl.ndarray((mw, mw), dtype=out.dtype, buffer=nl.sbuf)
            if c is None:
                nisa.memset(dst=diagonal, value=0.0)
            else:
                nisa.tensor_copy(dst=diagonal, src=piece[0:mw, m - n : m - n + mw])
        finish(piece, sums[j], alpha, beta, c is not None)
        if diagonal is not None:
            tile = piece[0:mw, m - n : m - n + mw]
            nisa.tensor_copy_predicated(dst=diagonal, src=tile, predicate=mask[0:mw, 0:mw])
            nisa.tensor_copy(dst=tile, src=diagonal)
        nisa.dma_copy(dst=out[m : m + mw, n : n + width], src=piece)
