"""Matrices in panels, and their product: every sum in the order of the rows that it goes over.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nkisim.compiled.addresses import pointer_to
from nkisim.compiled.bfloat16 import widen
from nkisim.compiled.loops import compiled_loop, direct
from nkisim.compiled.panel_layout import HEIGHT, MOST_ROWS, WIDTH
from nkisim.compiled.parts import part_of, together
from nkisim.compiled.processor import float_lanes
from nkisim.compiled.tile_layout import LINE
from nkisim.compiled.tile_product import copy_block, room
from nkisim.compiled.vectors import FLOAT, call, constant, spread

__all__ = ["packing", "packing_product", "product", "product_of_bytes"]

_LANES = float_lanes()
_PIECES = (WIDTH,) if _LANES == 16 else (12, 12, 8)  # columns whose sums fill the registers
_AHEAD = 8  # rows of an operand that are on their way from memory at a time
_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))
_VECTOR = ir.VectorType(FLOAT, _LANES)


def _place(builder: Any, address: Any, kind: Any, index: int = 0) -> Any:
    """Return the pointer to one of the elements of a kind that follow each other."""
    first = builder.inttoptr(address, kind.as_pointer())
    return builder.gep(first, [ir.Constant(_I64, index)])


def _factors(builder: Any, row: Any) -> Any:
    """Emit the numbers in a row of a stationary panel, each spread over a vector."""
    if _LANES == 16:  # multiplies by a number in memory
        for i in range(HEIGHT):
            number = builder.load(_place(builder, row, FLOAT, i), align=4)
            yield spread(builder, number, _LANES)
        return
    for first in range(HEIGHT // _LANES):  # by an element of a register
        numbers = builder.load(_place(builder, row, _VECTOR, first), align=4)
        for lane in range(_LANES):
            yield builder.shuffle_vector(numbers, numbers, constant(_I32, _LANES, lane))


@intrinsic  # type: ignore[untyped-decorator]
def _sum_block(
    context: Any, stationary: Any, moving: Any, depth: Any, out: Any, step: Any, add: Any
) -> Any:
    """Write or add the product of two panels to a block whose rows are ``step`` bytes apart."""

    def sum_piece(builder: Any, arguments: Any, vectors: range) -> None:
        stationary, moving, depth, out, step, add = arguments
        zeros = ir.Constant(_VECTOR, [0.0] * _LANES)
        # LLVM keeps them in registers.
        sums = [[cgutils.alloca_once_value(builder, zeros) for _ in vectors] for _ in range(HEIGHT)]
        with cgutils.for_range(builder, depth) as loop:
            row = builder.add(moving, builder.mul(loop.index, ir.Constant(_I64, 4 * WIDTH)))
            columns = [builder.load(_place(builder, row, _VECTOR, j), align=4) for j in vectors]
            row = builder.add(stationary, builder.mul(loop.index, ir.Constant(_I64, 4 * HEIGHT)))
            for factor, line in zip(_factors(builder, row), sums, strict=True):
                for column, total in zip(columns, line, strict=True):
                    old = builder.load(total)
                    new = call(builder, f"llvm.fma.v{_LANES}f32", _VECTOR, factor, column, old)
                    builder.store(new, total)
        for i, line in enumerate(sums):
            row = builder.add(out, builder.mul(step, ir.Constant(_I64, i)))
            for j, total in zip(vectors, line, strict=True):
                place, value = _place(builder, row, _VECTOR, j), builder.load(total)
                with builder.if_else(add) as (then, otherwise):
                    with then:
                        value_there = builder.load(place, align=4)
                        builder.store(builder.fadd(value_there, value), place, align=4)
                    with otherwise:
                        builder.store(value, place, align=4)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = 0
        for width in _PIECES:
            count = width // _LANES
            sum_piece(builder, arguments, range(first, first + count))
            first += count
        return context.get_dummy_value()

    return types.void(*5 * [types.int64], types.boolean), build


@intrinsic  # type: ignore[untyped-decorator]
def _panel_room(context: Any) -> Any:
    """Return the address of room for a panel of float32 on the stack, from a cache line on."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            held = builder.alloca(ir.ArrayType(FLOAT, MOST_ROWS * WIDTH))
        held.align = LINE
        return builder.ptrtoint(held, _I64)

    return types.int64(), build


@intrinsic  # type: ignore[untyped-decorator]
def _fetch(context: Any, address: Any) -> Any:
    """Ask for the memory at an address, which need not be any, ahead of time."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        to_read_often = (ir.Constant(_I32, number) for number in (0, 3, 1))
        call(builder, "llvm.prefetch", ir.VoidType(), place, *to_read_often)
        return context.get_dummy_value()

    return types.void(types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def _widen_line(context: Any, source: Any, target: Any) -> Any:
    """Write a line of stored bfloat16 as float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = arguments
        stored = ir.VectorType(_I16, WIDTH)
        values = widen(builder, builder.load(_place(builder, source, stored), align=2), WIDTH)
        builder.store(values, _place(builder, target, values.type), align=LINE)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


