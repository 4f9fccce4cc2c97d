"""The Scalar engine's functions with their running sum, and the Vector engine's exp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import Severity, declare, flag
from nkisim.isa.accumulate import accumulate, follow_chain
from nkisim.isa.activations.evaluation import evaluate, function_of, in_blocks, small_activation
from nkisim.machine import Core, instruction
from nkisim.spec import ON_CHIP, OPS, Call, Column, Constraint, In, Op, Out, rules
from nkisim.spec.constraints import columns_are_float32, same_free_size, same_partitions
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd
from nkisim.spec.instruction import ValueWatch

Array = np.ndarray

BIAS_KIND = declare(
    "D023",
    "activation-bias",
    "An activation's bias is of a kind that the engine does not take.",
    "the Scalar engine does not add it",
    on_values=True,
    silent="in part",
)
ACTIVATION_REDUCTION = declare(
    "D024",
    "activation-reduction",
    "An activation's reduction is not a sum, or has a command but no operator.",
    "the Scalar engine's registers only add",
)
REDUCE_INIT = declare(
    "D046",
    "reduce-init",
    "exponential or tensor_scalar_reduce has a reduce_init that its reduce_cmd does not use, or "
    "lacks one, or exponential has a max_value that is not float32.",
    "the value would be ignored or misread",
)
REDUCTION_SHAPE = declare(
    "S054",
    "reduction-shape",
    "reduce_res does not have one element on each of data's partitions, or from NKI 0.7.0 on data "
    "has more than three free dimensions.",
    "the accumulator has one register per lane, and the access pattern three free dimensions",
    meaningless=True,
)


def reduce_res_fits(name: str, data: str) -> Constraint:
    """``reduce_res`` has one element on each partition of the data."""

    def check(call: Call) -> None:
        result, reference = call.tensor(name), call.operand(data)
        if result is None:
            return
        if result.free_size != 1 or result.shape[0] != reference.shape[0]:
            shape = (reference.shape[0], 1)
            call.fail(
                REDUCTION_SHAPE,
                f"{name} must have shape {shape}, got {result.shape}",
                operand=name,
                seen=result.shape,
                allowed=shape,
                data={"shape": shape},
                fix=f"allocate {name} with one element per partition of {data}",
            )

    return Constraint(f"{name} is (P, 1) on the partitions of {data}", (REDUCTION_SHAPE,), check)


def rank_at_most_four(data: str) -> Constraint:
    """``data`` has at most three free dimensions, a limit of NKI 0.7.0 and later."""

    def check(call: Call) -> None:
        tensor = call.operand(data)
        if tensor.ndim > 4:
            call.fail(
                REDUCTION_SHAPE,
                f"{data} has {tensor.ndim - 1} free dimensions",
                operand=data,
                seen=tensor.shape,
                allowed="at most 3 free dimensions",
                fix="reshape it to (P, elements)",
            )

    return Constraint(f"{data} has at most 3 free dimensions", (REDUCTION_SHAPE,), check)


def _is_activation(call: Call) -> None:
    op = call.op("op")
    if op is not None and op.parametric is not None:
        call.fail(
            rules.OPERATOR_KIND,
            f"has no relu_param, which {op!r} needs",
            operand="op",
            seen=op,
            allowed="a function without a parameter",
            fix=f"nisa.activate2(op={op!r}, relu_param=...), on gen4",
        )
    elif op is None or op.activation is None:
        call.fail(
            rules.OPERATOR_KIND,
            f"op must be an activation function of nki.language, got {call['op']!r}",
            operand="op",
            seen=repr(call["op"]),
            allowed="nl.copy, nl.exp, nl.relu, nl.square, ...",
            fix="pass an activation function such as nl.exp; for arithmetic use nisa.tensor_scalar",
        )


_IGNORED = "is ignored by the engine when op is nl.copy", "add it with nisa.tensor_scalar first"


def _is_copy(call: Call) -> bool:
    op = call.op("op")
    return op is not None and op.name == "copy"


def _bias(call: Call) -> None:
    bias, op, gen2 = call["bias"], call.op("op"), call.generation.number == 2
    tile = call.tensor("bias")
    severity: Severity | None = None
    if bias is None:
        return
    if tile is None and gen2:
        why, fix = "is a number, but gen2 takes a (P, 1) tile only", "put it into a (P, 1) tile"
    elif tile is not None and tile.dtype == "tfloat32":
        why, fix = "is tfloat32", "use a float32 tile"
    elif _is_copy(call) and (tile is not None or bias != 0):
        why, fix = _IGNORED
        severity = None if tile is None else "note"  # _watch_bias: error if nonzero
    elif op is not None and op.name == "reciprocal" and gen2:
        why, fix = "is not supported with nl.reciprocal on gen2", _IGNORED[1]
    else:
        return
    seen = bias if tile is None else tile.describe()
    call.fail(BIAS_KIND, f"bias {why}", operand="bias", seen=seen, fix=fix, severity=severity)


def _watch_bias(call: Call) -> ValueWatch | None:
    """Return the check that the bias tile of a copy, which the engine ignores, holds zeros only."""
    if call.tensor("bias") is None or not _is_copy(call):
        return None
    name, index = call.name, call.instruction.parameters.index("bias")

    def check(arguments: Sequence[Any]) -> None:
        if np.any(arguments[index]):
            flag(
                BIAS_KIND,
                f"{name} bias holds numbers other than 0 and {_IGNORED[0]}",
                instruction=name,
                operand="bias",
                fix=_IGNORED[1],
            )

    return check


def _sum_only(call: Call) -> None:
    op, command = call.op("reduce_op"), call.values.get("reduce_cmd", ReduceCmd.reset_reduce)
    if op is None:
        if command in (ReduceCmd.reduce, ReduceCmd.reset_reduce):
            call.fail(
                ACTIVATION_REDUCTION,
                f"reduce_cmd is {command} without reduce_op",
                operand="reduce_op",
                seen=call["reduce_op"],
                allowed="nl.add",
                fix="pass reduce_op=nl.add",
            )
        return
    if op.name != "add" and (call.name == "activation" or call.generation.number == 2):
        call.fail(
            ACTIVATION_REDUCTION,
            f"reduce_op must be nl.add, got {op!r}",
            operand="reduce_op",
            seen=op,
            allowed="nl.add",
            fix="reduce with nisa.tensor_reduce",
        )


def _on_gpsimd(call: Call) -> None:
    if call["engine"] is not Engine.gpsimd:
        return
    reduces = call["reduce_cmd"] is not ReduceCmd.idle or call["reduce_res"] is not None
    if call.generation.number < 4 or reduces:
        why = "with a reduction" if reduces else f"on {call.generation}"
        call.fail(
            rules.WRONG_ENGINE,
            f"cannot run on engine.gpsimd {why}",
            operand="engine",
            seen=call["engine"],
            allowed="engine.scalar; on gen4 without a reduction also engine.gpsimd",
            fix="leave engine out",
        )


ON_GPSIMD = Constraint(
    "engine.gpsimd on gen4, without a reduction", (rules.WRONG_ENGINE,), _on_gpsimd
)

_COMMON = (
    Constraint("op an activation function", (rules.OPERATOR_KIND,), _is_activation),
    Constraint("bias a (P, 1) tile, on gen3+ also a number", (BIAS_KIND,), _bias),
    Constraint("reductions add", (ACTIVATION_REDUCTION,), _sum_only),
    same_partitions("dst", "data", "bias", "scale"),
    same_free_size("dst", "data"),
    reduce_res_fits("reduce_res", "data"),
    columns_are_float32("scale"),
)


@instruction(
    engines=(Engine.scalar,),
    operands={
        "dst": Out(ON_CHIP),
        "data": In(ON_CHIP),
        "bias": Column(ON_CHIP, optional=True),
        "scale": Column(ON_CHIP),
        "reduce_res": Out(ON_CHIP, optional=True),
    },
    require=_COMMON,
    moves=_is_copy,
    stateful=True,
    follow=follow_chain(Engine.scalar),
    function=small_activation,
    shortcut=in_blocks,
    watch_values=_watch_bias,
    spread="elements",
    cost=stream(over="data"),
    source="nki.isa.activation, 0.3.0",
    changes={
        "0.7.0": {"engines": (Engine.scalar, Engine.gpsimd), "require": (*_COMMON, ON_GPSIMD)}
    },
)
def activation(
    core: Core,
    dst: Any,
    op: Op,
    data: Any,
    bias: Any = None,
    scale: Any = 1.0,
    reduce_op: Op | None = None,
    reduce_res: Any = None,
    reduce_cmd: ReduceCmd = ReduceCmd.idle,
    engine: Engine = Engine.scalar,
    name: str | None = None,
) -> Any:
    """Return ``op(data * scale + bias)``, and with ``reduce_cmd`` its sum along the free dimension.

    The sum is of the float32 values, before they are rounded into ``dst``. The order in which it
    adds them is not specified by the hardware.

    Args:
        op: Activation function.
        data: Tile of the inputs.
        bias: Number added after the scaling: one value per partition, on gen3 and later also a
            number, or None for 0.
        scale: Factor of ``data``: a number, or one float32 value per partition.
        reduce_op: Operator that combines the results of a partition in the registers, ``nl.add``;
            None if nothing is reduced.
    """
    output = evaluate("activation", op, data, bias, scale)
    return accumulate(core, Engine.scalar, reduce_cmd, reduce_op, output, dst, reduce_res)


_REDUCED = {
    "dst": Out(ON_CHIP),
    "data": In(ON_CHIP),
    "reduce_res": Out(ON_CHIP),
    "bias": Column(ON_CHIP, optional=True),
    "scale": Column(ON_CHIP),
}


@instruction(
    engines=(Engine.scalar,),
    operands=_REDUCED,
    require=_COMMON,
    stateful=True,
    follow=follow_chain(Engine.scalar, ReduceCmd.reset_reduce),
    shortcut=in_blocks,
    watch_values=_watch_bias,
    spread="elements",
    cost=stream(over="data", extra=64),
    source="nki.isa.activation_reduce, 0.3.0",
    changes={
        "0.6.0": {"operands": {**_REDUCED, "reduce_res": Out(ON_CHIP, optional=True)}},
    },
)
def activation_reduce(
    core: Core,
    dst: Any,
    op: Op,
    data: Any,
    reduce_op: Op,
    reduce_res: Any,
    bias: Any = None,
    scale: Any = 1.0,
    name: str | None = None,
) -> Any:
    """Return ``op(data * scale + bias)`` and its reduction along the free dimension.

    From NKI 0.6.0 on ``reduce_res`` may be None: the reduction stays in the registers.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        op: Activation function.
        data: Tile of the inputs.
        reduce_op: Operator that combines the results of a partition, ``nl.add``.
        reduce_res: Tile (P, 1) that receives the reduction of each partition.
        bias: Number added after the scaling: one value per partition, on gen3 and later also a
            number, or None for 0.
        scale: Factor of ``data``: a number, or one float32 value per partition.
    """
    output = evaluate("activation_reduce", op, data, bias, scale)
    return accumulate(
        core,
        Engine.scalar,
        ReduceCmd.reset_reduce,
        reduce_op,
        output,
        dst,
        reduce_res,
    )


def _exponential_arguments(call: Call) -> None:
    init, command = call["reduce_init"], call["reduce_cmd"]
    is_zero = isinstance(init, (int, float, np.number)) and init == 0
    if command is not ReduceCmd.load_reduce and not is_zero:
        call.fail(
            REDUCE_INIT,
            f"reduce_init is used only with load_reduce, got {command}",
            operand="reduce_init",
            seen=init,
            allowed="0.0, or reduce_cmd.load_reduce",
            fix="pass reduce_cmd=nisa.reduce_cmd.load_reduce",
        )
    tile = call.tensor("max_value")
    if tile is not None and tile.dtype != "float32":
        call.fail(
            REDUCE_INIT,
            f"max_value must be float32, got {tile.dtype}",
            operand="max_value",
            seen=tile.dtype,
            allowed="float32",
            fix="keep the row maxima in a float32 (P, 1) tile",
        )


_EXPONENTIAL = (
    same_partitions("dst", "src", "max_value"),
    same_free_size("dst", "src"),
    reduce_res_fits("reduce_res", "src"),
    Constraint(
        "reduce_init with load_reduce only; max_value float32",
        (REDUCE_INIT,),
        _exponential_arguments,
    ),
)


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "src": In(ON_CHIP),
        "max_value": Column(ON_CHIP),
        "reduce_res": Out(ON_CHIP, optional=True),
        "reduce_init": Column(ON_CHIP),
    },
    require=_EXPONENTIAL,
    since=4,
    stateful=True,
    follow=follow_chain(Engine.vector),
    spread="elements",
    cost=stream(over="src", factor=0.25),
    source="nki.isa.exponential, 0.3.0",
    changes={"0.7.0": {"require": (*_EXPONENTIAL, rank_at_most_four("src"))}},
)
def exponential(
    core: Core,
    dst: Any,
    src: Any,
    max_value: Any = 0.0,
    reduce_res: Any = None,
    reduce_cmd: ReduceCmd = ReduceCmd.idle,
    reduce_init: Any = 0.0,
    name: str | None = None,
) -> Any:
    """Return ``exp(src - max_value)``, and with ``reduce_cmd`` its sum along the free dimension.

    The order in which a sum adds its terms is not specified by the hardware.

    Args:
        src: Tile of the exponents.
        max_value: Number that is subtracted from ``src`` first, as the maximum in a softmax: a
            number, or one float32 value per partition.
        reduce_init: Value that ``load_reduce`` loads into the registers: a number, or one value per
            partition.
    """
    output = function_of(OPS["exp"], src.size)(src - max_value, None)
    return accumulate(
        core,
        Engine.vector,
        reduce_cmd,
        OPS["add"],
        output,
        dst,
        reduce_res,
        reduce_init,
    )
