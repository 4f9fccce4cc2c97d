"""Rows of float32 and bfloat16 tiles in one pass over the memory: element by element, and extremes.

A tile is given as the uint16 view of an array with dense rows that may be apart, and its kind: one
compiled function serves every mixture of types. What does not change within a tile, kinds and
operations, is looked up once per step of some elements, which a processor predicts; these elements
stay in registers from load to store. So an operand may be the result.

Importing this module imports numba. A function is compiled when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nkisim.compiled.addresses import address_of_row, pointer_to
from nkisim.compiled.bfloat16 import round_off, widen
from nkisim.compiled.codes import HALF, NOTHING
from nkisim.compiled.loops import compiled_loop
from nkisim.compiled.parts import part_of, parts_of_rows, rows_of_part, together
from nkisim.compiled.processor import float_lanes
from nkisim.compiled.vectors import FLOAT, call, lanes_of, spread

__all__ = [
    "TILE",
    "combining",
    "extremes",
    "load_elements",
    "store_elements",
]

TILE = types.Array(types.uint16, 2, "A")

_SIGN = 1 << 31
_ON_ARM = float_lanes() == 4
_STEPS = (32 if _ON_ARM else 64, 8, 1)  # elements in registers at a time
_I16, _I32, _I64 = (ir.IntType(bits) for bits in (16, 32, 64))


def _choose(builder: Any, which: Any, ways: list[Callable[[], Any]]) -> Any:
    """Emit a switch between ways to a value; returns the value, or None if the ways have none."""
    end = builder.append_basic_block()
    blocks = [builder.append_basic_block() for _ in ways]
    switch = builder.switch(which, blocks[-1])
    results = []
    for number, (block, way) in enumerate(zip(blocks, ways, strict=True)):
        if number < len(ways) - 1:
            switch.add_case(ir.Constant(_I64, number), block)
        builder.position_at_end(block)
        results.append((way(), builder.block))
        builder.branch(end)
    builder.position_at_end(end)
    if results[0][0] is None:
        return None
    chosen = builder.phi(results[0][0].type)
    for result, block in results:
        chosen.add_incoming(result, block)
    return chosen


def _pointer(builder: Any, address: Any, kind: Any, column: Any, lanes: int) -> Any:
    """Emit the pointer to the elements of a row that begin at a column."""
    first = builder.gep(builder.inttoptr(address, kind.as_pointer()), [column])
    return builder.bitcast(first, lanes_of(kind, lanes).as_pointer())


def load_elements(builder: Any, address: Any, kind: Any, column: Any, lanes: int) -> Any:
    """Emit the load of some elements of a row as float32."""

    def half() -> Any:
        stored = builder.load(_pointer(builder, address, _I16, column, lanes), align=2)
        return widen(builder, stored, lanes)

    def full() -> Any:
        return builder.load(_pointer(builder, address, FLOAT, column, lanes), align=4)

    def column_of() -> Any:
        value = builder.load(builder.inttoptr(address, FLOAT.as_pointer()), align=4)
        return value if lanes == 1 else spread(builder, value, lanes)

    return _choose(builder, kind, [half, full, column_of])  # HALF, FULL, COLUMN


def store_elements(
    builder: Any,
    address: Any,
    kind: Any,
    column: Any,
    value: Any,
    lanes: int,
    *,
    quiet: bool = False,
) -> None:
    """Emit the store of float32, whose NaNs may be known to be quiet, into elements of a row."""

    def half() -> None:
        stored = round_off(builder, value, lanes, quiet=quiet)
        builder.store(stored, _pointer(builder, address, _I16, column, lanes), align=2)

    def full() -> None:
        builder.store(value, _pointer(builder, address, FLOAT, column, lanes), align=4)

    _choose(builder, kind, [half, full])


def _results(builder: Any, a: Any, b: Any, *, exchanged: bool) -> list[Callable[[], Any]]:
    """Return what emits ``a <op> b`` for every operation, in the order of their codes."""

    def picked(comparison: str) -> Any:
        if _ON_ARM:  # an instruction that NumPy uses too, to which -0 is less than 0
            name = "maximum" if comparison == ">" else "minimum"
            lanes = f"v{a.type.count}" if isinstance(a.type, ir.VectorType) else ""
            return call(builder, f"llvm.{name}.{lanes}f32", a.type, a, b)
        # Of two zeros the second and of two NaNs the first, as NumPy's vector kernels have it.
        first = builder.or_(
            builder.fcmp_ordered(comparison, a, b), builder.fcmp_unordered("uno", a, a)
        )
        return builder.select(first, a, b)

    def commutative(emit: Callable[[Any, Any], Any]) -> Any:
        # A processor gives the first of two NaNs, but to LLVM a + b and b + a are the same.
        result = emit(a, b)
        if not exchanged:
            return result
        return builder.select(builder.fcmp_unordered("uno", a, a), builder.fadd(a, a), result)

    return [
        lambda: commutative(builder.fadd),
        lambda: builder.fsub(a, b),
        lambda: commutative(builder.fmul),
        lambda: picked(">"),
        lambda: picked("<"),
    ]


def _apply(builder: Any, code: Any, value: Any, other: Callable[[], Any]) -> Any:
    """Emit an operation on a value and another one, which is loaded only if it is needed."""
    before, some, end = builder.block, *(builder.append_basic_block() for _ in range(2))
    builder.cbranch(builder.icmp_signed("==", code, ir.Constant(_I64, NOTHING)), end, some)
    builder.position_at_end(some)
    operand = other()
    ways = [
        *_results(builder, value, operand, exchanged=False),
        *_results(builder, operand, value, exchanged=True),
    ]
    result = _choose(builder, builder.sub(code, ir.Constant(_I64, 1)), ways)
    after = builder.block
    builder.branch(end)
    builder.position_at_end(end)
    chosen = builder.phi(value.type)
    chosen.add_incoming(value, before)
    chosen.add_incoming(result, after)
    return chosen


def _step(lanes: int) -> Any:
    """Return the intrinsic that computes some elements of a row."""

    @intrinsic  # type: ignore[untyped-decorator]
    def step(
        context: Any,
        out: Any,
        out_kind: Any,
        x: Any,
        x_kind: Any,
        first: Any,
        a: Any,
        a_kind: Any,
        second: Any,
        b: Any,
        b_kind: Any,
        column: Any,
    ) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            out, out_kind, x, x_kind, first, a, a_kind, second, b, b_kind, column = arguments
            value = load_elements(builder, x, x_kind, column, lanes)
            for code, operand, kind in ((first, a, a_kind), (second, b, b_kind)):

                def other(operand: Any = operand, kind: Any = kind) -> Any:
                    return load_elements(builder, operand, kind, column, lanes)

                value = _apply(builder, code, value, other)
            store_elements(builder, out, out_kind, column, value, lanes)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 11), build

    return step


_many, _some, _one = (_step(lanes) for lanes in _STEPS)
_MANY, _SOME, _ = _STEPS


@numba.njit  # type: ignore[untyped-decorator]
def _combine_rows(
    number: int,
    out: Any,
    out_kind: int,
    width: int,
    x: Any,
    x_kind: int,
    first: int,
    a: Any,
    a_kind: int,
    second: int,
    b: Any,
    b_kind: int,
) -> None:
    whole = width - width % _MANY
    nearly = width - width % _SOME
    for row in rows_of_part(number, out.shape[0]):
        to, of = address_of_row(out, row), address_of_row(x, row)
        with_a = address_of_row(a, row if a.shape[0] > 1 else 0)
        with_b = address_of_row(b, row if b.shape[0] > 1 else 0)
        for i in range(0, whole, _MANY):
            _many(to, out_kind, of, x_kind, first, with_a, a_kind, second, with_b, b_kind, i)
        for i in range(whole, nearly, _SOME):
            _some(to, out_kind, of, x_kind, first, with_a, a_kind, second, with_b, b_kind, i)
        for i in range(nearly, width):
            _one(to, out_kind, of, x_kind, first, with_a, a_kind, second, with_b, b_kind, i)


def _combine(
    helper: int,
    out: Any,
    out_kind: int,
    width: int,
    x: Any,
    x_kind: int,
    first: int,
    a: Any,
    a_kind: int,
    second: int,
    b: Any,
    b_kind: int,
) -> None:
    operands = out, out_kind, width, x, x_kind, first, a, a_kind, second, b, b_kind
    together(helper, part_of(_combine_rows, operands), parts_of_rows(out.shape[0]))


@cache
def combining() -> Any:
    """Return what writes ``(x <first> a) <second> b`` to ``out``, rounded to float32 each time.

    It takes a helper, the tiles, each with its kind, the two codes, and the width of a row in
    elements. A number is a column of one row. Operands are as dense in their rows as ``out``.
    """
    number = types.int64
    operand = (TILE, number)
    signature = types.void(number, *operand, number, *operand, number, *operand, number, *operand)
    return compiled_loop(_combine, signature)


def _ordered(bits: int) -> Any:
    """Return the intrinsic that turns a float's pattern into an integer of the same order.

    Applied twice it gives the pattern back. Negative NaNs are below everything, positive above.
    """
    kind = ir.IntType(bits)

    @intrinsic  # type: ignore[untyped-decorator]
    def ordered(context: Any, pattern: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            sign = builder.ashr(arguments[0], ir.Constant(kind, bits - 1))
            magnitude = ir.Constant(kind, (1 << (bits - 1)) - 1)
            return builder.xor(arguments[0], builder.and_(sign, magnitude))

        return pattern(pattern), build

    return ordered


@intrinsic  # type: ignore[untyped-decorator]
def _larger(context: Any, a: Any, b: Any) -> Any:
    """Return the larger of two integers of one type, without numba's detour over 64 bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.icmp_signed(">", *arguments), *arguments)

    return a(a, a), build


