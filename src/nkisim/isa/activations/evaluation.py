"""Activation functions: ``op(data * scale + bias)`` over a tile, large ones in blocks of rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nkisim.compiled import compiles_function
from nkisim.diagnostics import declare, flag
from nkisim.isa.accumulate import REDUCING, fold
from nkisim.isa.rows import (
    BLOCK,
    as_rows,
    blocks_of_rows,
    reads_rows,
    store_rows,
    widened_rows,
    writes_rows,
)
from nkisim.machine import Core
from nkisim.spec import Call, Op, as_op
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.instruction import Shortcut

Array = np.ndarray

_F32 = np.dtype(np.float32)

_SMALL = 1024
"""Elements below which a tile is computed at once."""

# Functions other than ufuncs need several float64 arrays, which have to fit the cache too.
_SMALL_BLOCK = 16384

OUT_OF_DOMAIN = declare(
    "D021",
    "activation-domain",
    "An activation's input lies outside the interval where the engine's function is valid.",
    "the Scalar engine evaluates piecewise polynomials; outside the interval the result is "
    "wrong, not NaN",
    on_values=True,
    silent=True,
)


def evaluate(name: str, op: Any, data: Array, bias: Any, scale: Any) -> Array:
    """Return ``op(data * scale + bias)``, flagging inputs outside the valid interval.

    The engine ignores the bias of a copy.
    """
    function = as_op(op)
    assert function is not None
    assert function.activation is not None
    bias = None if function.name == "copy" else bias
    x = _argument(data, scale, bias)
    if not _is_inside(function, x):
        _flag_outside(name, function, x)
    return function_of(function, x.size)(x, None)


def function_of(op: Op, elements: int) -> Callable[[Array, Array | None], Array]:
    """Return an activation function for a tile of ``elements`` elements.

    It takes float32 values and a dense array in which it may return its results.
    """
    function = op.activation
    assert function is not None
    if compiles_function(op.name, elements):
        return functools.partial(_evaluate_compiled, op.name)
    if isinstance(function, np.ufunc):
        return lambda x, out: function(x, out=out)
    return lambda x, out: function(x)


def _evaluate_compiled(name: str, x: Array, out: Array | None) -> Array:
    from nkisim.compiled.functions import evaluate_in_place

    values = np.empty(x.shape, _F32) if out is None else out
    if values is not x:
        values[...] = x
    evaluate_in_place(name, values)
    return values


def small_activation(call: Call) -> Callable[..., Array] | None:
    """Return a small activation without a reduction as one function; see ``combined``."""
    op, dst, name = call.op("op"), call["dst"], call.name
    if op is None or op.activation is None or dst.size >= _SMALL:
        return None
    if call["reduce_res"] is not None or call["reduce_cmd"] is not ReduceCmd.idle:
        return None
    plain = op.activation
    if call["bias"] is None and op.domain is None and isinstance(plain, np.ufunc):
        # The scale is an argument because the same call site may pass another number next time.
        return lambda x, scale, out: plain(_scaled(x, scale), out=out)

    def function(x: Array, *given: Any, out: Array | None) -> Array:
        numbers = [n if isinstance(n, np.ndarray) else np.float32(n) for n in given]
        y = evaluate(name, op, x, numbers[0] if len(numbers) == 2 else None, numbers[-1])
        if out is not None:
            out[...] = y
        return y

    return function


def _scaled(x: Array, scale: Any) -> Array:
    if isinstance(scale, float) and scale == 1.0:
        return x
    return np.multiply(x, scale)


def _argument(x: Array, scale: Any, bias: Any, out: Array | None = None) -> Array:
    """Return float32 ``x * scale + bias``: in ``out``, in a new array, or ``x`` itself."""
    if not (isinstance(scale, np.float32) and scale == 1):
        x = np.multiply(x, scale, out=out)
    return x if bias is None else np.add(x, bias, out=out)


def _is_inside(op: Op, x: Array) -> bool:
    """Return whether all inputs are certain to lie in the function's valid interval."""
    if op.domain is None or not x.size:
        return True
    low, high = op.domain
    measured = _measured(op, x)
    return bool(measured.min() >= low and measured.max() <= high)


