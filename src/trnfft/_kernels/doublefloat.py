"""Fourier transforms of numbers that are sums of two float32 planes, in one launch.

Layout   as ``doublefloat_geometry`` describes: a pass contracts one axis on partitions, real and
         imaginary parts stacked. The data is stationary, so its columns are the rows of the result,
         on all partitions. Between passes the data is bfloat16 digits in HBM
Limits   2-norms of transforms below 1; axes of 1 to 256 points; any length without a prime factor
         above 256, others by a chirp, for which tables multiply operand and results
Cost     for each pass, per point, 43 * 4 J / 128 columns of the Tensor engine; about 33 Vector and
         11 GpSimd operations, and 34 and 5 more for a table; 64 bytes of HBM traffic
Lever    bfloat16 products at full rate; all pairs of digits of one weight share a sum, which is
         exact in PSUM; error-free additions; digits are cut where all partitions are full
"""

from __future__ import annotations

from typing import NamedTuple

from trnfft._kernels.doublefloat_geometry import EXACT_FROM, NOWHERE, Pass, Passes
from trnfft._kernels.doublefloat_tables import GPSIMD, VECTOR, Rows, load_table, rotated
from trnfft._kernels.four_step_geometry import even_step
from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile
from trnsci.core.tiles.hardware import BANK, TILE
from trnsci.core.tiles.slices import cut, fast_two_sum


class Step(NamedTuple):
    """Columns of the operand of a pass, which are rows of its result.

    Attributes:
        rows: The rows of the result.
        group: First group: a row of columns of the operand.
        groups: Groups of a tile.
        r0, r1: Columns of each group.
    """

    rows: Rows
    group: int
    groups: int
    r0: int
    r1: int


@nki.jit
def doublefloat_transform(
    x_high: Tile, x_low: Tile, matrices: Tile, tables: Tile, plan: Passes
) -> tuple[Tile, Tile]:
    """Return the planes of the transforms, (rows, 2, points) for the last axis.

    Args:
        x_high: The first plane, (rows, parts, columns): the last axis is the columns; one part if
            the operand is real and ``plan.first`` is NOWHERE.
        x_low: The second plane.
        matrices: The vector of matrices.
        tables: The vector of tables.
        plan: The passes.
    """
    digits = cut_operand(x_high, x_low, tables, plan)
    for p in range(len(plan.each) - 1):
        this = plan.each[p]
        rows = digits.shape[0] // this.points * this.run
        result = new_digits(rows, 2, plan.slices, this.points)
        run_pass(digits, matrices, tables, plan, p, [result])
        digits = result
    last = plan.each[-1]
    planes = []
    for _ in range(2):
        rows = digits.shape[0] // last.points * last.run
        planes.append(nl.ndarray((rows, 2, last.points), dtype=nl.float32, buffer=nl.shared_hbm))
    run_pass(digits, matrices, tables, plan, len(plan.each) - 1, planes)
    return planes[0], planes[1]


def new_digits(rows: int, parts: int, slices: int, run: int) -> Tile:
    """Return uninitialised digits in HBM."""
    return nl.ndarray((rows, parts, slices, run), dtype=nl.bfloat16, buffer=nl.private_hbm)


