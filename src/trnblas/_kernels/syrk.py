"""alpha * a @ a.T + beta * c, and the two-operand form, from one triangle of products.

Layout   the contraction on partitions, as in GEMM; one panel serves both sides of the product.
         Tiles on and above the diagonal are computed; each is stored, transposed on chip and
         stored again in its mirror place.
Limits   2-D, each extent at least 1; float32 or 16 bits, all operands of one dtype; alpha and beta
         are compile-time numbers. The product part is symmetric to the last bit; c need not be.
Cost     (t + 1) / (2 t) of GEMM's products for t = M/512, and (T + 1) / (2 T) of the columns that
         they stream for T = M/128; HBM bytes of ``syrk_tiling``, each operand once when it fits
Lever    half of the products, one operand read instead of two, reuse in SBUF, accumulation in
         several PSUM banks, transposes on an engine that preserves all bits
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
    transpose_tile,
    triangle_mask,
)
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import Blocks, column_tiles


@nki.jit
def syrk(a: Tile, c: Tile | None, alpha: float, beta: float, trans: bool, blocks: Blocks) -> Tile:
    """Return ``alpha * a @ a.T + beta * c``, or ``a.T @ a`` with ``trans``.

    Args:
        a: (M, K), or (K, M) with ``trans``.
        c: (M, M), or None when nothing is added; it is not read when ``beta`` is 0.
        alpha: Scale of the product; not 0.
        beta: Scale of ``c``.
        trans: Whether ``a`` is passed transposed.
        blocks: The ``blocks`` of ``syrk_tiling``.
    """
    return symmetric_product([a], c, alpha, beta, "rows" if trans else "columns", blocks)


@nki.jit
def syr2k(
    a: Tile, b: Tile, c: Tile | None, alpha: float, beta: float, trans: bool, blocks: Blocks
) -> Tile:
    """Return ``alpha * (a @ b.T + b @ a.T) + beta * c``, or ``a.T @ b + b.T @ a`` with ``trans``.

    Args:
        a: (M, K), or (K, M) with ``trans``.
        b: Of the same shape.
        c: (M, M), or None when nothing is added; it is not read when ``beta`` is 0.
        alpha: Scale of the products; not 0.
        beta: Scale of ``c``.
        trans: Whether ``a`` and ``b`` are passed transposed.
        blocks: The ``blocks`` of ``syrk_tiling`` with two operands.
    """
    return symmetric_product([a, b], c, alpha, beta, "rows" if trans else "columns", blocks)


def symmetric_product(
    xs: list[Tile], c: Tile | None, alpha: float, beta: float, layout: str, blocks: Blocks
) -> Tile:
    """Return the sum of the products of ``xs[i]`` with ``xs[-1 - i]`` transposed."""
    depth, size = extents(xs[0], layout)
    out = nl.ndarray((size, size), dtype=xs[0].dtype, buffer=nl.shared_hbm)
    if beta == 0.0:
        c = None
    lower = triangle_mask(False)
    step, depth_step = blocks.row_tiles * TILE, blocks.depth_tiles * TILE
    whole = depth_step >= depth
    for i0 in range(0, size, step):
        i1 = min(i0 + step, size)
        lefts: list[Tile] = []
        for j0 in range(i0, size, step):
            j1 = min(j0 + step, size)
            totals = new_totals(i1 - i0, j1 - j0, not whole)
            for k0 in range(0, depth, depth_step):
                k1 = min(k0 + depth_step, depth)
                if j0 == i0 or not whole:
                    lefts = panels(xs, layout, k0, k1, i0, i1, blocks)
                rights = lefts
                if j0 > i0:
                    rights = panels(xs, layout, k0, k1, j0, j1, blocks)
                for m in range(i0, i1, TILE):
                    mw = min(TILE, i1 - m)
                    # The columns from the diagonal on, counted from the block's first column.
                    first, width = max(m - j0, 0), j1 - max(j0, m)
                    for t in range(0, column_tiles(width), blocks.group):
                        last = min(t + blocks.group, column_tiles(width))
                        starts = group_starts(t, last, width, -first)
                        sums = row_sums(lefts, rights, k0, k1, m - i0, mw, starts, totals)
                        if k1 == depth:
                            store_both(out, c, m, j0, starts, sums, alpha, beta, lower)
    return out


def panels(
    xs: list[Tile], layout: str, k0: int, k1: int, c0: int, c1: int, blocks: Blocks
) -> list[Tile]:
    """Return a panel of each operand."""
    made = []
    for x in xs:
        made.append(loaded(x, layout, k0, k1, c0, c1, blocks))
    return made


def store_both(
    out: Tile,
    c: Tile | None,
    m: int,
    n0: int,
    starts: list[int],
    sums: list[Tile],
    alpha: float,
    beta: float,
    lower: Tile,
) -> None:
    """Store tiles of one row of tiles and their mirror images; ``starts`` counts from ``n0``.

    If ``c`` is added, the scaled product stays in float32 until the addition, in both places.
    """
    mw = sums[0].shape[0]
    dtype = out.dtype if c is None else nl.float32
    for j in range(len(sums)):
        n, width = n0 + starts[j], starts[j + 1] - starts[j]
        piece = nl.ndarray((mw, width), dtype=dtype, buffer=nl.sbuf)
        finish(piece, sums[j], alpha, 1.0, False)
        for q in range(0, width, TILE):
            qw = min(TILE, width - q)
            mirrored = nl.ndarray((qw, mw), dtype=dtype, buffer=nl.sbuf)
            transpose_tile(mirrored, piece[0:mw, q : q + qw])
            if n + q == m:
                # Rounding depends on the order of the sum, so a diagonal tile is mirrored too.
                nisa.tensor_copy_predicated(
                    dst=piece[0:mw, q : q + qw], src=mirrored, predicate=lower[0:mw, 0:mw]
                )
            else:
                store_sum(out, c, n + q, m, mirrored, beta)
        store_sum(out, c, m, n, piece, beta)


def store_sum(out: Tile, c: Tile | None, m: int, n: int, tile: Tile, beta: float) -> None:
    """Store a tile plus ``beta`` times the same part of ``c``."""
    rows, columns = tile.shape
    if c is None:
        nisa.dma_copy(dst=out[m : m + rows, n : n + columns], src=tile)
        return
    total = nl.ndarray((rows, columns), dtype=out.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=total, src=c[m : m + rows, n : n + columns])
    finish(total, tile, 1.0, beta, True)
    nisa.dma_copy(dst=out[m : m + rows, n : n + columns], src=total)
