"""Products of float32 matrices by three float16 products, in one launch.

Layout   the contraction on partitions: planes (K, M) of the transposed left operand and (K, N) of
         the right one, the matrices of a batch below each other; two float16 slices of each, cut on
         chip
Limits   entries below 65,520; K and M at least 1, N at least 2; edges are sliced
Error    at most 3 * 2**-22 |A| |B| from the slices: 2**-22 |x| for each operand, and the omitted
         product of two second slices. This holds if the largest entry of each row of A and of each
         column of B is scaled to at least 32,760 and the others are within 2**18 of it: 2**-25,
         half the last bit of a subnormal number, is then at most 2**-22 |x|. The roundings of 3 K
         sums in float32 are added
Cost     3 * M/128 * K/128 * N/512 products at the rate of float16, where float32 takes four passes;
         HBM bytes of the planes, and of the left slices once per 512 columns; with ``upper``, only
         the tiles that reach the upper triangle
Lever    the Tensor engine's rate for 16-bit operands, exact products of float16 in float32, one sum
         in PSUM of all three; Scalar rounds, Vector and GpSimd subtract, the next panel is cut
         meanwhile
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.slices import (
    cut_halves,
    group_sum,
    load_parts,
    store_parts,
    store_zeros,
    tiles_above,
)
from trnsci.core.tiles.tiling import column_start, column_tiles

MOST = 65520.0  # float16 numbers round to less
CHUNK = 4096  # rows of the contraction whose panels fit in SBUF
PAIRS = ((1, 2), (2, 1), (1, 1))  # smallest first; second slice times second slice is omitted


@nki.jit
def float16x3_gemm(a: Tile, b: Tile, batch: int = 1, upper: bool = False) -> Tile:
    """Return the products in float32, (batch M, N), with the matrices below each other.

    Args:
        a: (batch K, M), the transposed left operands.
        b: (batch K, N).
        batch: Number of products.
        upper: Whether only the upper triangle of the result is needed: zeros are below its tiles.
    """
    rows, columns = a.shape[1], b.shape[1]
    depth = a.shape[0] // batch
    out = nl.ndarray((batch * rows, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    for g in range(batch):
        stored: list[list[Any]] = []  # the left slices of each chunk, by row tiles, in HBM
        for t in range(column_tiles(columns)):
            n0, n1 = column_start(t, columns), column_start(t + 1, columns)
            row_tiles = tiles_above(rows, n1, upper)
            store_zeros(out, g * rows + min(row_tiles * TILE, rows), (g + 1) * rows, n0, n1)
            for c in range((depth + CHUNK - 1) // CHUNK):
                k0, k1 = g * depth + c * CHUNK, g * depth + min((c + 1) * CHUNK, depth)
                right = cut_halves(b, k0, k1, n0, n1)
                if t == 0:
                    stored.append([])
                lefts = []
                for m in range(row_tiles + 1):
                    if m < row_tiles:  # cut one panel before its products
                        if m < len(stored[c]):
                            left = load_parts(stored[c][m])
                        else:
                            left = cut_halves(a, k0, k1, m * TILE, min((m + 1) * TILE, rows))
                            if n1 < columns:
                                stored[c].append(store_parts(left))
                        lefts.append(left)
                    if m > 0:
                        sums = group_sum(lefts[m - 1], right, PAIRS)
                        m0, m1 = g * rows + (m - 1) * TILE, g * rows + min(m * TILE, rows)
                        write_sums(out[m0:m1, n0:n1], sums, c > 0)
    return out


def write_sums(out: Tile, sums: Tile, add: bool) -> None:
    """Write PSUM sums to the result, or add them to it."""
    tile = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
    if add:
        nisa.dma_copy(dst=tile, src=out)
        nisa.tensor_tensor(dst=tile, data1=sums, data2=tile, op=nl.add)
    else:
        nisa.tensor_copy(dst=tile, src=sums, engine=nisa.engine.vector)
    nisa.dma_copy(dst=out, src=tile)
