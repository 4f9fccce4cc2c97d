"""Generated tiles: memset and iota."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nkisim.diagnostics import declare
from nkisim.dtypes import decode, encode, exact_up_to, holds
from nkisim.machine import instruction
from nkisim.memory import NkiTensor
from nkisim.spec import ON_CHIP, SBUF, Call, Constraint, Out, rules, unconverted
from nkisim.spec.constraints import UNHELD, holds_constant, misfit, unpacked
from nkisim.spec.cost import startup_stream, stream
from nkisim.spec.enums import engine as Engine

Array = np.ndarray

_F32 = np.dtype(np.float32)

MEMSET_TYPE = declare(
    "A004",
    "memset-type",
    "memset fills a tile with a value of another kind.",
    "0.3.0 no longer converts: integer tiles take integers",
)
MEMSET_PACKED = declare(
    "A005",
    "memset-packed",
    "memset fills an x4 packed tile with something other than 0.",
    "memset writes whole words, not the elements packed in them",
    meaningless=True,
)
PATTERN_COUNT = declare(
    "S052",
    "pattern-count",
    "The pattern of iota or affine_select does not generate one value per element.",
    "the pattern's counts must multiply to the elements per partition, in at most 4 dimensions",
    meaningless=True,
)


def _fill_value(call: Call) -> None:
    dst, value = call.operand("dst"), call["value"]
    if not isinstance(value, (int, float, np.number)):
        call.fail(
            rules.STATIC_ARGUMENT,
            f"value must be a number known at compile time, got {type(value).__name__}",
            operand="value",
            seen=repr(value)[:80],
            allowed="an int or a float",
            fix="copy tiles with nisa.tensor_copy",
        )
    if dst.dtype.kind == "packed" and value != 0:
        call.fail(
            MEMSET_PACKED,
            f"value must be 0 for {dst.dtype}, got {value}",
            operand="value",
            seen=value,
            allowed=0,
            fix="fill with 0, or load packed values with nisa.dma_copy",
        )
    is_bool = isinstance(value, (bool, np.bool_))
    if (is_bool and dst.dtype.kind != "bool") or (
        isinstance(value, (float, np.floating)) and not dst.dtype.is_float
    ):
        call.fail(
            MEMSET_TYPE,
            f"value {value!r} does not match the dtype {dst.dtype} of dst",
            operand="value",
            seen=repr(value),
            allowed="an int" if not dst.dtype.is_float else "an int or a float",
            fix=f"write value={stored_scalar(dst, value)}",
        )
    whole = isinstance(value, (int, np.integer))
    if dst.dtype.is_float and whole and float(np.float32(value)) != value:
        call.fail(
            rules.LARGE_IMMEDIATE,
            f"value {value} is not exact in float32",
            operand="value",
            seen=value,
            allowed="magnitude up to 2^24, or exact in float32",
            fix="fill an integer tile",
        )


@instruction(
    engines=(Engine.vector, Engine.gpsimd),
    operands={"dst": Out(ON_CHIP)},
    varying=("value",),
    require=(
        Constraint(
            "value matches the dtype of dst",
            (MEMSET_TYPE, MEMSET_PACKED),
            _fill_value,
        ),
        holds_constant("dst", "value"),
    ),
    arithmetic=unconverted,
    cost=stream(over="dst"),
    source="nki.isa.memset, 0.3.0",
)
def memset(
    dst: Any, value: float, engine: Engine = Engine.unknown, name: str | None = None
) -> None:
    """Fill a tile with a constant.

    Args:
        dst: Tile that is filled.
        value: Number that every element receives; integer tiles take integers.
    """
    dst._elements[...] = stored_scalar(dst, value)


def stored_scalar(tensor: NkiTensor, value: Any) -> Any:
    """Return a number in the storage form of ``tensor``; integers saturate, NaN becomes 0."""
    dtype, storage = tensor.dtype, tensor.origin.storage_dtype(tensor.dtype)
    if storage == _F32 and dtype != "tfloat32":
        return np.float32(value)
    if dtype.kind == "packed" or (dtype.is_integer and isinstance(value, (int, np.integer))):
        limits: Any = np.iinfo(storage)
        return storage.type(min(max(int(value), int(limits.min)), int(limits.max)))
    return encode(np.array([value], np.float32), dtype)[0]


def pattern_fits(call: Call) -> None:
    """Check that a pattern generates one value per element of ``dst``."""
    dst, pattern = call.operand("dst"), call["pattern"]
    try:
        counts = [int(count) for _, count in pattern]
    except (TypeError, ValueError):
        call.fail(
            rules.STATIC_ARGUMENT,
            f"pattern must be a list of [step, count], got {pattern!r}",
            operand="pattern",
            seen=repr(pattern)[:80],
            allowed="[[step, count], ...]",
            fix="pass integers known at compile time",
        )
        return
    if math.prod(counts) != dst.free_size or len(counts) > 4:
        call.fail(
            PATTERN_COUNT,
            f"pattern {[list(p) for p in pattern]} generates {math.prod(counts)} values in "
            f"{len(counts)} "
            f"dimensions, dst has {dst.free_size} elements per partition",
            operand="pattern",
            seen=math.prod(counts),
            allowed=f"{dst.free_size}, in at most 4 dimensions",
            fix="make the counts multiply to the elements per partition of dst",
        )


def _range(dst: NkiTensor, pattern: Any, offset: int, step: int) -> tuple[int, int]:
    """Return the smallest and the largest number of a pattern."""
    low = high = int(offset)
    for by, count in ((step, dst.shape[0]), *pattern):
        end = int(by) * (int(count) - 1)
        low, high = low + min(end, 0), high + max(end, 0)
    return low, high


def _range_fits(call: Call) -> None:
    """Check that ``dst`` holds every number of a pattern."""
    dst, offset, step = call.operand("dst"), call["offset"], call["channel_multiplier"]
    whole = (int, np.integer)
    if not isinstance(offset, whole) or not isinstance(step, whole):
        return  # known only when the call runs
    dtype, pattern = dst.dtype, call["pattern"]
    ends = _range(dst, pattern, int(offset), int(step))
    for worst in ends:
        if not holds(dtype, worst):
            call.fail(**misfit(dtype, worst), operand="dst")
            return
    if not dtype.is_float or max(map(abs, ends)) <= exact_up_to(dtype):
        return
    values = affine_values(dst.shape[0], pattern, offset, step)
    stored = decode(encode(values.astype(np.float32), dtype), dtype)
    wrong = np.flatnonzero(stored != values)
    if wrong.size:
        first = wrong[0]
        call.fail(
            rules.LARGE_IMMEDIATE,
            f"{dtype} rounds {wrong.size} of {values.size} numbers, the first {values.flat[first]} "
            f"to {stored.flat[first]:.0f}",
            operand="dst",
            seen=f"{dtype}, numbers from {ends[0]} to {ends[1]}",
            allowed=f"magnitude up to {exact_up_to(dtype)}, or exact in {dtype}",
            fix="write the numbers to an int32 or a float32 tile",
        )


def affine_values(partitions: int, pattern: Any, offset: Any, channel_multiplier: Any) -> Array:
    """Return ``offset + channel * multiplier + sum(index * step)`` in wrapping int32."""
    (step, count), *inner = pattern or [[0, 1]]
    values = int(step) * np.arange(int(count), dtype=np.int64)
    for step, count in inner:
        values = (values[:, None] + int(step) * np.arange(int(count), dtype=np.int64)).reshape(-1)
    values += int(offset)
    rows = np.empty((partitions, values.size), np.int64)
    rows[...] = values
    if channel_multiplier:
        rows += np.arange(partitions, dtype=np.int64)[:, None] * int(channel_multiplier)
    return rows.astype(np.int32)


@instruction(
    engines=(Engine.gpsimd,),
    operands={"dst": Out(SBUF)},
    varying=("offset", "channel_multiplier"),
    require=(
        unpacked("dst"),
        Constraint("the pattern has one value per element", (PATTERN_COUNT,), pattern_fits),
        Constraint("dst holds the numbers", (*UNHELD, rules.LARGE_IMMEDIATE), _range_fits),
    ),
    arithmetic=unconverted,
    cost=startup_stream(over="dst"),
    source="nki.isa.iota, 0.3.0",
)
def iota(
    dst: Any, pattern: Any, offset: int = 0, channel_multiplier: int = 0, name: str | None = None
) -> Array:
    """Write an affine function of the position, computed in int32, as ``dst``'s type.

    Args:
        dst: Tile in SBUF that receives the numbers.
        pattern: List of up to four pairs ``[step, count]``, outermost first: element i of such a
            dimension adds i * step, and the counts multiply to the elements per partition of
            ``dst``.
        offset: Number of the first element of partition 0, an integer of 32 bits.
        channel_multiplier: Step from one partition to the next: partition p adds p *
            ``channel_multiplier``, and p counts from the first partition of ``dst``.
    """
    values = affine_values(dst.shape[0], pattern, offset, channel_multiplier)
    if dst.dtype == "int32":
        return values
    if dst.dtype.is_integer:
        limits = np.iinfo(dst.dtype.numpy)
        return np.clip(values.astype(np.int64), limits.min, limits.max).astype(dst.dtype.numpy)
    wide = values.astype(np.float32)
    return (
        wide
        if dst.origin.storage_dtype(dst.dtype) == _F32 and dst.dtype != "tfloat32"
        else encode(wide, dst.dtype)
    )
