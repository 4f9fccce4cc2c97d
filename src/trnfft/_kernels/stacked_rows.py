"""Fourier transforms of many rows by two factors, with 128 rows on partitions.

With n = a b, point j1 b + j2, and k = k1 + a k2, for each row:

    y[k1, j2] = sum over j1 of x[j1 b + j2] exp(-2 pi i j1 k1 / a)
    X[k1 + a k2] = sum over j2 of y[k1, j2] exp(-2 pi i j2 (k1 + a k2) / n)

For a real operand y[a - k1] = conj(y[k1]). So the second step transforms only the bins k1 <= a / 2,
and gives X[k] for k <= n / 2, else its conjugate X[n - k]. A real result takes the transposed steps
in the opposite order.

Layout   rows on partitions, as in HBM. A group of points, both parts of all j1 for some j2, is
         transposed and is the stationary operand of a product, whose result has rows on partitions
         again. The second step has groups of all j2 for some k1. No sum has terms of two rows: a
         NaN stays in its row
Limits   from gen3 on: the Tensor engine of gen2 spreads a NaN when it transposes
Cost     per group a transposition and a product, 388 ns; n / 32 groups for 128 rows if both factors
         divide 64, n / 64 + 1 for a real transform. The matrices of the second step take 1 KiB of
         HBM per point, or half of it for a real transform
Lever    a product has 128 rows, depth 128 and 128 columns; twiddles are in the second matrices;
         every transfer has whole rows; Vector and Scalar share the copies from PSUM
Accuracy relative L2 error below 1e-6
"""

from __future__ import annotations

from typing import NamedTuple

from trnfft._kernels.stacked_geometry import RowsGeometry
from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.transfers import copy

_TOGETHER = 2
"""Groups that one instruction copies."""


class Side(NamedTuple):
    """Access patterns of groups in the rows of a tile.

    Attributes:
        pattern: Access pattern of the first group in a row.
        step: Offset from one entry to the next, in elements.
        mirror: If above 0, the second dimension of the pattern is (bins, mirrored bins). Its
            step is ``mirror`` elements in the first group, and 2 less for each bin before a group.
    """

    pattern: list[list[int]]
    step: int
    mirror: int = 0


class Step(NamedTuple):
    """Transforms along one dimension of a tile.

    Attributes:
        extent: Extent of the other dimension.
        group: Number of its entries in a group.
        source: Groups of the operand; a group's points are the depth of a product.
        places: Groups of the result.
    """

    extent: int
    group: int
    source: Side
    places: Side


def steps(g: RowsGeometry, kind: str) -> tuple[list[Step], list[int]]:
    """Return both steps, and the elements of a row of operand, intermediate and result.

    The dimensions of a row are (part, j1, j2), then (k1, part, j2), then (part, k2, k1). A real
    transform has ``a`` entries between the steps, and one entry of zeros. The imaginary part of bin
    k1 is entry ``extent - 1 + k1``. For bin 0, whose imaginary part is 0, that is the last real
    part; the matrices have zeros there.
    """
    a, b, columns, bins = g.a, g.b, g.columns, g.bins
    n = a * b
    if kind == "full":
        points = Side([[n, 2], [b, a], [1, columns]], 1)
        column = Side([[b, 2], [2 * b, a], [1, columns]], 1)
        entry = Side([[b, 2], [2 * b, bins], [1, b]], 2 * b)
        spectrum = Side([[n, 2], [a, b], [1, bins]], 1)
        both = [Step(b, columns, points, column), Step(a, bins, entry, spectrum)]
        return both, [2 * n, 2 * n, 2 * n]
    pitch = a * g.mirrored + 1
    column = Side([[b, a], [1, columns]], 1)
    entry = Side([[(g.extent - 1) * b, 2], [b, bins], [1, b]], b)
    spectrum = Side([[pitch, 2], [0, 2], [a, g.mirrored], [1, bins]], 1, a - bins + 1)
    if kind == "half":
        both = [Step(b, columns, column, column), Step(g.extent, bins, entry, spectrum)]
        return both, [n, n + b, 2 * pitch]
    both = [Step(g.extent, bins, spectrum, entry), Step(b, columns, column, column)]
    return both, [2 * pitch, n + b, n]


