"""The schedule of a matrix product, or of a batch: resident blocks and streamed blocks.

Small matrices of a batch go several to a transfer: a transfer of one of them, or of one of its
tiles, takes as long to set up as its bytes take to move. One transfer moves the full tiles of
several matrices, as (128, matrices, tiles, columns), and one more their last rows.

Layout   that of ``gemm_tiles``. The batch dimension is the first one, or lies between rows and
         columns: then the rows of a matrix are strided, which loads support
Limits   float32 and bfloat16, all operands of one dtype; edges are sliced. Groups of matrices: both
         operands have the batch; at least 2 columns; a matrix is one block of its tiling
Cost     of groups: the products of the batch, and at most 8 transfers for each group of matrices
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import (
    Tile,
    extents,
    finish,
    group_starts,
    load_panel,
    load_symmetric_panel,
    new_panel,
    new_totals,
    of_left,
    of_right,
    row_sums,
    store_tiles,
    transpose_parts,
)
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import Blocks, column_start, column_tiles


class Product(NamedTuple):
    """A matrix product, or a batch of them; a 2-D operand is shared by the whole batch.

    A complex matrix is an array with twice as many columns: the parts of a number are neighbours.

    Attributes:
        out: Result in HBM.
        a: Left operand.
        b: Right operand.
        c: The addend, or None.
        alpha: Scale of the product.
        beta: Scale of ``c``.
        a_layout: Position of the contraction in ``a``.
        b_layout: Position of the contraction in ``b``.
        between: Whether ``out``, ``a`` and ``b`` have the batch between rows and columns.
        parts: Parts of a number: 2 if ``out``, ``a``, ``b`` and ``c`` are complex.
    """

    out: Tile
    a: Tile
    b: Tile
    c: Tile | None
    alpha: float
    beta: float
    a_layout: str
    b_layout: str
    between: tuple[bool, bool, bool] = (False, False, False)
    parts: int = 1


def product_of(
    a: Tile,
    b: Tile,
    c: Tile | None,
    scales: tuple[float, float],
    trans: tuple[bool, bool],
    dtype: Tile,
    blocks: Blocks,
    parts: int = 1,
) -> Tile:
    """Return ``alpha * op(a) @ op(b) + beta * c`` of matrices or batches as a new tensor in HBM."""
    a_layout, b_layout = "rows" if trans[0] else "columns", "columns" if trans[1] else "rows"
    rows = extents(a, a_layout)[1] // (parts if trans[0] else 1)
    columns = extents(b, b_layout)[1] * (parts if trans[1] else 1)
    shape: tuple[int, ...] = (rows, columns)
    if len(a.shape) == 3 or len(b.shape) == 3:
        shape = (a.shape[0] if len(a.shape) == 3 else b.shape[0], rows, columns)
    out = nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)
    alpha, beta = scales
    multiply_all(Product(out, a, b, c, alpha, beta, a_layout, b_layout, parts=parts), blocks)
    return out


def multiply_all(p: Product, blocks: Blocks) -> None:
    """Compute all of a product or a batch.

    A single column is computed as a row: the vector is then the stationary operand, and a product
    has 512 moving columns instead of one. Its batch must not lie between rows and columns.
    """
    rows, columns = matrix_shape(p.out, p.between[0])
    c = None if p.beta == 0.0 else p.c
    if columns == 1 and rows > 1:
        if c is not None:
            c = as_row(c, rows)
        out = as_row(p.out, rows)
        between = (False, p.between[2], p.between[1])
        p = Product(out, p.b, p.a, c, p.alpha, p.beta, p.b_layout, p.a_layout, between)
        rows, columns = columns, rows
    else:
        p = Product(p.out, p.a, p.b, c, p.alpha, p.beta, p.a_layout, p.b_layout, p.between, p.parts)
    first, second = matrix_shape(p.a, p.between[1])
    depth = second // p.parts if p.a_layout == "columns" else first
    count = 1
    if len(p.out.shape) == 3:
        count = p.out.shape[1] if p.between[0] else p.out.shape[0]
    if blocks.matrices > 0:
        multiply_groups(p, blocks, depth, count)
    elif blocks.depth_tiles // p.parts * TILE >= depth:
        with_resident_operand(p, blocks, rows, columns, depth, count)
    else:
        with_resident_result(p, blocks, rows, columns, depth, count)


def matrix_shape(x: Tile, between: bool) -> tuple[int, int]:
    """Return the extents of a matrix, or of each matrix of a batch."""
    if between:
        return x.shape[0], x.shape[2]
    return x.shape[len(x.shape) - 2], x.shape[len(x.shape) - 1]


def as_row(x: Tile, length: int) -> Tile:
    """Return a view of (length, 1) as (1, length), or the same of a batch."""
    if len(x.shape) == 3:
        return x.reshape((x.shape[0], 1, length))
    return x.reshape((1, length))


def slice_of(x: Tile | None, s: int, between: bool) -> Tile | None:
    """Return the s-th matrix of a batch, or the shared matrix."""
    if x is None or len(x.shape) == 2:
        return x
    if between:
        return x[0 : x.shape[0], s, 0 : x.shape[2]]
    return x[s]


def loaded(
    x: Tile, layout: str, k0: int, k1: int, c0: int, c1: int, blocks: Blocks, parts: int = 1
) -> Tile:
    """Return a panel with part of a 2-D operand."""
    panel = new_panel(x, k0, k1, parts * c0, parts * c1)
    if layout == "rows" or layout == "columns":
        load_panel(panel, x, layout, k0, k1, c0, c1, blocks.stage_tiles, parts)
    else:
        load_symmetric_panel(panel, x, layout == "upper", k0, k1, c0, c1, blocks.stage_tiles)
    return panel


def operand_panels(
    p: Product, left: bool, s: int, k0: int, k1: int, c0: int, c1: int, blocks: Blocks
) -> list[Tile]:
    """Return the panels of left or right operand ``s``: one if it is real, two if complex."""
    if left:
        x = slice_of(p.a, s, p.between[1])
        panel = loaded(x, p.a_layout, k0, k1, c0, c1, blocks, p.parts)
        return of_left(panel, p.parts)
    x = slice_of(p.b, s, p.between[2])
    panel = loaded(x, p.b_layout, k0, k1, c0 // p.parts, c1 // p.parts, blocks, p.parts)
    return of_right(panel, k1 - k0, p.parts)


def with_resident_operand(
    p: Product, blocks: Blocks, rows: int, columns: int, depth: int, count: int
) -> None:
    """Multiply with a resident block of one operand and streamed blocks of the other."""
    step, tiles = blocks.row_tiles * TILE, column_tiles(columns)
    row_blocks = (rows + step - 1) // step
    column_blocks = (tiles + blocks.column_tiles - 1) // blocks.column_tiles
    a_stays = blocks.resident == "a"
    shared = len(p.a.shape if a_stays else p.b.shape) == 2
    outer = row_blocks if a_stays else column_blocks
    inner = column_blocks if a_stays else row_blocks
    left, right = [], []
    # A block of a shared operand is used for the whole batch before the next block is loaded.
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
                    left = operand_panels(p, True, s, 0, depth, m0, m1, blocks)
                if arrives or a_stays:
                    right = operand_panels(p, False, s, 0, depth, n0, n1, blocks)
                out, c = slice_of(p.out, s, p.between[0]), slice_of(p.c, s, False)
                for m in range(m0, m1, TILE):
                    for t in range(t0, t1, blocks.group):
                        starts = group_starts(t, min(t + blocks.group, t1), columns, n0)
                        mw = min(TILE, m1 - m)
                        sums = row_sums(left, right, 0, depth, m - m0, mw, starts, None)
                        store_tiles(out, c, m, n0, starts, sums, p.alpha, p.beta)


def with_resident_result(
    p: Product, blocks: Blocks, rows: int, columns: int, depth: int, count: int
) -> None:
    """Multiply with a resident float32 block of the result and streamed blocks of both operands."""
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
    step = blocks.depth_tiles // p.parts * TILE
    for k0 in range(0, depth, step):
        k1 = min(k0 + step, depth)
        left = operand_panels(p, True, s, k0, k1, m0, m1, blocks)
        right = operand_panels(p, False, s, k0, k1, n0, n1, blocks)
        for m in range(m0, m1, TILE):
            for t in range(t0, t1, blocks.group):
                starts = group_starts(t, min(t + blocks.group, t1), columns, n0)
                mw = min(TILE, m1 - m)
                sums = row_sums(left, right, k0, k1, m - m0, mw, starts, totals)
                if k1 == depth:
                    out, c = slice_of(p.out, s, p.between[0]), slice_of(p.c, s, False)
                    store_tiles(out, c, m, n0, starts, sums, p.alpha, p.beta)


def multiply_groups(p: Product, blocks: Blocks, depth: int, count: int) -> None:
    """Compute all ``count`` products of a batch, in groups of ``blocks.matrices``.

    A 2-D addend is added to every product.
    """
    out, c, between = p.out, p.c, p.between
    rows, columns = matrix_shape(out, between[0])
    for first in range(0, count, blocks.matrices):
        matrices = min(blocks.matrices, count - first)
        left = panels(p.a, p.a_layout, between[1], first, matrices, p.parts)
        right = panels(p.b, p.b_layout, between[2], first, matrices, p.parts)
        done = new_tiles(out, between[0], matrices)
        if c is not None:
            if len(c.shape) == 3:
                move(done, c, False, first, matrices, True)
            else:
                for s in range(matrices):
                    for m in range(0, rows, TILE):
                        mw = min(TILE, rows - m)
                        nisa.dma_copy(dst=done[0:mw, s, m // TILE, 0:columns], src=c[m : m + mw])
        tiles = column_tiles(columns)
        for s in range(matrices):
            lefts = of_left(left[0:TILE, s], p.parts)
            rights = of_right(right[0:TILE, s], depth, p.parts)
            for m in range(0, rows, TILE):
                mw = min(TILE, rows - m)
                for t in range(0, tiles, blocks.group):
                    starts = group_starts(t, min(t + blocks.group, tiles), columns, 0)
                    sums = row_sums(lefts, rights, 0, depth, m, mw, starts, None)
                    for j in range(len(sums)):
                        part = done[0:mw, s, m // TILE, starts[j] : starts[j + 1]]
                        finish(part, sums[j], p.alpha, p.beta, c is not None)
        move(done, out, between[0], first, matrices, False)


def new_tiles(x: Tile, between: bool, matrices: int) -> Tile:
    """Return unwritten tiles for whole matrices of a batch, rows on partitions."""
    rows, columns = x.shape[0 if between else 1], x.shape[2]
    tiles = (rows + TILE - 1) // TILE
    return nl.ndarray((TILE, matrices, tiles, columns), dtype=x.dtype, buffer=nl.sbuf)


def panels(x: Tile, layout: str, between: bool, first: int, matrices: int, parts: int) -> Tile:
    """Return the panels of matrices of a batch, (128, matrices, tiles, columns)."""
    stored = new_tiles(x, between, matrices)
    move(stored, x, between, first, matrices, True)
    if layout == "rows":
        return stored
    rows, depth = matrix_shape(x, between)
    tiles = (depth // parts + TILE - 1) // TILE
    turned = nl.ndarray((TILE, matrices, tiles, parts * rows), dtype=x.dtype, buffer=nl.sbuf)
    for s in range(matrices):
        for m in range(0, rows, TILE):
            strip = stored[0 : min(TILE, rows - m), s, m // TILE, 0:depth]
            transpose_parts(turned[0:TILE, s], 0, m, strip, parts)
    return turned


def move(tiles: Tile, x: Tile, between: bool, first: int, matrices: int, load: bool) -> None:
    """Load whole matrices of a batch into tiles, or store them."""
    columns = x.shape[2]
    rows, row, matrix = x.shape[1], columns, x.shape[1] * columns
    if between:
        rows, row, matrix = x.shape[0], x.shape[1] * columns, columns
    full, start = rows // TILE, first * matrix
    parts = []
    if full > 0:
        pattern = [[row, TILE], [matrix, matrices], [TILE * row, full], [1, columns]]
        parts.append((tiles[0:TILE, 0:matrices, 0:full, 0:columns], x.ap(pattern, offset=start)))
    if full * TILE < rows:
        pattern = [[row, rows - full * TILE], [matrix, matrices], [1, columns]]
        last = tiles[0 : rows - full * TILE, 0:matrices, full, 0:columns]
        parts.append((last, x.ap(pattern, offset=start + full * TILE * row)))
    for i in range(len(parts)):
        here, there = parts[i]
        if load:
            nisa.dma_copy(dst=here, src=there)
        else:
            nisa.dma_copy(dst=there, src=here)
