"""Reductions: along the free dimensions, across partitions, and fused with tensor_scalar."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.compiled import compiles_exact
from nkisim.diagnostics import declare
from nkisim.isa.accumulate import accumulate, follow_chain
from nkisim.isa.activations.activation import REDUCE_INIT, rank_at_most_four, reduce_res_fits
from nkisim.isa.elementwise import UNARY_FROM_0_4, apply
from nkisim.machine import Core, instruction
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
    rules,
)
from nkisim.spec.constraints import (
    columns_are_float32,
    same_free_size,
    same_partitions,
    small_immediate,
)
from nkisim.spec.cost import startup_stream, stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.operator_constraints import (
    alu_operator,
    matches_bits,
    reduction_operator,
    unused_operand,
)

Array = np.ndarray

REDUCTION_AXIS = declare(
    "S044",
    "reduction-axis",
    "The reduced axes are not the last free dimensions.",
    "the Vector engine reduces trailing free dimensions, never the partition dimension",
    meaningless=True,
)
REDUCTION_LAST_AXIS = declare(
    "A006",
    "reduction-axis-one",
    "axis=1 is used for the last dimension of a tensor with more dimensions.",
    "0.3.0 counts axes as they are; Beta 2 let axis=1 mean the last one",
    meaningless=True,
)
REDUCTION_RESULT = declare(
    "S045",
    "reduction-result",
    "The destination of a reduction does not have the shape of the unreduced dimensions.",
    "one result per element that is not reduced",
    meaningless=True,
)
PARTITION_REDUCTION_RESULT = declare(
    "S046",
    "partition-reduction-result",
    "The destination of tensor_partition_reduce is not (1, F).",
    "all partitions are reduced into one",
    meaningless=True,
)
NEGATED_REDUCTION = declare(
    "D026",
    "negated-reduction",
    "negate=True is used with a bitwise or logical reduction.",
    "only arithmetic results can be negated",
    meaningless=True,
)
PARTITION_REDUCTION_OPERATOR = declare(
    "D027",
    "partition-reduction-operator",
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


_FEW_ROWS = 8
"""Number of rows up to which np.add.accumulate is faster than adding column after column."""

_APART = 16
"""Float32 elements of one cache line."""

_COLUMNS = 512
"""Columns that are copied at once; their copies stay in the cache."""


def _sums(rows: Array) -> Array:
    """Return the float32 sum of each row, added one element at a time like the Vector engine."""
    if compiles_exact(rows.size):
        from nkisim.compiled.sums import sums_in_order

        return sums_in_order(rows)
    count, width = rows.shape
    if count <= _FEW_ROWS:
        return np.add.accumulate(rows, axis=1)[:, -1]
    # NumPy adds pairwise along axis 1, but one row after another along axis 0 of a dense array;
    # hence the transposed copy. If the distance of rows is a power of two, a column's elements
    # share few cache lines. The padding by _APART changes the distance and halves the time of the
    # copy.
    apart = np.empty((count, min(width, _COLUMNS) + _APART), np.float32)
    sums = rows[:, 0]
    for first in range(1, width, _COLUMNS):
        part = rows[:, first : first + _COLUMNS]
        block = apart[:, : part.shape[1] + 1]
        block[:, 0], block[:, 1:] = sums, part
        sums = np.add.reduce(np.ascontiguousarray(block.T), axis=0, initial=None)
    return sums


def _reduction(call: Call) -> Callable[..., Array] | None:
    """Return the reduction of a two-dimensional tile by a ufunc to one column."""
    op, data, dst = call.op("op"), call.operand("data"), call.operand("dst")
    if op is None or data.ndim != 2 or dst.ndim != 2 or not isinstance(op.binary, np.ufunc):
        return None
    ufunc, negate = op.binary, bool(call["negate"])

    def function(x: Array, out: Array | None) -> Array:
        if ufunc is np.add:
            return np.multiply(_sums(x)[:, None], -1 if negate else 1, out=out)
        result: Array = ufunc.reduce(x, axis=1, out=out, keepdims=True)
        # np.negative of NumPy 2.4 is wrong where source and destination have a step of four.
        return np.multiply(result, -1, out=out) if negate else result

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
    """Reduce the trailing free dimensions in float32, or bit by bit.

    Sums add one element after the other, from the first on, with one rounding each.

    Args:
        dst: Tile that receives the result, with the dimensions that are not reduced.
        op: Operator of the reduction.
        data: Tile of the elements.
        axis: Reduced dimension, or a tuple of them: the last dimensions of ``data``, without the
            partitions.
        negate: Whether the result is negated.
        keepdims: Whether ``dst`` has extent 1 for each reduced dimension; otherwise ``dst`` lacks
            these dimensions, with the same values.
    """
    function = as_op(op)
    assert function is not None
    assert function.reduce is not None
    shape = data.shape
    width = math.prod(shape[reduced_axes(axis, len(shape))[0] :])
    rows = data.reshape(-1, width)
    result = _sums(rows) if function.binary is np.add else function.reduce(rows)
    result = result.reshape(shape[0], -1)
    return -result if negate else result


def _one_row(call: Call) -> None:
    data, dst = call.operand("data"), call.operand("dst")
    if dst.shape[0] != 1 or dst.free_size != data.free_size:
        call.fail(
            PARTITION_REDUCTION_RESULT,
            f"dst must have shape (1, {data.free_size}), got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=(1, data.free_size),
            data={"shape": (1, data.free_size)},
            fix="allocate dst with one partition",
        )


_PARTITION_REDUCTIONS = ("add", "maximum", "bitwise_and", "bitwise_or")


def _partition_reduction(*operators: str) -> tuple[Constraint, ...]:
    return (
        reduction_operator("op", operators, rule=PARTITION_REDUCTION_OPERATOR),
        matches_bits(("op",), "dst", "data"),
        Constraint("dst is (1, F)", (PARTITION_REDUCTION_RESULT,), _one_row),
    )


@instruction(
    engines=(Engine.gpsimd,),
    operands={"dst": Out(SBUF), "data": In(SBUF)},
    require=_partition_reduction(*_PARTITION_REDUCTIONS),
    arithmetic=_arithmetic,
    cost=startup_stream(over="data", factor=16),
    source="nki.isa.tensor_partition_reduce, 0.3.0",
    changes={"0.5.0": {"require": _partition_reduction("average", *_PARTITION_REDUCTIONS)}},
)
def tensor_partition_reduce(dst: Any, op: Op, data: Any, name: str | None = None) -> Array:
    """Reduce across partitions into one; from NKI 0.5.0 on also with ``nl.average``.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        dst: Tile (1, N) that receives one result per column.
        op: Operator of the reduction.
        data: Tile whose partitions are combined.
    """
    function = as_op(op)
    assert function is not None
    assert function.reduce is not None
    return function.reduce(np.ascontiguousarray(data.T)).reshape(1, -1)


_CHAINED = (ReduceCmd.reset_reduce, ReduceCmd.reduce, ReduceCmd.load_reduce)


def _chain_arguments(call: Call) -> None:
    command, init = call["reduce_cmd"], call["reduce_init"]
    if command not in _CHAINED:
        call.fail_call(
            rules.BAD_CALL,
            f"takes reset_reduce, reduce and load_reduce as reduce_cmd, got {command}",
            operand="reduce_cmd",
            seen=command,
            allowed=", ".join(map(str, _CHAINED)),
            fix="leave reduce_cmd out, or use tensor_scalar where nothing is reduced",
        )
    if (command is ReduceCmd.load_reduce) == (init is not None):
        return
    without = init is None
    call.fail(
        REDUCE_INIT,
        "has load_reduce without reduce_init"
        if without
        else f"uses reduce_init only with load_reduce, got {command}",
        operand="reduce_init",
        seen="None" if without else f"{command}",
        allowed="reduce_init together with reduce_cmd.load_reduce",
        fix="pass reduce_init" if without else "pass reduce_cmd=nisa.reduce_cmd.load_reduce",
    )


_TENSOR_SCALAR_REDUCE = {
    "dst": Out(ON_CHIP),
    "data": In(ON_CHIP),
    "operand0": Column(ON_CHIP),
    "reduce_res": Out(ON_CHIP),
    "reduce_init": Column(ON_CHIP, optional=True),
}
_ONE_INPUT = {"operand0": Column(ON_CHIP, optional=True)}

_TENSOR_SCALAR_REDUCE_REQUIRES = (
    same_partitions("dst", "data", "operand0", "reduce_init"),
    same_free_size("dst", "data"),
    reduce_res_fits("reduce_res", "data"),
    columns_are_float32("operand0", "reduce_init"),
    small_immediate("operand0"),
)


def _chained_reduce(reset: float | None) -> Callable[..., Any]:
    """Return the body of tensor_scalar_reduce; ``reset_reduce`` sets the registers to ``reset``.

    None stands for the neutral element of ``reduce_op``.
    """

    def body(
        core: Core,
        dst: Any,
        data: Any,
        op0: Op,
        operand0: Any,
        reduce_op: Op,
        reduce_res: Any,
        reverse0: bool,
        name: str | None,
        reduce_cmd: ReduceCmd,
        reduce_init: Any,
        reduce_res_negate: bool,
    ) -> Any:
        values = apply(op0, data, operand0, reverse0)
        result = accumulate(
            *(core, Engine.vector, reduce_cmd, reduce_op, values, dst, reduce_res, reduce_init),
            reset=reset,
        )
        if reduce_res_negate and reduce_res is not None:
            return result[0], -result[1]
        return result

    return body


_CHAINED_REQUIRES = (
    alu_operator("op0", bitvec=False, also=UNARY_FROM_0_4),
    unused_operand("op0", "operand0"),
    reduction_operator("reduce_op", ("add", "multiply", "maximum", "minimum")),
    Constraint(
        "reduce_cmd reset_reduce, reduce or load_reduce; reduce_init with load_reduce only",
        (rules.BAD_CALL, REDUCE_INIT),
        _chain_arguments,
    ),
    *_TENSOR_SCALAR_REDUCE_REQUIRES,
)

# NKI 0.4.0 and 0.5.0 document a reset to 0 for every operator, 0.6.0 to its neutral element.
_CHAINED_REDUCE = {
    "0.4.0": {
        "body": _chained_reduce(reset=0.0),
        "follow": follow_chain(Engine.vector),
        "operands": {**_TENSOR_SCALAR_REDUCE, **_ONE_INPUT},
        "require": _CHAINED_REQUIRES,
    },
    "0.6.0": {
        "body": _chained_reduce(reset=None),
        "operands": {
            **_TENSOR_SCALAR_REDUCE,
            **_ONE_INPUT,
            "reduce_res": Out(ON_CHIP, optional=True),
        },
    },
    "0.7.0": {"require": (*_CHAINED_REQUIRES, rank_at_most_four("data"))},
}


@instruction(
    engines=(Engine.vector,),
    operands=_TENSOR_SCALAR_REDUCE,
    require=(
        alu_operator("op0", bitvec=False),
        reduction_operator("reduce_op", ("add", "subtract", "multiply", "maximum", "minimum")),
        *_TENSOR_SCALAR_REDUCE_REQUIRES,
    ),
    stateful=True,
    spread="elements",
    cost=stream(over="data", extra=64),
    source="nki.isa.tensor_scalar_reduce, 0.3.0",
    changes=_CHAINED_REDUCE,
)
def tensor_scalar_reduce(
    core: Core,
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
    """Return ``data <op0> operand0`` and its reduction along the free dimension.

    From NKI 0.4.0 on ``reduce_cmd`` chains calls on the Vector engine's accumulator registers;
    ``reset_reduce`` starts from 0 with any operator, as 0.4.0 and 0.5.0 document it, and from the
    operator's neutral element from 0.6.0 on. From then on the result may stay in the registers
    (``reduce_res=None``), and ``reduce_res_negate`` negates the written result, not the registers.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        data: Tile of the first inputs.
        op0: Operator of ``data`` and ``operand0``.
        operand0: Second input of ``op0``: a number, or one float32 value per partition.
        reduce_op: Operator that combines the results of a partition.
        reduce_res: Tile (P, 1) that receives the reduction; from NKI 0.6.0 on None leaves it in the
            registers.
        reduce_cmd: Initial value of the reduction: the neutral element or 0 with ``reset_reduce``,
            the registers with ``reduce``, ``reduce_init`` with ``load_reduce``.
        reduce_init: Value that ``load_reduce`` loads into the registers: a number, or one float32
            value per partition.
        reduce_res_negate: Whether ``reduce_res`` receives the negated reduction.
    """
    result = apply(op0, data, operand0, reverse0)
    function = as_op(reduce_op)
    assert function is not None
    assert function.reduce is not None
    return result, function.reduce(result).reshape(-1, 1)
