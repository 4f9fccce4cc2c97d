"""One stage of a long transform: DFTs of one or two factors along the columns of a matrix in HBM.

With two factors, row j of the matrix is j = j1 b + j2 and row k of the result k = k1 + a k2:

    y[j2, k1] = exp(-2 pi i j2 k1 / (a b)) * sum over j1 of x[j1, j2] exp(-2 pi i j1 k1 / a)
    X[k2, k1] = sum over j2 of exp(-2 pi i j2 k2 / b) y[j2, k1]

Layout   j1 on partitions. In the first product the *data* is stationary and the DFT matrix moves,
         so the result has j2 on partitions and no transpose is needed between the two products.
         In the second product the DFT matrix is stationary and many columns move at once.
Cost     per column 2 products with 2a moving columns, and 4a moving columns of the second product;
         a stage with one factor has the second product only
Lever    both parts in one PSUM bank (-sin, cos and sin are adjacent in one table, so the factors of
         the real and of the imaginary part are two adjacent entries each), twiddles fused with the
         copies from PSUM, tables resident for the whole batch
"""

from __future__ import annotations

from typing import NamedTuple

from trnfft._kernels.four_step_geometry import (
    NOWHERE,
    PSUM_COLUMNS,
    chunk_columns,
    group_columns,
)
from trnfft._kernels.four_step_tiles import View, load, multiply_complex, part_of, rows_used, store
from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, moving_columns
from trnsci.core.tiles.hardware import BANK

_FIRST_BANKS = 4


class Stage(NamedTuple):
    """Parameters of a stage.

    Attributes:
        a, b: Factors; ``a`` is 1 if there is only one.
        columns: Number of columns of the matrix, or the batch size if ``by_rows``.
        batch: Number of matrices; 1 if ``by_rows``.
        by_rows: Whether each column is a row in HBM.
        matrices, inner: Offsets of the constants.
    """

    a: int
    b: int
    columns: int
    batch: int
    by_rows: bool
    matrices: tuple[int, int]
    inner: int


class Source(NamedTuple):
    """Input of a stage.

    Attributes:
        parts: Real and imaginary part, or the real part alone.
        stride: Number of elements between matrices of the batch.
        limit: Number of existing elements of a matrix; the others are zero.
        table: Offset of a table that multiplies the elements, or NOWHERE.
        table_points: Number of elements of each part of that table.
        weights: Offset of the weights of column 0, or NOWHERE.
        real_points: Elements whose imaginary part is ignored.
    """

    parts: list[Tile]
    stride: int
    limit: int
    table: int = NOWHERE
    table_points: int = 0
    weights: int = NOWHERE
    real_points: tuple[int, ...] = ()


class Sink(NamedTuple):
    """Output of a stage.

    Attributes:
        parts: Real and imaginary part, or the real part alone.
        stride: Number of elements between results of the batch.
        limit: Number of elements of a result that are stored.
        table: Offset of a table that multiplies the results, or NOWHERE.
        transposed: Whether the result is stored transposed, as the next stage reads it.
        conjugate: Whether the product with the table is conjugated.
    """

    parts: list[Tile]
    stride: int
    limit: int
    table: int = NOWHERE
    transposed: bool = False
    conjugate: bool = False