def transform_many_rows(
    parts: list[Tile], out: list[Tile], constants: Tile, at: int, g: RowsGeometry, kind: str
) -> None:
    """Transform all rows, 128 at a time.

    Args:
        parts: Real and imaginary part of the operand, or the real part alone.
        out: Real and imaginary part of the result, or the real part alone.
        constants: The vector of constants.
        at: The offset of the matrices of ``g`` in it.
        g: The factors.
        kind: As in ``four_step``.
    """
    n, rows = g.a * g.b, parts[0].shape[0]
    both, sizes = steps(g, kind)
    tables = []
    for r0 in range(0, rows, TILE):
        count = min(TILE, rows - r0)
        tiles = []
        for size in sizes:
            tiles.append(nl.ndarray((count, size), dtype=nl.float32, buffer=nl.sbuf))
        width, pitch = parts[0].shape[1], sizes[0] // len(parts)
        if pitch > width:
            nisa.memset(dst=tiles[0], value=0.0)
        loaded = tiles[0].reshape((count, len(parts), pitch))
        for p in range(len(parts)):
            copy(loaded[0:count, p, 0:width], parts[p][r0 : r0 + count], second=p > 0)
        if kind == "hermitian":  # points 0 and n / 2 are real
            last = [n // 2, 2] if n % 2 == 0 else [1, 1]
            nisa.memset(dst=tiles[0].ap(pattern=[[sizes[0], count], last], offset=pitch), value=0.0)
        if kind == "half":
            nisa.memset(dst=tiles[1][0:count, n : n + g.b], value=0.0)
        if r0 == 0:  # the tables are used after the first rows
            tables = load_matrices(constants, at, g, kind)
        for i in range(2):
            transform_groups(tiles[i], tables[i], tiles[i + 1], both[i])
        width, pitch = out[0].shape[1], sizes[2] // len(out)
        result = tiles[2].reshape((count, len(out), pitch))
        for p in range(len(out)):
            copy(out[p][r0 : r0 + count], result[0:count, p, 0:width], second=p > 0)


def load_matrices(constants: Tile, at: int, g: RowsGeometry, kind: str) -> list[Tile]:
    """Return the matrices of both steps: one for all columns, and one for each group of bins."""
    tables = []
    for i in range(2):
        depth, count, width = g.shapes[i]
        if kind == "hermitian":
            depth, width = width, depth
        tables.append(nl.ndarray((depth, count, width), dtype=nl.float32, buffer=nl.sbuf))
        pattern = [[count * width, depth], [width, count], [1, width]]
        copy(tables[i], constants.ap(pattern=pattern, offset=at), second=i > 0)
        at += depth * count * width
    if kind == "hermitian":
        return [tables[1], tables[0]]
    return tables


def transform_groups(data: Tile, matrices: Tile, result: Tile, step: Step) -> None:
    """Multiply each group of a tile by its matrix, or by the only one."""
    whole = step.extent // step.group
    runs = []
    for i in range(0, whole, _TOGETHER):
        runs.append((i, i * step.group, min(_TOGETHER, whole - i)))
    if whole * step.group < step.extent:  # some entries again, so that the last group is full
        runs.append((whole, step.extent - step.group, 1))
    rows, depth, width = data.shape[0], matrices.shape[0], matrices.shape[2]
    vector, scalar = nisa.engine.vector, nisa.engine.scalar
    source, places = step.source, step.places
    pattern, to = source.pattern, places.pattern
    for i in range(len(runs)):
        number, start, some = runs[i]
        columns = nl.ndarray((depth, some, rows), dtype=nl.float32, buffer=nl.psum)
        for j in range(some):
            entry = start + j * step.group
            if source.mirror > 0:
                pattern = [pattern[0], [source.mirror - 2 * entry, 2], pattern[2], pattern[3]]
            points = block(data, pattern, entry * source.step)
            nisa.nc_transpose(dst=columns[0:depth, j], data=points, engine=nisa.engine.tensor)
        stationary = nl.ndarray((depth, some, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=stationary, src=columns, engine=scalar if i % 2 == 0 else vector)
        sums = nl.ndarray((rows, some, width), dtype=nl.float32, buffer=nl.psum)
        for j in range(some):
            nisa.nc_matmul(
                dst=sums[0:rows, j],
                stationary=stationary[0:depth, j],
                moving=matrices[0:depth, min(number + j, matrices.shape[1] - 1)],
            )
        # Scalar takes longer than Vector to write elements that are far apart.
        engine = vector if i % 2 == 0 or step.group == 1 else scalar
        if places.mirror == 0:
            several = [[step.group * places.step, some]]
            dst = block(result, several + to, start * places.step)
            nisa.tensor_copy(dst=dst, src=sums, engine=engine)
            continue
        blocks = sums.reshape((rows, some, 2, 2, width // 4))
        for j in range(some):
            entry = start + j * step.group
            # Two instructions, since a bin can be its own mirrored bin.
            for at in ((0, entry), (1, places.mirror - entry)):
                dst = block(result, [to[0], to[2], to[3]], at[1])
                nisa.tensor_copy(dst=dst, src=blocks[0:rows, j, 0:2, at[0]], engine=engine)


def block(tile: Tile, pattern: list[list[int]], start: int) -> Tile:
    """Return the view of a pattern at offset ``start`` in every row of a tile."""
    rows = [[tile.shape[1], tile.shape[0]]]
    return tile.ap(pattern=rows + pattern, offset=start)
