"""LU factors with partial pivoting, P L U = A, in one launch.

Rows are never exchanged. Rows that have not been pivots are active. A step finds the largest entry
of its column among the active rows, and writes a column of the permutation: a one at the pivot. A
product with that column broadcasts the pivot row to all partitions, and a multiple of it is
subtracted from every active row. After 128 columns the permutation gathers the pivot rows, a
triangular solution makes them rows of U, and products update the rest of the active rows.

Layout   A, P and U as block matrices, rows on partitions
Limits   square, order at most 1024, for which four matrices take 128 KiB of each partition. A pivot
         is the first entry of its column that is at least 1 - 2^-16 of the largest one. A singular
         matrix has a zero, or nearly zero, on the diagonal of U
Cost     for b = n / 128: n steps of about 16 + 3 b instructions on columns, and about b^3 products
         of 128 x 128 x 512
Lever    pivots are selected by products and masks, without moving rows
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsci.core.tiles.triangular_inverse import (
    Triangle,
    doubling_masks,
    invert_triangles,
)
from trnsolver._kernels.block_matrix import (
    block,
    largest_of,
    load_matrix,
    new_matrix,
    pad_diagonal,
    scale_matrix,
    store_matrix,
    strip_starts,
    transposed_product,
)
from trnsolver._kernels.elimination import apply_inverse
from trnsolver._kernels.limits import LU_ORDER, block_width
from trnsolver._kernels.qr import keep_upper
from trnsolver._kernels.symmetric import exponent_scale, identity, rows_of_column, select

NEARLY_LARGEST = 1.0 - 2.0**-16
LEAST = 2.0**-100
"""Added to the magnitude of active entries, so that an active zero precedes used rows."""


@nki.jit
def lu(a: Tile) -> tuple[Tile, Tile, Tile]:
    """Return P, L and U with ``a = P @ L @ U``.

    Args:
        a: Square matrices, (batch, n, n).
    """
    batch, n = a.shape[0], a.shape[1]
    assert n <= LU_ORDER, f"lu: order at most {LU_ORDER}, got {n}"
    p_out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    l_out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    u_out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    width, masks = block_width(n), doubling_masks(True)
    blocks = (n + width - 1) // width
    for q in range(batch):
        x = new_matrix(width, blocks, blocks * width)
        p = new_matrix(width, blocks, blocks * width)
        u = new_matrix(width, blocks, blocks * width)
        load_matrix(x, a, q)
        scale, inverse = exponent_scale(largest_of(x))
        scale_matrix(x, inverse)
        # Padding rows and columns have a one on the diagonal, their only pivot, else zeros.
        pad_diagonal(x, n)
        active = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(dst=active, value=1.0)
        for k in range(blocks):
            factor_panel(x, p, active, k)
            finish_panel(x, p, u, active, k, masks)
        store_matrix(p_out, q, p)
        store_lower(l_out, q, x, p)
        keep_upper(u)
        scale_matrix(u, scale)
        store_matrix(u_out, q, u)
    return p_out, l_out, u_out


def factor_panel(x: Tile, p: Tile, active: Tile, k: int) -> None:
    """Eliminate the columns of block ``k`` below their pivots, and store the multiples there."""
    width, blocks = x.shape[0], x.shape[1]
    first = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    # Larger for earlier rows, to break ties.
    nisa.iota(
        dst=first,
        pattern=[[-width, blocks]],
        offset=width * blocks,
        channel_multiplier=-1,
    )
    for c in range(width):
        j = k * width + c
        column = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_copy(dst=column, src=x[0:width, 0:blocks, j])
        chosen = pivot_of(column, active, first)
        nisa.tensor_copy(dst=p[0:width, 0:blocks, j], src=chosen)
        nisa.tensor_tensor(dst=active, data1=active, data2=chosen, op=nl.subtract)
        pivots = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.psum)
        for i in range(blocks):
            broadcast = chosen.ap(pattern=[[blocks, width], [0, width]], offset=i)
            nisa.nc_matmul(
                dst=pivots, stationary=broadcast, moving=block(x, i, k), accumulate=i > 0
            )
        # A zero column has a zero pivot and zero multiples: divide by 1.
        inverse = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(dst=inverse, data=pivots[0:width, c : c + 1], op0=nl.equal, operand0=0.0)
        nisa.tensor_tensor(dst=inverse, data1=inverse, data2=pivots[0:width, c : c + 1], op=nl.add)
        nisa.reciprocal(dst=inverse, data=inverse)
        multiples = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=multiples,
            data=column,
            op0=nl.multiply,
            operand0=inverse,
            op1=nl.multiply,
            operand1=active,
        )
        # Earlier columns hold multiples and are not changed.
        for i in range(blocks if c + 1 < width else 0):
            rest = x[0:width, i, j + 1 : (k + 1) * width]
            nisa.scalar_tensor_tensor(
                dst=rest,
                data=pivots[0:width, c + 1 : width],
                op0=nl.multiply,
                operand0=multiples[0:width, i : i + 1],
                op1=nl.subtract,
                operand1=rest,
                reverse1=True,
            )
        keep_multiples(x, column, multiples, active, j)


def keep_multiples(x: Tile, column: Tile, multiples: Tile, active: Tile, j: int) -> None:
    """Write the multiples of active rows to column ``j``; pivot rows are unchanged."""
    width, blocks = column.shape
    kept = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=kept, data1=column, data2=active, op=nl.multiply)
    nisa.tensor_tensor(dst=kept, data1=column, data2=kept, op=nl.subtract)
    nisa.tensor_tensor(dst=x[0:width, 0:blocks, j], data1=kept, data2=multiples, op=nl.add)


def pivot_of(column: Tile, active: Tile, first: Tile) -> Tile:
    """Return a one at the largest active entry of a column, zeros elsewhere."""
    width, blocks = column.shape
    sizes = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=sizes, data=column, op0=nl.abs, operand0=0.0, op1=nl.add, operand1=LEAST)
    nisa.tensor_tensor(dst=sizes, data1=sizes, data2=active, op=nl.multiply)
    limit = largest_across(sizes)
    nisa.tensor_scalar(dst=limit, data=limit, op0=nl.multiply, operand0=NEARLY_LARGEST)
    candidates = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=candidates,
        data=sizes,
        op0=nl.greater_equal,
        operand0=limit,
        op1=nl.multiply,
        operand1=first,
    )
    chosen = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=chosen, data=candidates, op0=nl.equal, operand0=largest_across(candidates)
    )
    return chosen


def largest_across(x: Tile) -> Tile:
    """Return the largest entry of a tile without negative entries, on all partitions."""
    column = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.maximum, data=x, axis=1)
    largest = nl.ndarray((x.shape[0], 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=rows_of_column(column), axis=1)
    return largest


def finish_panel(x: Tile, p: Tile, u: Tile, active: Tile, k: int, masks: Tile) -> None:
    """Gather the pivot rows of block ``k`` as rows of U, and update the active rows."""
    width, blocks, order = x.shape
    starts = strip_starts(order, 1)
    for s in range(len(starts) - 1):
        rows = nl.ndarray((width, starts[s + 1] - starts[s]), dtype=nl.float32, buffer=nl.psum)
        for i in range(blocks):
            nisa.nc_matmul(
                dst=rows,
                stationary=block(p, i, k),
                moving=x[0:width, i, starts[s] : starts[s + 1]],
                accumulate=i > 0,
            )
        nisa.tensor_copy(dst=u[0:width, k, starts[s] : starts[s + 1]], src=rows)
    trailing = (k + 1) * width
    if trailing == order:
        return
    lower_t, inverse_t = unit_lower(block(u, k, k), masks)
    starts = strip_starts(order - trailing, 1)
    for s in range(len(starts) - 1):
        row = u[0:width, k, trailing + starts[s] : trailing + starts[s + 1]]
        apply_inverse(row, lower_t, inverse_t)
    for i in range(blocks):
        multiples = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(
            dst=multiples,
            data=block(x, i, k),
            op0=nl.multiply,
            operand0=active[0:width, i : i + 1],
        )
        transposed = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
        transpose_tile(transposed, multiples)
        for s in range(len(starts) - 1):
            lo, hi = trailing + starts[s], trailing + starts[s + 1]
            change = nl.ndarray((width, hi - lo), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(dst=change, stationary=transposed, moving=u[0:width, k, lo:hi])
            rest = x[0:width, i, lo:hi]
            nisa.tensor_tensor(dst=rest, data1=rest, data2=change, op=nl.subtract)


def unit_lower(tile: Tile, masks: Tile) -> tuple[Tile, Tile]:
    """Return the transposes of the unit lower triangle of a tile and of its inverse."""
    width = tile.shape[0]
    eye = identity(width)
    strict_t = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
    transpose_tile(strict_t, select(tile, [[-1, width]], 1, 0, nl.greater))
    lower_t = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=lower_t, data1=strict_t, data2=eye, op=nl.add)
    inverse_t = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
    invert_triangles([Triangle(inverse_t, strict_t, eye)], masks)
    return lower_t, inverse_t


def store_lower(out: Tile, q: int, x: Tile, p: Tile) -> None:
    """Store L, the multiples in the order of pivots, with ones on its diagonal."""
    width, blocks, order = x.shape
    lower = new_matrix(width, blocks, order)
    transposed_product(lower, p, x)
    for i in range(blocks):
        row = lower[0:width, i, :]
        nisa.affine_select(
            dst=row,
            pattern=[[-1, order]],
            channel_multiplier=1,
            offset=i * width,
            on_true_tile=row,
            on_false_value=0.0,
            cmp_op=nl.greater,
        )
        corner = block(lower, i, i)
        nisa.tensor_tensor(dst=corner, data1=corner, data2=identity(width), op=nl.add)
    store_matrix(out, q, lower)
