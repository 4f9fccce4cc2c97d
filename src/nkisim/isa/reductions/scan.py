"""Recurrences along the free dimension: tensor_tensor_scan and tensor_scalar_cumulative.

Both are evaluated sequentially in float32, like the Vector engine, so the rounding errors equal the
device's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.isa.accumulate import follow_chain
from nkisim.isa.elementwise import apply
from nkisim.machine import Core, instruction
from nkisim.spec import ON_CHIP, Call, Column, Constraint, In, Op, Out, as_op, rules
from nkisim.spec.constraints import (
    at_most_one_in_psum,
    columns_are_float32,
    one_start_partition,
    same_free_size,
    same_partitions,
)
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.operator_constraints import (
    alu_operator,
    reduction_operator,
)

Array = np.ndarray


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "data0": In(ON_CHIP),
        "data1": In(ON_CHIP),
        "initial": Column(ON_CHIP),
    },
    require=(
        alu_operator("op0", "op1", bitvec=False),
        same_partitions("dst", "data0", "data1", "initial"),
        same_free_size("dst", "data0", "data1"),
        at_most_one_in_psum("data0", "data1"),
        one_start_partition("data0", "data1"),
    ),
    spread="lanes",
    cost=stream(over="data0", factor=2),
    source="nki.isa.tensor_tensor_scan, 0.3.0",
)
def tensor_tensor_scan(
    dst: Any,
    data0: Any,
    data1: Any,
    initial: Any,
    op0: Op,
    op1: Op,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> Array:
    """Return ``r[i] = (data0[i] <op0> r[i-1]) <op1> data1[i]``, started at ``initial``.

    Args:
        dst: Tile that receives the running values.
        data0: Tile of the left inputs of ``op0``.
        data1: Tile of the right inputs of ``op1``.
        initial: Value before the first element: a number, or one float32 value per partition.
        op0: Operator of an element of ``data0`` and the running value.
        op1: Operator of that result and an element of ``data1``.
        reverse0: Whether the running value is on the left of ``op0``.
        reverse1: Whether the element of ``data1`` is on the left of ``op1``.
    """
    # The recurrence runs along the first axis, so that every step is on contiguous rows.
    left, right = np.ascontiguousarray(data0.T), np.ascontiguousarray(data1.T)
    result = np.empty_like(left)
    state = np.broadcast_to(np.asarray(initial, np.float32).reshape(-1), left.shape[1:])
    for i in range(left.shape[0]):
        state = apply(op1, apply(op0, left[i], state, reverse0), right[i], reverse1)
        result[i] = state
    return result.T


def _no_wide_integers(call: Call) -> None:
    for name, tensor in call.tensors("dst", "src"):
        if tensor.dtype in ("int32", "uint32"):
            call.fail(
                rules.RESTRICTED_DTYPE,
                f"{name} is {tensor.dtype}, which the instruction does not support",
                operand=name,
                seen=tensor.dtype,
                allowed="float8, float16, bfloat16, float32 and 8- and 16-bit integers",
                fix="use float32",
            )


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "src": In(ON_CHIP),
        "imm0": Column(ON_CHIP),
        "imm1": Column(ON_CHIP, optional=True),
    },
    require=(
        alu_operator("op0", bitvec=False),
        reduction_operator("op1", ("add", "subtract", "multiply", "maximum", "minimum")),
        same_partitions("dst", "src", "imm0", "imm1"),
        same_free_size("dst", "src"),
        columns_are_float32("imm0", "imm1"),
        Constraint("no 32-bit integers", (rules.RESTRICTED_DTYPE,), _no_wide_integers),
    ),
    stateful=True,
    follow=follow_chain(Engine.vector),
    spread="lanes",
    cost=stream(over="src"),
    source="nki.isa.tensor_scalar_cumulative, 0.3.0",
)
def tensor_scalar_cumulative(
    core: Core,
    dst: Any,
    src: Any,
    op0: Op,
    op1: Op,
    imm0: Any,
    imm1: Any = None,
    reduce_cmd: ReduceCmd = ReduceCmd.reset_reduce,
    name: str | None = None,
) -> Array:
    """Return the running values of ``reg = (src[i] <op0> imm0) <op1> reg``; registers persist.

    Args:
        dst: Tile that receives the register after each element.
        src: Tile of the elements, taken along the free dimension.
        op0: Operator of an element and ``imm0``.
        op1: Operator of that result and the register.
        imm0: Second input of ``op0``: a number, or one float32 value per partition.
        imm1: Value that ``load_reduce`` loads into the registers: a number, or one float32 value
            per partition; None is 0.
    """
    function = as_op(op1)
    assert function is not None
    registers = core.accumulators(Engine.vector).rows(dst.start_partition, src.shape[0])
    if reduce_cmd in (ReduceCmd.reset, ReduceCmd.reset_reduce):
        registers[...] = function.identity
    elif reduce_cmd is ReduceCmd.load_reduce:
        registers[...] = 0.0 if imm1 is None else imm1
    values = np.ascontiguousarray(np.broadcast_to(apply(op0, src, imm0), src.shape).T)
    result = np.empty_like(values)
    state = registers[:, 0].copy()
    for i in range(values.shape[0]):
        state = apply(op1, values[i], state)
        result[i] = state
    registers[:, 0] = state
    return result.T
