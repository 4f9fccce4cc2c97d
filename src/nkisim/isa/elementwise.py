"""Elementwise: tensor_tensor, tensor_scalar, scalar_tensor_tensor, tensor_copy, reciprocal.

Operands are widened to float32 and the result is rounded once to the type of ``dst``. Exceptions
are exact: bitwise operators, copies without a change of type, and 32-bit integers on the GpSimd
engine.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.isa.rows import chained
from nkisim.machine import instruction
from nkisim.memory import MemoryRegion
from nkisim.spec import ON_CHIP, Arithmetic, Call, Column, In, Op, Out, as_op, rules
from nkisim.spec.constraints import (
    Constraint,
    at_most_one_in_psum,
    columns_are_float32,
    one_start_partition,
    same_free_size,
    same_partitions,
    small_immediate,
)
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.instruction import ValueWatch
from nkisim.spec.operator_constraints import (
    alu_operator,
    engine_among,
    matches_bits,
    unused_operand,
)

Array = np.ndarray

_INTEGER_OPS = ("add", "subtract", "multiply", "maximum", "minimum")


def apply(op: Any, left: Any, right: Any, reverse: bool = False) -> Array:
    """Return ``left <op> right``, or the operands exchanged."""
    function = as_op(op)
    assert function is not None
    assert function.binary is not None
    if reverse and not function.unary:
        left, right = right, left
    return function.binary(left, right)


def combined(*steps: tuple[str, str | None]) -> Callable[[Call], Callable[..., Array] | None]:
    """Return a function that maps a call to the composition of its ufuncs, or to None.

    Args:
        steps: Parameters of each step: the operator, and the flag that exchanges its operands, if
            there is one. An operator that is None is skipped.
    """

    def make(call: Call) -> Callable[..., Array] | None:
        parts = []
        for name, reverse in steps:
            op = call.op(name)
            if op is not None:
                if not isinstance(op.binary, np.ufunc):
                    return None
                exchanged = reverse is not None and bool(call[reverse])
                parts.append(_exchanged(op.binary) if exchanged else op.binary)
        if len(parts) == 1:
            return parts[0]
        if len(parts) != 2:
            return None
        first, second = parts
        return lambda x, y, z, out: second(first(x, y), z, out=out)

    return make


def _exchanged(ufunc: np.ufunc) -> Callable[..., Array]:
    return lambda x, y, out=None: ufunc(y, x, out=out)


def _bits_or_fp32(*op_names: str) -> Any:
    """Return the rule: "bits" if an operator of the call is bitwise, else "fp32"."""

    def arithmetic(call: Call) -> Arithmetic:
        return (
            "bits"
            if any((op := call.op(n)) is not None and op.is_bitvec for n in op_names)
            else "fp32"
        )

    return arithmetic


def _watch_shift(data: str, *op_names: str) -> Callable[[Call], ValueWatch | None]:
    """Return the value check of instructions that may shift signed integers to the right."""

    def watch(call: Call) -> ValueWatch | None:
        tensor = call.operand(data)
        ops = [op.name for n in op_names if (op := call.op(n)) is not None]
        if tensor.dtype.kind != "int" or "right_shift" not in ops:
            return None
        index = call.instruction.parameters.index(data)
        sign_bit = np.uint32(1 << (tensor.dtype.bits - 1))
        name = call.name  # the check outlives the call and must not reference its tensors

        def check(arguments: Sequence[Any]) -> None:
            negative = (arguments[index] & sign_bit) != 0
            if negative.any():
                flag(
                    rules.SIGNED_SHIFT,
                    f"{name} shifts {int(negative.sum())} negative integers right",
                    instruction=name,
                    operand=data,
                    seen=f"{int(negative.sum())} negative values",
                    fix="shift unsigned integers, or put the sign bits back with a mask",
                )

        return check

    return watch


_WRAPPING: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
}


def _watch_integers(call: Call) -> ValueWatch | None:
    """Return the value check of tensor_tensor: negative shifts, and integer results that wrap.

    Wrapping on uint32 alone is not reported: hashes and random numbers rely on it.
    """
    op = call.op("op")
    function = None if op is None else _WRAPPING.get(op.name)
    unsigned = all(t.dtype == "uint32" for _, t in call.tensors("dst", "data1", "data2"))
    if function is None or unsigned or _tensor_tensor_arithmetic(call) != "integer":
        return _watch_shift("data1", "op")(call)
    first, second = (call.instruction.parameters.index(name) for name in ("data1", "data2"))
    stored = call.operand("dst").dtype
    limits: Any = np.iinfo(stored.numpy)

    def check(arguments: Sequence[Any]) -> None:
        left, right = arguments[first], arguments[second]  # loaded as int64
        if left.size == 0:
            return
        ends = [(int(x.min()), int(x.max())) for x in (left, right)]
        reached = [function(a, b) for a in ends[0] for b in ends[1]]
        if limits.min <= min(reached) and max(reached) <= limits.max:
            return
        wide = np.int64 if max(map(abs, reached)) < 1 << 63 else object
        exact = function(left.astype(wide), right.astype(wide))
        wraps = (exact < limits.min) | (exact > limits.max)
        if wraps.any():
            at = int(np.argmax(wraps))
            kept = (exact.flat[at] - limits.min) % (1 << 32) + limits.min
            flag(
                rules.INTEGER_WRAP,
                f"tensor_tensor: {int(wraps.sum())} of {wraps.size} results do not fit {stored} "
                "and wrap around",
                instruction="tensor_tensor",
                operand="dst",
                seen=f"{exact.flat[at]} becomes {kept}",
                allowed=f"{limits.min} to {limits.max}",
                fix="use uint32 tiles if wrapping is meant, else smaller numbers or float32",
            )

    return check


def _all_wide_integers(call: Call) -> bool:
    return all(t.dtype in ("int32", "uint32") for _, t in call.tensors("dst", "data1", "data2"))


def _tensor_tensor_engines(call: Call) -> tuple[Engine, ...]:
    op = call.op("op")
    if op is not None and op.name == "power":
        return (Engine.gpsimd,)
    return (Engine.vector, Engine.gpsimd)


def _tensor_tensor_engine(call: Call) -> Engine:
    asked, op = call["engine"], call.op("op")
    if asked is not Engine.unknown:
        return Engine(asked)
    if Engine.vector not in _tensor_tensor_engines(call):
        return Engine.gpsimd
    in_psum = any(t.buffer is MemoryRegion.psum for _, t in call.tensors("dst", "data1", "data2"))
    if op is not None and not op.is_bitvec and _all_wide_integers(call) and not in_psum:
        return Engine.gpsimd
    return Engine.vector


def _tensor_tensor_arithmetic(call: Call) -> Arithmetic:
    op = call.op("op")
    assert op is not None
    if op.is_bitvec:
        return "bits"
    exact = op.name in _INTEGER_OPS or op.kind == "compare"
    if call.engine is Engine.gpsimd and exact and _all_wide_integers(call):
        return "integer"
    return "fp32"


def _two_operands(*names: str) -> Constraint:
    def check(call: Call) -> None:
        for name in names:
            op = call.op(name)
            if op is not None and op.unary:
                call.fail(
                    rules.OPERATOR_KIND,
                    f"{name} must combine two tensors, got {op!r}",
                    operand=name,
                    seen=op,
                    allowed="binary operators",
                    fix="use nisa.tensor_scalar or nisa.activation for operators of one input",
                )

    return Constraint(f"{names[0]} takes two inputs", (rules.OPERATOR_KIND,), check)


@instruction(
    engines=(Engine.vector, Engine.gpsimd),
    operands={"dst": Out(ON_CHIP), "data1": In(ON_CHIP), "data2": In(ON_CHIP)},
    require=(
        alu_operator("op"),
        _two_operands("op"),
        matches_bits(("op",), "dst", "data1", "data2"),
        same_partitions("dst", "data1", "data2"),
        same_free_size("dst", "data1", "data2"),
        at_most_one_in_psum("data1", "data2"),
        one_start_partition("data1", "data2"),
        engine_among(_tensor_tensor_engines, "nl.power only on GpSimd"),
    ),
    choose_engine=_tensor_tensor_engine,
    arithmetic=_tensor_tensor_arithmetic,
    function=combined(("op", None)),
    shortcut=chained("data1", ("op", "data2", None)),
    watch_values=_watch_integers,
    spread="elements",
    cost=stream(over="dst", factor=2),
    source="nki.isa.tensor_tensor, 0.3.0",
)
def tensor_tensor(
    dst: Any,
    data1: Any,
    data2: Any,
    op: Op,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> Array:
    """Combine two tiles element by element.

    Tiles that are all int32 or uint32 and in SBUF run on the GpSimd engine, exactly and wrapping;
    on the Vector engine the same arithmetic goes through float32.

    Args:
        data1: Tile on the left of the operator.
        data2: Tile on the right of the operator, of the size of ``data1``.
        op: Operator of two inputs.
        engine: Engine that runs the call; with ``unknown`` it is ``gpsimd`` for 32-bit integers in
            SBUF and ``nl.power``, else ``vector``.
    """
    return apply(op, data1, data2)


def _tensor_scalar_engines(call: Call) -> tuple[Engine, ...]:
    ops = [op for n in ("op0", "op1") if (op := call.op(n)) is not None]
    names = tuple(op.name for op in ops)
    if "abs_max" in names or "abs_min" in names:
        return (Engine.vector,)
    if "rsqrt" in names:
        return (Engine.gpsimd, Engine.scalar) if len(names) == 1 else (Engine.gpsimd, Engine.vector)
    legal = [Engine.vector]
    if call.generation.number >= 4 or (
        call.generation.number == 3 and names in (("multiply", "add"), ("multiply",), ("add",))
    ):
        legal.append(Engine.scalar)
    return tuple(legal)


def _tensor_scalar_engine(call: Call) -> Engine:
    if call["engine"] is not Engine.unknown:
        return Engine(call["engine"])
    legal = _tensor_scalar_engines(call)
    in_psum = any(
        t.buffer is MemoryRegion.psum
        for _, t in call.tensors("dst", "data", "operand0", "operand1")
    )
    return next((e for e in legal if not (in_psum and e is Engine.gpsimd)), legal[0])


def _second_operator(call: Call) -> None:
    if (call["op1"] is None) != (call["operand1"] is None):
        given, missing = ("op1", "operand1") if call["operand1"] is None else ("operand1", "op1")
        call.fail_call(
            rules.BAD_CALL,
            f"{given} is given without {missing}",
            operand=missing,
            seen=f"op1={call['op1']!r}, operand1={call['operand1']!r}",
            allowed="both or neither",
            fix=f"pass {missing}, or drop {given}",
        )


UNARY_FROM_0_4 = ("square", "relu")
"""Operators that tensor_scalar and tensor_scalar_reduce take as op0 from NKI 0.4.0 on."""

_TENSOR_SCALAR = {
    "dst": Out(ON_CHIP),
    "data": In(ON_CHIP),
    "operand0": Column(ON_CHIP),
    "operand1": Column(ON_CHIP, optional=True),
}

_TENSOR_SCALAR_REQUIRES = (
    alu_operator("op1", optional=True),
    Constraint("op1 and operand1 come together", (rules.BAD_CALL,), _second_operator),
    matches_bits(("op0", "op1"), "dst", "data", "operand0", "operand1"),
    same_partitions("dst", "data", "operand0", "operand1"),
    same_free_size("dst", "data"),
    columns_are_float32("operand0", "operand1"),
    small_immediate("operand0", "operand1"),
    engine_among(_tensor_scalar_engines, "Scalar on gen3 only multiply/add; GpSimd only rsqrt"),
)


@instruction(
    engines=(Engine.vector, Engine.scalar, Engine.gpsimd),
    operands=_TENSOR_SCALAR,
    require=(alu_operator("op0"), *_TENSOR_SCALAR_REQUIRES),
    choose_engine=_tensor_scalar_engine,
    arithmetic=_bits_or_fp32("op0", "op1"),
    function=combined(("op0", "reverse0"), ("op1", "reverse1")),
    shortcut=chained("data", ("op0", "operand0", "reverse0"), ("op1", "operand1", "reverse1")),
    watch_values=_watch_shift("data", "op0", "op1"),
    spread="elements",
    cost=stream(over="data"),
    source="nki.isa.tensor_scalar, 0.3.0",
    changes={
        "0.4.0": {
            "operands": {**_TENSOR_SCALAR, "operand0": Column(ON_CHIP, optional=True)},
            "require": (
                alu_operator("op0", also=UNARY_FROM_0_4),
                unused_operand("op0", "operand0"),
                *_TENSOR_SCALAR_REQUIRES,
            ),
        }
    },
)
def tensor_scalar(
    dst: Any,
    data: Any,
    op0: Op,
    operand0: Any,
    reverse0: bool = False,
    op1: Op | None = None,
    operand1: Any = None,
    reverse1: bool = False,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> Array:
    """Apply one or two operators with a number or one value per partition.

    Bitwise operators of 8- and 16-bit integers compute in 32 bits; the result keeps the lowest
    bits. NKI does not document the width of the value between ``op0`` and ``op1``.

    Args:
        data: Tile of the first inputs.
        op0: Operator of ``data`` and ``operand0``.
        operand0: Second input of ``op0``: a number, or one float32 value per partition.
        op1: Operator of the first result and ``operand1``; None if there is no second step.
        operand1: Second input of ``op1``: a number, or one float32 value per partition.
        engine: Engine that runs the call; with ``unknown`` it is ``vector``, or ``gpsimd`` for
            ``nl.rsqrt`` of tiles in SBUF.
    """
    result = apply(op0, data, operand0, reverse0)
    return result if op1 is None else apply(op1, result, operand1, reverse1)


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "data": In(ON_CHIP),
        "operand0": Column(ON_CHIP),
        "operand1": In(ON_CHIP),
    },
    require=(
        alu_operator("op0", "op1", bitvec=False),
        same_partitions("dst", "data", "operand1", "operand0"),
        same_free_size("dst", "data", "operand1"),
        at_most_one_in_psum("data", "operand1"),
        one_start_partition("data", "operand1"),
        columns_are_float32("operand0"),
        small_immediate("operand0"),
    ),
    function=combined(("op0", "reverse0"), ("op1", "reverse1")),
    shortcut=chained("data", ("op0", "operand0", "reverse0"), ("op1", "operand1", "reverse1")),
    spread="elements",
    cost=stream(over="data", factor=2),
    source="nki.isa.scalar_tensor_tensor, 0.3.0",
)
def scalar_tensor_tensor(
    dst: Any,
    data: Any,
    op0: Op,
    operand0: Any,
    op1: Op,
    operand1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> Array:
    """Return ``(data <op0> operand0) <op1> operand1`` without rounding in between.

    Args:
        data: Tile of the first inputs.
        op0: Operator of ``data`` and ``operand0``.
        operand0: Second input of ``op0``: a number, or one float32 value per partition.
        op1: Operator of the first result and ``operand1``.
        operand1: Second input of ``op1``, a tile of the size of ``data``.
    """
    return apply(op1, apply(op0, data, operand0, reverse0), operand1, reverse1)


def _copy_engines(call: Call) -> tuple[Engine, ...]:
    if call.generation.number == 2:
        return (Engine.vector, Engine.gpsimd)
    return (Engine.vector, Engine.scalar, Engine.gpsimd)


def same_bits_or_fp32(dst: str, src: str) -> Any:
    """Return the arithmetic rule of copies: bits when the types agree, else through float32."""

    def arithmetic(call: Call) -> Arithmetic:
        same = call.operand(dst).dtype == call.operand(src).dtype
        return "copy" if same else "fp32"

    return arithmetic


@instruction(
    engines=(Engine.vector, Engine.scalar, Engine.gpsimd),
    operands={"dst": Out(ON_CHIP), "src": In(ON_CHIP)},
    require=(
        same_partitions("dst", "src"),
        same_free_size("dst", "src"),
        engine_among(_copy_engines, "not on the Scalar engine of gen2"),
    ),
    arithmetic=same_bits_or_fp32("dst", "src"),
    moves=True,
    shortcut=chained("src"),
    spread="elements",
    cost=stream(over="src"),
    source="nki.isa.tensor_copy, 0.3.0",
)
def tensor_copy(
    dst: Any, src: Any, engine: Engine = Engine.unknown, name: str | None = None
) -> Array:
    """Copy a tile: bit for bit when the types agree, through float32 otherwise.

    Args:
        dst: Tile that receives the copy.
        src: Tile that is copied.
    """
    return src


def _reciprocal(x: Array, out: Array | None = None) -> Array:
    return np.divide(np.float32(1), x, out=out)


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP)},
    require=(same_partitions("dst", "data"), same_free_size("dst", "data")),
    function=lambda call: _reciprocal,
    spread="elements",
    cost=stream(over="data", factor=8),
    source="nki.isa.reciprocal, 0.3.0",
)
def reciprocal(dst: Any, data: Any, name: str | None = None) -> Array:
    """Return 1/x in float32.

    Args:
        data: Tile of the numbers.
    """
    return _reciprocal(data)
