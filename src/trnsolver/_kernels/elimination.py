"""Block columns of Cholesky factors, eliminated in panels of 16 columns.

The square block of a panel's pivots is broadcast to all partitions by a product with ones. Every
partition then eliminates this block together with its own rows of the panel, so that the loop over
columns runs on one engine and waits for no other. With the pivots p_k and the columns V of the
eliminated panel, L = V / sqrt(p), and later columns of the block need V diag(1 / p) V^T: products,
summed in PSUM over the panels. Earlier block columns take part by products of 128 x 128 x 128.

Layout   a block matrix (see ``block_matrix``) with the lower triangle of blocks of L on and below
         the diagonal, and the transposes of blocks below it in their mirror positions. Or a tile
         with several matrices on its diagonal; a *belonging* tile has ones where row and column are
         of one matrix
Limits   no pivoting, so for positive definite matrices with diagonals near 1. A pivot that is not
         positive gives NaN
Cost     for each column three Vector instructions, of at most 15 * (15 + block rows) elements; for
         each panel about twenty instructions, and a product, a transpose for each block row
Lever    rows of all blocks are eliminated by the instructions that the pivots need
"""

from __future__ import annotations

import math
from typing import NamedTuple

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsolver._kernels.block_matrix import block
from trnsolver._kernels.symmetric import belonging, identity

PANEL = 16
LEAST = 2.0**-86
"""Smallest number with a reciprocal root on the engine."""
BANK_TILES = 4
"""Tiles of 128 float32 columns in one PSUM bank."""


class Group(NamedTuple):
    """The matrices of one order on the diagonal of a tile.

    Attributes:
        order: Rows of each.
        copies: Number of matrices.
        mine: Their belonging tile.
        own: Ones in the column of each row's position in its matrix, (slots, order).
        minus: The negative of ``own``; None where there is nothing to subtract.
    """

    order: int
    copies: int
    mine: Tile
    own: Tile
    minus: Tile | None


def group_of(order: int, copies: int) -> Group:
    """Return a group with its tables."""
    own = identity(order * copies)
    if copies > 1:
        slots, eye = order * copies, own
        own = nl.ndarray((slots, order), dtype=nl.float32, buffer=nl.sbuf)
        columns = eye.ap(pattern=[[slots, slots], [1, order], [order, copies]], offset=0)
        nisa.tensor_reduce(dst=own, op=nl.add, data=columns, axis=2)
    minus = None
    if copies == 1 and order > PANEL:
        minus = nl.ndarray(own.shape, dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=minus, data=own, op0=nl.multiply, operand0=-1.0)
    return Group(order, copies, belonging(order, copies), own, minus)


def factor_column(x: Tile, j: int, size: int, group: Group) -> None:
    """Replace block column ``j`` of the lower triangle by block column ``j`` of L; mirror it.

    Args:
        x: Block matrix, whose diagonal block ``j`` has both triangles.
        j: Block column; earlier ones are factored.
        size: Columns of each matrix; later columns of the block are not changed.
        group: The matrices; one, unless there is only one block.
    """
    width, blocks = x.shape[0], x.shape[1]
    sums = earlier_products(x, j)
    pivots = nl.ndarray((width, size), dtype=nl.float32, buffer=nl.sbuf)
    # Nearly equal panels: a last one of one column would need a product with one moving column.
    panels = (size + PANEL - 1) // PANEL
    step = (size + panels - 1) // panels
    for c in range(0, size, step):
        factor_panel(x, pivots, j, c, min(step, size - c), sums, group)
    scale_columns(x, j, roots_or_nan(pivots), group)
    corner = block(x, j, j)
    select(corner, [[-1, width]], 1, 0, nl.greater_equal, dst=corner)
    for i in range(j + 1, blocks):
        transpose_tile(block(x, j, i), block(x, i, j))


def earlier_products(x: Tile, j: int) -> list[Tile]:
    """Return PSUM tiles for block column ``j`` of L L^T, with the sums over earlier columns."""
    width, blocks = x.shape[0], x.shape[1]
    sums = []
    for first in range(j, blocks, BANK_TILES):
        count = min(BANK_TILES, blocks - first)
        bank = nl.ndarray((width, count, width), dtype=nl.float32, buffer=nl.psum)
        for i in range(count):
            for k in range(j):
                nisa.nc_matmul(
                    dst=bank[0:width, i, 0:width],
                    stationary=block(x, k, first + i),
                    moving=block(x, k, j),
                    accumulate=k > 0,
                )
        sums.append(bank)
    return sums


