"""Tile operations of the symmetric kernels: mirror a triangle, scale, rank, reorder.

Layout   one or several matrices of one order on the diagonal of a square tile of at most 128
         partitions; a *belonging* tile has ones where row and column are of one matrix
Limits   float32; results do not depend on the upper triangle, even if it has NaN
"""

from __future__ import annotations

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile, select, transpose_tile

EXPONENT_BITS = 0x7F800000
LOWEST_EXPONENT_BIT = 0x00800000
LEAST_SCALE, MOST_SCALE = 2.0**-100, 2.0**116
"""Range of scales with reciprocals and roots; NaN and infinity use the largest."""
LAST = 3.0e38
"""Eigenvalue of padding, above all eigenvalues of a scaled matrix."""


def identity(size: int) -> Tile:
    """Return the identity matrix."""
    ones = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    return select(ones, [[-1, size]], 1, 0, nl.equal)


def belonging(order: int, copies: int) -> Tile:
    """Return ones in the diagonal blocks of ``order`` rows, zeros elsewhere."""
    size = order * copies
    ones = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    if copies == 1:
        return ones
    # Row p is in block k if 0 <= p - order * k < order.
    blocks = [[-order, copies], [0, order]]
    above = select(ones, blocks, 1, 0, nl.greater_equal)
    return select(above, blocks, 1, -order, nl.less)


def mirror_lower(d: Tile) -> None:
    """Replace the upper triangle of a square tile by the transpose of the lower one."""
    size = d.shape[0]
    lower = select(d, [[-1, size]], 1, 0, nl.greater_equal)
    below = select(d, [[-1, size]], 1, 0, nl.greater)
    transposed = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    transpose_tile(transposed, below)
    nisa.tensor_tensor(dst=d, data1=lower, data2=transposed, op=nl.add)


def rows_of_column(column: Tile) -> Tile:
    """Return a square tile with the column in every row, bitwise equal."""
    size = column.shape[0]
    wide = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=wide, value=0.0)
    nisa.tensor_scalar(dst=wide, data=wide, op0=nl.add, operand0=column)
    rows = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    transpose_tile(rows, wide)
    return rows


def diagonal_column(d: Tile) -> Tile:
    """Return the diagonal of a square tile as a column."""
    size = d.shape[0]
    diagonal = select(d, [[-1, size]], 1, 0, nl.equal)
    column = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.add, data=diagonal, axis=1)
    return column


def largest_entries(d: Tile, mine: Tile) -> Tile:
    """Return a column with the largest magnitude of the matrix of each row."""
    size = d.shape[0]
    sizes = nl.ndarray((size, size), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=sizes, data=d, op0=nl.abs, operand0=0.0)
    largest = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=sizes, axis=1)
    rows = rows_of_column(largest)
    nisa.tensor_tensor(dst=rows, data1=rows, data2=mine, op=nl.multiply)
    nisa.tensor_reduce(dst=largest, op=nl.maximum, data=rows, axis=1)
    return largest


def exponent_scale(largest: Tile) -> tuple[Tile, Tile]:
    """Return columns with the power of two below each entry, and with its reciprocal.

    Scaling by a power of two is exact. Scales are between 2^-100 and 2^116.
    """
    rows = largest.shape[0]
    scale = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=scale, data=largest, op0=nl.maximum, operand0=LEAST_SCALE)
    bits = scale.view(nl.uint32)
    nisa.tensor_scalar(dst=bits, data=bits, op0=nl.bitwise_and, operand0=EXPONENT_BITS)
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.minimum, operand0=MOST_SCALE)
    inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=scale)
    return scale, inverse


def even_exponent_scale(largest: Tile) -> tuple[Tile, Tile]:
    """Return columns with the root of a power of four near each entry, and its inverse square."""
    rows = largest.shape[0]
    scale = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=scale, data=largest, op0=nl.maximum, operand0=LEAST_SCALE)
    bits = scale.view(nl.uint32)
    # Exponents are biased by 127, so an odd one is an even power of two.
    nisa.tensor_scalar(
        dst=bits,
        data=bits,
        op0=nl.bitwise_and,
        operand0=EXPONENT_BITS,
        op1=nl.bitwise_or,
        operand1=LOWEST_EXPONENT_BIT,
    )
    nisa.tensor_scalar(dst=scale, data=scale, op0=nl.minimum, operand0=MOST_SCALE)
    inverse = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=inverse, data=scale)
    root = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=root, op=nl.sqrt, data=scale)
    return root, inverse


def ranks(column: Tile, rows: Tile, mine: Tile | None, before: Tile) -> Tile:
    """Return a column with the rank of each row's value in ascending order.

    Args:
        column: Values, one for each row.
        rows: The values to compare with, in every row.
        mine: Ones where row and compared value are of one matrix; None if all are.
        before: Ones where the compared value comes first if both are equal.
    """
    size, width = rows.shape
    smaller = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=smaller, data=rows, op0=nl.less, operand0=column)
    same = nl.ndarray((size, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.scalar_tensor_tensor(
        dst=same, data=rows, op0=nl.equal, operand0=column, op1=nl.multiply, operand1=before
    )
    nisa.tensor_tensor(dst=smaller, data1=smaller, data2=same, op=nl.add)
    if mine is not None:
        nisa.tensor_tensor(dst=smaller, data1=smaller, data2=mine, op=nl.multiply)
    count = nl.ndarray((size, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=count, op=nl.add, data=smaller, axis=1)
    return count


def unit_columns(places: Tile, width: int) -> Tile:
    """Return a tile with a 1 in each row, in column ``places``."""
    rows = places.shape[0]
    counting = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.iota(dst=counting, pattern=[[1, width]], offset=0, channel_multiplier=0)
    chosen = nl.ndarray((rows, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=chosen, data=counting, op0=nl.equal, operand0=places)
    return chosen
