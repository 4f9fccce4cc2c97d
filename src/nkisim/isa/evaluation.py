"""Activation functions: ``op(data * scale + bias)`` over a tile, large ones in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nkisim.compiled import repays
from nkisim.diagnostics import declare, flag
from nkisim.dtypes import (
    NUMBA_ELEMENTS,
    Step,
    blocks_of_rows,
    combine_rows,
    exponential_rows,
    row_sums,
    steps_of_rows,
    widened_rows,
)
from nkisim.isa.accumulate import REDUCING, fold
from nkisim.isa.shortcuts import as_rows, reads_rows, writes_rows
from nkisim.machine import Core
from nkisim.spec import Call, Op, as_op
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.instruction import Shortcut

__all__ = ["evaluate", "in_blocks", "small_activation"]

Array = np.ndarray

_F32 = np.dtype(np.float32)

# Functions other than NumPy's own need several float64 arrays, which are to stay in the cache too.
_SMALL_BLOCK = 16384

OUT_OF_DOMAIN = declare(
    "D021",
    "activation-domain",
    "error",
    "An activation's input lies outside the interval where the engine's function is valid.",
    "the Scalar engine evaluates piecewise polynomials; outside the interval the result is "
    "wrong, not NaN",
    on_values=True,
)


def evaluate(name: str, op: Any, data: Array, bias: Any, scale: Any) -> Array:
    """Return ``op(data * scale + bias)``, flagging inputs outside the valid interval.

    The engine ignores the bias of a copy.
    """
    function = as_op(op)
    assert function is not None
    assert function.activation is not None
    bias = None if function.name == "copy" else bias
    x = _argument(data, _steps(bias, scale))
    if not _is_inside(function, x):
        _flag_outside(name, function, x)
    return function.activation(x)


def small_activation(call: Call) -> Callable[..., Array] | None:
    """Return a small activation without a reduction as one function; see ``combined``."""
    op, dst, name = call.op("op"), call["dst"], call.name
    if op is None or op.activation is None or dst.size >= NUMBA_ELEMENTS:
        return None
    if call["reduce_res"] is not None or call["reduce_cmd"] is not ReduceCmd.idle:
        return None
    plain = op.activation
    if call["bias"] is None and op.domain is None and isinstance(plain, np.ufunc):
        # A number as scale may differ from call to call.
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


def _steps(bias: Any, scale: Any) -> list[Step]:
    """Return what is done to the data before the function."""
    steps: list[Step] = []
    if not (isinstance(scale, np.float32) and scale == 1):
        steps.append(("multiply", scale, False))
    if bias is not None:
        steps.append(("add", bias, False))
    return steps


def _argument(x: Array, steps: Sequence[Step]) -> Array:
    """Return float32 ``x`` after some steps."""
    for name, operand, _ in steps:
        x = getattr(np, name)(x, operand)
    return x


def _is_inside(op: Op, x: Array) -> bool:
    """Tell whether all inputs surely lie in the function's valid interval."""
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
    """Return the way through a large activation that keeps each block of rows in the cache."""
    dst, data, op = call.operand("dst"), call.operand("data"), call.op("op")
    if op is None or dst.size < NUMBA_ELEMENTS:
        return None
    if op.name == "copy" and call["bias"] is not None:
        return None  # the bias is ignored, after a look at it
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
        steps = _steps(_column(given["bias"]), _column(given["scale"]))
        out, x = as_rows(given["dst"]), as_rows(given["data"])
        part = _evaluate_rows(core, name, op, out, x, steps, reduction)
        total = fold(core, Engine.scalar, command, reduce_op, part, lanes, reads=reads_registers)
        return (None, total) if reads_registers else (None,)

    return Shortcut(lambda: True, compute)


def _column(value: Any) -> Any:
    return as_rows(value).astype(_F32, copy=False) if isinstance(value, np.ndarray) else value


def _evaluate_rows(
    core: Core,
    name: str,
    op: Op,
    out: Array,
    data: Array,
    steps: list[Step],
    reduction: Op | None,
) -> Array | None:
    """Write ``op`` of the data, after some steps, to ``out``; return the reduction of each row."""
    part = None if reduction is None else np.empty(len(out), _F32)
    sums = reduction is None or reduction.name == "add"
    if op.name == "exp" and sums and repays(out.size):
        given = {name: operand for name, operand, _ in steps}
        if exponential_rows(out, data, given.get("multiply", 1), given.get("add", 0), part):
            return part
    if op.domain is not None and np.may_share_memory(out, data):
        data = data.copy()  # a finding looks at all inputs again
    height, width = out.shape
    quick = isinstance(op.activation, np.ufunc)
    blocks = blocks_of_rows(height, width) if quick else blocks_of_rows(height, width, _SMALL_BLOCK)
    scratch = None if out.dtype == _F32 else core.scratch(blocks[0].stop, width)
    inside = True
    for rows in blocks:
        room = out[rows] if scratch is None else scratch[: rows.stop - rows.start]
        x = _prepared(data[rows], steps_of_rows(steps, rows), room)
        inside = inside and _is_inside(op, x)
        values = _apply(op, x, room)
        if part is not None:
            part[rows] = _reduced(reduction, values)
        if scratch is not None or values is not room:
            combine_rows(out[rows], values)
    if not inside:
        _flag_outside(name, op, _argument(widened_rows(data), steps))
    return part


def _prepared(data: Array, steps: list[Step], room: Array) -> Array:
    """Return the function's argument: in ``room``, or the data themselves."""
    if data.dtype == _F32 and not steps:
        return data
    combine_rows(room, data, steps)
    return room


def _apply(op: Op, x: Array, room: Array) -> Array:
    """Return the function's values, in ``room`` if that is as quick."""
    function = op.activation
    assert function is not None
    return function(x, out=room) if isinstance(function, np.ufunc) else function(x)


def _reduced(reduction: Op | None, values: Array) -> Array:
    """Return the reduction of each row."""
    assert reduction is not None
    assert reduction.reduce is not None
    return (
        row_sums(values)
        if reduction.name == "add" and repays(values.size)
        else reduction.reduce(values)
    )
