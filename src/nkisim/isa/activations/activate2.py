"""activate2: two arithmetic steps, an activation function and a reduction in one instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.isa.accumulate import accumulate, follow_chain
from nkisim.isa.activations.activation import ACTIVATION_REDUCTION, ON_GPSIMD, reduce_res_fits
from nkisim.isa.activations.evaluation import evaluate
from nkisim.isa.elementwise import apply
from nkisim.machine import Core, instruction
from nkisim.spec import ON_CHIP, Call, Column, Constraint, In, Op, Out, as_op, rules
from nkisim.spec.constraints import same_dtype, same_free_size, same_partitions, small_immediate
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd

_STEPS = (
    ("multiply", "add"),
    ("multiply", "subtract"),
    ("multiply", "bypass"),
    ("add", "bypass"),
    ("subtract", "bypass"),
    ("bypass", "bypass"),
)
"""Operators of the two steps that the instruction combines."""

_REDUCTIONS = ("add", "maximum", "minimum", "abs_max", "abs_min")


def _function(call: Call) -> None:
    op = call.op("op")
    if op is None or (op.activation is None and op.parametric is None):
        call.fail(
            rules.OPERATOR_KIND,
            f"op must be an activation function of nki.language, got {call['op']!r}",
            operand="op",
            seen=repr(call["op"]),
            allowed="nl.copy, nl.exp, nl.relu, nl.prelu, ...",
            fix="pass an activation function such as nl.exp",
        )


def _steps(call: Call) -> None:
    ops = [call.op(name) for name in ("op0", "op1")]
    names = tuple("" if op is None else op.name for op in ops)
    if names not in _STEPS:
        call.fail(
            rules.OPERATOR_KIND,
            f"combines no op0={call['op0']!r} with op1={call['op1']!r}",
            operand="op0",
            seen=f"{call['op0']!r}, {call['op1']!r}",
            allowed="; ".join(f"nl.{first}, nl.{second}" for first, second in _STEPS),
            fix="use one of the six pairs, or nisa.tensor_scalar first",
        )
    for i, name in enumerate(names):
        if name == "bypass" and call[f"reverse{i}"]:
            call.fail_call(
                rules.BAD_CALL,
                f"reverse{i} needs an operator as op{i}, got nl.bypass",
                operand=f"reverse{i}",
                seen=True,
                allowed="False with nl.bypass",
                fix=f"drop reverse{i}",
            )


def _reduction(call: Call) -> None:
    op, command = call.op("reduce_op"), call["reduce_cmd"]
    if command is ReduceCmd.load_reduce:
        call.fail_call(
            rules.BAD_CALL,
            "has no load_reduce",
            operand="reduce_cmd",
            seen=command,
            allowed="idle, reset, reduce, reset_reduce",
            fix="begin the chain with reset_reduce",
        )
    reduces = command in (ReduceCmd.reduce, ReduceCmd.reset_reduce)
    if (op is None and reduces) or (op is not None and op.name not in _REDUCTIONS):
        call.fail(
            ACTIVATION_REDUCTION,
            f"reduce_op is {call['reduce_op']!r} with {command}",
            operand="reduce_op",
            seen=repr(call["reduce_op"]),
            allowed=", ".join(f"nl.{name}" for name in _REDUCTIONS),
            fix="pass one of them, or reduce with nisa.tensor_reduce",
        )


_REQUIRES = (
    Constraint("op an activation function, or prelu", (rules.OPERATOR_KIND,), _function),
    Constraint(
        "op0 and op1 multiply with add, subtract or bypass; add, subtract or bypass with "
        "bypass; no reversed bypass",
        (rules.OPERATOR_KIND, rules.BAD_CALL),
        _steps,
    ),
    Constraint(
        "reductions add, maximum, minimum, abs_max or abs_min; no load_reduce",
        (ACTIVATION_REDUCTION, rules.BAD_CALL),
        _reduction,
    ),
    same_partitions("dst", "data", "imm0", "imm1", "relu_param"),
    same_free_size("dst", "data"),
    same_dtype("imm0", "imm1"),
    small_immediate("imm0", "imm1", "relu_param"),
    reduce_res_fits("reduce_res", "data"),
)


@instruction(
    engines=(Engine.scalar,),
    operands={
        "dst": Out(ON_CHIP),
        "data": In(ON_CHIP),
        "imm0": Column(ON_CHIP),
        "imm1": Column(ON_CHIP),
        "relu_param": Column(ON_CHIP),
        "reduce_res": Out(ON_CHIP, optional=True),
    },
    require=_REQUIRES,
    since=4,
    stateful=True,
    follow=follow_chain(Engine.scalar),
    spread="elements",
    cost=stream(over="data"),
    source="nki.isa.activate2, 0.4.0",
    changes={
        "0.7.0": {"engines": (Engine.scalar, Engine.gpsimd), "require": (*_REQUIRES, ON_GPSIMD)}
    },
)
def activate2(
    core: Core,
    dst: Any,
    op: Op,
    data: Any,
    imm0: Any,
    imm1: Any,
    op0: Op,
    op1: Op,
    relu_param: Any = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Op | None = None,
    reduce_res: Any = None,
    reduce_cmd: ReduceCmd = ReduceCmd.idle,
    engine: Engine = Engine.scalar,
    name: str | None = None,
) -> Any:
    """Return ``op((data <op0> imm0) <op1> imm1)``, and with ``reduce_cmd`` its reduction.

    All is float32; the reduction is of the values before they are rounded into ``dst``. The order
    in which a sum adds them is not specified by the hardware.

    Args:
        op: Activation function, applied last.
        data: Tile of the inputs.
        imm0: Second input of ``op0``: a number, or one value per partition.
        imm1: Second input of ``op1``: a number, or one value per partition.
        op0: Operator of the first step, of ``data`` and ``imm0``; ``nl.bypass`` skips the step.
        op1: Operator of the second step, of the first result and ``imm1``; ``nl.bypass`` skips the
            step.
        relu_param: Slope of ``nl.prelu`` for negative values, a number or one value per partition;
            other functions ignore it.
        reverse0: Whether the first step is ``imm0 <op0> data``.
        reverse1: Whether the second step has ``imm1`` on the left of ``op1``.
        reduce_op: Operator that combines the results of a partition in the registers; None if
            nothing is reduced.
    """
    value = apply(op1, apply(op0, data, imm0, reverse0), imm1, reverse1)
    function = as_op(op)
    assert function is not None
    if function.parametric is not None:
        output = function.parametric(value, relu_param)
    else:
        output = evaluate("activate2", function, value, None, np.float32(1))
    return accumulate(core, Engine.scalar, reduce_cmd, reduce_op, output, dst, reduce_res)
