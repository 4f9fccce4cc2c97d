"""Fourier transforms of images over both dimensions, each by two stacked factors.

Layout   a pass transforms the columns of a matrix as ``stacked`` transforms the first two factors
         of a row, and stores them as rows; two passes restore the order of the operand. Both parts
         of j1, and later several columns next to j2, are on partitions
Limits   operands (batch, n1, n2), float32 or 16-bit; float32 results; the lengths of an image
         geometry
Cost     per point and pass 4 / a + 16 / (b s) cycles of the Tensor engine; operand and result once,
         and the data once more through HBM. A real operand halves the bytes read, and a half
         spectrum the bytes written; the time of the products is unchanged
Lever    the array is full in every product; the first product of the next columns runs while these
         columns are multiplied by twiddles; transfers have contiguous runs of a points
Accuracy relative L2 error below 1e-6
"""

from __future__ import annotations

from typing import NamedTuple

from trnfft._kernels.stacked import first_product, load_tables, second_product
from trnfft._kernels.stacked_geometry import ImageGeometry, StackedGeometry
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK
from trnsci.core.tiles.transfers import copy

_BANKS = 2
"""PSUM banks of the first products of one block of columns."""

_AHEAD = 2
"""Number of blocks from the load of a block to its last product."""


class Block(NamedTuple):
    """Some columns of a matrix, which become rows of another.

    Attributes:
        source: Real and imaginary part, or the real part alone, (batch, n, columns).
        sink: Real and imaginary part, (batch, columns, n), or with fewer points of each row.
        tables: The tables of the geometry.
        geometry: The factors of n.
        image: Index of the image in the batch.
        start: The first column.
        groups: Number of groups of s columns.
    """

    source: list[Tile]
    sink: list[Tile]
    tables: list[Tile]
    geometry: StackedGeometry
    image: int
    start: int
    groups: int


@nki.jit
def stacked_image(
    x_re: Tile,
    x_im: Tile | None,
    rows_constants: Tile,
    columns_constants: Tile,
    geometry: ImageGeometry,
    half: bool = False,
) -> tuple[Tile, Tile]:
    """Return the transforms of all images, as real and imaginary part.

    Args:
        x_re: (batch, n1, n2).
        x_im: The same shape, or None for a real operand.
        rows_constants: The vector of constants of the first dimension.
        columns_constants: The vector of constants of the second dimension.
        geometry: The factors of both.
        half: Whether only the first n2 // 2 + 1 points of the second dimension are stored.
    """
    batch, height, width = x_re.shape
    points = width // 2 + 1 if half else width
    parts, between, out = [x_re], [], []
    if x_im is not None:
        parts.append(x_im)
    for _ in range(2):
        between.append(nl.ndarray((batch, width, height), dtype=nl.float32, buffer=nl.private_hbm))
        out.append(nl.ndarray((batch, height, points), dtype=nl.float32, buffer=nl.shared_hbm))
    first = load_tables(rows_constants, geometry.rows)
    second = load_tables(columns_constants, geometry.columns)
    blocks: list[Block | None] = []
    for i in range(batch + 1):
        if i < batch:
            blocks += blocks_of_columns(parts, between, first, geometry.rows, i)
        # The second pass of an image comes after the first pass of the next image: that pass is
        # independent of it, so the engines need not wait for stores.
        if i in (1, batch):
            blocks += [None] * _AHEAD
        if i > 0:
            blocks += blocks_of_columns(between, out, second, geometry.columns, i - 1)
    transform_blocks(blocks)
    return out[0], out[1]


def blocks_of_columns(
    source: list[Tile], sink: list[Tile], tables: list[Tile], g: StackedGeometry, image: int
) -> list[Block]:
    """Return the blocks of all columns of an image.

    The last group may overlap the one before: columns in both are transformed twice.
    """
    count, step = source[0].shape[2], _BANKS * (BANK // (2 * g.a))
    groups = count // g.s
    blocks = []
    for g0 in range(0, groups, step):
        some = min(step, groups - g0)
        blocks.append(Block(source, sink, tables, g, image, g0 * g.s, some))
    if groups * g.s < count:
        blocks.append(Block(source, sink, tables, g, image, count - g.s, 1))
    return blocks


def transform_blocks(blocks: list[Block | None]) -> None:
    """Transform blocks in turn, so that engines work on three of them; None is a pause.

    A block may read the results of blocks that are at least three places before it.
    """
    stationary, waiting = {}, {}
    for t in range(len(blocks) + _AHEAD):
        block = blocks[t] if t < len(blocks) else None
        if block is not None:
            stationary[t] = load_columns(block)
        block = blocks[t - 1] if 0 < t <= len(blocks) else None
        if block is not None:
            waiting[t - 1] = first_product(stationary[t - 1], block.tables, block.geometry)
        block = blocks[t - _AHEAD] if t >= _AHEAD else None
        if block is not None:
            store_rows(block, second_product(waiting[t - _AHEAD], block.tables, block.geometry))


def load_columns(block: Block) -> list[Tile]:
    """Return the stationary operands of the groups of a block: (part, j1) by (j2, column)."""
    a, b, s = block.geometry.a, block.geometry.b, block.geometry.s
    count, width = block.source[0].shape[2], block.groups * s
    depth = len(block.source) * a
    data = nl.ndarray((depth, b, width), dtype=nl.float32, buffer=nl.sbuf)
    for p in range(len(block.source)):
        columns = block.source[p].ap(
            pattern=[[b * count, a], [count, b], [1, width]],
            offset=block.image * a * b * count + block.start,
        )
        copy(data[p * a : (p + 1) * a, 0:b, 0:width], columns, second=p > 0)
    stationary = []
    for j in range(block.groups):
        pattern = [[b * width, depth], [width, b], [1, s]]
        stationary.append(data.ap(pattern=pattern, offset=j * s))
    return stationary


def store_rows(block: Block, sums: Tile) -> None:
    """Store the transformed columns of a block as rows."""
    a, b, s = block.geometry.a, block.geometry.b, block.geometry.s
    _, count, n = block.sink[0].shape
    whole, rest, start = n // a, n % a, (block.image * count + block.start) * n
    result = nl.ndarray((b * s, 2, block.groups, a), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=result.reshape((b * s, 2, block.groups * a)), op=nl.copy, data=sums)
    rows, last = [[n, s], [s * n, block.groups]], whole * s
    for p in range(2):
        places = block.sink[p].ap(pattern=[[a, whole], rows[0], rows[1], [1, a]], offset=start)
        copy(places, result[0:last, p], second=p > 0)
        if rest > 0:
            places = block.sink[p].ap(
                pattern=[rows[0], rows[1], [1, rest]], offset=start + whole * a
            )
            copy(places, result[last : last + s, p, 0 : block.groups, 0:rest], second=p > 0)
