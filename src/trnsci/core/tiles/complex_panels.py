"""Panels of complex matrices, for products whose sums are those of four real ones.

Layout   the parts of a number are neighbours in rows, as in memory: a matrix of n columns is an
         array of 2 n, and a panel of n columns is (128, tiles, 2 n). The left panels are its even
         and its odd columns, A_re and A_im; the right panels are B itself, for A_re, and i B, for
         A_im, so that sums have the parts of the result as neighbours
Limits   those of ``gemm_tiles``
Cost     each part is loaded once; i B is two copies of half of B, on two engines
Lever    strided reads of SBUF separate the parts, so that neither the host nor a DMA does
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, load_panel, transpose_tiles
from trnsci.core.tiles.hardware import TILE


def load_numbers(
    x: Tile, layout: str, k0: int, k1: int, c0: int, c1: int, stage_tiles: int
) -> Tile:
    """Return a panel of numbers ``k0`` to ``k1`` of the contraction, ``c0`` to ``c1`` across it."""
    tiles = (k1 - k0 + TILE - 1) // TILE
    panel = nl.ndarray((TILE, tiles, 2 * (c1 - c0)), dtype=x.dtype, buffer=nl.sbuf)
    if layout == "rows":
        load_panel(panel, x, "rows", k0, k1, 2 * c0, 2 * c1, 1)
        return panel
    step = stage_tiles // 2 * TILE
    for c in range(c0, c1, TILE):
        cw = min(TILE, c1 - c)
        for k in range(k0, k1, step):
            kw = min(step, k1 - k)
            staged = nl.ndarray((cw, 2 * kw), dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=staged, src=x[c : c + cw, 2 * k : 2 * (k + kw)])
            transpose_numbers(panel, (k - k0) // TILE, c - c0, staged)
    return panel


def transpose_numbers(panel: Tile, first: int, c: int, rows: Tile) -> None:
    """Write the transpose of rows of numbers to the columns of a panel from number ``c`` on.

    Each 128 numbers of the rows fill one tile of the panel, beginning with tile ``first``.
    """
    sides = of_left(panel)
    count, width = rows.shape
    for part in range(2):
        transpose_tiles(sides[part], first, c, rows[0:count, part:width:2])


def of_left(panel: Tile) -> list[Tile]:
    """Return the left panels of a panel of numbers: its real and its imaginary parts."""
    tiles, width = panel.shape[1], panel.shape[2]
    return [panel[0:TILE, 0:tiles, 0:width:2], panel[0:TILE, 0:tiles, 1:width:2]]


def of_right(panel: Tile, depth: int) -> list[Tile]:
    """Return the right panels of B: i B for the imaginary parts of the left one, and B."""
    tiles, width = panel.shape[1], panel.shape[2]
    turned = nl.ndarray((TILE, tiles, width), dtype=panel.dtype, buffer=nl.sbuf)
    for t in range(tiles):
        kw = min(TILE, depth - t * TILE)
        re, im = panel[0:kw, t, 0:width:2], panel[0:kw, t, 1:width:2]
        if nisa.get_nc_version() == nisa.nc_version.gen2:  # the Vector engine transposes
            nisa.activation(dst=turned[0:kw, t, 0:width:2], op=nl.copy, data=im, scale=-1.0)
        else:
            nisa.tensor_scalar(
                dst=turned[0:kw, t, 0:width:2], data=im, op0=nl.multiply, operand0=-1.0
            )
        nisa.activation(dst=turned[0:kw, t, 1:width:2], op=nl.copy, data=re)
    return [turned, panel]
