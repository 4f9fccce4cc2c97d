"""Transposing tiles of 8, 16 and 32-bit elements, a square that fills vector registers at a time.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import address_of_row
from nkisim.compiled.loops import compiled_loop

__all__ = ["columns_of", "transposing"]

# Interleaving two registers of this width is one instruction on x86 and on Arm.
_REGISTER_BITS = 128
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


def _transpose(out: Any, x: Any) -> None:
    rows, columns = x.shape
    size = x.itemsize
    side = _REGISTER_BITS // (8 * size)
    whole_rows, whole_columns = rows - rows % side, columns - columns % side
    step, out_step = x.strides[0], out.strides[0]
    for j in range(0, whole_columns, side):
        to = address_of_row(out, j)
        for i in range(0, whole_rows, side):
            _turn(x, address_of_row(x, i) + j * size, step, to + i * size, out_step)
    for i in range(rows):
        for j in range(0 if i >= whole_rows else whole_columns, columns):
            out[j, i] = x[i, j]


@cache
def transposing(bits: int) -> Any:
    """Return what writes the transpose of its second argument into its first.

    Both are two-dimensional arrays of unsigned integers of ``bits``, with dense rows that may be
    apart, and share no memory.
    """
    tile = types.Array(getattr(types, f"uint{bits}"), 2, "A")
    return compiled_loop(_transpose, types.void(tile, tile))
