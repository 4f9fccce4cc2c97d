"""Search for eight values: max8, nc_find_index8, nc_match_replace8."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import declare
from nkisim.dtypes import uint16, uint32
from nkisim.machine import instruction
from nkisim.spec import ON_CHIP, Call, Constraint, In, Out
from nkisim.spec.constraints import dtype_in, number_constant, same_free_size, same_partitions
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine

__all__ = ["max8", "nc_find_index8", "nc_match_replace8"]

Array = np.ndarray

WIDTH = 8

SEARCH_SIZE = declare(
    "S048",
    "search-size",
    "error",
    "max8, nc_find_index8 or nc_match_replace8 has operands of the wrong size.",
    "they search 8 to 16384 elements per partition for 8 values",
    meaningless=True,
)


def _searched(name: str) -> Constraint:
    def check(call: Call) -> None:
        tensor = call.operand(name)
        if not WIDTH <= tensor.free_size <= 16384:
            call.fail(
                SEARCH_SIZE,
                f"{name} has {tensor.free_size} elements per partition",
                operand=name,
                seen=tensor.free_size,
                allowed="8 to 16384",
                fix="pad to 8 with the lowest value, or search in chunks",
            )

    return Constraint(f"{name} has 8 to 16384 elements per partition", (SEARCH_SIZE,), check)


def _eight(*names: str) -> Constraint:
    def check(call: Call) -> None:
        for name, tensor in call.tensors(*names):
            if tensor.free_size != WIDTH:
                call.fail(
                    SEARCH_SIZE,
                    f"{name} must have 8 elements per partition, got {tensor.free_size}",
                    operand=name,
                    seen=tensor.shape,
                    allowed="(P, 8)",
                    fix=f"allocate {name} as (P, 8)",
                )

    return Constraint(f"{' and '.join(names)} (P, 8)", (SEARCH_SIZE,), check)


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "src": In(ON_CHIP)},
    require=(same_partitions("dst", "src"), _searched("src"), _eight("dst")),
    spread="lanes",
    cost=stream(over="src"),
    source="nki.isa.max8, 0.3.0",
)
def max8(dst: Any, src: Any, name: str | None = None) -> Array:
    """Return the eight largest values of each partition, in descending order."""
    return -np.sort(-src, axis=1)[:, :WIDTH]


def _matches(data: Array, vals: Array, order: range) -> tuple[Array, Array]:
    """Return for each slot the position of its match and whether there is one.

    Slots that hold the same value take successive occurrences, in the given order of slots.
    """
    position = np.zeros(vals.shape, np.int64)
    found = np.zeros(vals.shape, bool)
    for turn, slot in enumerate(order):
        value = vals[:, slot : slot + 1]
        earlier = list(order)[:turn]
        rank = (vals[:, earlier] == value).sum(axis=1, keepdims=True) if earlier else 0
        equal = data == value
        hit = equal & (np.cumsum(equal, axis=1) == rank + 1)
        found[:, slot] = hit.any(axis=1)
        position[:, slot] = hit.argmax(axis=1)
    return position, found


def _stored_indices(position: Array, found: Array, dst: Any) -> Array:
    """Return indices in the type of ``dst``; slots without a match are all ones."""
    kind = dst.dtype.numpy
    return np.where(found, position, np.iinfo(kind).max).astype(kind)


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP), "vals": In(ON_CHIP)},
    require=(
        same_partitions("dst", "data", "vals"),
        _searched("data"),
        _eight("dst", "vals"),
        dtype_in("dst", (uint16, uint32)),
    ),
    spread="lanes",
    cost=stream(over="data"),
    raw_results=("dst",),
    source="nki.isa.nc_find_index8, 0.3.0",
)
def nc_find_index8(dst: Any, data: Any, vals: Any, name: str | None = None) -> Array:
    """Return the first index of each of eight values; equal values take successive occurrences.

    A value that does not occur gives all ones.
    """
    return _stored_indices(*_matches(data, vals, range(WIDTH)), dst)


def _is_number(dst: Any, data: Any, vals: Any, imm: Any, *_: Any) -> bool:
    return type(imm) is float


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP),
        "data": In(ON_CHIP),
        "vals": In(ON_CHIP),
        "dst_idx": Out(ON_CHIP, optional=True),
    },
    require=(
        same_partitions("dst", "data", "vals", "dst_idx"),
        same_free_size("dst", "data"),
        _searched("data"),
        _eight("vals", "dst_idx"),
        dtype_in("dst_idx", (uint16, uint32)),
        number_constant("imm"),
    ),
    spread="lanes",
    cost=stream(over="data"),
    raw_results=("dst_idx",),
    varying={"imm": _is_number},
    source="nki.isa.nc_match_replace8, 0.3.0",
)
def nc_match_replace8(
    dst: Any, data: Any, vals: Any, imm: float, dst_idx: Any = None, name: str | None = None
) -> Any:
    """Replace the first occurrence of each of eight values by ``imm``, and return their indices.

    Equal values are matched from the last slot to the first; slots without a match give all ones.
    """
    position, found = _matches(data, vals, range(WIDTH - 1, -1, -1))
    result = data.copy()
    rows, slots = np.nonzero(found)
    result[rows, position[rows, slots]] = np.float32(imm)
    if dst_idx is None:
        return result
    return result, _stored_indices(position, found, dst_idx)
