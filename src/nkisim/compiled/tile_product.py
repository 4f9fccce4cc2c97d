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

from nkisim.compiled.addresses import pointer_to
from nkisim.compiled.loops import compiled_loop
from nkisim.compiled.tile_layout import BLOCK, LINE, SIDE, TILE
from nkisim.compiled.vectors import call

__all__ = ["copy_block", "product", "room"]

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_POINTER = _I8.as_pointer()

# Palette 1: eight tiles, each with a row length in bytes (two bytes from 16 on) and rows (from 48).
_CONFIGURATION = bytearray(LINE)
_CONFIGURATION[0] = 1
_CONFIGURATION[16:32:2] = bytes(8 * [LINE])
_CONFIGURATION[48:56] = bytes(8 * [SIDE])


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


def _transfer(name: str) -> Any:
    """Return the intrinsic between a tile and lines at an address, ``step`` bytes apart."""

    @intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
    def transfer(context: Any, tile: Any, address: Any, step: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[1], _POINTER)
            _instruction(builder, name, signature.args[:1], pointer, arguments[2])
            return context.get_dummy_value()

        return types.void(tile, types.int64, types.int64), build

    return transfer


_load, _store = _transfer("tileloadd64"), _transfer("tilestored64")


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


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def copy_block(
    like: Any, source: int, source_step: int, target: int, target_step: int, rows: int, columns: int
) -> None:
    """Copy elements of an array's type between two places; their rows are ``step`` bytes apart."""
    for i in range(rows):
        here = pointer_to(like, source + i * source_step)
        there = pointer_to(like, target + i * target_step)
        for j in range(columns):
            there[j] = here[j]


def _multiply(stationary: int, moving: int, tiles: int, out: Any, add: bool) -> None:
    rows, columns = out.shape
    out_step = out.strides[0]
    begin = types.int64(out.ctypes.data)
    strip = tiles * TILE
    edge = room()
    _configure()
    # Two strips of the moving operand stay in the nearest cache while all stationary ones pass.
    for n in range(0, columns, BLOCK):
        for m in range(0, rows, BLOCK):
            corner = begin + m * out_step + 4 * n
            height, width = min(BLOCK, rows - m), min(BLOCK, columns - n)
            whole = height == BLOCK and width == BLOCK
            place, step = (corner, out_step) if whole else (edge, 2 * LINE)
            if add:
                if not whole:
                    copy_block(out, corner, out_step, edge, 2 * LINE, height, width)
                _load(0, place, step)
                _load(1, place + LINE, step)
                _load(2, place + SIDE * step, step)
                _load(3, place + SIDE * step + LINE, step)
            else:
                _zero(0)
                _zero(1)
                _zero(2)
                _zero(3)
            a = stationary + m // SIDE * strip
            b = moving + n // SIDE * strip
            for _ in range(tiles):
                _load(4, a, LINE)
                _load(6, b, LINE)
                _dot(0, 4, 6)
                _load(7, b + strip, LINE)
                _dot(1, 4, 7)
                _load(5, a + strip, LINE)
                _dot(2, 5, 6)
                _dot(3, 5, 7)
                a += TILE
                b += TILE
            _store(0, place, step)
            _store(1, place + LINE, step)
            _store(2, place + SIDE * step, step)
            _store(3, place + SIDE * step + LINE, step)
            if not whole:
                copy_block(out, edge, 2 * LINE, corner, out_step, height, width)
    _release()


def product() -> Callable[[int, int, int, Any, bool], None]:
    """Compile and return the function ``(stationary, moving, tiles, out, add)``.

    Its first arguments are the addresses of the packed operands and how many tiles each of their
    strips has.
    """
    out = types.Array(types.float32, 2, "A", aligned=False)
    signature = types.void(types.int64, types.int64, types.int64, out, types.boolean)
    return compiled_loop(_multiply, signature)
