"""Fourier transforms of images over both dimensions: X = W1 x W2, as two chained products.

Layout   rows j1 on partitions. In both products the data is stationary and a DFT matrix moves, and
         a product with stationary data leaves its columns on partitions: x (j1, j2) becomes
         (j2, k1), and that becomes (k1, k2), the layout in HBM. Nothing is transposed.
Limits   float32 or 16-bit operands (batch, n1, n2), results in float32; n1 and n2 up to 1024,
         whose image takes 64 KiB per partition
Cost     8 n1 n2 (n1 + n2) flops; if n1 and n2 are at most 256, every operand is read once and the
         matrices are resident; beyond that x and the second matrix are read again for every 256
         rows of the result
Lever    both parts in one PSUM bank, the result of the first product stays in SBUF, one launch for
         the whole batch
Accuracy relative L2 error below 1e-6
"""

from __future__ import annotations

from trnfft._kernels.four_step_geometry import even_step
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, load_panel
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import row_tiles

_PANEL = BANK // 2


@nki.jit
def two_d(
    x_re: Tile, x_im: Tile | None, rows_matrix: Tile, columns_matrix: Tile, real: bool
) -> Tile | tuple[Tile, Tile]:
    """Return the transforms of all images, as real and imaginary part.

    Args:
        x_re: (batch, n1, n2).
        x_im: The same shape, or None for a real operand.
        rows_matrix: (n1, 3, m1), the -sin, cos and sin parts of the matrix of the first dimension.
        columns_matrix: (n2, 3, m2), the matrix of the second dimension. With a half spectrum m2 is
            n2 // 2 + 1 for a real operand, and n2 is m2 // 2 + 1 for a real result.
        real: Whether the result is real; it is then a single tensor.
    """
    heights, widths = rows_matrix.shape[2], columns_matrix.shape[2]
    out = []
    for _ in range(1 if real else 2):
        size = (x_re.shape[0], heights, widths)
        out.append(nl.ndarray(size, dtype=nl.float32, buffer=nl.shared_hbm))
    parts = [x_re] if x_im is None else [x_re, x_im]
    transform_images(parts, rows_matrix, columns_matrix, out)
    if real:
        return out[0]
    return out[0], out[1]


def transform_images(
    parts: list[Tile], rows_matrix: Tile, columns_matrix: Tile, out: list[Tile]
) -> None:
    """Transform the parts (batch, n1, n2) of all images into the one or two parts of ``out``."""
    heights, widths = rows_matrix.shape[2], columns_matrix.shape[2]
    tall, wide = even_step(heights, _PANEL), even_step(widths, _PANEL)
    resident = None
    if wide == widths:
        resident = matrix_panel(columns_matrix, 0, widths)
    for r0 in range(0, heights, tall):
        r1 = min(r0 + tall, heights)
        left = matrix_panel(rows_matrix, r0, r1)
        for s in range(parts[0].shape[0]):
            x = image(parts, s)
            between = chained(x, left, rows_matrix.shape[0])
            for c0 in range(0, widths, wide):
                c1 = min(c0 + wide, widths)
                right = resident
                if right is None:
                    right = matrix_panel(columns_matrix, c0, c1)
                depth = columns_matrix.shape[0]
                for m in range(0, r1 - r0, TILE):
                    mw = min(TILE, r1 - r0 - m)
                    sums = product(between, right, depth, m, mw, len(out))
                    tile = nl.ndarray((mw, len(out), c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
                    nisa.activation(dst=tile, op=nl.copy, data=sums)
                    for p in range(len(out)):
                        nisa.dma_copy(
                            dst=out[p][s, r0 + m : r0 + m + mw, c0:c1],
                            src=tile[0:mw, p, 0 : c1 - c0],
                        )


def matrix_panel(matrix: Tile, c0: int, c1: int) -> Tile:
    """Return columns ``c0`` to ``c1`` of the three parts of a matrix, (128, tiles, 3, columns)."""
    depth = matrix.shape[0]
    panel = nl.ndarray((TILE, row_tiles(depth), 3, c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(0, depth, TILE):
        kw = min(TILE, depth - k)
        nisa.dma_copy(
            dst=panel[0:kw, k // TILE, 0:3, 0 : c1 - c0], src=matrix[k : k + kw, 0:3, c0:c1]
        )
    return panel


def image(parts: list[Tile], s: int) -> list[Tile]:
    """Return the parts of one image, (128, tiles, columns) each."""
    _, height, width = parts[0].shape
    panels = []
    for part in parts:
        # Both operands of a product must be float32: DMA widens the 16-bit ones.
        panel = nl.ndarray((TILE, row_tiles(height), width), dtype=nl.float32, buffer=nl.sbuf)
        load_panel(panel, part[s], "rows", 0, height, 0, width, 1)
        panels.append(panel)
    return panels


def chained(x: list[Tile], left: Tile, depth: int) -> list[Tile]:
    """Return the parts of the first product, with the columns of ``x`` on partitions."""
    width, height = x[0].shape[2], left.shape[3]
    parts = []
    for _ in range(2):
        shape = (TILE, row_tiles(width), height)
        parts.append(nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf))
    for m in range(0, width, TILE):
        mw = min(TILE, width - m)
        sums = product(x, left, depth, m, mw, 2)
        for p in range(2):
            nisa.tensor_copy(dst=parts[p][0:mw, m // TILE, 0:height], src=sums[0:mw, p, 0:height])
    return parts


def product(parts: list[Tile], panel: Tile, depth: int, m: int, mw: int, wanted: int) -> Tile:
    """Return the transposed parts times a panel: PSUM (mw, wanted, columns of the panel).

    Columns ``m`` to ``m + mw`` of the parts are stationary. The real part is multiplied by the cos
    and sin parts of the panel, the imaginary part by the -sin and cos parts.
    """
    width = panel.shape[3]
    # Both parts are computed for a single column: some compilers reject one moving column.
    computed = 2 if width == 1 else wanted
    sums = nl.ndarray((mw, computed, width), dtype=nl.float32, buffer=nl.psum)
    for t in range(row_tiles(depth)):
        kw = min(TILE, depth - t * TILE)
        for p in range(len(parts)):
            nisa.nc_matmul(
                dst=sums,
                stationary=parts[p][0:kw, t, m : m + mw],
                moving=panel[0:kw, t, 1 - p : 1 - p + computed, 0:width],
                accumulate=(t > 0 or p > 0),
            )
    return sums[0:mw, 0:wanted, 0:width]
