"""Transposed panels of B for the pair energies, and the strips of T computed from them.

T = b_i b_j^T contracts over the auxiliary functions, so these must be on partitions: a panel is the
transpose of b for one orbital, computed once by the Tensor engine after a load in long rows.

Rows of b, the virtual orbitals, are cut into windows where a panel of all of them is too large.
Windows are visited in pairs on and above the diagonal, and a panel then holds the rows of both.

Layout   a panel is (128, tiles of auxiliary functions, rows of the window pair)
Limits   three panels (one resident, one in use and one being loaded) fit in 128 KiB per
         partition; 180,224 bytes are usable on gen2
Cost     one transpose per 128 by 128 tile of b and panel
Lever    panels of a group of orbitals stay in SBUF while the others are streamed
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import column_start, column_tiles, row_tiles

Strip = tuple[int, int, int, int, float]
"""First row, rows, first column, end column and weight of a part of T, within a panel."""
Window = tuple[int, int, int, int]
"""First row and rows of two row windows; the second has 0 rows if both are the same."""

PANEL_BYTES = 128 * 1024
WINDOW = 2048
"""Maximum rows of a window pair; bounds the buffers of energies and strip sums."""
GROUP = 16
"""Maximum orbitals of a group; they share the strip sums of one other orbital."""


def column_bytes(naux: int, dtype: Any) -> int:
    """Return the bytes per partition of one column of a panel."""
    return row_tiles(naux) * (4 if dtype == nl.float32 else 2)


def most_functions(dtype: Any) -> int:
    """Return the largest number of auxiliary functions for which two windows of 128 rows fit."""
    return PANEL_BYTES // (3 * 2 * TILE * (4 if dtype == nl.float32 else 2)) * TILE


def window_width(nvir: int, naux: int, dtype: Any) -> int:
    """Return the rows of a window: all if their panels fit, else a multiple of 128."""
    most = PANEL_BYTES // (3 * column_bytes(naux, dtype))
    if nvir <= min(most, WINDOW):
        return nvir
    fitting = most_functions(dtype)
    assert naux <= fitting, f"pair energy: naux must be at most {fitting}, got {naux}"
    width = min(most, WINDOW) // 2 // TILE * TILE
    windows = (nvir + width - 1) // width
    return row_tiles((nvir + windows - 1) // windows) * TILE


def group_size(nocc: int, window: Window, b: Tile) -> int:
    """Return how many orbitals stay in SBUF: all, or so many that two more can be loaded."""
    fitting = PANEL_BYTES // (column_bytes(b.shape[2], b.dtype) * (window[1] + window[3]))
    return min(GROUP, nocc if nocc <= fitting else max(1, fitting - 2))


def row_windows(nvir: int, width: int) -> list[Window]:
    """Return the pairs of row windows on and above the diagonal."""
    windows = []
    for top in range(0, nvir, width):
        windows.append((top, min(width, nvir - top), top, 0))
        for side in range(top + width, nvir, width):
            windows.append((top, min(width, nvir - top), side, min(width, nvir - side)))
    return windows


def window_strips(window: Window) -> list[Strip]:
    """Return the strips of T in a window pair: 128 rows and up to 512 columns.

    In a window paired with itself, a tile on the diagonal is a strip with weight 1. All other
    elements also represent their mirror images and have weight 2.
    """
    height, width = window[1], window[3]
    strips = []
    for row in range(0, height, TILE):
        rows = min(TILE, height - row)
        start, stop = height, height + width
        if width == 0:
            strips.append((row, rows, row, row + rows, 1.0))
            start, stop = row + rows, height
        for c in range(column_tiles(stop - start)):
            first = start + column_start(c, stop - start)
            last = start + column_start(c + 1, stop - start)
            strips.append((row, rows, first, last, 2.0))
    return strips


def load_panel(b: Tile, orbital: int, window: Window) -> Tile:
    """Return the transposed rows of b of a window pair, for one orbital."""
    top, height, side, width = window
    shape = (TILE, row_tiles(b.shape[2]), max(2, height + width))
    panel = nl.ndarray(shape, dtype=b.dtype, buffer=nl.sbuf)
    if height + width == 1:
        nisa.memset(dst=panel, value=0.0)
    for r in range(0, height, TILE):
        load_rows(panel, r, b, orbital, top + r, min(TILE, height - r))
    for r in range(0, width, TILE):
        load_rows(panel, height + r, b, orbital, side + r, min(TILE, width - r))
    return panel


def load_rows(panel: Tile, at: int, b: Tile, orbital: int, row: int, rows: int) -> None:
    """Transpose up to 128 rows of b into a panel, from column ``at`` on.

    The Tensor engine is used on every generation. On gen2 it propagates NaN and infinity to other
    elements, which is harmless: either one anywhere in b makes the energy NaN or infinite.
    """
    naux = b.shape[2]
    for k in range(0, naux, BANK):
        depth = min(BANK, naux - k)
        wide = nl.ndarray((rows, depth), dtype=b.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=wide, src=b[orbital, row : row + rows, k : k + depth])
        for t in range(0, depth, TILE):
            height = min(TILE, depth - t)
            transposed = nl.ndarray((height, rows), dtype=b.dtype, buffer=nl.psum)
            nisa.nc_transpose(dst=transposed, data=wide[0:rows, t : t + height])
            nisa.activation(
                dst=panel[0:height, (k + t) // TILE, at : at + rows], op=nl.copy, data=transposed
            )


def multiply_panels(left: Tile, right: Tile, strip: Strip, naux: int) -> Tile:
    """Return a PSUM tile with the strip of the product of two orbitals.

    Some compilers reject a matmul with a single moving column, so a strip of one column is computed
    with a neighbour that is not part of the result; a panel has at least two columns.
    """
    row, rows, start, stop, _ = strip
    before = 1 if stop - start == 1 and start > 0 else 0
    after = 1 if stop - start == 1 and start == 0 else 0
    columns = stop - start + before + after
    product = nl.ndarray((rows, columns), dtype=nl.float32, buffer=nl.psum)
    for k in range(row_tiles(naux)):
        depth = min(TILE, naux - k * TILE)
        nisa.nc_matmul(
            dst=product,
            stationary=left[0:depth, k, row : row + rows],
            moving=right[0:depth, k, start - before : stop + after],
            accumulate=k > 0,
        )
    return product[0:rows, before : columns - after]
