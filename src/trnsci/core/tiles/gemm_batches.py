"""The schedule of a batch of small products: several whole matrices in each transfer.

A transfer of one small matrix, or of one of its tiles, takes as long to set up as its bytes take to
move. Here one transfer moves the full tiles of several matrices, and one more their last rows.

Layout   operands as (128, matrices, tiles, columns): of one matrix, a panel of ``gemm_tiles``;
         the batch dimension of operands and result is the first one, or between rows and columns
Limits   both operands have the batch; at least 2 columns; a matrix is one block of its tiling
Cost     the products of the batch, and at most 8 transfers for each group of matrices
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, finish, group_starts, row_sums, transpose_tiles
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.tiling import Blocks, column_tiles


def multiply_groups(
    operands: tuple[Tile, Tile, Tile, Tile | None],
    layouts: tuple[str, str],
    between: tuple[bool, bool, bool],
    scales: tuple[float, float],
    blocks: Blocks,
) -> None:
    """Compute all products of a batch, in groups of ``blocks.matrices``.

    Args:
        operands: The result, both operands and the addend, of which a 2-D one is added to all.
        layouts: Position of the contraction in both operands.
        between: Whether result and operands have the batch between rows and columns.
        scales: alpha and beta.
        blocks: Block sizes.
    """
    out, a, b, c = operands
    count = out.shape[1] if between[0] else out.shape[0]
    for first in range(0, count, blocks.matrices):
        matrices = min(blocks.matrices, count - first)
        left = panels(a, layouts[0], between[1], first, matrices)
        right = panels(b, layouts[1], between[2], first, matrices)
        depth = a.shape[0 if between[1] else 1] if layouts[0] == "rows" else a.shape[2]
        rows, columns = out.shape[0 if between[0] else 1], out.shape[2]
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
            for m in range(0, rows, TILE):
                mw = min(TILE, rows - m)
                for t in range(0, tiles, blocks.group):
                    starts = group_starts(t, min(t + blocks.group, tiles), columns, 0)
                    lefts = [left[0:TILE, s]]
                    sums = row_sums(lefts, [right[0:TILE, s]], 0, depth, m, mw, starts, None)
                    for j in range(len(sums)):
                        part = done[0:mw, s, m // TILE, starts[j] : starts[j + 1]]
                        finish(part, sums[j], scales[0], scales[1], c is not None)
        move(done, out, between[0], first, matrices, False)


def new_tiles(x: Tile, between: bool, matrices: int) -> Tile:
    """Return unwritten tiles for whole matrices of a batch, rows on partitions."""
    rows, columns = x.shape[0 if between else 1], x.shape[2]
    tiles = (rows + TILE - 1) // TILE
    return nl.ndarray((TILE, matrices, tiles, columns), dtype=x.dtype, buffer=nl.sbuf)


def panels(x: Tile, layout: str, between: bool, first: int, matrices: int) -> Tile:
    """Return the panels of matrices of a batch, (128, matrices, tiles, columns)."""
    stored = new_tiles(x, between, matrices)
    move(stored, x, between, first, matrices, True)
    if layout == "rows":
        return stored
    rows, depth = x.shape[0 if between else 1], x.shape[2]
    tiles = (depth + TILE - 1) // TILE
    turned = nl.ndarray((TILE, matrices, tiles, rows), dtype=x.dtype, buffer=nl.sbuf)
    for s in range(matrices):
        for m in range(0, rows, TILE):
            mw = min(TILE, rows - m)
            transpose_tiles(turned[0:TILE, s], 0, m, stored[0:mw, s, m // TILE, 0:depth])
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
