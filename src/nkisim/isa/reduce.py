"""Reductions: along the free dimensions, across partitions, and fused with tensor_scalar."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.diagnostics import declare
from nkisim.isa.activation import reduce_res_fits
from nkisim.isa.elementwise import apply
from nkisim.machine import instruction
from nkisim.spec import (
    ON_CHIP,
    SBUF,
    Arithmetic,
    Call,
    Column,
    Constraint,
    In,
    Op,
    Out,
    as_op,
)
from nkisim.spec.constraints import (
    alu_operator,
    columns_are_float32,
    matches_bits,
    reduction_operator,
    same_free_size,
    same_partitions,
    small_immediate,
)
from nkisim.spec.cost import startup_stream, stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd

__all__ = ["reduced_axes", "tensor_partition_reduce", "tensor_reduce", "tensor_scalar_reduce"]

Array = np.ndarray

REDUCTION_AXIS = declare(
    "S044",
    "reduction-axis",
    "error",
    "The reduced axes are not the last free dimensions.",
    "the Vector engine reduces trailing free dimensions, never the partition dimension",
    meaningless=True,
)
REDUCTION_LAST_AXIS = declare(
    "A006",
    "reduction-axis-one",
    "error",
    "axis=1 is used for the last dimension of a tensor with more dimensions.",
    "0.3.0 counts axes as they are; Beta 2 let axis=1 mean the last one",
    meaningless=True,
)
REDUCTION_RESULT = declare(
    "S045",
    "reduction-result",
    "error",
    "The destination of a reduction does not have the shape that is left.",
    "one result per element that is not reduced",
    meaningless=True,
)
PARTITION_REDUCTION_RESULT = declare(
    "S046",
    "partition-reduction-result",
    "error",
    "The destination of tensor_partition_reduce is not (1, F).",
    "all partitions are reduced into one",
    meaningless=True,
)
NEGATED_REDUCTION = declare(
    "D026",
    "negated-reduction",
    "error",
    "negate=True is used with a bitwise or logical reduction.",
    "only arithmetic results can be negated",
    meaningless=True,
)
PARTITION_REDUCTION_OPERATOR = declare(
    "D027",
    "partition-reduction-operator",
    "error",
    "tensor_partition_reduce uses an operator it does not have.",
    "the GpSimd engine reduces partitions with add, maximum, bitwise_and and bitwise_or only",
    meaningless=True,
)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction as sorted non-negative integers."""
    if type(axis) is int:
        return (axis + ndim if axis < 0 else axis,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted(int(a) + ndim if int(a) < 0 else int(a) for a in axes))


def _axis(call: Call) -> None:
    data, dst = call.operand("data"), call.operand("dst")
    ndim = len(data.shape)
    axes = reduced_axes(call["axis"], ndim)
    if not axes or axes != tuple(range(axes[0], ndim)) or axes[0] == 0:
        if call["axis"] in (1, (1,), [1]) and ndim > 2:
            call.fail(
                REDUCTION_LAST_AXIS,
                f"axis=1 is dimension 1 of {data.shape}, not the last one",
                operand="axis",
                seen=call["axis"],
                allowed=f"{ndim - 1}, or a tuple of trailing axes",
                fix=f"axis={ndim - 1} for the last dimension, axis={tuple(range(1, ndim))} for "
                f"all free dimensions",
            )
        call.fail(
            REDUCTION_AXIS,
            f"axis {call['axis']} of a tensor of shape {data.shape} is not a group of trailing "
            f"free dimensions",
            operand="axis",
            seen=call["axis"],
            allowed=", ".join(str(tuple(range(i, ndim))) for i in range(ndim - 1, 0, -1)),
            fix="for axis 0 use tensor_partition_reduce, a transpose or a matmul with ones; "
            "reorder free dimensions with .ap",
        )
    left = math.prod(data.shape[1 : axes[0]])
    if dst.free_size != left:
        kept = data.shape[: axes[0]] + ((1,) * len(axes) if call["keepdims"] else ())
        call.fail(
            REDUCTION_RESULT,
            f"dst must hold {left} elements per partition, got shape {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=kept if len(kept) > 1 else (*kept, 1),
            fix="allocate dst with the shape that is left after the reduction",
        )


def _negate(call: Call) -> None:
    op = call.op("op")
    if call["negate"] and op is not None and op.kind != "arithmetic":
        call.fail(
            NEGATED_REDUCTION,
            f"cannot negate a reduction with {op!r}",
            operand="negate",
            seen=op,
            allowed="add, subtract, multiply, maximum, minimum",
            fix="drop negate=True",
        )