@intrinsic  # type: ignore[untyped-decorator]
def _smaller(context: Any, a: Any, b: Any) -> Any:
    """Return the smaller of two integers of one type."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.icmp_signed("<", *arguments), *arguments)

    return a(a, a), build


@intrinsic  # type: ignore[untyped-decorator]
def _raised(context: Any, ordered: Any) -> Any:
    """Return the integer for a float32 that stands for a bfloat16's, in the order of the floats."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (ordered,) = arguments
        upper = builder.shl(builder.sext(ordered, _I32), ir.Constant(_I32, 16))
        # The lower half of a negative number's pattern, zeros, is exchanged for ones like the rest.
        negative = builder.icmp_signed("<", ordered, ir.Constant(_I16, 0))
        lower = builder.select(negative, ir.Constant(_I32, 0xFFFF), ir.Constant(_I32, 0))
        return builder.or_(upper, lower)

    return types.int32(types.int16), build


_ordered_half, _ordered_word = _ordered(16), _ordered(32)
_INFINITY, _QUIET = np.int32(0x7F80_0000), np.int32(0x7FC0_0000)


def _find_extremes(x: Any, kind: int, width: int, largest: bool, found: Any) -> int:
    unsure = 0
    for row in range(x.shape[0]):
        address = address_of_row(x, row)
        if kind == HALF:
            halves = numba.carray(pointer_to(types.int16, address), (width,))
            least = most = _ordered_half(halves[0])
            for i in range(width):
                least = _smaller(least, _ordered_half(halves[i]))
                most = _larger(most, _ordered_half(halves[i]))
            low, high = _raised(least), _raised(most)
        else:
            words = numba.carray(pointer_to(types.int32, address), (width,))
            low = high = _ordered_word(words[0])
            for i in range(width):
                low = _smaller(low, _ordered_word(words[i]))
                high = _larger(high, _ordered_word(words[i]))
        pattern = _ordered_word(high if largest else low)
        if high > _INFINITY or low < -_INFINITY - 1:
            pattern = _QUIET
        if pattern == _QUIET or pattern == 0 or pattern == -_SIGN:
            unsure += 1
        found[row] = pattern
    return unsure


@cache
def extremes() -> Any:
    """Return what finds the greatest, or the least, element of every row of a tile.

    It takes the tile, its kind, the width of a row in elements, whether the greatest is wanted and
    an array for the patterns found. It returns in how many rows that was a zero, of which there may
    be both, or something was NaN; where something was NaN, NaN is what it puts into the array.
    """
    patterns = types.Array(types.int32, 1, "C")
    number = types.int64
    return compiled_loop(_find_extremes, number(TILE, number, number, types.boolean, patterns))