def cut_operand(x_high: Tile, x_low: Tile, tables: Tile, plan: Passes) -> Tile:
    """Return the digits of the operand in HBM."""
    rows, parts, run = x_high.shape
    first = plan.each[0]
    period = first.points * first.inner
    digits = new_digits(rows, parts, plan.slices, run)
    held = None
    steps = rows_in_steps(rows, max(1, BANK // (2 * run)))
    ahead = load_planes(x_high, x_low, steps[0])
    for i in range(len(steps)):
        planes = ahead
        if i + 1 < len(steps):
            ahead = load_planes(x_high, x_low, steps[i + 1])
        if plan.first != NOWHERE:
            held = load_table(tables, plan.first, period, steps[i], run, held)
            planes = rotated(planes, held)
        store_digits(planes, digits, steps[i], plan.slices, 0)
    return digits


def load_planes(x_high: Tile, x_low: Tile, these: Rows) -> list[Tile]:
    """Return the same rows of both planes, (height, parts, tiles, columns)."""
    rows, parts, run = x_high.shape
    shape = (these.height, parts, these.tiles, run)
    planes = []
    for plane in (x_high, x_low):
        tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=rows_of(plane.reshape((rows, parts * run)), these, shape))
        planes.append(tile)
    return planes


def rows_in_steps(rows: int, tiles: int) -> list[Rows]:
    """Return the steps over some rows: some tiles of 128 rows each, and the rest."""
    steps = []
    whole = rows // TILE
    for t in range(0, whole, tiles):
        steps.append(Rows(t * TILE, min(tiles, whole - t), TILE, TILE))
    if whole * TILE < rows:
        steps.append(Rows(whole * TILE, 1, TILE, rows - whole * TILE))
    return steps


def rows_of(array: Tile, these: Rows, shape: tuple[int, int, int, int]) -> Tile:
    """Return some rows, (height, parts, tiles, run), of an array (rows, parts * run)."""
    height, parts, tiles, run = shape
    size = parts * run
    return array.ap(
        pattern=[[size, height], [run, parts], [these.stride * size, tiles], [1, run]],
        offset=these.row * size,
    )


def run_pass(
    digits: Tile, matrices: Tile, tables: Tile, plan: Passes, p: int, out: list[Tile]
) -> None:
    """Contract the first axis of an array of digits, into digits or two planes in HBM."""
    this = plan.each[p]
    rows, parts = digits.shape[0], digits.shape[1]
    outer = rows // (this.points * this.inner)
    depths = contraction_tiles(parts, this.points)
    matrix = load_matrix(matrices, this, plan.slices, depths)
    period, held = this.inner * this.run, None
    steps = steps_of_pass(this, outer)
    ahead = load_columns(digits, this, steps[0], depths)
    for i in range(len(steps)):
        step, data = steps[i], ahead
        if i + 1 < len(steps):  # before the stores of this step, which wait for its results
            ahead = load_columns(digits, this, steps[i + 1], depths)
        planes = multiplied(data, matrix, step, this.points, plan.slices)
        if this.table != NOWHERE:
            held = load_table(tables, this.table, period, step.rows, this.points, held)
            planes = rotated(planes, held)
        if len(out) == 1:
            store_digits(planes, out[0], step.rows, plan.slices, this.exponent)
        else:
            for j in range(2):
                array = out[j].reshape((out[j].shape[0], 2 * this.points))
                nisa.dma_copy(dst=rows_of(array, step.rows, planes[j].shape), src=planes[j])


def steps_of_pass(this: Pass, outer: int) -> list[Step]:
    """Return the steps of a pass: as many tiles as fill a PSUM bank.

    A group is a row of ``run`` columns. Groups of one step are equally far apart in HBM: they have
    one index of the outer axis, or there is no inner axis.
    """
    width = even_step(this.run, TILE)
    most = max(1, BANK // (2 * this.points))
    each = max(1, TILE // this.run)
    blocks, size = (1, outer) if this.inner == 1 else (outer, this.inner)
    steps = []
    for block in range(blocks):
        for r0 in range(0, this.run, width):
            r1 = min(r0 + width, this.run)
            whole = size // each
            for t in range(0, whole, most):
                g = block * size + t * each
                tiles, height = min(most, whole - t), each * (r1 - r0)
                rows = Rows(g * this.run + r0, tiles, each * this.run, height)
                steps.append(Step(rows, g, each, r0, r1))
            rest = size - whole * each
            if rest:
                g = block * size + whole * each
                rows = Rows(g * this.run + r0, 1, TILE, rest * (r1 - r0))
                steps.append(Step(rows, g, rest, r0, r1))
    return steps


def contraction_tiles(parts: int, points: int) -> list[list[tuple[int, int, int]]]:
    """Return the tiles of a contraction; each is a list of parts with a range of points."""
    if parts * points <= TILE:
        both = []
        for part in range(parts):
            both.append((part, 0, points))
        return [both]
    tiles = []
    step = even_step(points, TILE)
    for part in range(parts):
        for j in range(0, points, step):
            tiles.append([(part, j, min(j + step, points))])
    return tiles


def depth_of(pieces: list[tuple[int, int, int]]) -> int:
    """Return the rows of a tile of a contraction."""
    depth = 0
    for piece in pieces:
        depth += piece[2] - piece[1]
    return depth


def load_matrix(
    matrices: Tile, this: Pass, slices: int, depths: list[list[tuple[int, int, int]]]
) -> list[Tile]:
    """Return the digits of a matrix by tiles of the contraction, (rows, slices, 2, points)."""
    points = this.points
    row = slices * 2 * points
    tiles = []
    for pieces in depths:
        depth = depth_of(pieces)
        tile = nl.ndarray((depth, slices, 2, points), dtype=nl.bfloat16, buffer=nl.sbuf)
        start = pieces[0][0] * points + pieces[0][1]  # the pieces of a tile are adjacent rows
        source = matrices.ap(pattern=[[row, depth], [1, row]], offset=this.matrix + start * row)
        nisa.dma_copy(dst=tile.reshape((depth, row)), src=source)
        tiles.append(tile)
    return tiles


def load_columns(
    digits: Tile, this: Pass, step: Step, depths: list[list[tuple[int, int, int]]]
) -> list[Tile]:
    """Return the columns of a step by tiles of the contraction, (rows, groups, slices, width)."""
    _, parts, slices, run = digits.shape
    size = parts * slices * run
    count, width = step.rows.tiles * step.groups, step.r1 - step.r0
    block, place = step.group // this.inner, step.group % this.inner
    row = block * this.points * this.inner + place
    between = size if this.inner > 1 else this.points * size
    tiles = []
    for pieces in depths:
        depth, at = depth_of(pieces), 0
        tile = nl.ndarray((depth, count, slices, width), dtype=nl.bfloat16, buffer=nl.sbuf)
        for piece in pieces:
            part, j0, j1 = piece
            source = digits.ap(
                pattern=[[this.inner * size, j1 - j0], [between, count], [run, slices], [1, width]],
                offset=(row + j0 * this.inner) * size + part * slices * run + step.r0,
            )
            nisa.dma_copy(dst=tile[at : at + j1 - j0], src=source)
            at += j1 - j0
        tiles.append(tile)
    return tiles


def multiplied(
    data: list[Tile], matrix: list[Tile], step: Step, points: int, slices: int
) -> list[Tile]:
    """Return the product of digits as a rounded sum and the sum of its errors.

    Pairs of digits i and j with i + j <= slices + 2 are multiplied. A sum in PSUM, of all pairs of
    one weight i + j, is a multiple of the last bit of the sum of all smaller ones, so
    ``fast_two_sum`` gives the exact error of each addition. The errors of sums of weights above
    ``EXACT_FROM`` are far below the result's; the others are added in float32.
    """
    total = None
    error = None
    for weight in range(slices + 2, 1, -1):
        sums = weight_sum(data, matrix, step, points, weight, slices)
        if total is None:
            total = nl.ndarray(sums.shape, dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(dst=total, op=nl.copy, data=sums)
        elif weight > EXACT_FROM:
            nisa.tensor_tensor(dst=total, data1=sums, data2=total, op=nl.add, engine=VECTOR)
        else:
            total, rest = fast_two_sum(sums, total, VECTOR, GPSIMD)
            if error is None:
                error = rest
            else:
                nisa.tensor_tensor(dst=error, data1=error, data2=rest, op=nl.add, engine=GPSIMD)
    return [total, error]


def weight_sum(
    data: list[Tile], matrix: list[Tile], step: Step, points: int, weight: int, slices: int
) -> Tile:
    """Return the sum of the products of digits of one weight, in PSUM."""
    shape = (step.rows.height, 2, step.rows.tiles, points)
    sums = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    first = max(1, weight - slices)
    for tile in range(step.rows.tiles):
        g0, g1 = tile * step.groups, (tile + 1) * step.groups
        for i in range(first, weight - first + 1):
            for t in range(len(data)):
                depth, width = data[t].shape[0], data[t].shape[3]
                nisa.nc_matmul(
                    dst=sums[0 : step.rows.height, 0:2, tile, 0:points],
                    stationary=data[t][0:depth, g0:g1, i - 1, 0:width],
                    moving=matrix[t][0:depth, weight - i - 1, 0:2, 0:points],
                    accumulate=(i > first or t > 0),
                )
    return sums


def store_digits(planes: list[Tile], out: Tile, these: Rows, slices: int, exponent: int) -> None:
    """Cut pairs (height, parts, tiles, run) into digits, and write these to HBM."""
    height, parts, tiles, run = planes[0].shape
    size = parts * slices * run
    tile = nl.ndarray((height, tiles, size), dtype=nl.bfloat16, buffer=nl.sbuf)
    digits = []
    for s in range(slices):
        digits.append(
            tile.ap(
                pattern=[[tiles * size, height], [slices * run, parts], [size, tiles], [1, run]],
                offset=s * run,
            )
        )
    cut(planes[0], planes[1], digits, exponent, VECTOR)
    rows = out.reshape((out.shape[0], size)).ap(
        pattern=[[size, height], [these.stride * size, tiles], [1, size]], offset=these.row * size
    )
    nisa.dma_copy(dst=rows, src=tile)
