"""Inverses of triangular tiles, by doubling: products only, and no loop over rows.

X_s has the inverses of the diagonal blocks of M of order s. M_s has the blocks of M of order s that
join the first diagonal block with the second, the third with the fourth, and so on. Then

    X_2s = X_s - X_s M_s X_s

doubles s, from X_1, the reciprocal diagonal, to X_128 in seven steps. This is block inversion: each
new entry is one product of two inverses and a block of M, as accurate as substitution by blocks.
Both X_s and its transpose are stored, so no step transposes.

Layout   one square tile, of at most 128 rows
Limits   float32. A zero on the diagonal makes the inverse not finite
Cost     20 products of 128 x 128 x 128
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

LEVELS = 7
"""Doublings from 1 to 128."""


class Triangle(NamedTuple):
    """A triangular tile to invert.

    Attributes:
        inverse_t: Receives the transpose of the inverse.
        strict_t: The transpose of the tile, zeros on its diagonal.
        inverse: A diagonal tile with the reciprocals of the diagonal; it is overwritten.
    """

    inverse_t: Tile
    strict_t: Tile
    inverse: Tile


def invert_triangles(triangles: list[Triangle], masks: Tile) -> None:
    """Invert triangular tiles in lock-step: one waits for a product while others are multiplied.

    Args:
        triangles: The tiles.
        masks: ``doubling_masks`` of the triangles.
    """
    for i in range(len(triangles)):
        nisa.tensor_copy(dst=triangles[i].inverse_t, src=triangles[i].inverse)
    for level in range(LEVELS):
        for i in range(len(triangles)):
            size = triangles[i].strict_t.shape[0]
            if 2**level < size:
                mask = masks[0:size, level, 0:size]
                double_inverse(triangles[i], mask, 2 ** (level + 1) >= size)


def double_inverse(x: Triangle, mask: Tile, last: bool) -> None:
    """Extend inverses of s-blocks to 2s-blocks; the ``last`` step computes only the transpose."""
    size = mask.shape[0]
    chosen = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    # Vector has the sums. On gen2 GpSimd and Vector take turns, and GpSimd takes longer.
    older = nisa.get_nc_version() == nisa.nc_version.gen2
    engine = nisa.engine.vector if older else nisa.engine.gpsimd
    nisa.tensor_tensor(dst=chosen, data1=x.strict_t, data2=mask, op=nl.multiply, engine=engine)
    summed = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=summed, stationary=chosen, moving=x.inverse)
    product = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=product, op=nl.copy, data=summed)
    if not last:
        subtract_product(x.inverse, x.inverse_t, product)
    subtract_product(x.inverse_t, product, x.inverse_t)


def subtract_product(dst: Tile, stationary: Tile, moving: Tile) -> None:
    """Subtract ``stationary.T @ moving`` from ``dst``, which may be one of the two operands."""
    change = nl.ndarray(dst.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=change, stationary=stationary, moving=moving)
    nisa.tensor_tensor(dst=dst, data1=dst, data2=change, op=nl.subtract)


def reciprocal_diagonal(block: Tile) -> Tile:
    """Return the reciprocals of the diagonal of a square block as a column."""
    size = block.shape[0]
    diagonal = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.affine_select(
        dst=diagonal,
        pattern=[[1, size]],
        channel_multiplier=-1,
        on_true_tile=block,
        on_false_value=0.0,
        cmp_op=nl.equal,
    )
    column = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.add, data=diagonal, axis=1)
    nisa.reciprocal(dst=column, data=column)
    return column


def doubling_masks(lower: bool) -> Tile:
    """Return ones where the transpose of M has its blocks M_s, for s = 1, 2, 4, ..., 64.

    With column f = 2 s g + s h + r of a 2s-block and row p, let d = p - 2 s g. The transposed
    blocks have 0 <= d < s and h = 1 for a lower M, s <= d < 2s and h = 0 for an upper one. A step
    of 128 for h, larger than any d, combines both conditions into one comparison.
    """
    masks = nl.ndarray((TILE, LEVELS, TILE), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=masks, value=1.0)
    for level in range(LEVELS):
        s = 2**level
        mask = masks[0:TILE, level, 0:TILE]
        low = 0 if lower else s
        nisa.affine_select(
            dst=mask,
            pattern=[[-2 * s, TILE // (2 * s)], [TILE if lower else -TILE, 2], [0, s]],
            channel_multiplier=1,
            offset=-low - TILE if lower else -low,
            on_true_tile=mask,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )
        nisa.affine_select(
            dst=mask,
            pattern=[[-2 * s, TILE // (2 * s)], [0, 2], [0, s]],
            channel_multiplier=1,
            offset=-low - s,
            on_true_tile=mask,
            on_false_value=0.0,
            cmp_op=nl.less,
        )
    return masks
