"""Panels of a symmetric matrix of which one triangle is stored.

Layout   as in ``gemm_tiles``: the contraction on partitions in tiles of 128
Limits   the block's columns and contraction begin at multiples of 128; of the other triangle only
         the part in diagonal tiles is read from HBM, and none of it is written to the panel
Cost     tiles of the stored triangle are loaded directly; the others are transposed from their
         mirror image, which is read from the panel itself when it contains it
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile, transpose_tiles
from trnsci.core.tiles.hardware import TILE

__all__ = ["load_symmetric_panel", "triangle_mask"]


def triangle_mask(upper: bool) -> Tile:
    """Return a (128, 128) tile with 1 on and above the diagonal, or on and below it."""
    ones = nl.ndarray((TILE, TILE), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1)
    mask = nl.ndarray((TILE, TILE), dtype=nl.uint8, buffer=nl.sbuf)
    sign = 1 if upper else -1
    # column - row >= 0 above the diagonal
    nisa.affine_select(
        dst=mask,
        pattern=[[sign, TILE]],
        channel_multiplier=-sign,
        on_true_tile=ones,
        on_false_value=0.0,
        cmp_op=nl.greater_equal,
    )
    return mask


def load_symmetric_panel(
    panel: Tile, x: Tile, upper: bool, k0: int, k1: int, c0: int, c1: int, stage_tiles: int
) -> None:
    """Fill a panel with rows ``k0`` to ``k1``, columns ``c0`` to ``c1`` of a symmetric matrix."""
    mask = triangle_mask(upper)
    for k in range(k0, k1, TILE):
        # The part of this row of tiles strictly inside the stored triangle.
        kw = min(TILE, k1 - k)
        first, last = (max(c0, k + TILE), c1) if upper else (c0, min(c1, k))
        if first < last:
            nisa.dma_copy(
                dst=panel[0:kw, (k - k0) // TILE, first - c0 : last - c0],
                src=x[k : k + kw, first:last],
            )
    for c in range(c0, c1, TILE):
        cw = min(TILE, c1 - c)
        if k0 <= c and c < k1:
            load_diagonal(panel[0:cw, (c - k0) // TILE, c - c0 : c - c0 + cw], x, c, cw, mask)
        first, last = (max(k0, c + TILE), k1) if upper else (k0, min(k1, c))
        mirror_tiles(panel, x, first, last, c, cw, k0, k1, c0, c1, stage_tiles)


def load_diagonal(dst: Tile, x: Tile, c: int, cw: int, mask: Tile) -> None:
    """Fill a diagonal tile: the stored triangle over the transpose of the tile."""
    tile = nl.ndarray((cw, cw), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[c : c + cw, c : c + cw])
    transpose_tile(dst, tile)
    nisa.tensor_copy_predicated(dst=dst, src=tile, predicate=mask[0:cw, 0:cw])


def mirror_tiles(
    panel: Tile,
    x: Tile,
    first: int,
    last: int,
    c: int,
    cw: int,
    k0: int,
    k1: int,
    c0: int,
    c1: int,
    stage_tiles: int,
) -> None:
    """Fill rows ``first`` to ``last`` of a column of tiles from its mirror image."""
    k = first
    while k < last:
        kw = min(TILE, last - k)
        column = panel[0:kw, (k - k0) // TILE, c - c0 : c - c0 + cw]
        if k0 <= c and c < k1 and c0 <= k and k + kw <= c1:
            transpose_tile(column, panel[0:cw, (c - k0) // TILE, k - c0 : k - c0 + kw])
        else:
            # The run up to the first tile whose mirror image is in the panel.
            end = min(last, k + stage_tiles * TILE)
            if k0 <= c and c < k1 and k < c0:
                end = min(end, c0)
            kw = end - k
            staged = nl.ndarray((cw, kw), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=staged, src=x[c : c + cw, k:end])
            transpose_tiles(panel, (k - k0) // TILE, c - c0, staged)
        k = k + kw
