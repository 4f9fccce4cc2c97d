"""Fourier transforms over three to five dimensions: one product for each, in one launch.

Layout   a leading dimension j is contracted on partitions: for x (batch, j, rest) its matrix is
         stationary and x moves, which gives (k, rest) in the order of HBM. The last two dimensions
         are images, transformed as in ``two_d``. Nothing is transposed.
Limits   float32 or 16-bit operands, results in float32; three to five dimensions
         of up to 1024 points
Cost     8 points n flops for each dimension n; the data is written and read once more for each
         leading dimension, and read again for every 256 of its points
Lever    four products share two moving tiles and accumulate in PSUM; one launch for all dimensions,
         so intermediate results do not return to the host
Accuracy relative L2 error below 1e-6
"""

from __future__ import annotations

from trnfft._kernels.four_step_geometry import even_step
from trnfft._kernels.two_d import matrix_panel, transform_images
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.tiling import row_tiles

_PANEL = BANK // 2


@nki.jit
def n_d(
    x_re: Tile,
    x_im: Tile | None,
    first: Tile,
    second: Tile | None,
    third: Tile | None,
    rows_matrix: Tile,
    columns_matrix: Tile,
    real: bool,
) -> Tile | tuple[Tile, Tile]:
    """Return the transforms over all dimensions but the first, as real and imaginary part.

    Args:
        x_re: (batch, n1, ..., nd).
        x_im: The same shape, or None for a real operand.
        first: (n1, 3, n1), the -sin, cos and sin parts of the matrix of the first dimension.
        second: The matrix of the second dimension, None for three dimensions.
        third: The matrix of the third dimension, None for three or four dimensions.
        rows_matrix: The matrix of the last dimension but one.
        columns_matrix: (nd, 3, m), the matrix of the last dimension. With a half spectrum m is nd
            // 2 + 1 for a real operand, and nd is m // 2 + 1 for a real result.
        real: Whether the result is real; it is then a single tensor.
    """
    shape = x_re.shape
    parts = [x_re] if x_im is None else [x_re, x_im]
    count = shape[0]
    place = 1
    for matrix in (first, second, third):
        if matrix is not None:
            length, rest = shape[place], 1
            for extent in shape[place + 1 :]:
                rest *= extent
            flat = []
            for part in parts:
                flat.append(part.reshape((count, length, rest)))
            parts = transform_leading(flat, matrix)
            count *= length
            place += 1
    images = []
    for part in parts:
        images.append(part.reshape((count, shape[-2], shape[-1])))
    widths = columns_matrix.shape[2]
    out = []
    for _ in range(1 if real else 2):
        size = (count, shape[-2], widths)
        out.append(nl.ndarray(size, dtype=nl.float32, buffer=nl.shared_hbm))
    transform_images(images, rows_matrix, columns_matrix, out)
    sizes = []
    for i in range(len(shape) - 1):
        sizes.append(shape[i])
    sizes.append(widths)
    final = []
    for part in out:
        final.append(part.reshape(tuple(sizes)))
    if real:
        return final[0]
    return final[0], final[1]


def transform_leading(x: list[Tile], matrix: Tile) -> list[Tile]:
    """Return the parts of x (batch, n, rest) transformed along n, in HBM of this kernel."""
    count, length, rest = x[0].shape
    points = matrix.shape[2]
    out = []
    for _ in range(2):
        out.append(nl.ndarray((count, points, rest), dtype=nl.float32, buffer=nl.private_hbm))
    tall = even_step(points, _PANEL)
    for r0 in range(0, points, tall):
        r1 = min(r0 + tall, points)
        panel = matrix_panel(matrix, r0, r1)
        for s in range(count):
            for c0 in range(0, rest, BANK):
                c1 = min(c0 + BANK, rest)
                moving = columns(x, s, c0, c1)
                for m in range(0, r1 - r0, TILE):
                    mw = min(TILE, r1 - r0 - m)
                    for p in range(2):
                        sums = leading_product(panel, moving, length, m, mw, p)
                        tile = nl.ndarray((mw, c1 - c0), dtype=nl.float32, buffer=nl.sbuf)
                        nisa.activation(dst=tile, op=nl.copy, data=sums[0:mw, 0 : c1 - c0])
                        nisa.dma_copy(dst=out[p][s, r0 + m : r0 + m + mw, c0:c1], src=tile)
    return out


def columns(x: list[Tile], s: int, c0: int, c1: int) -> list[Tile]:
    """Return columns ``c0`` to ``c1`` of batch entry ``s``, (128, tiles, columns) for each part.

    A single column is followed by zeros, since some compilers reject a single moving column.
    """
    length = x[0].shape[1]
    wide = max(c1 - c0, 2)
    parts = []
    for part in x:
        panel = nl.ndarray((TILE, row_tiles(length), wide), dtype=nl.float32, buffer=nl.sbuf)
        if wide > c1 - c0:
            nisa.memset(dst=panel, value=0.0)
        for k in range(0, length, TILE):
            kw = min(TILE, length - k)
            # Both operands of a product must be float32: DMA widens the 16-bit ones.
            nisa.dma_copy(dst=panel[0:kw, k // TILE, 0 : c1 - c0], src=part[s, k : k + kw, c0:c1])
        parts.append(panel)
    return parts


def leading_product(
    panel: Tile, moving: list[Tile], depth: int, m: int, mw: int, wanted: int
) -> Tile:
    """Return part ``wanted`` of the transform of all columns: PSUM (mw, columns).

    The real part of the operand is multiplied by the cos and sin parts of the panel, the imaginary
    part by the -sin and cos parts.
    """
    width = moving[0].shape[2]
    sums = nl.ndarray((mw, width), dtype=nl.float32, buffer=nl.psum)
    for t in range(row_tiles(depth)):
        kw = min(TILE, depth - t * TILE)
        for p in range(len(moving)):
            nisa.nc_matmul(
                dst=sums,
                stationary=panel[0:kw, t, 1 - p + wanted, m : m + mw],
                moving=moving[p][0:kw, t, 0:width],
                accumulate=(t > 0 or p > 0),
            )
    return sums
