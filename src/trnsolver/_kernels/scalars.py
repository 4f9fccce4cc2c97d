"""Scalars replicated on all partitions: sums over a matrix, roots, comparisons, masked copies.

An iteration on the device cannot branch. Decisions are columns of ones or zeros that mask copies: a
matrix that has converged is not changed by the next step.

Layout   a scalar is a column (partitions, 1), equal on every partition
Limits   roots of values below 2^-100 are 2^-50
"""

from __future__ import annotations

from typing import Any

from trnsci.core.nki import nisa, nl
from trnsci.core.tiles.gemm_tiles import Tile

LEAST = 2.0**-100


def column_of(width: int, value: float) -> Tile:
    """Return a scalar."""
    column = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=column, value=value)
    return column


def doubled(column: Tile) -> Tile:
    """Return a column twice: some compilers reject a product with a single moving column."""
    return column.ap(pattern=[[1, column.shape[0]], [0, 2]], offset=0)


def add_across(column: Tile) -> Tile:
    """Return the sum of a column over its partitions."""
    width = column.shape[0]
    ones = nl.ndarray((width, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.memset(dst=ones, value=1.0)
    total = nl.ndarray((width, 2), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(dst=total, stationary=ones, moving=doubled(column))
    result = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=total[0:width, 0:1])
    return result


def sum_of_squares(x: Tile, shift: float) -> Tile:
    """Return the sum of the squares of ``X - shift * I`` for a block matrix."""
    width, blocks, columns = x.shape
    parts = nl.ndarray((width, blocks), dtype=nl.float32, buffer=nl.sbuf)
    for i in range(blocks):
        row = nl.ndarray((width, columns), dtype=nl.float32, buffer=nl.sbuf)
        if shift != 0.0:
            nisa.memset(dst=row, value=shift)
            nisa.affine_select(
                dst=row,
                pattern=[[-1, columns]],
                channel_multiplier=1,
                offset=i * width,
                on_true_tile=row,
                on_false_value=0.0,
                cmp_op=nl.equal,
            )
            nisa.tensor_tensor(dst=row, data1=x[0:width, i, :], data2=row, op=nl.subtract)
        else:
            nisa.tensor_copy(dst=row, src=x[0:width, i, :])
        nisa.tensor_tensor(dst=row, data1=row, data2=row, op=nl.multiply)
        nisa.tensor_reduce(dst=parts[0:width, i : i + 1], op=nl.add, data=row, axis=1)
    column = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_reduce(dst=column, op=nl.add, data=parts, axis=1)
    return add_across(column)


def root_of(x: Tile) -> Tile:
    """Return the square root of a non-negative number, accurate to the last place.

    The engine's root is followed by a step of Heron's method.
    """
    width = x.shape[0]
    least = column_of(width, LEAST)
    root = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation(dst=root, op=nl.sqrt, data=x, bias=least)
    quotient = nl.ndarray((width, 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.reciprocal(dst=quotient, data=root)
    nisa.scalar_tensor_tensor(
        dst=quotient, data=x, op0=nl.add, operand0=LEAST, op1=nl.multiply, operand1=quotient
    )
    nisa.tensor_scalar(
        dst=root, data=root, op0=nl.add, operand0=quotient, op1=nl.multiply, operand1=0.5
    )
    return root


def compared(x: Tile, op: Any, value: Any) -> Tile:
    """Return 1 if the comparison with a number or a constant holds, else 0."""
    result = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_scalar(dst=result, data=x, op0=op, operand0=value)
    return result


def product_of(x: Tile, y: Tile) -> Tile:
    """Return the product of two numbers; the logical and of two masks."""
    result = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_tensor(dst=result, data1=x, data2=y, op=nl.multiply)
    return result


def copy_where(dst: Tile, src: Tile, chosen: Tile) -> None:
    """Copy ``src`` to ``dst``, both 2-D, if the number ``chosen`` is 1."""
    width, columns = src.shape
    predicate = nl.ndarray((width, 1), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.tensor_copy(dst=predicate, src=chosen)
    broadcast = predicate.ap(pattern=[[1, width], [0, columns]], offset=0)
    nisa.tensor_copy_predicated(dst=dst, src=src, predicate=broadcast)
