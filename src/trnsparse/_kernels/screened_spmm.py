"""The product with the elements of a dense matrix whose bound is above a cutoff, in one launch.

Element (i, j) counts when ``rows[i] * columns[j] > cutoff``. Tiles of 128 by 128 whose largest
bound is not above the cutoff are neither loaded nor multiplied. Tiles whose smallest bound is above
it are used unmasked. In the others elements are selected, not multiplied by a mask: an infinite
element that is screened out has no effect.

Layout   rows of the matrix on stationary columns, its columns on partitions; the dense operand
         moves
Limits   any shape, edges are sliced; float32 or 16 bits, bounds in the same; bounds are not
         negative; the last bank of columns has more than one, the caller adds one of zeros
Cost     per tile used one transpose and a product; three more Vector passes if it is masked
Lever    the set of tiles is a compile-time argument, so skipped ones are free; the mask is
         computed on chip from two vectors and never stored; sums accumulate in PSUM along a row
"""

# NKI is an untyped namespace to the type checker, so kernels are typed at their arguments only.

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsparse._kernels.row_products import (
    add_chunk,
    new_sums,
    panels,
    store_nothing,
    store_sums,
)

RESIDENT = 96 * 1024
"""Bytes per partition of a panel of the dense operand that stays in SBUF."""


@nki.jit
def screened_spmm(
    a: Tile,
    rows: Tile,
    columns: Tile,
    b: Tile,
    cutoff: float,
    kept: tuple[tuple[tuple[int, bool], ...], ...],
) -> Tile:
    """Return the product of the elements above the cutoff and ``b``.

    Args:
        a: Matrix, (M, K).
        rows: Bounds of its rows, (M, 1).
        columns: Bounds of its columns, (1, K).
        b: Dense operand, (K, N) with N at least 2.
        cutoff: Lower limit of the product of two bounds, exclusive; representable in their dtype.
        kept: For each 128 rows of ``a``, the tiles of columns used, and whether unmasked.
    """
    extent, depth = a.shape
    width = b.shape[1]
    out = nl.ndarray((extent, width), dtype=b.dtype, buffer=nl.shared_hbm)
    edges, resident = panels(width, depth, 4 if b.dtype == nl.float32 else 2, RESIDENT)
    tiles = (depth + TILE - 1) // TILE
    for p in range(len(edges) - 1):
        c0, c1 = edges[p], edges[p + 1]
        there: list[bool] = []
        if resident:
            panel = nl.ndarray((TILE, tiles, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
            for _ in range(tiles):
                there.append(False)
        for i in range(len(kept)):
            m0, m1 = i * TILE, min((i + 1) * TILE, extent)
            if len(kept[i]) == 0:
                store_nothing(out, m0, m1, c0, c1)
                continue
            bounds = nl.ndarray((m1 - m0, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.dma_copy(dst=bounds, src=rows[m0:m1, 0:1])
            sums = new_sums(m1 - m0, c1 - c0)
            for t in range(len(kept[i])):
                tile, whole = kept[i][t]
                k0, k1 = tile * TILE, min((tile + 1) * TILE, depth)
                part = nl.ndarray((m1 - m0, k1 - k0), dtype=a.dtype, buffer=nl.sbuf)
                nisa.dma_copy(dst=part, src=a[m0:m1, k0:k1])
                if not whole:
                    part = chosen(part, bounds, columns, k0, k1, cutoff)
                transposed = nl.ndarray((k1 - k0, m1 - m0), dtype=a.dtype, buffer=nl.sbuf)
                transpose_tile(transposed, part)
                if resident:
                    moving = panel[0 : k1 - k0, tile, 0 : c1 - c0]
                    if not there[tile]:
                        nisa.dma_copy(dst=moving, src=b[k0:k1, c0:c1])
                        there[tile] = True
                else:
                    moving = nl.ndarray((k1 - k0, c1 - c0), dtype=b.dtype, buffer=nl.sbuf)
                    nisa.dma_copy(dst=moving, src=b[k0:k1, c0:c1])
                add_chunk(sums, transposed, moving, t == 0)
            store_sums(out, m0, c0, sums)
    return out


def chosen(part: Tile, bounds: Tile, columns: Tile, k0: int, k1: int, cutoff: float) -> Tile:
    """Return a tile with zeros where the product of bounds is not above the cutoff."""
    rows, width = part.shape
    across = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=across, src=columns.ap(pattern=[[0, rows], [1, width]], offset=k0))
    # Rounded like the matrix of products of bounds.
    products = nl.ndarray((rows, width), dtype=part.dtype, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=products, data=across, op0=nl.multiply, operand0=bounds)
    above = nl.ndarray((rows, width), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=above, data=products, op0=nl.greater, operand0=cutoff)
    left = nl.ndarray((rows, width), dtype=part.dtype, buffer=nl.sbuf)
    nisa.memset(dst=left, value=0.0)
    nisa.tensor_copy_predicated(dst=left, src=part, predicate=above)
    return left