def run_stage(stage: Stage, source: Source, sink: Sink, constants: Tile) -> None:
    """Transform all columns of all matrices of a batch."""
    a, b = stage.a, stage.b
    first, inner = None, None
    if a > 1:
        first = load_matrix(constants, stage.matrices[0], a)
        inner = load(table_view(b, a), [constants] * 2, [stage.inner, stage.inner + a * b])
    last = load_matrix(constants, stage.matrices[1], b)
    before, after = None, None
    step = chunk_columns(a, b, stage.columns)
    for c0 in range(0, stage.columns, step):
        c1 = min(c0 + step, stage.columns)
        if c0 == 0 or not stage.by_rows:
            before = load_before(stage, source, constants, c0, c1)
            after = load_after(stage, sink, constants, c0, c1)
        for s in range(stage.batch):
            view = source_view(stage, source, c0, c1, False)
            base = (c0 if stage.by_rows else s) * source.stride
            data = load(view, source.parts, [base] * len(source.parts))
            for point in source.real_points:
                # Source of zeros: the sines of the first row of twiddles.
                clear_imaginary(data, view, point, constants, stage.inner + a * b)
            if source.weights != NOWHERE and (c0 == 0 or stage.by_rows):
                weigh(stage, source, constants, data, c1 - c0)
            if before is not None:
                data = multiplied(stage, data, before, c1 - c0)
            group = group_columns(a, c1 - c0)
            for g0 in range(0, c1 - c0, group):
                g1 = min(g0 + group, c1 - c0)
                y = data
                if a > 1:
                    y = first_product(stage, sink, data, first, inner, g0, g1, c1 - c0)
                result = last_product(stage, sink, y, last, after, g0, g1, c1 - c0)
                view = sink_view(stage, sink, c0 + g0, c0 + g1)
                store(view, sink.parts, sink_base(stage, sink, s, c0 + g0), result)


def load_matrix(constants: Tile, offset: int, size: int) -> Tile:
    """Return the matrix of a factor as (size, 3, size): -sin, cos and sin parts."""
    matrix = nl.ndarray((size, 3, size), dtype=nl.float32, buffer=nl.sbuf)
    rows = constants.ap(pattern=[[3 * size, size], [size, 3], [1, size]], offset=offset)
    nisa.dma_copy(dst=matrix, src=rows)
    return matrix


def table_view(rows: int, width: int) -> View:
    """Return the view of a dense table."""
    return View(rows, 1, width, width, width, 0, rows * width, False)


def source_view(stage: Stage, source: Source, c0: int, c1: int, table: bool) -> View:
    """Return the view of some columns of the source, or of the table that multiplies them."""
    a, b, limit = stage.a, stage.b, source.limit
    if stage.by_rows:
        return View(a, 1 if table else c1 - c0, b, b, source.stride, 0, limit, False)
    row = stage.columns * (b if a > 1 else 1)
    rows, mids = (a, b) if a > 1 else (b, 1)
    return View(rows, mids, c1 - c0, row, stage.columns, c0, limit, True)


def sink_view(stage: Stage, sink: Sink, c0: int, c1: int) -> View:
    """Return the view of the results of some columns."""
    a, b = stage.a, stage.b
    if sink.transposed:
        return View(b, c1 - c0, a, a, a * b, 0, a * b, False)
    if stage.by_rows:
        return View(b, c1 - c0, a, a, sink.stride, 0, sink.limit, False)
    return View(b, a, c1 - c0, a * stage.columns, stage.columns, c0, sink.limit, True)


def sink_base(stage: Stage, sink: Sink, s: int, column: int) -> int:
    """Return the offset of the results of matrix ``s`` from ``column`` on."""
    if stage.by_rows:
        return column * sink.stride
    return s * sink.stride + (column * stage.a * stage.b if sink.transposed else 0)


def load_before(stage: Stage, source: Source, constants: Tile, c0: int, c1: int) -> Tile | None:
    """Return the table that multiplies some columns of the source, or None."""
    if source.table == NOWHERE:
        return None
    view = source_view(stage, source, c0, c1, True)
    return load(view, [constants] * 2, [source.table, source.table + source.table_points])


def load_after(stage: Stage, sink: Sink, constants: Tile, c0: int, c1: int) -> Tile | None:
    """Return the table that multiplies the results of some columns, or None."""
    if sink.table == NOWHERE:
        return None
    view, length = sink_view(stage, sink, c0, c1), sink.limit
    if sink.transposed:
        row, length = stage.columns * stage.a, stage.columns * stage.a * stage.b
        view = View(stage.b, c1 - c0, stage.a, row, stage.a, c0 * stage.a, length, False)
    elif stage.by_rows:
        view = View(stage.b, 1, stage.a, stage.a, stage.a, 0, length, False)
    return load(view, [constants] * 2, [sink.table, sink.table + length])


