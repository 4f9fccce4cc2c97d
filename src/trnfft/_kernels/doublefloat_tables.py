"""Products of pairs of float32 with tables of complex numbers, as ``doublefloat`` has them.

Layout   pairs (height, 2, tiles, points): rows on partitions, real and imaginary parts apart. A
         table of ``doublefloat_geometry`` gives the factors of each row and point
Limits   pairs and tables between 2**-60 and 2**60 in modulus, or 0
Cost     34 Vector and 5 GpSimd operations on a tile, and 5 transfers and 4 Vector operations where
         the rows of the table change
Lever    error-free products and sums; one instruction for both parts; the table stays in SBUF while
         the rows are the same
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.doublefloat_arithmetic import combined, halves
from trnsci.core.tiles.gemm_tiles import Tile

VECTOR, GPSIMD = nisa.engine.vector, nisa.engine.gpsimd


class Rows(NamedTuple):
    """Rows of an array that are computed together: some tiles of them, on partitions.

    Attributes:
        row: First row.
        tiles: Number of tiles.
        stride: Rows between the tiles.
        height: Rows of a tile.
    """

    row: int
    tiles: int
    stride: int
    height: int


class Table(NamedTuple):
    """A table in SBUF, each (height, 3, tiles, points): real part, imaginary part, its negative."""

    row: int
    high: Tile
    upper: Tile
    lower: Tile
    low: Tile


def load_table(
    tables: Tile, offset: int, period: int, rows: Rows, points: int, held: Table | None
) -> Table:
    """Return the part of a table for some rows of the result; ``held`` if it is the same."""
    row = rows.row % period
    shape = (rows.height, 3, rows.tiles, points)
    if (
        held is not None
        and held.row == row
        and held.high.shape == shape
        and rows.tiles * rows.stride % period == 0
    ):
        return held
    planes = []
    for half in range(2):
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        for t in range(rows.tiles):
            start = (row + t * rows.stride) % period
            source = tables.ap(
                pattern=[[6 * points, rows.height], [points, 3], [1, points]],
                offset=offset + (2 * start + half) * 3 * points,
            )
            nisa.dma_copy(dst=tile[0 : rows.height, 0:3, t], src=source)
        planes.append(tile)
    upper, lower = halves(planes[0])
    return Table(row, planes[0], upper, lower, planes[1])


def rotated(planes: list[Tile], table: Table) -> list[Tile]:
    """Return complex pairs (height, 2, tiles, points) multiplied by a table.

    The high parts of the products of real numbers are added exactly, and so are their errors
    determined; the products of low parts are left out.
    """
    pieces = halves(planes[0])
    by_real = product(planes, pieces, table, 0, 0)
    by_imaginary = product(planes, pieces, table, 1, 1)
    high, low = by_real
    total = nl.ndarray(high.shape, dtype=nl.float32, buffer=nl.sbuf)
    added = nl.ndarray(high.shape, dtype=nl.float32, buffer=nl.sbuf)
    for part in range(2):  # the product with the imaginary part belongs to the other part
        other = by_imaginary[0][:, 1 - part]
        nisa.tensor_tensor(
            dst=total[:, part], data1=high[:, part], data2=other, op=nl.add, engine=VECTOR
        )
    share = combined(total, high, nl.subtract)
    rest = combined(total, share, nl.subtract)
    nisa.tensor_tensor(dst=rest, data1=high, data2=rest, op=nl.subtract, engine=VECTOR)
    for part in range(2):
        other, small = by_imaginary[0][:, 1 - part], by_imaginary[1][:, 1 - part]
        nisa.tensor_tensor(
            dst=added[:, part], data1=other, data2=share[:, part], op=nl.subtract, engine=VECTOR
        )
        nisa.tensor_tensor(
            dst=low[:, part], data1=low[:, part], data2=small, op=nl.add, engine=GPSIMD
        )
    nisa.tensor_tensor(dst=rest, data1=rest, data2=added, op=nl.add, engine=VECTOR)
    nisa.tensor_tensor(dst=rest, data1=rest, data2=low, op=nl.add, engine=VECTOR)
    return [total, rest]


def product(
    planes: list[Tile], pieces: tuple[Tile, Tile], table: Table, t0: int, step: int
) -> list[Tile]:
    """Return the products with entries ``t0`` and ``t0 + step`` of a table, and their errors."""
    high, low = planes
    upper, lower = pieces
    factor = entries(table.high, t0, step)
    total = combined(high, factor, nl.multiply)
    error = combined(
        total, combined(upper, entries(table.upper, t0, step), nl.multiply), nl.subtract
    )
    cross = combined(lower, entries(table.upper, t0, step), nl.multiply)
    nisa.tensor_tensor(dst=error, data1=error, data2=cross, op=nl.subtract, engine=VECTOR)
    cross = combined(upper, entries(table.lower, t0, step), nl.multiply)
    nisa.tensor_tensor(dst=error, data1=error, data2=cross, op=nl.subtract, engine=VECTOR)
    cross = combined(lower, entries(table.lower, t0, step), nl.multiply)
    nisa.tensor_tensor(dst=error, data1=cross, data2=error, op=nl.subtract, engine=VECTOR)
    for pair in ((high, table.low), (low, table.high)):
        cross = nl.ndarray(high.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(
            dst=cross,
            data1=pair[0],
            data2=entries(pair[1], t0, step),
            op=nl.multiply,
            engine=GPSIMD,
        )
        nisa.tensor_tensor(dst=error, data1=error, data2=cross, op=nl.add, engine=VECTOR)
    return [total, error]


def entries(table: Tile, first: int, step: int) -> Tile:
    """Return entries ``first`` and ``first + step`` of a table, (height, 2, tiles, points)."""
    height, _, tiles, points = table.shape
    size = tiles * points
    return table.ap(
        pattern=[[3 * size, height], [step * size, 2], [points, tiles], [1, points]],
        offset=first * size,
    )
