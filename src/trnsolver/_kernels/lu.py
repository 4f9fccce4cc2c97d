"""LU factors with partial pivoting, P L U = A, in one launch.

Rows are never exchanged. Rows that have not been pivots are active. A step finds the largest entry
of its column among the active rows, and writes a column of the permutation: a one at the pivot. A
product with that column broadcasts the pivot row to all partitions, and a multiple of it is
subtracted from every active row. After 128 columns the permutation gathers the pivot rows, a
triangular solution makes them rows of U, and products update the rest of the active rows.

LAPACK exchanges rows, and the first of equal entries is its pivot. So each row has the rank that
exchanges would give it: the row in the place of a pivot takes the rank of that pivot. Equal
entries, and the rows left over by the zero columns that make a tall matrix square, are then in the
order of LAPACK.

A row of a complex matrix has the real and imaginary parts of each number as neighbours. A step
eliminates one complex column, which is two columns: it subtracts multiples of the pivot row and of
i times the pivot row. U has the rows of the real form: each row is followed by i times itself. So
the triangle of a panel has 128 rows for 64 pivots, and the code of the triangular solution and of
the products is that for real numbers.

Layout   A, P and U as block matrices, rows on partitions; a complex U in real form
Limits   square, order at most 1024, for which four matrices take 128 KiB of each partition, or 512
         if complex, for which they take 96 KiB. Largest entries near 1. A pivot is the entry of the
         first rank that is at least 1 - 2^-16 of the largest one. The size of a complex number
         is |re| + |im|, as in LAPACK. It is between the modulus and sqrt(2) times the modulus. So
         entries of L are at most sqrt(2) / (1 - 2^-16), and a step multiplies the largest modulus
         by about 1 + sqrt(2) at most; the factor for real numbers is 2. A singular matrix has a
         zero, or nearly zero, on the diagonal of U
Cost     for b = n / 128: n steps of about 30 + 2 b instructions on columns, and about b^3 products
         of 128 x 128 x 512; 41 + 3 b and 4 b^3 if complex
Lever    pivots are selected by products and masks, without moving rows
"""

from __future__ import annotations

from typing import NamedTuple

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsci.core.tiles.hardware import TILE
from trnsci.core.tiles.triangular_inverse import (
    Doubling,
    doubling,
    invert_triangles,
    new_inverses,
    padded_identity,
)
from trnsolver._kernels.block_matrix import (
    block,
    load_matrix,
    new_matrix,
    pad_diagonal,
    store_matrix,
    strip_starts,
    transposed_product,
)
from trnsolver._kernels.elimination import apply_inverse, group_of
from trnsolver._kernels.limits import LU_ORDER, block_width
from trnsolver._kernels.qr import keep_upper
from trnsolver._kernels.symmetric import rows_of_column

NEARLY_LARGEST = 1.0 - 2.0**-16
LEAST = 2.0**-100
"""Added to the magnitude of active entries, so that an active zero precedes used rows."""


class Pairs(NamedTuple):
    """Tables for pairs of rows: a complex row, then i times that row.

    Attributes:
        own: Column 0 has a one for the first row of each pair, column 1 for the second, (rows, 2).
        first: Stationary operand that copies the first row of each pair to both, (rows, rows); None
            for a single panel, which does not need it.
    """

    own: Tile
    first: Tile | None