def weigh(stage: Stage, source: Source, constants: Tile, data: Tile, columns: int) -> None:
    """Multiply the elements of row 0 of the second factor and column 0 by the weights."""
    used, parts = data.shape[0], data.shape[1]
    weights = nl.ndarray((used, 1), dtype=nl.float32, buffer=nl.sbuf)
    column = constants.ap(pattern=[[1, used], [1, 1]], offset=source.weights)
    nisa.dma_copy(dst=weights, src=column)
    for p in range(parts):
        if stage.by_rows:
            blocks = data.reshape((used, parts, columns, stage.b))
            chosen = blocks[0:used, p, 0:columns, 0]
        else:
            chosen = data[0:used, p, 0:1]
        nisa.tensor_scalar(dst=chosen, data=chosen, op0=nl.multiply, operand0=weights)


def clear_imaginary(data: Tile, view: View, point: int, constants: Tile, zeros: int) -> None:
    """Set the imaginary part of a point to zero if a loaded view contains it.

    DMA writes it, since compute engines cannot start at an arbitrary partition; a product with zero
    would propagate NaN and infinity.
    """
    row, rest = point // view.row, point % view.row
    mid, mids = (rest // view.mid, 1) if view.nested else (0, view.mids)
    column = (rest % view.mid if view.nested else rest) - view.start
    if point < view.limit and 0 <= column < view.width:
        blocks = data.reshape((data.shape[0], 2, view.mids, view.width))
        nisa.dma_copy(
            dst=blocks[row : row + 1, 1, mid : mid + mids, column : column + 1],
            src=constants.ap(pattern=[[0, 1], [0, mids], [1, 1]], offset=zeros),
        )


def multiplied(stage: Stage, data: Tile, table: Tile, columns: int) -> Tile:
    """Return the product of loaded columns with their table, as a pair."""
    used, parts, width = data.shape
    out = nl.ndarray((used, 2, width), dtype=nl.float32, buffer=nl.sbuf)
    inner = stage.b if stage.by_rows else width
    times = columns if stage.by_rows else 1
    pattern = [[0, times], [1, inner]]
    blocks = out.reshape((used, 2, times, inner))
    multiply_complex(
        [blocks[0:used, 0], blocks[0:used, 1]],
        data.reshape((used, parts, times, inner)),
        part_of(table, 0, pattern, 0, parts),
        part_of(table, 1, pattern, 0, parts),
        False,
    )
    return out


def first_product(
    stage: Stage,
    sink: Sink,
    data: Tile,
    matrix: Tile,
    inner: Tile,
    g0: int,
    g1: int,
    loaded: int,
) -> Tile:
    """Return y of columns ``g0`` to ``g1`` of the loaded ones, as a pair with j2 on partitions.

    Its columns are in the order in which the results are stored: k1 innermost if the results of a
    column are contiguous, else the matrix column innermost.
    """
    a, b, count = stage.a, stage.b, g1 - g0
    used, parts = data.shape[0], data.shape[1]
    shape = (loaded, b) if stage.by_rows else (b, loaded)
    blocks = data.reshape((used, parts, shape[0], shape[1]))
    per_bank = BANK // (2 * a)
    sums = nl.ndarray((b, _FIRST_BANKS, BANK), dtype=nl.float32, buffer=nl.psum)
    for i in range(count):
        at = (i % per_bank) * 2 * a
        for p in range(parts):
            if stage.by_rows:
                stationary = blocks[0:used, p, g0 + i, 0:b]
            else:
                stationary = blocks[0:used, p, 0:b, g0 + i]
            nisa.nc_matmul(
                dst=sums[0:b, i // per_bank, at : at + 2 * a],
                stationary=stationary,
                moving=matrix[0:used, 1 - p : 3 - p, 0:a],
                accumulate=p > 0,
            )
    width = count * a
    step, k_step = (a, 1) if rows_together(stage, sink) else (1, count)
    y = nl.ndarray((b, 2, width), dtype=nl.float32, buffer=nl.sbuf)
    whole = count // per_bank
    for run in ((0, whole, per_bank), (whole, 1, count - whole * per_bank)):
        bank, banks, columns = run
        if banks * columns == 0:
            continue
        pattern = [[0, banks], [0, columns], [1, a]]
        places = [[2 * width, b], [step * per_bank, banks], [step, columns], [k_step, a]]
        at = bank * per_bank * step
        multiply_complex(
            [y.ap(pattern=places, offset=at), y.ap(pattern=places, offset=width + at)],
            sums.ap(
                pattern=[
                    [_FIRST_BANKS * BANK, b],
                    [a, 2],
                    [BANK, banks],
                    [2 * a, columns],
                    [1, a],
                ],
                offset=bank * BANK,
            ),
            part_of(inner, 0, pattern, 0, 2),
            part_of(inner, 1, pattern, 0, 2),
            False,
        )
    return y


def rows_together(stage: Stage, sink: Sink) -> bool:
    """Return whether the results of one column are contiguous in HBM."""
    return stage.by_rows or sink.transposed


def last_product(
    stage: Stage,
    sink: Sink,
    y: Tile,
    matrix: Tile,
    table: Tile | None,
    g0: int,
    g1: int,
    loaded: int,
) -> Tile:
    """Return the results of columns ``g0`` to ``g1`` of the loaded ones, multiplied by the table.

    Only the rows and the parts that the sink stores are computed.
    """
    rows = rows_used(sink_view(stage, sink, 0, 1))
    depth, _, width = y.shape
    wanted = len(sink.parts)
    parts = wanted if table is None else 2
    sums = nl.ndarray((rows, parts, PSUM_COLUMNS), dtype=nl.float32, buffer=nl.psum)
    for w in range(0, width, BANK):
        end = min(w + BANK, width)
        real, imaginary = moving_columns(y, depth, 0, w, end), moving_columns(y, depth, 1, w, end)
        # Each matrix multiplies both parts before the next is loaded.
        products = [(0, 1, real, False), (1, 1, imaginary, False)]
        products += [(0, 0, imaginary, True), (1, 2, real, True)]
        for product in products:
            part, which, moving, again = product
            if part < parts:
                nisa.nc_matmul(
                    dst=sums[0:rows, part, w : max(end, w + 2)],
                    stationary=matrix[0:depth, which, 0:rows],
                    moving=moving,
                    accumulate=again,
                )
    out = nl.ndarray((rows, wanted, width), dtype=nl.float32, buffer=nl.sbuf)
    if table is None:
        nisa.activation(dst=out, op=nl.copy, data=sums[0:rows, 0:parts, 0:width])
        return out
    count, a = g1 - g0, stage.a
    shape, pattern, at = (count, a), [[0, count], [1, a]], 0
    if sink.transposed:
        pattern, at = [[a, count], [1, a]], g0 * a
    elif not stage.by_rows:
        shape, pattern, at = (a, count), [[loaded, a], [1, count]], g0
    blocks = out.reshape((rows, wanted, shape[0], shape[1]))
    dst = []
    for p in range(wanted):
        dst.append(blocks[0:rows, p])
    multiply_complex(
        dst,
        sums.ap(
            pattern=[
                [2 * PSUM_COLUMNS, rows],
                [PSUM_COLUMNS, 2],
                [shape[1], shape[0]],
                [1, shape[1]],
            ]
        ),
        part_of(table, 0, pattern, at, 2),
        part_of(table, 1, pattern, at, 2),
        sink.conjugate,
    )
    return out