def factor_panel(
    x: Tile, pivots: Tile, j: int, c: int, w: int, sums: list[Tile], group: Group
) -> None:
    """Eliminate ``w`` columns from ``c`` on, and add their products for later columns."""
    width, blocks = x.shape[0], x.shape[1]
    size = pivots.shape[1]
    rows = blocks - j
    summed = j > 0 or c > 0
    e = nl.ndarray((width, w + rows, w), dtype=nl.float32, buffer=nl.sbuf)
    at = j * width + c
    if group.copies > 1:
        gather_columns(e, x, c, sums[0] if summed else None, group)
        own = e.ap(pattern=[[(w + rows) * w, width], [0, w], [1, w]], offset=w * w)
        sources = [(own, group.own)]
    else:
        order = x.shape[2]
        whole = x.ap(pattern=[[blocks * order, width], [0, w], [1, w]], offset=j * order + at)
        sources = [(whole, group.own)]
        if summed:
            length = sums[0].shape[1] * width
            done = sums[0].ap(pattern=[[length, width], [0, w], [1, w]], offset=c)
            sources.append((done, group.minus))
    broadcast_pivots(e, w, c, sources, group)
    if group.copies == 1:
        load_panel(e, x, j, at, sums if summed else [])
    inverse = eliminate(e, w)
    if c + w < size:
        add_products(e, w, c, size, inverse, sums, summed, group)
    # Scalar computes this while the next panel is eliminated.
    diagonal = e.ap(pattern=[[(w + rows) * w, width], [w + 1, w]], offset=0)
    nisa.activation(dst=pivots[0:width, c : c + w], op=nl.copy, data=diagonal)
    if group.copies > 1:
        plain = nl.ndarray((width, w), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=plain, src=e[0:width, w, 0:w])
        spread(columns_of(x, c, w, group), plain, group)
    else:
        nisa.activation(
            dst=x[0:width, j:blocks, at : at + w], op=nl.copy, data=e[0:width, w : w + rows, 0:w]
        )


def load_panel(e: Tile, x: Tile, j: int, at: int, sums: list[Tile]) -> None:
    """Write columns of one matrix from ``at`` on, minus their sums, to the own rows of a panel."""
    width, w = e.shape[0], e.shape[2]
    blocks, c = x.shape[1], at - j * width
    if not sums:
        nisa.tensor_copy(dst=e[0:width, w : e.shape[1], 0:w], src=x[0:width, j:blocks, at : at + w])
    for g in range(len(sums)):
        first, count = g * BANK_TILES, sums[g].shape[1]
        nisa.tensor_tensor(
            dst=e[0:width, w + first : w + first + count, 0:w],
            data1=x[0:width, j + first : j + first + count, at : at + w],
            data2=sums[g][0:width, 0:count, c : c + w],
            op=nl.subtract,
        )


def scale_columns(x: Tile, j: int, roots: Tile, group: Group) -> None:
    """Multiply block column ``j`` by one factor for each column of a matrix."""
    width, blocks = x.shape[0], x.shape[1]
    size = roots.shape[1]
    if group.copies > 1:
        columns = columns_of(x, 0, size, group)
        repeats = group.copies
    else:
        columns = x[0:width, j:blocks, j * width : j * width + size]
        repeats = blocks - j
    nisa.tensor_tensor(
        dst=columns,
        data1=columns,
        data2=roots.ap(pattern=[[size, width], [0, repeats], [1, size]], offset=0),
        op=nl.multiply,
    )


def columns_of(x: Tile, c: int, w: int, group: Group) -> Tile:
    """Return columns ``c`` to ``c + w`` of each matrix of a whole tile, (slots, copies, w)."""
    slots = x.shape[0]
    return x.ap(pattern=[[slots, slots], [group.order, group.copies], [1, w]], offset=c)


def spread(dst: Tile, values: Tile, group: Group) -> None:
    """Write (slots, w) values to the columns of each row's matrix, zeros to all other columns."""
    slots, w = values.shape
    nisa.tensor_tensor(
        dst=dst,
        data1=values.ap(pattern=[[w, slots], [0, group.copies], [1, w]], offset=0),
        data2=group.mine.ap(
            pattern=[[slots, slots], [group.order, group.copies], [0, w]], offset=0
        ),
        op=nl.multiply,
    )


