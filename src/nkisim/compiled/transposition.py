"""Transposing tiles of 8, 16 and 32-bit elements, a square that fills vector registers at a time.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import address_of_row, pointer_to
from nkisim.compiled.loops import compiled_loop, direct

__all__ = ["columns_of", "transposing", "transposing_bytes"]

# Interleaving two registers of this width is one instruction on x86 and on Arm.
_REGISTER_BITS = 128
_LINE = 64
_I32 = ir.IntType(32)


def columns_of(builder: Any, rows: list[Any]) -> list[Any]:
    """Emit the columns of a square of vectors, whose side is a power of two."""
    side = len(rows)
    order = [lane for pair in zip(range(side), range(side, 2 * side), strict=True) for lane in pair]
    masks = [ir.Constant(ir.VectorType(_I32, side), part) for part in (order[:side], order[side:])]
    # Each round interleaves rows that are half the square apart; after log2(side) rounds a vector
    # holds one column.
    for _ in range(side.bit_length() - 1):
        halves = zip(rows[: side // 2], rows[side // 2 :], strict=True)
        rows = [builder.shuffle_vector(a, b, mask) for a, b in halves for mask in masks]
    return rows


@intrinsic  # type: ignore[untyped-decorator]
def _turn(
    context: Any, like: Any, source: Any, source_step: Any, target: Any, target_step: Any
) -> Any:
    """Transpose as many rows as a register has elements, of the type that ``like`` has."""
    bits = like.dtype.bitwidth
    side = _REGISTER_BITS // bits
    register = ir.VectorType(ir.IntType(bits), side)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, source, source_step, target, target_step = arguments

        def line(start: Any, step: Any, number: int) -> Any:
            away = builder.mul(step, ir.Constant(step.type, number))
            return builder.inttoptr(builder.add(start, away), register.as_pointer())

        rows = [builder.load(line(source, source_step, i), align=bits // 8) for i in range(side)]
        for i, column in enumerate(columns_of(builder, rows)):
            builder.store(column, line(target, target_step, i), align=bits // 8)
        return context.get_dummy_value()

    return types.void(like, *[types.int64] * 4), build


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _turn_all(
    like: Any, size: int, to: int, to_step: int, of: int, of_step: int, rows: int, columns: int
) -> None:
    """Transpose elements like others, of a size, from one address to another."""
    side = _REGISTER_BITS // (8 * size)
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    line = _LINE // size
    for first in range(0, whole_columns, line):
        for i in range(0, whole_rows, side):
            for j in range(first, min(first + line, whole_columns), side):
                here, there = of + i * of_step + j * size, to + j * to_step + i * size
                _turn(like, here, of_step, there, to_step)
    for i in range(rows):
        line = pointer_to(like, of + i * of_step)
        for j in range(0 if i >= whole_rows else whole_columns, columns):
            pointer_to(like, to + j * to_step)[i] = line[j]


def _transpose(out: Any, x: Any) -> None:
    to, of = address_of_row(out, 0), address_of_row(x, 0)
    _turn_all(x, x.itemsize, to, out.strides[0], of, x.strides[0], x.shape[0], x.shape[1])


@cache
def transposing(bits: int) -> Any:
    """Return what writes the transpose of its second argument into its first.

    Both are two-dimensional arrays of unsigned integers of ``bits``, with dense rows that may be
    apart, and share no memory.
    """
    tile = types.Array(getattr(types, f"uint{bits}"), 2, "A")
    return compiled_loop(_transpose, types.void(tile, tile))


def _transpose_bytes(
    size: int,
    out: Any,
    out_start: int,
    out_step: int,
    x: Any,
    start: int,
    step: int,
    rows: int,
    columns: int,
) -> None:
    to, of = address_of_row(out, out_start), address_of_row(x, start)
    if size == 1:
        _turn_all(types.uint8, 1, to, out_step, of, step, rows, columns)
    elif size == 2:
        _turn_all(types.uint16, 2, to, out_step, of, step, rows, columns)
    else:
        _turn_all(types.uint32, 4, to, out_step, of, step, rows, columns)


@cache
def transposing_bytes() -> Any:
    """Return what transposes elements in one block of bytes into another.

    It takes the size of an element, 1, 2 or 4; then of the result and of the operand the block, the
    first byte and the bytes from row to row; then rows and columns of the operand. To make arrays
    of both would take Python as long as a small transpose.
    """
    block, other = (types.Array(types.uint8, 1, "C", readonly=only) for only in (False, True))
    place = types.int64, types.int64
    signature = types.void(types.int64, block, *place, other, *place, *place)
    return direct(compiled_loop(_transpose_bytes, signature))