def pairs_of(rows: int, panels: int) -> Pairs:
    """Return the tables for panels of ``rows`` rows."""
    group = group_of(2, rows // 2)
    first = None
    if panels > 1:
        first = nl.ndarray((rows, rows), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=first, data=group.mine, op0=nl.multiply, operand0=group.own[0:rows, 0:1]
        )
    return Pairs(group.own, first)


@nki.jit
def lu(a: Tile, paired: bool = False) -> tuple[Tile, Tile, Tile]:
    """Return P, L and U with ``a = P @ L @ U``.

    Args:
        a: Square matrices, (batch, n, n); or complex ones, (batch, n, 2 n).
        paired: Whether pairs of columns are real and imaginary parts. P then has each column twice,
            (batch, n, 2 n). L and U then have two rows for each complex row, (batch, 2 n, 2 n). The
            first has the real and imaginary parts; callers do not read the second.
    """
    batch, n, columns = a.shape
    assert columns <= LU_ORDER, f"lu: order at most {LU_ORDER}, got {columns}"
    p_out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    l_out = nl.ndarray((batch, columns, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    u_out = nl.ndarray((batch, columns, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    step = 2 if paired else 1
    height = block_width(n) if columns <= TILE else TILE
    width = min(TILE, step * height)
    table = doubling(padded_identity(width), True)
    blocks, panels = (n + height - 1) // height, (columns + width - 1) // width
    pairs = pairs_of(width, panels) if paired else None
    for q in range(batch):
        x = new_matrix(height, blocks, panels * width)
        p = new_matrix(height, blocks, panels * width)
        u = new_matrix(width, panels, panels * width)
        load_matrix(x, a, q)
        # Padding rows and columns have a one on the diagonal, their only pivot, else zeros.
        pad_diagonal(x, n, step)
        active = nl.ndarray((height, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=active, value=1.0)
        first = nl.ndarray((height, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.iota(
            dst=first,
            pattern=[[-height, blocks]],
            offset=height * blocks,
            channel_multiplier=-1,
        )
        for k in range(panels):
            factor_panel(x, p, active, first, k, width, step)
            finish_panel(x, p, u, active, k, table, pairs)
        store_matrix(p_out, q, p)
        store_lower(l_out, q, x, p, table.eye[0:width, 0:width], step)
        keep_upper(u)
        store_matrix(u_out, q, u)
    return p_out, l_out, u_out


def factor_panel(
    x: Tile, p: Tile, active: Tile, first: Tile, k: int, width: int, step: int
) -> None:
    """Eliminate the columns of panel ``k`` from active rows; store the multiples in their place.

    Args:
        x: The matrix.
        p: The permutation, of which panel ``k`` is written.
        active: Ones for rows that have not been pivots; pivots are removed.
        first: Number of rows minus the rank of each active row, which is exchanged.
        k: The panel.
        width: Number of its columns.
        step: Columns per number: 1, or 2 for real and imaginary parts.
    """
    height, blocks = x.shape[0], x.shape[1]
    for c in range(0, width, step):
        j = k * width + c
        columns = nl.ndarray((height, blocks, step), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=columns, src=x[0:height, 0:blocks, j : j + step])
        chosen, largest, taken = pivot_of(columns, active, first)
        exchange_ranks(first, taken, j // step)
        each = [[blocks, height], [1, blocks], [0, step]]
        nisa.tensor_copy(
            dst=p[0:height, 0:blocks, j : j + step], src=chosen.ap(pattern=each, offset=0)
        )
        nisa.tensor_tensor(dst=active, data1=active, data2=chosen, op=nl.subtract)
        row = nl.ndarray((height, width), dtype=nl.float32, buffer=nl.psum)
        for i in range(blocks):
            nisa.nc_matmul(
                dst=row,
                stationary=chosen.ap(pattern=[[blocks, height], [0, height]], offset=i),
                moving=x[0:height, i, k * width : (k + 1) * width],
                accumulate=i > 0,
            )
        pivot, remaining = row[0:height, c : c + step], active.ap(pattern=each, offset=0)
        if step == 1:
            rows = [row]
            multiples = real_multiples(columns, pivot, remaining)
        else:
            rows = [row, quarter_turn_of(row)]
            multiples = complex_multiples(columns, pivot, largest, remaining)
        # Earlier columns hold multiples and are not changed.
        for i in range(blocks if c + step < width else 0):
            rest = x[0:height, i, j + step : (k + 1) * width]
            for t in range(step):
                nisa.scalar_tensor_tensor(
                    dst=rest,
                    data=rows[t][0:height, c + step : width],
                    op0=nl.multiply,
                    operand0=multiples[0:height, i, t : t + 1],
                    op1=nl.subtract,
                    operand1=rest,
                    reverse1=True,
                )
        keep_multiples(x, columns, multiples, remaining, j)


def quarter_turn_of(row: Tile) -> Tile:
    """Return i times a complex row: columns (-y, x) for each pair of columns (x, y)."""
    height, width = row.shape
    turned = nl.ndarray((height, width), dtype=nl.float32, buffer=nl.sbuf)
    every = [[width, height], [2, width // 2]]
    for t in range(2):
        nisa.activation(
            dst=turned.ap(pattern=every, offset=t),
            op=nl.copy,
            data=row.ap(pattern=every, offset=1 - t),
            scale=-1.0 if t == 0 else 1.0,
        )
    return turned


def real_multiples(columns: Tile, pivot: Tile, remaining: Tile) -> Tile:
    """Return the remaining rows of a column, divided by its pivot, or by 1 if the pivot is zero."""
    inverse = nl.ndarray((columns.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=inverse, data=pivot, op0=nl.equal, operand0=0.0)
    nisa.tensor_tensor(dst=inverse, data1=inverse, data2=pivot, op=nl.add)
    nisa.reciprocal(dst=inverse, data=inverse)
    multiples = nl.ndarray(columns.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=multiples,
        data=columns,
        op0=nl.multiply,
        operand0=inverse,
        op1=nl.multiply,
        operand1=remaining,
    )
    return multiples


def complex_multiples(columns: Tile, pivot: Tile, largest: Tile, remaining: Tile) -> Tile:
    """Return the remaining rows of a complex column divided by its pivot; zeros for a zero pivot.

    With s = ``largest``, the pivot is s (a + ib) and its inverse is (a - ib) / (s (a^2 + b^2)).
    |a| + |b| is between 1 - 2^-16 and 1 for sizes far above ``LEAST``, so that a^2 + b^2 neither
    overflows nor underflows.

    Args:
        columns: Real and imaginary parts of the column, (rows, blocks, 2).
        pivot: Real and imaginary part of the pivot, on all partitions.
        largest: The largest size of an active entry of the column, on all partitions.
        remaining: Ones for the rows that remain active.
    """
    width, blocks = columns.shape[0], columns.shape[1]
    scale = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=scale, data=largest)
    inverse = nl.ndarray((width, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=inverse, data=pivot, op0=nl.multiply, operand0=scale)
    squares = nl.ndarray((width, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=squares, data1=inverse, data2=inverse, op=nl.multiply)
    length = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=length, op=nl.add, data=squares, axis=1)
    nisa.scalar_tensor_tensor(
        dst=length, data=length, op0=nl.equal, operand0=0.0, op1=nl.add, operand1=length
    )
    nisa.reciprocal(dst=length, data=length)
    nisa.tensor_scalar(
        dst=inverse,
        data=inverse,
        op0=nl.multiply,
        operand0=length,
        op1=nl.multiply,
        operand1=scale,
    )
    direct = nl.ndarray((width, blocks, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=direct,
        data=columns,
        op0=nl.multiply,
        operand0=inverse[0:width, 0:1],
        op1=nl.multiply,
        operand1=remaining,
    )
    crossed = nl.ndarray((width, blocks, 2), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=crossed,
        data=columns,
        op0=nl.multiply,
        operand0=inverse[0:width, 1:2],
        op1=nl.multiply,
        operand1=remaining,
    )
    for t in range(2):
        nisa.tensor_tensor(
            dst=direct[0:width, 0:blocks, t],
            data1=direct[0:width, 0:blocks, t],
            data2=crossed[0:width, 0:blocks, 1 - t],
            op=nl.add if t == 0 else nl.subtract,
        )
    return direct


def keep_multiples(x: Tile, columns: Tile, multiples: Tile, remaining: Tile, j: int) -> None:
    """Write the multiples of the remaining rows to columns from ``j`` on; keep other rows."""
    width, blocks, step = columns.shape
    kept = nl.ndarray((width, blocks, step), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=kept, data1=columns, data2=remaining, op=nl.multiply)
    nisa.tensor_tensor(dst=kept, data1=columns, data2=kept, op=nl.subtract)
    nisa.tensor_tensor(
        dst=x[0:width, 0:blocks, j : j + step], data1=kept, data2=multiples, op=nl.add
    )


def exchange_ranks(first: Tile, taken: Tile, rank: int) -> None:
    """Give the rank of a pivot to the row that has the rank ``rank``, which the pivot takes.

    The pivot keeps its value of ``first``, which is not read again.

    Args:
        first: Number of rows minus ranks.
        taken: The value of the pivot, on all partitions.
        rank: The number of pivots before.
    """
    height, blocks = first.shape
    value = float(height * blocks - rank)
    change = nl.ndarray((height, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=change, data=taken, op0=nl.subtract, operand0=value)
    moved = nl.ndarray((height, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=moved, data=first, op0=nl.equal, operand0=value, op1=nl.multiply, operand1=change
    )
    nisa.tensor_tensor(dst=first, data1=first, data2=moved, op=nl.add)


def pivot_of(columns: Tile, active: Tile, first: Tile) -> tuple[Tile, Tile, Tile]:
    """Return a one at the pivot of a column and zeros elsewhere, the largest size, ``first``.

    The pivot is the active entry with the largest ``first`` among those whose size is at least
    ``NEARLY_LARGEST`` times the largest active size. That ``first`` is the third result. The size
    of a complex number is the sum of the magnitudes of its parts, as in LAPACK.
    """
    width, blocks, step = columns.shape
    magnitudes = nl.ndarray((width, blocks, step), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=magnitudes, data=columns, op0=nl.abs, operand0=0.0)
    sizes = magnitudes[0:width, 0:blocks, 0]
    if step == 2:
        sizes = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(dst=sizes, op=nl.add, data=magnitudes, axis=2)
    nisa.scalar_tensor_tensor(
        dst=sizes, data=sizes, op0=nl.add, operand0=LEAST, op1=nl.multiply, operand1=active
    )
    largest = largest_across(sizes)
    limit = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=limit, data=largest, op0=nl.multiply, operand0=NEARLY_LARGEST)
    candidates = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=candidates,
        data=sizes,
        op0=nl.greater_equal,
        operand0=limit,
        op1=nl.multiply,
        operand1=first,
    )
    taken = largest_across(candidates)
    chosen = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=chosen, data=candidates, op0=nl.equal, operand0=taken)
    return chosen, largest, taken


def largest_across(x: Tile) -> Tile:
    """Return the largest entry of a tile without negative entries, on all partitions."""
    column = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.maximum, data=x, axis=1)
    largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=rows_of_column(column), axis=1)
    return largest


def finish_panel(
    x: Tile, p: Tile, u: Tile, active: Tile, k: int, table: Doubling, pairs: Pairs | None
) -> None:
    """Gather the pivot rows of panel ``k`` as rows of U, and update the active rows.

    Both rows of a pair in U are computed from the first one. So an update subtracts a complex
    multiple of a row of U exactly, whatever the rounding of the second row was.
    """
    height, blocks, order = x.shape
    width, panel = u.shape[0], k * u.shape[0]
    starts = strip_starts(order, 1)
    for s in range(len(starts) - 1):
        rows = nl.ndarray((width, starts[s + 1] - starts[s]), dtype=nl.float32, buffer=nl.psum)
        for i in range(blocks):
            nisa.nc_matmul(
                dst=rows,
                stationary=p[0:height, i, panel : panel + width],
                moving=x[0:height, i, starts[s] : starts[s + 1]],
                accumulate=i > 0,
            )
        write_rows(u, k, starts[s], rows, pairs)
    trailing = panel + width
    if trailing == order:
        return
    lower_t, inverse_t = unit_lower(block(u, k, k), table, 1 if pairs is None else 2)
    starts = strip_starts(order - trailing, 1)
    for s in range(len(starts) - 1):
        row = u[0:width, k, trailing + starts[s] : trailing + starts[s + 1]]
        apply_inverse(row, lower_t, inverse_t)
        if pairs is not None:
            rows = nl.ndarray(row.shape, dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=rows, stationary=pairs.first, moving=row)
            write_rows(u, k, trailing + starts[s], rows, pairs)
    for i in range(blocks):
        multiples = nl.ndarray((height, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=multiples,
            data=x[0:height, i, panel : panel + width],
            op0=nl.multiply,
            operand0=active[0:height, i : i + 1],
        )
        transposed = nl.ndarray((width, height), dtype=nl.float32, buffer=nl.sbuf)
        transpose_tile(transposed, multiples)
        for s in range(len(starts) - 1):
            lo, hi = trailing + starts[s], trailing + starts[s + 1]
            change = nl.ndarray((height, hi - lo), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=change, stationary=transposed, moving=u[0:width, k, lo:hi])
            rest = x[0:height, i, lo:hi]
            nisa.tensor_tensor(dst=rest, data1=rest, data2=change, op=nl.subtract)


def write_rows(u: Tile, k: int, column: int, rows: Tile, pairs: Pairs | None) -> None:
    """Write rows of panel ``k`` of U from a column on; the second of a pair is i times the first.

    Args:
        u: The matrix U.
        k: The panel.
        column: The first column.
        rows: The rows, in PSUM; of a pair, the first row twice.
        pairs: The tables, or None for rows that are not in pairs.
    """
    width, panels, order = u.shape
    count = rows.shape[1]
    if pairs is None:
        nisa.tensor_copy(dst=u[0:width, k, column : column + count], src=rows)
        return
    every = [[count, width], [2, count // 2]]
    for t in range(2):
        half = u.ap(
            pattern=[[panels * order, width], [2, count // 2]], offset=k * order + column + t
        )
        nisa.tensor_scalar(
            dst=half,
            data=rows.ap(pattern=every, offset=1 - t),
            op0=nl.multiply,
            operand0=pairs.own[0:width, 1:2],
        )
        nisa.scalar_tensor_tensor(
            dst=half,
            data=rows.ap(pattern=every, offset=t),
            op0=nl.multiply,
            operand0=pairs.own[0:width, 0:1],
            op1=nl.subtract if t == 0 else nl.add,
            operand1=half,
        )


def unit_lower(tile: Tile, table: Doubling, step: int) -> tuple[Tile, Tile]:
    """Return the transposes of the unit lower triangle of a tile and of its inverse.

    Diagonal blocks of order ``step`` are replaced by those of the identity.
    """
    width = tile.shape[0]
    strict_t = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
    before = [[-step, width // step], [0, step]]
    transpose_tile(strict_t, select(tile, before, 1, 1 - step, nl.greater))
    lower_t = nl.ndarray((width, 1, width), dtype=nl.float32, buffer=nl.sbuf)
    eye = table.eye[0:width, 0:width]
    nisa.tensor_tensor(dst=lower_t[0:width, 0, 0:width], data1=strict_t, data2=eye, op=nl.add)
    inverse_t = new_inverses(1, table.eye)
    invert_triangles(inverse_t, 0, lower_t, table)
    return lower_t[0:width, 0, 0:width], inverse_t[0:width, 0, 0:width]


def store_lower(out: Tile, q: int, x: Tile, p: Tile, eye: Tile, step: int) -> None:
    """Store L, the multiples in the order of pivots, with ones on its diagonal."""
    order, width = x.shape[2], eye.shape[0]
    lower = new_matrix(width, order // width, order)
    transposed_product(lower, p, x)
    for i in range(order // width):
        row = lower[0:width, i, :]
        before = [[-step, order // step], [0, step]]
        select(row, before, 1, i * width + 1 - step, nl.greater, dst=row)
        corner = block(lower, i, i)
        nisa.tensor_tensor(dst=corner, data1=corner, data2=eye, op=nl.add)
    store_matrix(out, q, lower)