def gather_columns(e: Tile, x: Tile, c: int, done: Tile | None, group: Group) -> None:
    """Write columns of several matrices, minus the products with earlier columns, to a panel."""
    slots, w = e.shape[0], e.shape[2]
    wide = nl.ndarray((slots, group.copies, w), dtype=nl.float32, buffer=nl.sbuf)
    columns = columns_of(x, c, w, group)
    if done is None:
        nisa.tensor_copy(dst=wide, src=columns)
    else:
        nisa.tensor_tensor(
            dst=wide, data1=columns, data2=columns_of(done, c, w, group), op=nl.subtract
        )
    nisa.tensor_reduce(
        dst=e[0:slots, w, 0:w],
        op=nl.add,
        data=wide.ap(pattern=[[group.copies * w, slots], [1, w], [w, group.copies]], offset=0),
        axis=2,
    )


def broadcast_pivots(
    e: Tile, w: int, c: int, sources: list[tuple[Tile, Tile]], group: Group
) -> None:
    """Write the pivots' rows of each matrix's panel to the first rows of all its partitions.

    Args:
        e: The panel.
        w: Its columns.
        c: The first of them in each matrix.
        sources: Columns that are added, each with ``group.own``, or ``group.minus`` to subtract.
        group: The matrices.
    """
    width = e.shape[0]
    # Some compilers reject a product with a single moving column.
    count = max(2, w * w)
    pivots = nl.ndarray((width, count), dtype=nl.float32, buffer=nl.psum)
    for i in range(len(sources)):
        masked = nl.ndarray((width, count), dtype=nl.float32, buffer=nl.sbuf)
        if w == 1:
            nisa.memset(dst=masked, value=0.0)
        nisa.tensor_tensor(
            dst=masked.ap(pattern=[[count, width], [w, w], [1, w]], offset=0),
            data1=sources[i][0],
            data2=sources[i][1].ap(pattern=[[group.order, width], [1, w], [0, w]], offset=c),
            op=nl.multiply,
        )
        nisa.nc_matmul(
            dst=pivots,
            stationary=group.mine,
            moving=masked,
            accumulate=i > 0,
            is_stationary_onezero=True,
        )
    nisa.tensor_copy(
        dst=e[0:width, 0:w, 0:w],
        src=pivots.ap(pattern=[[count, width], [w, w], [1, w]], offset=0),
    )


def eliminate(e: Tile, w: int) -> Tile:
    """Eliminate the columns of a panel on every partition; return the inverses of the pivots.

    Row r of column k is V_rk afterwards, for rows of pivots below the k-th and for own rows.
    """
    width, rows = e.shape[0], e.shape[1]
    inverse = nl.ndarray((width, w), dtype=nl.float32, buffer=nl.sbuf)
    for k in range(w):
        nisa.reciprocal(dst=inverse[0:width, k : k + 1], data=e[0:width, k, k : k + 1])
        if k == w - 1:
            return inverse
        below, right = rows - k - 1, w - k - 1
        products = nl.ndarray((width, below, right), dtype=nl.float32, buffer=nl.sbuf)
        column = [[rows * w, width], [w, below], [0, right]]
        row = [[rows * w, width], [0, below], [1, right]]
        nisa.tensor_tensor(
            dst=products,
            data1=e.ap(pattern=column, offset=(k + 1) * w + k),
            data2=e.ap(pattern=row, offset=k * w + k + 1),
            op=nl.multiply,
        )
        rest = e[0:width, k + 1 : rows, k + 1 : w]
        nisa.scalar_tensor_tensor(
            dst=rest,
            data=products,
            op0=nl.multiply,
            operand0=inverse[0:width, k : k + 1],
            op1=nl.subtract,
            operand1=rest,
            reverse1=True,
        )
    return inverse


