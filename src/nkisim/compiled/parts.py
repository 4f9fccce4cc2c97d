"""Loops whose parts two threads share; each part is computed by one of them, to the same bits.

Who has a loop opens it, wakes the helper and begins with the first part, and the helper with the
last one. Both count what is taken, so no part is computed twice, and nobody waits for a helper that
has not come: on a busy machine the loop's own thread computes most parts, or all.

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
from nkisim.compiled.helper_layout import (
    CALLED,
    CODE,
    COUNT,
    DATA,
    INSIDE,
    MUTEX,
    OPEN,
    OWNED,
    ROWS,
    SIGNAL,
    TAKEN,
)
from nkisim.compiled.loops import compiled_loop

__all__ = ["helping", "part_of", "parts_of_rows", "rows_of_part", "together"]

_I8, _I64 = ir.IntType(8), ir.IntType(64)
_PART = ir.FunctionType(ir.VoidType(), [_I64, _I8.as_pointer()])


@intrinsic  # type: ignore[untyped-decorator]
def part_of(context: Any, function: Any, arguments: Any) -> Any:
    """Return the addresses of ``function(number, *arguments)`` and of its arguments, a tuple.

    They are good until the caller returns. Whether the function raises is not looked at.
    """
    kinds = types.int64, *arguments.types
    function.get_call_type(context, kinds, {})
    compiled = function.dispatcher.get_compile_result(types.void(*kinds))

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.alloca_once_value(builder, arguments[1])
        name = builder.module.get_unique_name(f"part.{compiled.fndesc.mangled_name}")
        code = ir.Function(builder.module, _PART, name)
        code.linkage = "internal"
        inside = ir.IRBuilder(code.append_basic_block())
        number, place = code.args
        held = inside.load(inside.bitcast(place, data.type))
        values = [number, *cgutils.unpack_tuple(inside, held)]
        context.add_linking_libs([compiled.library])
        context.call_internal_no_propagate(inside, compiled.fndesc, compiled.signature, values)
        inside.ret_void()
        addresses = [builder.ptrtoint(x, _I64) for x in (code, data)]
        return context.make_tuple(builder, signature.return_type, addresses)

    return types.UniTuple(types.int64, 2)(function, arguments), build


@intrinsic  # type: ignore[untyped-decorator]
def _compute(context: Any, code: Any, data: Any, number: Any) -> Any:
    """Compute one part."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, data, number = arguments
        function = builder.inttoptr(code, _PART.as_pointer())
        builder.call(function, [number, builder.inttoptr(data, _I8.as_pointer())])
        return context.get_dummy_value()

    return types.void(*3 * [types.int64]), build


def _atomic(emit: Callable[..., Any]) -> Any:
    """Return the intrinsic of an operation on a number; all threads see these in one order."""

    @intrinsic  # type: ignore[untyped-decorator]
    def change(context: Any, address: Any, value: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            address, value = arguments
            return emit(builder, builder.inttoptr(address, _I64.as_pointer()), value)

        return types.int64(types.int64, types.int64), build

    return change


_swap, _add = (
    _atomic(lambda builder, place, value, how=how: builder.atomic_rmw(how, place, value, "seq_cst"))
    for how in ("xchg", "add")
)


def _of_system(name: str, addresses: int) -> Any:
    """Return one of the system's functions for threads."""
    return types.ExternalFunction(name, types.int32(*addresses * [types.int64]))


_lock, _lock_if_free, _unlock = (
    _of_system(f"pthread_mutex_{how}", 1) for how in ("lock", "trylock", "unlock")
)
_wait, _signal = _of_system("pthread_cond_wait", 2), _of_system("pthread_cond_signal", 1)
_give_way = _of_system("sched_yield", 0)


@numba.njit  # type: ignore[untyped-decorator]
def together(helper: int, part: Any, count: int) -> None:
    """Compute ``count`` parts of ``part_of``, with a helper, if there is one and it is free."""
    code, data = part
    if helper == 0 or count < 2 or _swap(helper + OWNED, 1) != 0:
        for number in range(count):
            _compute(code, data, number)
        return
    loop = pointer_to(types.int64, helper)
    loop[CODE // 8], loop[DATA // 8], loop[COUNT // 8] = code, data, count
    _swap(helper + TAKEN, 0)
    _swap(helper + OPEN, 1)
    if _lock_if_free(helper + MUTEX) == 0:  # else it is about to sleep, or about to look
        loop[CALLED // 8] = 1
        _signal(helper + SIGNAL)
        _unlock(helper + MUTEX)
    number = 0
    while _add(helper + TAKEN, 1) < count:
        _compute(code, data, number)
        number += 1
    _swap(helper + OPEN, 0)
    while _add(helper + INSIDE, 0) != 0:
        _give_way()
    _swap(helper + OWNED, 0)


def _help(helper: int) -> None:
    loop = pointer_to(types.int64, helper)
    while True:
        _lock(helper + MUTEX)
        while loop[CALLED // 8] == 0:
            _wait(helper + SIGNAL, helper + MUTEX)
        loop[CALLED // 8] = 0
        _unlock(helper + MUTEX)
        # It comes in, then looks whether the loop is open; who closes one looks for it after that.
        _swap(helper + INSIDE, 1)
        if _add(helper + OPEN, 0) != 0:
            code, data, count = loop[CODE // 8], loop[DATA // 8], loop[COUNT // 8]
            number = count
            while _add(helper + TAKEN, 1) < count:
                number -= 1
                _compute(code, data, number)
        _swap(helper + INSIDE, 0)


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def parts_of_rows(rows: int) -> int:
    """Return in how many parts to go through some rows."""
    return (rows + ROWS - 1) // ROWS


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def rows_of_part(number: int, rows: int) -> Any:
    """Return the rows of one of these parts."""
    return range(ROWS * number, min(ROWS * (number + 1), rows))


def helping() -> Any:
    """Return what a helper does until the process ends; it takes the address of its memory."""
    return compiled_loop(_help, types.void(types.int64))
