"""Packing of stored matrices into tiles.

Importing this module imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import pointer_to
from nkisim.compiled.loops import compiled_loop
from nkisim.compiled.tile_layout import BLOCK, DEPTH, LINE, SIDE, TILE
from nkisim.compiled.tile_product import copy_block, room
from nkisim.compiled.transposition import columns_of
from nkisim.compiled.vectors import call

__all__ = ["packing"]

_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
_BYTES = ir.VectorType(_I8, LINE)
_HALVES = ir.VectorType(_I16, LINE // 2)
_WORDS = ir.VectorType(_I32, LINE // 4)


def _shuffled(builder: Any, first: Any, second: Any, order: list[int]) -> Any:
    """Return the elements of two vectors, counted through, that ``order`` names."""
    mask = ir.Constant(ir.VectorType(_I32, len(order)), order)
    return builder.shuffle_vector(first, second, mask)


def _loaded(builder: Any, address: Any, kind: Any, index: int = 0) -> Any:
    """Return the vector of a kind at an address, or one of those that follow it."""
    pointer = builder.gep(builder.inttoptr(address, kind.as_pointer()), [ir.Constant(_I64, index)])
    return builder.load(pointer, align=1)


def _pair(builder: Any, upper: Any, lower: Any) -> tuple[Any, Any]:
    """Return two rows of 32 halves column by column: a line of 16 columns, and one of the rest."""
    first, second = (
        _shuffled(builder, upper, lower, [i // 2 + i % 2 * BLOCK + skipped for i in range(BLOCK)])
        for skipped in (0, SIDE)
    )
    return first, second


def _planes(builder: Any, table: Any) -> list[list[Any]]:
    """Return the lower and the upper bytes of 256 halves, 64 to a vector."""
    held = [_loaded(builder, table, _BYTES, i) for i in range(8)]
    return [
        [
            _shuffled(builder, held[i], held[i + 1], [2 * j + byte for j in range(LINE)])
            for i in range(0, 8, 2)
        ]
        for byte in range(2)
    ]


def _looked_up(builder: Any, codes: Any, plane: list[Any]) -> Any:
    """Return the bytes that 64 codes stand for."""
    # One instruction looks up 128 bytes by seven bits of the code; the eighth chooses between two.
    below, above = (
        call(builder, "llvm.x86.avx512.vpermi2var.qi.512", _BYTES, low, codes, high)
        for low, high in (plane[:2], plane[2:])
    )
    negative = builder.icmp_signed("<", codes, ir.Constant(_BYTES, None))
    return builder.select(negative, above, below)


def _pair_of_codes(
    builder: Any, upper: Any, lower: Any, planes: list[list[Any]]
) -> tuple[Any, Any]:
    """Return what ``_pair`` does, of two rows of 32 codes."""
    codes = _shuffled(builder, upper, lower, list(range(LINE)))
    low, high = (_looked_up(builder, codes, plane) for plane in planes)
    lines = []
    for skipped in (0, SIDE):
        places = [i // 2 + i % 2 * BLOCK + skipped for i in range(BLOCK)]
        order = [place + byte * LINE for place in places for byte in range(2)]
        lines.append(builder.bitcast(_shuffled(builder, low, high, order), _HALVES))
    return lines[0], lines[1]


def _subnormal(builder: Any, lines: list[Any]) -> Any:
    """Return flags, one bit for each place in a line, of a subnormal in that place."""

    def every(value: int) -> Any:
        return ir.Constant(_HALVES, _HALVES.count * [value])

    # Less one and without its sign a subnormal is below 127; a zero wraps round to the most.
    least = every(0xFFFF)
    for line in lines:
        size = builder.sub(builder.and_(line, every(0x7FFF)), every(1))
        least = builder.select(builder.icmp_unsigned("<", size, least), size, least)
    flags = builder.icmp_unsigned("<", least, every(0x7F))
    return builder.zext(builder.bitcast(flags, _I32), _I64)


def _block_packing(transpose: bool) -> Any:
    """Return the intrinsic that packs 32 rows and columns into two tiles ``apart`` bytes apart.

    The elements are of the type of ``like``. It returns 0 if there is no subnormal among them.
    """

    @intrinsic  # type: ignore[untyped-decorator]
    def pack_block(
        context: Any, like: Any, source: Any, step: Any, table: Any, target: Any, apart: Any
    ) -> Any:
        bits = like.dtype.bitwidth
        row = ir.VectorType(ir.IntType(bits), BLOCK)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            _, source, step, table, target, apart = arguments
            planes = _planes(builder, table) if bits == 8 else []
            pairs = []
            for _ in range(SIDE):
                upper = _loaded(builder, source, row)
                lower = _loaded(builder, builder.add(source, step), row)
                source = builder.add(source, builder.add(step, step))
                pairs.append(
                    _pair_of_codes(builder, upper, lower, planes)
                    if planes
                    else _pair(builder, upper, lower)
                )
            for tile in zip(*pairs, strict=True):
                lines = [builder.bitcast(line, _WORDS) for line in tile]
                pointer = builder.inttoptr(target, _WORDS.as_pointer())
                for i, line in enumerate(columns_of(builder, lines) if transpose else lines):
                    builder.store(line, builder.gep(pointer, [ir.Constant(_I64, i)]), align=LINE)
                target = builder.add(target, apart)
            return _subnormal(builder, [line for pair in pairs for line in pair])

        return types.int64(like, *5 * [types.int64]), build

    return pack_block


_turned_block, _plain_block = _block_packing(transpose=True), _block_packing(transpose=False)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def _pack(pack_block: Any, stored: Any, table: Any, packed: Any) -> int:
    depth, width = stored.shape
    size = stored.itemsize
    if width > 1 and stored.strides[1] != size:
        raise ValueError("a matrix to be packed must have dense columns")
    if table.size != (256 if size == 1 else 0):
        raise ValueError("8-bit floats, and they only, need a table of 256 entries")
    blocks = (depth + DEPTH - 1) // DEPTH
    source, step = types.int64(stored.ctypes.data), stored.strides[0]
    meanings = types.int64(table.ctypes.data)
    begin = types.int64(packed.ctypes.data)
    begin += -begin & (LINE - 1)
    edge = room()
    subnormal = 0
    for k in range(0, depth, DEPTH):
        for n in range(0, width, BLOCK):
            rows, columns = min(DEPTH, depth - k), min(BLOCK, width - n)
            corner, apart = source + k * step + n * size, step
            if rows < DEPTH or columns < BLOCK:
                to = pointer_to(stored, edge)
                for i in range(DEPTH * BLOCK):
                    to[i] = 0
                copy_block(stored, corner, step, edge, BLOCK * size, rows, columns)
                corner, apart = edge, BLOCK * size
            target = begin + (n // SIDE * blocks + k // DEPTH) * TILE
            subnormal |= pack_block(stored, corner, apart, meanings, target, blocks * TILE)
    return 0 if subnormal else begin


def _pack_stationary(stored: Any, table: Any, packed: Any) -> int:
    return _pack(_turned_block, stored, table, packed)


def _pack_moving(stored: Any, table: Any, packed: Any) -> int:
    return _pack(_plain_block, stored, table, packed)


def packing(itemsize: int, transpose: bool) -> Callable[[Any, Any, Any], int]:
    """Compile and return the function ``(stored, table, packed)`` that packs a matrix.

    It fills ``packed``, words of memory with room for the tiles and for 15 words more, from the
    first cache line that begins there. The function returns the address of that line, or 0 if
    ``stored`` holds a subnormal.
    """
    element = types.uint16 if itemsize == 2 else types.uint8
    matrix = types.Array(element, 2, "A", readonly=True, aligned=False)
    table = types.Array(types.uint16, 1, "C", readonly=True)
    words = types.Array(types.uint32, 1, "C")
    function = _pack_stationary if transpose else _pack_moving
    return compiled_loop(function, types.int64(matrix, table, words))