def add_products(
    e: Tile, w: int, c: int, size: int, inverse: Tile, sums: list[Tile], summed: bool, group: Group
) -> None:
    """Add V diag(1 / p) V^T of a panel to the sums of the block's later columns."""
    width, rows = e.shape[0], e.shape[1] - w
    divided = nl.ndarray((width, w), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=divided, data1=e[0:width, w, 0:w], data2=inverse, op=nl.multiply)
    parts = [e[0:width, w, 0:w], divided]
    # The sums of columns before ``first`` have been read, so nothing may be added to them.
    first, rest = c + w, size - c - w
    if group.copies > 1:
        parts = []
        for values in (e[0:width, w, 0:w], divided):
            plain = nl.ndarray((width, w), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(dst=plain, src=values)
            wide = nl.ndarray((width, group.copies, w), dtype=nl.float32, buffer=nl.sbuf)
            spread(wide, plain, group)
            parts.append(wide.reshape((width, group.copies * w)))
    both = transposes(parts, nisa.engine.vector)
    depth = both.shape[0]
    moving, stationary = both[0:depth, 1, first:size], [both[0:depth, 0, 0:width]]
    if group.copies > 1:
        pattern = [[2 * width, depth], [group.order, group.copies], [1, rest]]
        moving = both.ap(pattern=pattern, offset=width + first)
    for i in range(1, rows, BANK_TILES):
        group_rows = []
        for r in range(i, min(i + BANK_TILES, rows)):
            group_rows.append(e[0:width, w + r, 0:w])
        turned = transposes(group_rows, nisa.engine.scalar)
        for r in range(len(group_rows)):
            stationary.append(turned[0:w, r, 0:width])
    for i in range(rows):
        dst = sums[i // BANK_TILES][0:width, i % BANK_TILES, first:size]
        if group.copies > 1:
            dst = columns_of(sums[0], first, rest, group)
        nisa.nc_matmul(dst=dst, stationary=stationary[i], moving=moving, accumulate=summed)


def transposes(parts: list[Tile], engine: object) -> Tile:
    """Return the transposes of up to four tiles of one shape, (columns, tiles, rows).

    ``engine`` copies them from PSUM.
    """
    rows, columns = parts[0].shape
    turned = nl.ndarray((columns, len(parts), rows), dtype=nl.float32, buffer=nl.sbuf)
    if nisa.get_nc_version() == nisa.nc_version.gen2:
        for i in range(len(parts)):
            transpose_tile(turned[0:columns, i, 0:rows], parts[i])
        return turned
    bank = nl.ndarray((columns, len(parts), rows), dtype=nl.float32, buffer=nl.psum)
    for i in range(len(parts)):
        nisa.nc_transpose(dst=bank[0:columns, i, 0:rows], data=parts[i])
    nisa.tensor_copy(dst=turned, src=bank, engine=engine)
    return turned


def reciprocal_root(x: Tile) -> Tile:
    """Return ``1 / sqrt(x)`` of a tile, accurate to about one unit in the last place."""
    y = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=y, op=nl.rsqrt, data=x)
    half = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=half, op=nl.copy, data=y, scale=-0.5)
    rest = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=rest, data1=x, data2=y, op=nl.multiply)
    nisa.tensor_tensor(dst=rest, data1=rest, data2=y, op=nl.multiply)
    nisa.scalar_tensor_tensor(
        dst=y, data=rest, op0=nl.subtract, operand0=3.0, op1=nl.multiply, operand1=half
    )
    return y


def roots_or_nan(x: Tile) -> Tile:
    """Return ``1 / sqrt(x)`` of a tile; NaN where x is not positive.

    The engine's root of a negative number is not NaN.
    """
    positive = nl.ndarray(x.shape, dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=positive, data=x, op0=nl.greater, operand0=0.0)
    safe = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=safe, data=x, op0=nl.maximum, operand0=LEAST)
    roots = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=roots, value=math.nan)
    nisa.tensor_copy_predicated(dst=roots, src=reciprocal_root(safe), predicate=positive)
    return roots


def apply_inverse(row: Tile, upper: Tile, inverse_t: Tile) -> None:
    """Replace a row of blocks X by inv(U^T) X, with one correction step.

    Args:
        row: (width, columns), columns at most 512.
        upper: U, (width, width).
        inverse_t: An approximation of inv(U).
    """
    solved = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=solved, stationary=inverse_t, moving=row)
    first = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=first, src=solved)
    back = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=back, stationary=upper, moving=first)
    rest = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=rest, data1=row, data2=back, op=nl.subtract)
    change = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=change, stationary=inverse_t, moving=rest)
    nisa.tensor_tensor(dst=row, data1=first, data2=change, op=nl.add)