@numba.njit  # type: ignore[untyped-decorator]
def _multiply_panel(
    number: int,
    left: int,
    right: int,
    size: int,
    depth: int,
    begin: int,
    step: int,
    rows: int,
    columns: int,
    add: bool,
) -> None:
    """Multiply one panel of the moving operand with all of the stationary one.

    It stays in the nearest cache while these pass.
    """
    edge, near = room(), _panel_room()
    n = WIDTH * number
    b = right + size * n * depth
    if size == 2:
        for k in range(depth):
            _widen_line(b + 2 * WIDTH * k, near + 4 * WIDTH * k)
            _fetch(b + 2 * WIDTH * (k + depth))
        b = near
    for m in range(0, rows, HEIGHT):
        corner = begin + m * step + 4 * n
        height, width = min(HEIGHT, rows - m), min(WIDTH, columns - n)
        a = left + 4 * m * depth
        if height == HEIGHT and width == WIDTH:
            _sum_block(a, b, depth, corner, step, add)
            continue
        if add:
            copy_block(types.float32, corner, step, edge, 4 * WIDTH, height, width)
        _sum_block(a, b, depth, edge, 4 * WIDTH, add)
        copy_block(types.float32, edge, 4 * WIDTH, corner, step, height, width)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _multiply_panels(
    stationary: Any,
    moving: Any,
    depth: int,
    begin: int,
    step: int,
    rows: int,
    columns: int,
    add: bool,
    helper: int,
) -> None:
    left, right = types.int64(stationary.ctypes.data), types.int64(moving.ctypes.data)
    where = left, right, types.int64(moving.itemsize), depth, begin, step, rows, columns, add
    together(helper, part_of(_multiply_panel, where), (columns + WIDTH - 1) // WIDTH)


def _multiply(stationary: Any, moving: Any, depth: int, out: Any, add: bool, helper: int) -> None:
    rows, columns = out.shape
    begin = types.int64(out.ctypes.data)
    _multiply_panels(stationary, moving, depth, begin, out.strides[0], rows, columns, add, helper)


@cache
def product(bits: int) -> Any:
    """Return what multiplies: ``(stationary, moving, depth, out, add, helper)``.

    It takes the memory of two packed operands, how many rows these have, at most ``MOST_ROWS``, the
    matrix that the product is written or added to, whose columns are dense, and who helps. The
    stationary operand is packed as float32, the moving one as float32 or, with 16 ``bits``, as
    bfloat16.
    """
    memory = types.Array(types.float32, 1, "C", readonly=True)
    other = types.Array(types.uint16 if bits == 16 else types.float32, 1, "C", readonly=True)
    out = types.Array(types.float32, 2, "A", aligned=False)
    signature = types.void(memory, other, types.int64, out, types.boolean, types.int64)
    return compiled_loop(_multiply, signature)


def _line_packing(width: int) -> Any:
    """Return the intrinsic that copies a line of elements to panels of a width and another type.

    The panels are ``apart`` bytes from each other. It returns 0 if all elements are finite.
    """
    pieces = range(0, WIDTH, width)

    @intrinsic  # type: ignore[untyped-decorator]
    def pack_line(context: Any, like: Any, other: Any, source: Any, target: Any, apart: Any) -> Any:
        half, keeps = (kind.dtype.bitwidth == 16 for kind in (like, other))
        stored = ir.VectorType(_I16 if half else FLOAT, WIDTH)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            *_, source, target, apart = arguments
            line = builder.load(_place(builder, source, stored), align=2 if half else 4)
            values = widen(builder, line, WIDTH) if half else line
            copied = line if keeps else values
            for first in pieces:
                order = ir.Constant(ir.VectorType(_I32, width), list(range(first, first + width)))
                piece = builder.shuffle_vector(copied, copied, order)
                builder.store(piece, _place(builder, target, piece.type), align=2 if keeps else 4)
                target = builder.add(target, apart)
            exponent = constant(_I16, WIDTH, 0x7F80) if half else constant(_I32, WIDTH, 0x7F80_0000)
            bits = builder.and_(builder.bitcast(line, exponent.type), exponent)
            flags = builder.icmp_signed("==", bits, exponent)
            found = call(builder, f"llvm.vector.reduce.or.v{WIDTH}i1", ir.IntType(1), flags)
            return builder.zext(found, _I64)

        return types.int64(like, other, *3 * [types.int64]), build

    return pack_line


_low_line, _wide_line = _line_packing(HEIGHT), _line_packing(WIDTH)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _pack(
    pack_line: Any,
    width: int,
    like: Any,
    size: int,
    source: int,
    step: int,
    depth: int,
    columns: int,
    packed: Any,
) -> bool:
    """Pack elements like others, of a size, that lie from an address on."""
    target = types.int64(packed.ctypes.data)
    line = packed.itemsize * width
    edge = room()
    to = pointer_to(like, edge)
    for i in range(WIDTH):
        to[i] = 0
    special = 0
    for n in range(0, columns, WIDTH):
        some = columns - n
        for k in range(depth):
            here = source + k * step + n * size
            _fetch(here + _AHEAD * step)
            if some < WIDTH:
                copy_block(like, here, step, edge, size, 1, some)
                here = edge
            place = target + packed.itemsize * n * depth + k * line
            special |= pack_line(like, packed, here, place, line * depth)
    return special == 0


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _pack_array(pack_line: Any, width: int, x: Any, packed: Any) -> bool:
    source, (depth, columns) = types.int64(x.ctypes.data), x.shape
    return _pack(pack_line, width, x, x.itemsize, source, x.strides[0], depth, columns, packed)


def _pack_stationary(x: Any, packed: Any) -> bool:
    return _pack_array(_low_line, HEIGHT, x, packed)


def _pack_moving(x: Any, packed: Any) -> bool:
    return _pack_array(_wide_line, WIDTH, x, packed)


@cache
def packing(width: int, bits: int, packed_bits: int) -> Any:
    """Return what packs: ``(x, packed)``.

    It takes a matrix of float32, or with 16 ``bits`` of bfloat16, with dense columns, and memory
    for its panels, likewise. It returns whether all elements are finite.
    """
    element, other = (types.uint16 if b == 16 else types.float32 for b in (bits, packed_bits))
    matrix = types.Array(element, 2, "A", readonly=True, aligned=False)
    memory = types.Array(other, 1, "C")
    function = _pack_stationary if width == HEIGHT else _pack_moving
    return compiled_loop(function, types.boolean(matrix, memory))


def _pack_and_multiply(x: Any, moving: Any, out: Any, add: bool, helper: int) -> bool:
    depth, (rows, columns) = x.shape[0], out.shape
    packed = np.empty(depth * ((rows + WIDTH - 1) // WIDTH * WIDTH), np.float32)
    finite = _pack_array(_low_line, HEIGHT, x, packed)
    if finite:
        begin = types.int64(out.ctypes.data)
        _multiply_panels(packed, moving, depth, begin, out.strides[0], rows, columns, add, helper)
    return finite


@cache
def packing_product(bits: int, moving_bits: int) -> Any:
    """Return what packs a stationary operand and multiplies: ``(x, moving, out, add, helper)``.

    It returns whether all elements of ``x`` are finite; if not, nothing was written.
    """
    element, other = (types.uint16 if b == 16 else types.float32 for b in (bits, moving_bits))
    matrix = types.Array(element, 2, "A", readonly=True, aligned=False)
    memory = types.Array(other, 1, "C", readonly=True)
    out = types.Array(types.float32, 2, "A", aligned=False)
    return compiled_loop(
        _pack_and_multiply, types.boolean(matrix, memory, out, types.boolean, types.int64)
    )


def _multiply_bytes(
    block: Any,
    start: int,
    step: int,
    depth: int,
    moving: Any,
    out: Any,
    out_start: int,
    out_step: int,
    rows: int,
    columns: int,
    add: bool,
    helper: int,
) -> bool:
    packed = np.empty(depth * ((rows + WIDTH - 1) // WIDTH * WIDTH), np.float32)
    source = types.int64(block.ctypes.data) + start
    finite = _pack(_low_line, HEIGHT, types.uint16, 2, source, step, depth, rows, packed)
    if finite:
        begin = types.int64(out.ctypes.data) + out_start
        _multiply_panels(packed, moving, depth, begin, out_step, rows, columns, add, helper)
    return finite


@cache
def product_of_bytes() -> Any:
    """Return what packs a stationary operand of bfloat16 and multiplies it.

    It takes the block of bytes in which the operand lies, its first byte, the bytes from row to row
    and its rows; the moving operand, packed as bfloat16; then block, first byte and step of the
    result, its rows and columns; whether to add, and who helps. It returns whether the operand is
    finite.
    """
    block, other = (types.Array(types.uint8, 1, "C", readonly=only) for only in (False, True))
    moving = types.Array(types.uint16, 1, "C", readonly=True)
    whole = types.int64
    place = whole, whole, whole
    signature = types.boolean(other, *place, moving, block, *place, whole, types.boolean, whole)
    return direct(compiled_loop(_multiply_bytes, signature))
