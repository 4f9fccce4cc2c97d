"""Reduced QR factors by repeated Cholesky factorization of Gram matrices (CholeskyQR).

With A = Q R the Gram matrix A^T A is R^T R, so R is a Cholesky factor and Q = A inv(R): products
and triangular solutions only. One pass is accurate only for small condition numbers. So the first
three passes shift the Gram matrix by a small multiple of its norm. A shifted pass cannot break
down, and divides the condition number by about a thousand. Two more passes make Q orthogonal to
rounding. Dependent columns are zero after the first pass: noise below the rounding errors of the
others gives them a direction, which the passes scale to length 1. R is the upper triangle of Q^T A.
In real forms of complex matrices every pass keeps pairs of columns equal to one complex column, to
the last
bit: rounding would turn them differently where columns are nearly dependent.

Layout   Q^T with rows on partitions for triangular solutions, and Q for Gram matrices
Limits   Q, its transpose and the Gram matrix within 144 KiB of each partition, so 1024 x 1024. Any
         rank
Cost     for each pass a Gram product, a Cholesky factor, a triangular solution with all of A and a
         transpose; then one product for R
Lever    no sequence of reflections: all work is products of 128 x 128 x 512
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nki, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile
from trnsci.core.tiles.triangular_inverse import (
    Doubling,
    doubling,
    invert_triangles,
    new_inverses,
    padded_identity,
    reciprocal_diagonals,
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
    transpose_matrix,
    transposed_product,
)
from trnsolver._kernels.elimination import Group, apply_inverse, factor_column, group_of
from trnsolver._kernels.limits import SBUF_BYTES, block_width, qr_bytes
from trnsolver._kernels.symmetric import exponent_scale, identity

SHIFTED, PASSES = 3, 5
SHIFT = 2.0**-19
"""Sixteen units of float32's precision: more than the rounding errors of a Gram matrix's factor."""
LEAST = 2.0**-30
"""Smallest norm that SHIFT multiplies, so that a matrix of zeros is shifted too."""


@nki.jit
def cholesky_qr(a: Tile, noise: Tile, paired: bool = False) -> tuple[Tile, Tile]:
    """Return Q with orthonormal columns and upper triangular R, ``a = Q @ R``.

    Args:
        a: Matrices, (batch, m, n) with m at least n.
        noise: Random numbers, (1, m, n), with columns of the magnitude of rounding errors.
        paired: Whether matrices and noise consist of blocks ``[[x, y], [-y, x]]``, as Q then does.
    """
    batch, m, n = a.shape
    nbytes = qr_bytes(m, n)
    assert nbytes <= SBUF_BYTES, f"cholesky_qr: needs {nbytes} of {SBUF_BYTES} bytes per partition"
    q_out = nl.ndarray(a.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    r_out = nl.ndarray((batch, n, n), dtype=nl.float32, buffer=nl.shared_hbm)
    width = block_width(m)
    t, s = (m + width - 1) // width, (n + width - 1) // width
    group, table = group_of(width, 1), doubling(padded_identity(width), True)
    turn = quarter_turn(width) if paired else None
    for k in range(batch):
        rows = new_matrix(width, t, s * width)
        columns = new_matrix(width, s, t * width)
        gram = new_matrix(width, s, s * width)
        load_matrix(rows, a, k)
        _, inverse = exponent_scale(largest_of(rows))
        scale_matrix(rows, inverse)
        transpose_matrix(columns, rows)
        for step in range(PASSES):
            transposed_product(gram, rows, rows)
            if step < SHIFTED:
                add_to_diagonal(gram, largest_of(gram))
            pad_diagonal(gram, n)
            inverses = upper_factor(gram, group, table)
            solve_rows(columns, gram, inverses)
            if turn is not None:
                keep_pairs(columns, turn)
            transpose_matrix(rows, columns)
            if step == 0:
                add_noise(columns, rows, noise)
        store_matrix(q_out, k, rows)
        # The buffer of Q^T is free for A.
        buffer = columns.reshape((width, t, s * width))
        load_matrix(buffer, a, k)
        transposed_product(gram, rows, buffer)
        keep_upper(gram)
        store_matrix(r_out, k, gram)
    return q_out, r_out


def upper_factor(x: Tile, group: Group, table: Doubling) -> Tile:
    """Replace the upper triangle of blocks of a block matrix by U with X = U^T U.

    Returns the inverses of the diagonal blocks of U, (width, blocks, width).
    """
    width, blocks = x.shape[0], x.shape[1]
    inverses = new_inverses(blocks, table.eye)
    for j in range(blocks):
        factor_column(x, j, width, group)
        corner = block(x, j, j)
        pivots = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
        reciprocal_diagonals(pivots, x[0:width, j : j + 1, j * width : (j + 1) * width])
        upper = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
        transpose_tile(upper, corner)
        # With L = D T, T unit triangular, the transpose of inv(L) is inv(D) times that of inv(T).
        unit = select(corner, [[-1, width]], 1, 0, nl.greater)
        nisa.scalar_tensor_tensor(
            dst=unit,
            data=unit,
            op0=nl.multiply,
            operand0=pivots,
            op1=nl.add,
            operand1=table.eye[0:width, 0:width],
        )
        unit_t = nl.ndarray((width, 1, width), dtype=nl.float32, buffer=nl.sbuf)
        transpose_tile(unit_t[0:width, 0, 0:width], unit)
        invert_triangles(inverses, j, unit_t, table)
        inverse = inverses[0:width, j, 0:width]
        nisa.tensor_scalar(dst=inverse, data=inverse, op0=nl.multiply, operand0=pivots)
        nisa.tensor_copy(dst=corner, src=upper)
    return inverses


def add_noise(columns: Tile, rows: Tile, noise: Tile) -> None:
    """Add noise to Q; ``columns`` is its transpose before and after."""
    width, blocks = rows.shape[0], rows.shape[1]
    buffer = columns.reshape(rows.shape)
    load_matrix(buffer, noise, 0)
    for i in range(blocks):
        row = rows[0:width, i, :]
        nisa.tensor_tensor(dst=row, data1=row, data2=buffer[0:width, i, :], op=nl.add)
    transpose_matrix(columns, rows)


def add_to_diagonal(x: Tile, size: Tile) -> None:
    """Add ``SHIFT`` times a number, at least ``LEAST``, to the diagonal of a block matrix."""
    width = x.shape[0]
    shift = identity(width)
    nisa.tensor_scalar(dst=size, data=size, op0=nl.maximum, operand0=LEAST)
    nisa.tensor_scalar(
        dst=shift, data=shift, op0=nl.multiply, operand0=size, op1=nl.multiply, operand1=SHIFT
    )
    for i in range(x.shape[1]):
        corner = block(x, i, i)
        nisa.tensor_tensor(dst=corner, data1=corner, data2=shift, op=nl.add)


def solve_rows(x: Tile, upper: Tile, inverses: Tile) -> None:
    """Replace a block matrix X by inv(U^T) X.

    Args:
        x: Block matrix of as many blocks of rows as U.
        upper: U; only its upper triangle of blocks is read.
        inverses: Inverses of its diagonal blocks.
    """
    width, blocks = x.shape[0], x.shape[1]
    starts = strip_starts(x.shape[2], 1)
    for s in range(len(starts) - 1):
        first, last = starts[s], starts[s + 1]
        for i in range(blocks):
            row = x[0:width, i, first:last]
            if i > 0:
                change = nl.ndarray((width, last - first), dtype=nl.float32, buffer=nl.psum)
                for k in range(i):
                    nisa.nc_matmul(
                        dst=change,
                        stationary=block(upper, k, i),
                        moving=x[0:width, k, first:last],
                        accumulate=k > 0,
                    )
                nisa.tensor_tensor(dst=row, data1=row, data2=change, op=nl.subtract)
            apply_inverse(row, block(upper, i, i), inverses[0:width, i, 0:width])


def quarter_turn(width: int) -> Tile:
    """Return half of the matrix T with blocks ``[[0, 1], [-1, 0]]`` on its diagonal."""
    eye = identity(width).reshape((width, width // 2, 2))
    turn = nl.ndarray((width, width // 2, 2), dtype=nl.float32, buffer=nl.sbuf)
    for j in range(2):
        nisa.tensor_scalar(
            dst=turn[0:width, 0 : width // 2, j],
            data=eye[0:width, 0 : width // 2, 1 - j],
            op0=nl.multiply,
            operand0=j - 0.5,
        )
    return turn.reshape((width, width))


def keep_pairs(x: Tile, turn: Tile) -> None:
    """Replace a block matrix X by ``(X + T^T X T) / 2``, which consists of such blocks.

    If X is a matrix of such blocks times a triangle whose blocks have rounding errors, the result
    is the same matrix times a triangle of such blocks.
    """
    width, blocks, order = x.shape
    pairs = x.reshape((width, blocks * order // 2, 2))
    starts = strip_starts(order, 1)
    for i in range(blocks):
        for s in range(len(starts) - 1):
            first, count = starts[s], starts[s + 1] - starts[s]
            turned = nl.ndarray((width, count), dtype=nl.float32, buffer=nl.psum)
            row = x[0:width, i, first : first + count]
            nisa.nc_matmul(dst=turned, stationary=turn, moving=row)
            swapped = turned.reshape((width, count // 2, 2))
            begin = (i * order + first) // 2
            for j in range(2):
                entries = pairs[0:width, begin : begin + count // 2, j]
                nisa.scalar_tensor_tensor(
                    dst=entries,
                    data=entries,
                    op0=nl.multiply,
                    operand0=0.5,
                    op1=nl.add if j else nl.subtract,
                    operand1=swapped[0:width, 0 : count // 2, 1 - j],
                )


def keep_upper(x: Tile) -> None:
    """Set the entries below the diagonal of a square block matrix to zero."""
    width, blocks, columns = x.shape
    for i in range(blocks):
        row = x[0:width, i, :]
        select(row, [[1, columns]], -1, -i * width, nl.greater_equal, dst=row)