def _arithmetic(call: Call) -> Arithmetic:
    op = call.op("op")
    return "bits" if op is not None and op.is_bitvec else "fp32"


def _reduction(call: Call) -> Callable[..., Array] | None:
    """Return the reduction of a two-dimensional tile by a ufunc to one column."""
    op, data, dst = call.op("op"), call.operand("data"), call.operand("dst")
    if op is None or data.ndim != 2 or dst.ndim != 2 or not isinstance(op.binary, np.ufunc):
        return None
    reduce, negate = op.binary.reduce, bool(call["negate"])

    def function(x: Array, out: Array | None) -> Array:
        result: Array = reduce(x, axis=1, out=out, keepdims=True)
        return np.negative(result, out=out) if negate else result

    return function


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP, flat=True)},
    require=(
        reduction_operator("op"),
        matches_bits(("op",), "dst", "data"),
        Constraint(
            "axis names the last free dimensions; dst has what is left",
            (REDUCTION_AXIS, REDUCTION_RESULT),
            _axis,
        ),
        same_partitions("dst", "data"),
        Constraint("negate with arithmetic operators only", (NEGATED_REDUCTION,), _negate),
    ),
    arithmetic=_arithmetic,
    function=_reduction,
    spread="lanes",
    cost=stream(over="data"),
    source="nki.isa.tensor_reduce, 0.3.0",
)
def tensor_reduce(
    dst: Any,
    op: Op,
    data: Any,
    axis: Any,
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> Array:
    """Reduce the trailing free dimensions in float32, or bit by bit."""
    function = as_op(op)
    assert function is not None
    assert function.reduce is not None
    shape = data.shape
    width = math.prod(shape[reduced_axes(axis, len(shape))[0] :])
    result = function.reduce(data.reshape(shape[0], -1, width))
    return -result if negate else result


def _one_row(call: Call) -> None:
    data, dst = call.operand("data"), call.operand("dst")
    if dst.shape[0] != 1 or dst.free_size != data.free_size:
        call.fail(
            PARTITION_REDUCTION_RESULT,
            f"dst must have shape (1, {data.free_size}), got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=f"(1, {data.free_size})",
            fix="allocate dst with one partition",
        )


@instruction(
    engines=(Engine.gpsimd,),
    operands={"dst": Out(SBUF), "data": In(SBUF)},
    require=(
        reduction_operator(
            "op", ("add", "maximum", "bitwise_and", "bitwise_or"), rule=PARTITION_REDUCTION_OPERATOR
        ),
        matches_bits(("op",), "dst", "data"),
        Constraint("dst is (1, F)", (PARTITION_REDUCTION_RESULT,), _one_row),
    ),
    arithmetic=_arithmetic,
    cost=startup_stream(over="data", factor=16),
    source="nki.isa.tensor_partition_reduce, 0.3.0",
)
def tensor_partition_reduce(dst: Any, op: Op, data: Any, name: str | None = None) -> Array:
    """Reduce across partitions into one."""
    function = as_op(op)
    assert function is not None
    assert function.reduce is not None
    return function.reduce(np.ascontiguousarray(data.T)).reshape(1, -1)


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "data": In(ON_CHIP),
        "operand0": Column(ON_CHIP),
        "reduce_res": Out(ON_CHIP),
    },
    require=(
        alu_operator("op0", bitvec=False),
        reduction_operator("reduce_op", ("add", "subtract", "multiply", "maximum", "minimum")),
        same_partitions("dst", "data", "operand0"),
        same_free_size("dst", "data"),
        reduce_res_fits("reduce_res", "data"),
        columns_are_float32("operand0"),
        small_immediate("operand0"),
    ),
    spread="elements",
    cost=stream(over="data", extra=64),
    source="nki.isa.tensor_scalar_reduce, 0.3.0",
)
def tensor_scalar_reduce(
    dst: Any,
    data: Any,
    op0: Op,
    operand0: Any,
    reduce_op: Op,
    reduce_res: Any = None,
    reverse0: bool = False,
    name: str | None = None,
    reduce_cmd: ReduceCmd = ReduceCmd.reset_reduce,
    reduce_init: Any = None,
    reduce_res_negate: bool = False,
) -> tuple[Array, Array]:
    """Return ``data <op0> operand0`` and its reduction along the free dimension."""
    result = apply(op0, data, operand0, reverse0)
    function = as_op(reduce_op)
    assert function is not None
    assert function.reduce is not None
    return result, function.reduce(result).reshape(-1, 1)
