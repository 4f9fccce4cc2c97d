"""Gaussian elimination without pivoting in one tile: triangular factors and their inverses.

Every step broadcasts the pivot row to all partitions by a product with a column of the identity,
and subtracts multiples of it from all rows below at once. The same operations on the identity give
the inverse of the lower factor. Several matrices of one order on the diagonal of a tile are
eliminated by the same instructions.

Layout   (slots, 2 * slots): the matrices, then the identity; ``order`` steps
Limits   slots at most 128; no pivoting, so for definite and triangular matrices. A pivot of zero
         gives NaN or infinity, and no exception
Cost     a product, a reciprocal and two Vector instructions for each step; for several matrices two
         more, which find a column of each
"""

from __future__ import annotations

import math

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, transpose_tile
from trnsolver._kernels.symmetric import belonging, diagonal_column, identity, select

LEAST = 2.0**-86
"""Smallest number with a reciprocal root on the engine."""


def eliminate(ae: Tile, order: int) -> None:
    """Make the matrices of a tile upper triangular, and the identity right of them inv(L).

    Entries below the diagonals are rounding errors, not zeros.
    """
    slots = ae.shape[0]
    copies = slots // order
    eye = identity(slots)
    below = rows_below(order, copies)
    for k in range(order):
        pivots = nl.ndarray((slots, 2 * slots), dtype=nl.float32, buffer=nl.psum)
        # Broadcast row k of each matrix to all rows of the matrix.
        broadcast = eye.ap(pattern=[[slots, slots], [order, copies], [0, order]], offset=k)
        nisa.nc_matmul(dst=pivots, stationary=broadcast, moving=ae)
        pivot = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
        column = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
        if copies == 1:
            nisa.reciprocal(dst=pivot, data=pivots[0:slots, k : k + 1])
            nisa.tensor_copy(dst=column, src=ae[0:slots, k : k + 1])
        else:
            # In a row, the columns of other matrices are zero.
            across = [[2 * slots, slots], [order, copies]]
            nisa.tensor_reduce(
                dst=pivot, op=nl.add, data=pivots.ap(pattern=across, offset=k), axis=1
            )
            nisa.reciprocal(dst=pivot, data=pivot)
            nisa.tensor_reduce(dst=column, op=nl.add, data=ae.ap(pattern=across, offset=k), axis=1)
        multiples = nl.ndarray((slots, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.scalar_tensor_tensor(
            dst=multiples,
            data=column,
            op0=nl.multiply,
            operand0=pivot,
            op1=nl.multiply,
            operand1=below[0:slots, k : k + 1],
        )
        nisa.scalar_tensor_tensor(
            dst=ae,
            data=pivots,
            op0=nl.multiply,
            operand0=multiples,
            op1=nl.subtract,
            operand1=ae,
            reverse1=True,
        )


def rows_below(order: int, copies: int) -> Tile:
    """Return ones in column k for the rows of each matrix below its row k, (slots, order)."""
    slots = order * copies
    strict = select(belonging(order, copies), [[-1, slots]], 1, 0, nl.greater)
    if copies == 1:
        return strict
    below = nl.ndarray((slots, order), dtype=nl.float32, buffer=nl.sbuf)
    columns = strict.ap(pattern=[[slots, slots], [1, order], [order, copies]], offset=0)
    nisa.tensor_reduce(dst=below, op=nl.add, data=columns, axis=2)
    return below


def reciprocal_root(x: Tile) -> Tile:
    """Return ``1 / sqrt(x)`` of a column, accurate to about one unit in the last place."""
    n = x.shape[0]
    y = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=y, op=nl.rsqrt, data=x)
    rest = nl.ndarray((n, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=rest, data=x, op0=nl.multiply, operand0=y, op1=nl.multiply, operand1=y
    )
    nisa.tensor_scalar(dst=rest, data=rest, op0=nl.subtract, operand0=3.0)
    nisa.scalar_tensor_tensor(
        dst=y, data=rest, op0=nl.multiply, operand0=-0.5, op1=nl.multiply, operand1=y
    )
    return y


def roots_or_nan(x: Tile) -> Tile:
    """Return ``1 / sqrt(x)`` of a column; NaN where x is not positive.

    The engine's root of a negative number is not NaN.
    """
    rows = x.shape[0]
    positive = nl.ndarray((rows, 1), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=positive, data=x, op0=nl.greater, operand0=0.0)
    safe = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=safe, value=1.0)
    nisa.tensor_copy_predicated(dst=safe, src=x, predicate=positive)
    nisa.tensor_scalar(dst=safe, data=safe, op0=nl.maximum, operand0=LEAST)
    roots = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=roots, value=math.nan)
    nisa.tensor_copy_predicated(dst=roots, src=reciprocal_root(safe), predicate=positive)
    return roots


def factor_tile(upper: Tile, inverse_t: Tile, matrix: Tile, order: int) -> None:
    """Write U with ``matrix = U^T U`` and inv(U) for symmetric positive definite matrices.

    Args:
        upper: Receives U, zeros below its diagonal.
        inverse_t: Receives inv(U), the transpose of the inverse of the lower factor.
        matrix: Symmetric matrices on the diagonal of a square tile.
        order: Their order.
    """
    slots = matrix.shape[0]
    ae = nl.ndarray((slots, 2 * slots), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=ae[0:slots, 0:slots], src=matrix)
    nisa.tensor_copy(dst=ae[0:slots, slots : 2 * slots], src=identity(slots))
    eliminate(ae, order)
    rows = select(ae[0:slots, 0:slots], [[1, slots]], -1, 0, nl.greater_equal)
    roots = roots_or_nan(diagonal_column(rows))
    nisa.tensor_scalar(dst=upper, data=rows, op0=nl.multiply, operand0=roots)
    inverse = nl.ndarray((slots, slots), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(
        dst=inverse, data=ae[0:slots, slots : 2 * slots], op0=nl.multiply, operand0=roots
    )
    transpose_tile(inverse_t, inverse)


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
