"""Vectors of double-float numbers: elementwise operations, sums, inner products and axpy.

Layout   planes (rows, columns) of the high and low parts; tiles of 128 rows and up to 512 columns,
         edges are sliced
Limits   as ``doublefloat_arithmetic``, which derives the errors
Cost     Vector instructions on each tile: 20 for a sum, 24 for a product, 82 for a quotient; four
         to six transfers
Lever    each element of a tile has its own sum over the tiles; these sums are reduced along the
         free axis and over partitions once, at the end
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.doublefloat_arithmetic import (
    add,
    divide,
    filled,
    load_pair,
    multiply,
    store_pair,
    store_total,
    zero_pair,
)
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE

WIDTH = 512


@nki.jit
def doublefloat_elementwise(
    a_high: Tile, a_low: Tile, b_high: Tile, b_low: Tile, operation: str
) -> tuple[Tile, Tile]:
    """Return the planes of a + b, a b or a / b.

    Args:
        a_high: (rows, columns).
        a_low: The same shape, like the others.
        b_high: The second operand.
        b_low: Its low part.
        operation: ``"add"``, ``"multiply"`` or ``"divide"``.
    """
    high = nl.ndarray(a_high.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray(a_high.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    width = tile_width(a_high)
    for r in range(0, a_high.shape[0], TILE):
        for c in range(0, a_high.shape[1], width):
            a = load_pair(a_high, a_low, r, c, width)
            b = load_pair(b_high, b_low, r, c, width, 1.0)
            if operation == "add":
                result = add(a, b)
            elif operation == "multiply":
                result = multiply(a, b)
            else:
                result = divide(a, b)
            store_pair(high, low, r, c, result)
    return high, low


@nki.jit
def doublefloat_axpy(
    alpha_high: Tile, alpha_low: Tile, x_high: Tile, x_low: Tile, y_high: Tile, y_low: Tile
) -> tuple[Tile, Tile]:
    """Return the planes of alpha x + y: a product and a sum, 9 and 3.1 u**2 of their results.

    Args:
        alpha_high: (1, 1), one number.
        alpha_low: Its low part.
        x_high: (rows, columns).
        x_low: Its low part.
        y_high: (rows, columns).
        y_low: Its low part.
    """
    high = nl.ndarray(x_high.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray(x_high.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    width = tile_width(x_high)
    alpha = filled(on_partitions(alpha_high), width), filled(on_partitions(alpha_low), width)
    for r in range(0, x_high.shape[0], TILE):
        for c in range(0, x_high.shape[1], width):
            x = load_pair(x_high, x_low, r, c, width)
            y = load_pair(y_high, y_low, r, c, width)
            store_pair(high, low, r, c, add(multiply(alpha, x), y))
    return high, low


@nki.jit
def doublefloat_dot(x_high: Tile, x_low: Tile, y_high: Tile, y_low: Tile) -> tuple[Tile, Tile]:
    """Return the sum of x y over all elements, as two (1, 1) planes.

    The error is at most (9 + 3.1 (t + log2(width) + 7)) u**2 of the sum of |x y|, for t tiles: each
    product is rounded, and is part of t sums and of the halvings of a tile and of a column.

    Args:
        x_high: (rows, columns).
        x_low: Its low part.
        y_high: (rows, columns).
        y_low: Its low part.
    """
    high = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    width = tile_width(x_high)
    total = zero_pair(width)
    for r in range(0, x_high.shape[0], TILE):
        for c in range(0, x_high.shape[1], width):
            x = load_pair(x_high, x_low, r, c, width)
            y = load_pair(y_high, y_low, r, c, width)
            total = add(total, multiply(x, y))
    store_total(high, low, total)
    return high, low


@nki.jit
def doublefloat_sum(x_high: Tile, x_low: Tile) -> tuple[Tile, Tile]:
    """Return the sum of all elements, as two (1, 1) planes.

    The error is at most 3.1 (t + log2(width) + 7) u**2 of the sum of moduli, for t tiles.

    Args:
        x_high: (rows, columns).
        x_low: Its low part.
    """
    high = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    low = nl.ndarray((1, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    width = tile_width(x_high)
    total = zero_pair(width)
    for r in range(0, x_high.shape[0], TILE):
        for c in range(0, x_high.shape[1], width):
            total = add(total, load_pair(x_high, x_low, r, c, width))
    store_total(high, low, total)
    return high, low


def tile_width(plane: Tile) -> int:
    """Return the columns of a tile: the smallest power of two for the plane, up to 512."""
    width = WIDTH
    for power in range(9, -1, -1):
        if plane.shape[1] <= 2**power:
            width = 2**power
    return width


def on_partitions(number: Tile) -> Tile:
    """Return a (1, 1) tensor as a column."""
    column = nl.ndarray((TILE, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=column, src=number.ap([[0, TILE], [1, 1]]))
    return column
