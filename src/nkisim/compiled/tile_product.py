"""The tile instructions of Intel AMX, and the product of packed operands.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nkisim.compiled.tile_layout import BLOCK, LINE, SIDE, TILE

__all__ = ["call", "pointer_to", "product", "room"]

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_POINTER = _I8.as_pointer()

# Palette 1: eight tiles, each with a row length in bytes (two bytes from 16 on) and rows (from 48).
_CONFIGURATION = bytearray(LINE)
_CONFIGURATION[0] = 1
_CONFIGURATION[16:32:2] = bytes(8 * [LINE])
_CONFIGURATION[48:56] = bytes(8 * [SIDE])


def call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Emit a call of LLVM's intrinsic of that name."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _instruction(builder: Any, name: str, registers: Any, *arguments: Any) -> None:
    """Emit a tile instruction; tile registers are constants of the instruction."""
    numbers = (ir.Constant(_I8, register.literal_value) for register in registers)
    call(builder, f"llvm.x86.{name}", ir.VoidType(), *numbers, *arguments)


@intrinsic  # type: ignore[untyped-decorator]
def _configure(context: Any) -> Any:
    """Make all tiles 16 rows of 64 bytes."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        shape = cgutils.make_bytearray(bytes(_CONFIGURATION))
        constant = cgutils.global_constant(builder, "tile_configuration", shape)
        _instruction(builder, "ldtilecfg", (), builder.bitcast(constant, _POINTER))
        return context.get_dummy_value()

    return types.void(), build


@intrinsic  # type: ignore[untyped-decorator]
def _release(context: Any) -> Any:
    """Give the tiles up, so that the system need not save them."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _instruction(builder, "tilerelease", ())
        return context.get_dummy_value()

    return types.void(), build


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _zero(context: Any, tile: Any) -> Any:
    """Set a tile to zero."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _instruction(builder, "tilezero", signature.args)
        return context.get_dummy_value()

    return types.void(tile), build


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _load(context: Any, tile: Any, address: Any) -> Any:
    """Load a tile whose lines follow each other."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[1], _POINTER)
        step = ir.Constant(_I64, LINE)
        _instruction(builder, "tileloadd64", signature.args[:1], pointer, step)
        return context.get_dummy_value()

    return types.void(tile, types.int64), build


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _store(context: Any, tile: Any, address: Any, step: Any) -> Any:
    """Store a tile in lines that are ``step`` bytes apart."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[1], _POINTER)
        _instruction(builder, "tilestored64", signature.args[:1], pointer, arguments[2])
        return context.get_dummy_value()

    return types.void(tile, types.int64, types.int64), build


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _dot(context: Any, total: Any, left: Any, right: Any) -> Any:
    """Add the product of two tiles of bfloat16 to a tile of float32."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _instruction(builder, "tdpbf16ps", signature.args)
        return context.get_dummy_value()

    return types.void(total, left, right), build


@intrinsic  # type: ignore[untyped-decorator]
def room(context: Any) -> Any:
    """Return the address of room for four tiles on the stack, at the begin of a cache line."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            held = builder.alloca(ir.ArrayType(_I8, 4 * TILE))
        held.align = LINE
        return builder.ptrtoint(held, _I64)

    return types.int64(), build


@intrinsic  # type: ignore[untyped-decorator]
def pointer_to(context: Any, element: Any, address: Any) -> Any:
    """Return a pointer to elements of a type at an address."""
    pointer = types.CPointer(element.dtype)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(pointer))

    return pointer(element, types.int64), build


@intrinsic  # type: ignore[untyped-decorator]
def _add_line(context: Any, source: Any, target: Any) -> Any:
    """Add 16 aligned float32 to 16 that lie anywhere."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = ir.VectorType(ir.FloatType(), SIDE).as_pointer()
        source, target = (builder.inttoptr(address, line) for address in arguments)
        total = builder.fadd(builder.load(target, align=4), builder.load(source, align=LINE))
        builder.store(total, target, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), build


def _multiply(stationary: Any, moving: Any, out: Any, add: bool) -> None:
    rows, columns = out.shape
    strip = 4 * moving.shape[1]
    if (
        stationary.shape[1] != moving.shape[1]
        or stationary.shape[0] * SIDE < rows
        or moving.shape[0] * SIDE < columns
        or (columns > 1 and out.strides[1] != 4)
    ):
        raise ValueError("multiply: out has no dense columns, or the operands do not fit")
    step = out.strides[0]
    target = types.int64(out.ctypes.data)
    left = types.int64(stationary.ctypes.data)
    right = types.int64(moving.ctypes.data)
    block = room()
    _configure()
    # Two strips of the moving operand stay in the nearest cache while all stationary ones pass.
    for n in range(0, columns, BLOCK):
        for m in range(0, rows, BLOCK):
            _zero(0)
            _zero(1)
            _zero(2)
            _zero(3)
            a = left + m // SIDE * strip
            b = right + n // SIDE * strip
            for _ in range(strip // TILE):
                _load(4, a)
                _load(6, b)
                _dot(0, 4, 6)
                _load(7, b + strip)
                _dot(1, 4, 7)
                _load(5, a + strip)
                _dot(2, 5, 6)
                _dot(3, 5, 7)
                a += TILE
                b += TILE
            corner = target + m * step + 4 * n
            height, width = min(BLOCK, rows - m), min(BLOCK, columns - n)
            whole = height == BLOCK and width == BLOCK
            if whole and not add:
                to, apart = corner, step
            else:
                to, apart = block, 2 * LINE
            _store(0, to, apart)
            _store(1, to + LINE, apart)
            _store(2, to + SIDE * apart, apart)
            _store(3, to + SIDE * apart + LINE, apart)
            if whole and add:
                for i in range(BLOCK):
                    _add_line(block + 2 * LINE * i, corner + i * step)
                    _add_line(block + 2 * LINE * i + LINE, corner + i * step + LINE)
            elif not whole:
                for i in range(height):
                    here = pointer_to(types.float32, block + 2 * LINE * i)
                    there = pointer_to(types.float32, corner + i * step)
                    for j in range(width):
                        there[j] = there[j] + here[j] if add else here[j]
    _release()


def product() -> Callable[[Any, Any, Any, bool], None]:
    """Compile and return the function ``(stationary, moving, out, add)``."""
    packed = types.Array(types.uint32, 2, "C", readonly=True)
    out = types.Array(types.float32, 2, "A", aligned=False)
    return numba.njit(types.void(packed, packed, out, types.boolean), nogil=True)(_multiply)
