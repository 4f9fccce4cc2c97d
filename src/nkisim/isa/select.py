"""Selection of elements: by predicate, by affine position, by range."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import holds, int8, int16, uint8, uint16, uint32
from nkisim.isa.accumulate import accumulate, follow_chain
from nkisim.isa.activations.activation import reduce_res_fits
from nkisim.isa.elementwise import apply, same_bits_or_fp32
from nkisim.isa.fill import PATTERN_COUNT, affine_values, pattern_fits, stored_scalar
from nkisim.machine import Core, Partial, instruction
from nkisim.memory import NkiTensor
from nkisim.spec import (
    ON_CHIP,
    OPS,
    SBUF,
    Call,
    Column,
    Constraint,
    In,
    Op,
    Out,
    rules,
    unconverted,
)
from nkisim.spec.constraints import (
    at_most_one_in_psum,
    dtype_in,
    holds_constant,
    misfit,
    number_constant,
    one_start_partition,
    refuse_pack,
    same_dtype,
    same_free_size,
    same_partitions,
)
from nkisim.spec.cost import startup_stream, stream
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import reduce_cmd as ReduceCmd

Array = np.ndarray

FP32_MIN = -3.4028235e38

PREDICATE_SHAPE = declare(
    "S055",
    "predicate-shape",
    "The predicate has another size than the data.",
    "one predicate element decides one data element",
    meaningless=True,
)
RANGE_SELECT_FIELDS = declare(
    "D029",
    "range-select-fields",
    "range_select has an operand or argument it does not take.",
    "data is float, bounds are float32, comparisons are eq/lt/le/gt/ge, the reduction is "
    "maximum, the fill is FP32_MIN",
)
RANGE_SELECT_POSITION = declare(
    "D030",
    "range-select-position",
    "range_select compares positions of 2^24 or more.",
    "positions are compared in float32",
    silent=True,
)
AFFINE_SELECT_ORDER = declare(
    "A009",
    "affine-select-order",
    "affine_select is called with offset in third position.",
    "0.3.0 made offset a keyword; the arguments behind it moved up",
    meaningless=True,
)


def _predicate_fits(data: str) -> Constraint:
    def check(call: Call) -> None:
        predicate, reference = call.operand("predicate"), call.operand(data)
        if (predicate.shape[0], predicate.free_size) != (reference.shape[0], reference.free_size):
            call.fail(
                PREDICATE_SHAPE,
                f"predicate has shape {predicate.shape}, {data} has {reference.shape}",
                operand="predicate",
                seen=predicate.shape,
                allowed=reference.shape,
                fix="slice both to the same size",
            )

    return Constraint(f"predicate and {data} have one size", (PREDICATE_SHAPE,), check)


def _number_fits(call: Call) -> None:
    dst = call.operand("dst")
    if call.tensor("src") is None and dst.dtype.kind == "packed":
        refuse_pack(call, "dst", dst)


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP, flat=True, masked=True),
        "src": In(ON_CHIP, scalar=True, flat=True, chosen=True),
        "predicate": In(ON_CHIP, flat=True),
    },
    require=(
        _predicate_fits("dst"),
        same_partitions("dst", "src"),
        same_free_size("dst", "src"),
        dtype_in("predicate", (uint8, uint16, uint32)),
        same_dtype("dst", "src"),
        at_most_one_in_psum("src", "predicate"),
        one_start_partition("src", "predicate"),
        Constraint("a number goes into no x4 tile", (rules.OPERAND_DTYPE,), _number_fits),
    ),
    arithmetic=unconverted,
    spread="elements",
    cost=stream(over="dst", factor=2),
    source="nki.isa.tensor_copy_predicated, 0.3.0",
)
def tensor_copy_predicated(
    dst: NkiTensor,
    src: Any,
    predicate: Any,
    reverse_pred: bool = False,
    name: str | None = None,
) -> Partial:
    """Copy elements where the predicate is true; the others are unchanged.

    Args:
        dst: Tile whose elements are replaced where the predicate is true.
        src: Tile of the size and dtype of ``dst``, or a number.
        predicate: Tile of uint8, uint16 or uint32, of the size of ``dst``; an element other than 0
            is true.
        reverse_pred: Whether elements are replaced where the predicate is 0 instead.
    """
    chosen = (predicate == 0) if reverse_pred else (predicate != 0)
    if isinstance(src, np.ndarray):
        return Partial(src, chosen)
    if not holds(dst.dtype, src):
        by = "tensor_copy_predicated"
        flag(**misfit(dst.dtype, src, by), instruction=by, operand="src")
    return Partial(np.asarray(stored_scalar(dst, src)), chosen)


_SELECT_DTYPES = "any type but tfloat32, int32 and uint32"


def _select_dtypes(call: Call) -> None:
    tile = call.operand("on_true")
    if tile.dtype in ("tfloat32", "int32", "uint32"):
        call.fail(
            rules.RESTRICTED_DTYPE,
            f"on_true is {tile.dtype}, which the instruction does not support",
            operand="on_true",
            seen=tile.dtype,
            allowed=_SELECT_DTYPES,
            fix="use float32",
        )


def _maximum_only(call: Call) -> None:
    op = call.op("reduce_op")
    if op is None or op.name != "maximum":
        call.fail(
            rules.REDUCTION_OPERATOR,
            f"reduce_op must be nl.maximum, got {call['reduce_op']!r}",
            operand="reduce_op",
            seen=repr(call["reduce_op"]),
            allowed="nl.maximum",
            fix="reduce with nisa.tensor_reduce",
        )


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "predicate": In(ON_CHIP),
        "on_true": In(ON_CHIP, chosen=True),
        "on_false": Column(ON_CHIP, chosen=True),
        "reduce_res": Out(ON_CHIP, optional=True),
    },
    require=(
        _predicate_fits("on_true"),
        same_partitions("dst", "on_true", "on_false"),
        same_free_size("dst", "on_true"),
        dtype_in("predicate", (int8, uint8, int16, uint16)),
        Constraint(f"on_true {_SELECT_DTYPES}", (rules.RESTRICTED_DTYPE,), _select_dtypes),
        Constraint("reduce_op is nl.maximum", (rules.REDUCTION_OPERATOR,), _maximum_only),
        at_most_one_in_psum("on_true", "predicate"),
        one_start_partition("on_true", "predicate"),
        reduce_res_fits("reduce_res", "on_true"),
    ),
    stateful=True,
    follow=follow_chain(Engine.vector),
    spread="elements",
    cost=stream(over="dst", factor=2),
    source="nki.isa.select_reduce, 0.3.0",
)
def select_reduce(
    core: Core,
    dst: Any,
    predicate: Any,
    on_true: Any,
    on_false: Any,
    reduce_res: Any = None,
    reduce_cmd: ReduceCmd = ReduceCmd.idle,
    reduce_op: Op = OPS["maximum"],
    reverse_pred: bool = False,
    name: str | None = None,
) -> Any:
    """Select ``on_true`` or ``on_false`` by predicate, and with ``reduce_cmd`` return the maximum.

    Args:
        predicate: Tile of integers of 8 or 16 bits, of the size of ``on_true``; an element other
            than 0 is true.
        on_true: Tile whose elements are taken where the predicate is true.
        on_false: Number that is taken elsewhere, or one value per partition.
        reduce_op: Operator of the reduction, ``nl.maximum``.
        reverse_pred: Whether ``on_true`` is taken where the predicate is 0 instead.
    """
    chosen = (predicate == 0) if reverse_pred else (predicate != 0)
    core.limit_garbage("on_true", chosen)
    result = np.where(chosen, on_true, on_false)
    return accumulate(core, Engine.vector, reduce_cmd, reduce_op, result, dst, reduce_res)


_COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")


def _range_select_fields(call: Call) -> None:
    tile = call.operand("on_true_tile")
    problems: list[tuple[str, object, object]] = []
    if not tile.dtype.is_float:
        problems.append(("on_true_tile", tile.dtype, "a float type"))
    for name in ("bound0", "bound1"):
        bound = call.tensor(name)
        if bound is not None and bound.dtype != "float32":
            problems.append((name, bound.dtype, "float32"))
    for name in ("comp_op0", "comp_op1"):
        op = call.op(name)
        if op is None or op.name not in _COMPARISONS:
            problems.append((name, repr(call[name]), ", ".join(f"nl.{c}" for c in _COMPARISONS)))
    op = call.op("reduce_op")
    if op is None or op.name != "maximum":
        problems.append(("reduce_op", repr(call["reduce_op"]), "nl.maximum"))
    fill = call["on_false_value"]
    if not isinstance(fill, (int, float, np.number)) or np.float32(fill) != np.float32(FP32_MIN):
        problems.append(("on_false_value", fill, FP32_MIN))
    for name, seen, allowed in problems:
        call.fail(
            RANGE_SELECT_FIELDS,
            f"{name} must be {allowed}, got {seen}",
            operand=name,
            seen=seen,
            allowed=allowed,
            fix=f"pass {allowed} for {name}",
        )
    dst, peak = call.operand("dst"), call.tensor("reduce_res")
    if peak is not None and "float32" not in (dst.dtype, peak.dtype):
        call.fail(
            rules.MASKED_ROW,
            f"reduce_res is {peak.dtype} while dst is {dst.dtype}: a fully masked row gives -inf "
            f"in both",
            operand="reduce_res",
            seen=f"{dst.dtype} and {peak.dtype}",
            allowed="float32 for reduce_res",
            fix="keep reduce_res in float32",
        )


def _positions_fit(call: Call) -> None:
    tile, start = call.operand("on_true_tile"), call["range_start"]
    if not isinstance(start, (int, np.integer)):
        call.fail(
            rules.STATIC_ARGUMENT,
            f"range_start must be a compile-time integer, got {type(start).__name__}",
            operand="range_start",
            seen=repr(start)[:60],
            allowed="an int",
            fix="pass a Python int",
        )
    elif int(start) + tile.free_size > 2**24:
        call.fail(
            RANGE_SELECT_POSITION,
            f"positions reach {start + tile.free_size - 1}",
            operand="range_start",
            seen=start + tile.free_size - 1,
            allowed="below 2^24",
            fix="subtract a common base from range_start and from the bounds",
        )


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "on_true_tile": In(ON_CHIP, chosen=True),
        "bound0": Column(ON_CHIP),
        "bound1": Column(ON_CHIP),
        "reduce_res": Out(ON_CHIP, optional=True),
    },
    require=(
        same_partitions("dst", "on_true_tile", "bound0", "bound1"),
        same_free_size("dst", "on_true_tile"),
        Constraint(
            "float data, float32 bounds, FP32_MIN fill, maximum",
            (RANGE_SELECT_FIELDS,),
            _range_select_fields,
        ),
        Constraint("positions below 2^24", (RANGE_SELECT_POSITION,), _positions_fit),
        reduce_res_fits("reduce_res", "on_true_tile"),
    ),
    varying=("range_start",),
    since=3,
    stateful=True,
    follow=follow_chain(Engine.vector),
    spread="elements",
    cost=stream(over="dst"),
    source="nki.isa.range_select, 0.3.0",
)
def range_select(
    core: Core,
    dst: Any,
    on_true_tile: Any,
    comp_op0: Op,
    comp_op1: Op,
    bound0: Any,
    bound1: Any,
    reduce_cmd: ReduceCmd = ReduceCmd.reset_reduce,
    reduce_res: Any = None,
    reduce_op: Op = OPS["maximum"],
    range_start: int = 0,
    on_false_value: float = FP32_MIN,
    name: str | None = None,
) -> Any:
    """Select elements whose position passes both comparisons, fill the rest, return the maximum.

    Args:
        on_true_tile: Tile of floats whose elements are taken where both comparisons are true.
        comp_op0: Comparison of a position, on the left, with ``bound0``, such as
            ``nl.greater_equal``.
        comp_op1: Comparison of a position, on the left, with ``bound1``, such as ``nl.less``.
        bound0: Bound of the first comparison: a number, or one float32 value per partition.
        bound1: Bound of the second comparison: a number, or one float32 value per partition.
        reduce_op: Operator of the reduction, ``nl.maximum``.
        range_start: Position of the first element of each partition; the last one is below 2^24.
        on_false_value: Number that fills the other elements: the smallest finite float32,
            -3.4028235e38.
    """
    position = (np.arange(on_true_tile.shape[1]) + range_start).astype(np.float32)[None, :]
    chosen = (apply(comp_op0, position, bound0) != 0) & (apply(comp_op1, position, bound1) != 0)
    core.limit_garbage("on_true_tile", chosen)
    result = np.where(chosen, on_true_tile, np.float32(on_false_value))
    return accumulate(core, Engine.vector, reduce_cmd, reduce_op, result, dst, reduce_res)


_HELD = holds_constant("dst", "on_false_value")


def _fill_fits(call: Call) -> None:
    tile, dst = call.operand("on_true_tile"), call.operand("dst")
    if dst.dtype.kind == "packed" and call["on_false_value"] != 0:
        refuse_pack(call, "dst", dst)
    if tile.dtype == dst.dtype:
        _HELD.check(call)  # else _RANGE checks the rounding to float32


def _affine_arguments(call: Call) -> None:
    if isinstance(call["on_false_value"], NkiTensor) or not isinstance(
        call["on_true_tile"], NkiTensor
    ):
        call.fail_call(
            AFFINE_SELECT_ORDER,
            "takes (dst, pattern, channel_multiplier, on_true_tile, on_false_value, ..., "
            "offset=0); "
            "the call has a tensor or number in another's place",
            operand="offset",
            seen=f"on_true_tile={type(call['on_true_tile']).__name__}, "
            f"on_false_value={type(call['on_false_value']).__name__}",
            allowed="a tile and a number",
            fix="pass offset=... by keyword",
        )
    op = call.op("cmp_op")
    if op is None or op.kind != "compare" or op.name.startswith("logical"):
        call.fail(
            rules.OPERATOR_KIND,
            f"cmp_op must be a comparison, got {call['cmp_op']!r}",
            operand="cmp_op",
            seen=repr(call["cmp_op"]),
            allowed="nl.equal, nl.not_equal, nl.less, nl.less_equal, nl.greater, nl.greater_equal",
            fix="pass a comparison operator",
        )


def _affine_chosen(
    rows: int, pattern: Any, offset: int, channel_multiplier: int, cmp_op: Op
) -> Array:
    """Return the mask of elements that compare true."""
    values = affine_values(rows, pattern, offset, channel_multiplier)
    return np.asarray(apply(cmp_op, values, np.int32(0)) != 0)


def _affine_part(call: Call) -> Array:
    """Return the mask of elements of ``on_true_tile`` in the result."""
    tile, dst = call["on_true_tile"], call["dst"]
    parts = (call[name] for name in ("pattern", "offset", "channel_multiplier", "cmp_op"))
    return _affine_chosen(dst.shape[0], *parts).reshape(tile.shape)


@instruction(
    engines=(Engine.gpsimd,),
    # A number passes as on_true_tile here so that the constraint can explain the old argument
    # order.
    operands={
        "dst": Out(SBUF),
        "on_true_tile": In(SBUF, scalar=True, part=_affine_part),
    },
    require=(
        Constraint(
            "cmp_op a comparison",
            (AFFINE_SELECT_ORDER, rules.OPERATOR_KIND),
            _affine_arguments,
            first=True,
        ),
        number_constant("on_false_value"),
        Constraint(_HELD.says, _HELD.rules, _fill_fits),
        same_partitions("dst", "on_true_tile"),
        same_free_size("dst", "on_true_tile"),
        Constraint("the pattern has one value per element", (PATTERN_COUNT,), pattern_fits),
    ),
    arithmetic=same_bits_or_fp32("dst", "on_true_tile"),
    moves=True,
    spread="elements",
    cost=startup_stream(over="dst"),
    source="nki.isa.affine_select, 0.3.0",
)
def affine_select(
    dst: Any,
    pattern: Any,
    channel_multiplier: int,
    on_true_tile: Any,
    on_false_value: float,
    cmp_op: Op = OPS["equal"],
    offset: int = 0,
    name: str | None = None,
) -> Array:
    """Select elements whose affine position compares true with 0, and fill the rest.

    Args:
        pattern: List of up to four pairs ``[step, count]``, outermost first: element i of such a
            dimension adds i * step to the position, and the counts multiply to the elements per
            partition of ``dst``.
        channel_multiplier: Step from one partition to the next: partition p adds p *
            ``channel_multiplier`` to the position, and p counts from the first partition of
            ``dst``.
        on_true_tile: Tile whose elements are taken where the comparison is true.
        on_false_value: Number that is written where the comparison is false.
        cmp_op: Comparison of the position, on the left, with 0, such as ``nl.greater_equal``.
        offset: Position of the first element of partition 0, an integer of 32 bits.
    """
    chosen = _affine_chosen(dst.shape[0], pattern, offset, channel_multiplier, cmp_op)
    wide = dst.origin.storage_dtype(dst.dtype) == np.float32
    same_type = wide or on_true_tile.dtype != np.float32
    fill = stored_scalar(dst, on_false_value) if same_type else np.float32(on_false_value)
    return np.where(chosen, on_true_tile, fill)
