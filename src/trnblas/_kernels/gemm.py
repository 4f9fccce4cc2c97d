"""alpha * op(a) @ op(b) + beta * c, of any shape, in one launch.

Layout   the contraction on partitions: ``trans_a`` and not ``trans_b`` are loaded as they stand,
         the others are loaded in rows of 4 KiB and transposed on chip, tile by tile, once per load
Limits   2-D, each extent at least 1; float32 or bfloat16, all operands of one dtype; alpha and beta
         are compile-time numbers; a, b and c are not modified. Ragged edges are sliced.
Cost     M/128 * K/128 * N/512 products; HBM bytes of the tiling, the fewest possible while one
         operand and a tile of the other fit in SBUF
Lever    reuse in SBUF (an operand stays, or the result does), accumulation in PSUM with several
         banks growing at once on one stationary tile, scales folded into the way out of PSUM,
         transposes on an engine that keeps the bits
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnblas._kernels.symm_panels import load_symmetric_panel
from trnsci.core.gemm_tiles import (
    Tile,
    extents,
    group_starts,
    load_panel,
    new_panel,
    new_totals,
    row_sums,
    store_tiles,
)
from trnsci.core.hardware import TILE
from trnsci.core.nki import nki, nl
from trnsci.core.tiling import Blocks, column_start, column_tiles

__all__ = ["Product", "gemm", "loaded", "multiply_all"]


class Product(NamedTuple):
    """A product of matrices, or a batch of them; a 2-D operand serves a whole batch.

    Attributes:
        out: Result in HBM.
        a: Left operand.
        b: Right operand.
        c: What is added, or None.
        alpha: Scale of the product.
        beta: Scale of ``c``.
        a_layout: Where ``a`` keeps the contraction.
        b_layout: Where ``b`` does.
    """

    out: Tile
    a: Tile
    b: Tile
    c: Tile | None
    alpha: float
    beta: float
    a_layout: str
    b_layout: str


@nki.jit
def gemm(
    a: Tile,
    b: Tile,
    c: Tile | None,
    alpha: float,
    beta: float,
    trans_a: bool,
    trans_b: bool,
    blocks: Blocks,
) -> Tile:
    """Return ``alpha * op(a) @ op(b) + beta * c`` in the dtype of ``a``.

    Args:
        a: (M, K), or (K, M) with ``trans_a``.
        b: (K, N), or (N, K) with ``trans_b``.
        c: (M, N), or None when nothing is added; it is not read when ``beta`` is 0.
        alpha: Scale of the product; the caller leaves out a product whose scale is 0.
        beta: Scale of ``c``.
        trans_a: Whether ``a`` comes transposed.
        trans_b: Whether ``b`` comes transposed.
        blocks: The ``blocks`` of ``gemm_tiling``.
    """
    a_layout = "rows" if trans_a else "columns"
    b_layout = "columns" if trans_b else "rows"
    rows, columns = extents(a, a_layout)[1], extents(b, b_layout)[1]
    out = nl.ndarray((rows, columns), dtype=a.dtype, buffer=nl.shared_hbm)
    multiply_all(Product(out, a, b, c, alpha, beta, a_layout, b_layout), blocks)
    return out


def multiply_all(p: Product, blocks: Blocks) -> None:
    """Compute all of a product or a batch.

    A single column is computed as a row: the vector then is the stationary operand, and a product
    has 512 moving columns instead of one.
    """
    rows, columns = p.out.shape[len(p.out.shape) - 2], p.out.shape[len(p.out.shape) - 1]
    c = None if p.beta == 0.0 else p.c
    if columns == 1 and rows > 1:
        if c is not None:
            c = as_row(c, rows)
        out = as_row(p.out, rows)
        p = Product(out, p.b, p.a, c, p.alpha, p.beta, p.b_layout, p.a_layout)
        rows, columns = columns, rows
    else:
        p = Product(p.out, p.a, p.b, c, p.alpha, p.beta, p.a_layout, p.b_layout)
    depth = extents(p.a, p.a_layout)[0]
    count = p.out.shape[0] if len(p.out.shape) == 3 else 1
    if blocks.depth_tiles * TILE >= depth:
        with_resident_operand(p, blocks, rows, columns, depth, count)
    else:
        with_resident_result(p, blocks, rows, columns, depth, count)


def as_row(x: Tile, length: int) -> Tile:
    """Return a view of (length, 1) as (1, length), or the same of a batch."""
    if len(x.shape) == 3:
        return x.reshape((x.shape[0], 1, length))
    return x.reshape((1, length))


def slice_of(x: Tile | None, s: int) -> Tile | None:
    """Return the s-th matrix of a batch, or the matrix that the batch shares."""
    if x is None or len(x.shape) == 2:
        return x
    return x[s]


def loaded(x: Tile, layout: str, k0: int, k1: int, c0: int, c1: int, blocks: Blocks) -> Tile:
    """Return a panel with part of a 2-D operand."""
    panel = new_panel(x, k0, k1, c0, c1)
    if layout == "rows" or layout == "columns":
        load_panel(panel, x, layout, k0, k1, c0, c1, blocks.stage_tiles)
    else:
        load_symmetric_panel(panel, x, layout == "upper", k0, k1, c0, c1, blocks.stage_tiles)
    return panel


def with_resident_operand(
    p: Product, blocks: Blocks, rows: int, columns: int, depth: int, count: int
) -> None:
    """Multiply while a block of one operand stays and blocks of the other pass by."""
    step, tiles = blocks.row_tiles * TILE, column_tiles(columns)
    row_blocks = (rows + step - 1) // step
    column_blocks = (tiles + blocks.column_tiles - 1) // blocks.column_tiles
    a_stays = blocks.resident == "a"
    shared = len(p.a.shape if a_stays else p.b.shape) == 2
    outer = row_blocks if a_stays else column_blocks
    inner = column_blocks if a_stays else row_blocks
    left, right = None, None
    # An operand that the batch shares goes through the batch before its next block comes.
    for x in range(outer if shared else count):
        for y in range(count if shared else outer):
            block, s = (x, y) if shared else (y, x)
            for z in range(inner):
                i, j = (block, z) if a_stays else (z, block)
                m0, m1 = i * step, min((i + 1) * step, rows)
                t0, t1 = j * blocks.column_tiles, min((j + 1) * blocks.column_tiles, tiles)
                n0, n1 = column_start(t0, columns), column_start(t1, columns)
                arrives = z == 0 and (not shared or s == 0)
                if arrives or not a_stays:
                    left = loaded(slice_of(p.a, s), p.a_layout, 0, depth, m0, m1, blocks)
                if arrives or a_stays:
                    right = loaded(slice_of(p.b, s), p.b_layout, 0, depth, n0, n1, blocks)
                out, c = slice_of(p.out, s), slice_of(p.c, s)
                for m in range(m0, m1, TILE):
                    for t in range(t0, t1, blocks.group):
                        starts = group_starts(t, min(t + blocks.group, t1), columns, n0)
                        mw = min(TILE, m1 - m)
                        sums = row_sums([left], [right], 0, depth, m - m0, mw, starts, None)
                        store_tiles(out, c, m, n0, starts, sums, p.alpha, p.beta)


def with_resident_result(
    p: Product, blocks: Blocks, rows: int, columns: int, depth: int, count: int
) -> None:
    """Multiply while a block of the result stays in float32 and both operands pass by."""
    step, tiles = blocks.row_tiles * TILE, column_tiles(columns)
    for s in range(count):
        for m0 in range(0, rows, step):
            m1 = min(m0 + step, rows)
            for t0 in range(0, tiles, blocks.column_tiles):
                t1 = min(t0 + blocks.column_tiles, tiles)
                result_block(p, blocks, s, m0, m1, t0, t1, columns, depth)


def result_block(
    p: Product,
    blocks: Blocks,
    s: int,
    m0: int,
    m1: int,
    t0: int,
    t1: int,
    columns: int,
    depth: int,
) -> None:
    """Compute rows ``m0`` to ``m1`` of the column tiles ``t0`` to ``t1``."""
    n0, n1 = column_start(t0, columns), column_start(t1, columns)
    totals = new_totals(m1 - m0, n1 - n0, True)
    step = blocks.depth_tiles * TILE
    for k0 in range(0, depth, step):
        k1 = min(k0 + step, depth)
        left = loaded(slice_of(p.a, s), p.a_layout, k0, k1, m0, m1, blocks)
        right = loaded(slice_of(p.b, s), p.b_layout, k0, k1, n0, n1, blocks)
        for m in range(m0, m1, TILE):
            for t in range(t0, t1, blocks.group):
                starts = group_starts(t, min(t + blocks.group, t1), columns, n0)
                mw = min(TILE, m1 - m)
                sums = row_sums([left], [right], k0, k1, m - m0, mw, starts, totals)
                if k1 == depth:
                    out, c = slice_of(p.out, s), slice_of(p.c, s)
                    store_tiles(out, c, m, n0, starts, sums, p.alpha, p.beta)
