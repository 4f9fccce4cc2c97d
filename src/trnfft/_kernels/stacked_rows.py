"""Fourier transforms of many rows by two factors, with 128 rows on partitions.

With n = a b, point j1 b + j2, and k = k1 + a k2, for each row:

    y[k1, j2] = sum over j1 of x[j1 b + j2] exp(-2 pi i j1 k1 / a)
    X[k1 + a k2] = sum over j2 of y[k1, j2] exp(-2 pi i j2 (k1 + a k2) / n)

Layout   rows on partitions, as in HBM. A group of points, both parts of all j1 for some j2, is
         transposed; it is the stationary operand of a product, which has rows on partitions again.
         The second step has groups of all j2 for some k1. Rows are never in one sum: a NaN stays in
         its row
Limits   from gen3 on: the Tensor engine of gen2 spreads a NaN when it transposes
Cost     per group a transposition and a product, 388 ns; n / 32 groups for 128 rows if both factors
         divide 64; the second matrices are 1 KiB of HBM for each point
Lever    a product has 128 rows, depth 128 and 128 columns; twiddles are in the second matrices;
         every transfer has whole rows; Vector and Scalar share what leaves PSUM
Accuracy relative L2 error below 1e-6
"""

from __future__ import annotations

from typing import NamedTuple

from trnfft._kernels.stacked_geometry import StackedGeometry, offsets
from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.transfers import copy

_TOGETHER = 2
"""Groups that one instruction copies."""


class Step(NamedTuple):
    """Transforms along one dimension of a tile.

    Attributes:
        extent: Extent of the other dimension.
        group: Its entries in a group.
        source: Access pattern of a group of the operand, whose points are the depth of a product.
        source_step: Elements from one entry to the next in the operand.
        places: Access pattern of a group of the result, whose entries are neighbours.
    """

    extent: int
    group: int
    source: list[list[int]]
    source_step: int
    places: list[list[int]]


def transform_many_rows(
    parts: list[Tile], out: list[Tile], constants: Tile, g: StackedGeometry
) -> None:
    """Transform all rows, 128 at a time."""
    assert g.many is not None
    n, a, b = g.length, g.many.a, g.many.b
    columns, bins = g.many.columns, g.many.bins
    # The dimensions of a row are (part, j1, j2), then (k1, part, j2), then (part, k2, k1).
    first = Step(b, columns, [[n, 2], [b, a], [1, columns]], 1, [[b, 2], [2 * b, a]])
    last = Step(a, bins, [[b, 2], [2 * b, bins], [1, b]], 2 * b, [[n, 2], [a, b]])
    tables = []
    for r0 in range(0, parts[0].shape[0], TILE):
        r1 = min(r0 + TILE, parts[0].shape[0])
        tiles = []
        for _ in range(3):
            tiles.append(nl.ndarray((r1 - r0, 2, n), dtype=nl.float32, buffer=nl.sbuf))
        for p in range(2):
            copy(tiles[0][0 : r1 - r0, p], parts[p][r0:r1], second=p > 0)
        if r0 == 0:  # the tables are used after the first rows
            tables = load_matrices(constants, g)
        transform_groups(tiles[0], tables[0], tiles[1], first)
        transform_groups(tiles[1], tables[1], tiles[2], last)
        for p in range(2):
            copy(out[p][r0:r1], tiles[2][0 : r1 - r0, p], second=p > 0)


def load_matrices(constants: Tile, g: StackedGeometry) -> list[Tile]:
    """Return the matrix of the first step, and those of the groups of the second."""
    assert g.many is not None
    at, many, tables = offsets(g), g.many, []
    matrices = (
        (at.columns, 2 * many.a * many.columns, 1),
        (at.bins, 2 * many.b * many.bins, many.groups[1]),
    )
    for i in range(2):
        offset, depth, count = matrices[i]
        tables.append(nl.ndarray((depth, count, depth), dtype=nl.float32, buffer=nl.sbuf))
        pattern = [[count * depth, depth], [depth, count], [1, depth]]
        copy(tables[i], constants.ap(pattern=pattern, offset=offset), second=i > 0)
    return tables


def transform_groups(data: Tile, matrices: Tile, result: Tile, step: Step) -> None:
    """Multiply each group of a tile by its matrix, or by the only one."""
    whole = step.extent // step.group
    runs = []
    for i in range(0, whole, _TOGETHER):
        runs.append((i, i * step.group, min(_TOGETHER, whole - i)))
    if whole * step.group < step.extent:  # some entries again, so that the last group is full
        runs.append((whole, step.extent - step.group, 1))
    rows, size, depth = data.shape[0], 2 * data.shape[2], matrices.shape[0]
    source, places = step.source, step.places
    vector, scalar = nisa.engine.vector, nisa.engine.scalar
    for i in range(len(runs)):
        number, start, some = runs[i]
        columns = nl.ndarray((depth, some, rows), dtype=nl.float32, buffer=nl.psum)
        for j in range(some):
            offset = (start + j * step.group) * step.source_step
            points = data.ap(pattern=[[size, rows], source[0], source[1], source[2]], offset=offset)
            nisa.nc_transpose(dst=columns[0:depth, j], data=points, engine=nisa.engine.tensor)
        stationary = nl.ndarray((depth, some, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=stationary, src=columns, engine=scalar if i % 2 == 0 else vector)
        sums = nl.ndarray((rows, some, depth), dtype=nl.float32, buffer=nl.psum)
        for j in range(some):
            nisa.nc_matmul(
                dst=sums[0:rows, j],
                stationary=stationary[0:depth, j],
                moving=matrices[0:depth, min(number + j, matrices.shape[1] - 1)],
            )
        # Scalar takes longer than Vector to write elements that are far apart.
        pattern = [[size, rows], [step.group, some], places[0], places[1], [1, step.group]]
        nisa.tensor_copy(
            dst=result.ap(pattern=pattern, offset=start),
            src=sums,
            engine=vector if i % 2 == 0 or step.group == 1 else scalar,
        )