def _measured(op: Op, x: Array) -> Array:
    return np.abs(x) if op.name == "reciprocal" else x


def _flag_outside(name: str, op: Op, x: Array) -> None:
    assert op.domain is not None
    low, high = op.domain
    measured = _measured(op, x)
    outside = (measured < low) | (measured > high)
    count = int(outside.sum())
    if count == 0:
        return  # NaN: propagated, not created here
    distance = np.where(outside, np.abs(measured - np.clip(measured, low, high)), -1)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), x.shape))
    flag(
        OUT_OF_DOMAIN,
        f"{name}: {count} inputs of {op!r} lie outside its valid interval",
        instruction=name,
        operand="data",
        seen=f"worst input {x[at]:.9g} at {at}",
        allowed=f"[{low:.6g}, {high:.6g}]" + (" in magnitude" if op.name == "reciprocal" else ""),
        fix="bring the input into the interval first (range reduction, clamping, or adding an "
        "epsilon)",
    )


def in_blocks(call: Call) -> Shortcut | None:
    """Return the computation of a large activation in blocks of rows that fit the cache."""
    dst, data, op = call.operand("dst"), call.operand("data"), call.op("op")
    if op is None or dst.size < _SMALL:
        return None
    if op.name == "copy" and call["bias"] is not None:
        return None  # in_blocks does not check the values of an ignored bias
    inputs = [data, *(tensor for _, tensor in call.tensors("bias", "scale"))]
    if not writes_rows(dst) or not all(map(reads_rows, inputs)):
        return None
    name, parameters = call.name, call.instruction.parameters
    lanes = dst.start_partition, dst.shape[0]
    reads_registers = call.tensor("reduce_res") is not None

    def compute(core: Core, arguments: Sequence[Any]) -> tuple[Any, ...]:
        given = dict(zip(parameters, arguments, strict=True))
        reduce_op = as_op(given["reduce_op"])
        command = given.get("reduce_cmd", ReduceCmd.reset_reduce)
        reduction = reduce_op if command in REDUCING else None
        out, x, scale, bias = (as_rows(given[key]) for key in ("dst", "data", "scale", "bias"))
        part = _evaluate_rows(core, name, op, out, x, scale, bias, reduction)
        total = fold(core, Engine.scalar, command, reduce_op, part, lanes, reads=reads_registers)
        return (None, total) if reads_registers else (None,)

    return compute


def _evaluate_rows(
    core: Core,
    name: str,
    op: Op,
    out: Array,
    data: Array,
    scale: Any,
    bias: Any,
    reduction: Op | None,
) -> Array | None:
    """Write ``op(data * scale + bias)`` to ``out``; return the reduction of each row."""
    part = None if reduction is None else np.empty(len(out), _F32)
    if op.domain is not None and np.may_share_memory(out, data):
        data = data.copy()  # a finding shows inputs
    function = function_of(op, out.size)
    elements = BLOCK if isinstance(op.activation, np.ufunc) else _SMALL_BLOCK
    blocks = blocks_of_rows(len(out), out.shape[1], elements)
    direct = out.dtype == _F32 and out.flags.c_contiguous
    scratch = out if direct else core.scratch(blocks[0].stop, out.shape[1])
    inside = True
    for rows in blocks:
        room = out[rows] if direct else scratch[: rows.stop - rows.start]
        factor, addend = (
            widened_rows(c[rows]) if isinstance(c, np.ndarray) else c for c in (scale, bias)
        )
        x = _argument(widened_rows(data[rows], room), factor, addend, room)
        inside = inside and _is_inside(op, x)
        values = function(x, room)
        if part is not None:
            assert reduction is not None
            assert reduction.reduce is not None
            part[rows] = reduction.reduce(values)
        store_rows(values, out[rows])
    if not inside:
        x = _argument(widened_rows(data), widened_rows(scale), widened_rows(bias))
        _flag_outside(name, op, x)
    return part
