"""Search for largest values and their places: max8, nc_find_index8, nc_match_replace8, topk."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.diagnostics import declare
from nkisim.dtypes import bfloat16, uint16, uint32
from nkisim.machine import instruction
from nkisim.spec import ON_CHIP, SBUF, Call, Constraint, In, Out
from nkisim.spec.constraints import (
    dtype_in,
    int32_constant,
    number_constant,
    same_free_size,
    same_partitions,
)
from nkisim.spec.cost import search, stream
from nkisim.spec.enums import engine as Engine

Array = np.ndarray

WIDTH = 8

SEARCH_SIZE = declare(
    "S048",
    "search-size",
    "max8, nc_find_index8, nc_match_replace8 or topk has operands of the wrong size.",
    "they search 8 to 16384 elements per partition for 8 values, topk 8 to 65535 elements of 16 "
    "partitions for up to 32767",
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


def _at_most_three(name: str) -> Constraint:
    """The searched tile has at most three dimensions, a limit of NKI 0.4.0 and later."""

    def check(call: Call) -> None:
        tensor = call.operand(name)
        if tensor.ndim > 3:
            call.fail(
                SEARCH_SIZE,
                f"{name} has {tensor.ndim} dimensions",
                operand=name,
                seen=tensor.shape,
                allowed="at most 3",
                fix="reshape it to (P, elements)",
            )

    return Constraint(f"{name} has at most 3 dimensions", (SEARCH_SIZE,), check)


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


_MAX8 = (same_partitions("dst", "src"), _searched("src"), _eight("dst"))


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "src": In(ON_CHIP)},
    require=_MAX8,
    spread="lanes",
    cost=stream(over="src"),
    source="nki.isa.max8, 0.3.0",
    changes={"0.4.0": {"require": (*_MAX8, _at_most_three("src"))}},
)
def max8(dst: Any, src: Any, name: str | None = None) -> Array:
    """Return the eight largest values of each partition, in descending order.

    Args:
        dst: Tile (P, 8) that receives the values.
        src: Tile that is searched, with 8 to 16384 elements per partition.
    """
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


_FIND_INDEX8 = (
    same_partitions("dst", "data", "vals"),
    _searched("data"),
    _eight("dst", "vals"),
    dtype_in("dst", (uint16, uint32)),
)


@instruction(
    engines=(Engine.vector,),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP), "vals": In(ON_CHIP)},
    require=_FIND_INDEX8,
    spread="lanes",
    cost=stream(over="data"),
    raw_results=("dst",),
    source="nki.isa.nc_find_index8, 0.3.0",
    changes={"0.4.0": {"require": (*_FIND_INDEX8, _at_most_three("data"))}},
)
def nc_find_index8(dst: Any, data: Any, vals: Any, name: str | None = None) -> Array:
    """Return the first index of each of eight values; equal values take successive occurrences.

    A value that does not occur gives all ones.

    Args:
        dst: Tile (P, 8) of uint16 or uint32 that receives the indices.
        data: Tile that is searched, with 8 to 16384 elements per partition.
        vals: Tile (P, 8) of the values to be found.
    """
    return _stored_indices(*_matches(data, vals, range(WIDTH)), dst)


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
    varying=("imm",),
    source="nki.isa.nc_match_replace8, 0.3.0",
)
def nc_match_replace8(
    dst: Any, data: Any, vals: Any, imm: float, dst_idx: Any = None, name: str | None = None
) -> Any:
    """Replace the first occurrence of each of eight values by ``imm``, and return their indices.

    Equal values are matched from the last slot to the first; slots without a match give all ones.

    Args:
        dst: Tile that receives ``data`` with the replaced elements.
        data: Tile that is searched, with 8 to 16384 elements per partition.
        vals: Tile (P, 8) of the values to be replaced.
        imm: Number that replaces a value.
        dst_idx: Tile (P, 8) of uint16 or uint32 that receives the indices of the replaced elements;
            None if they are not needed.
    """
    position, found = _matches(data, vals, range(WIDTH - 1, -1, -1))
    result = data.copy()
    rows, slots = np.nonzero(found)
    result[rows, position[rows, slots]] = np.float32(imm)
    if dst_idx is None:
        return result
    return result, _stored_indices(position, found, dst_idx)


GROUP = 16
"""Partitions that one of the GpSimd engine's cores reaches; topk searches them together."""


def _topk_sizes(call: Call) -> None:
    src, val_dst, n = call.operand("src"), call.operand("val_dst"), call["n"]
    k, columns = val_dst.free_size, src.free_size
    why = ""
    if src.shape[0] % GROUP:
        why, operand, allowed = f"src has {src.shape[0]} partitions", "src", "a multiple of 16"
    elif not 8 <= n < 65536:
        why, operand, allowed = f"n is {n}", "n", "8 to 65535"
    elif not 1 <= k < 32768 or k > n:
        why, operand = f"val_dst asks for the {k} largest of {n}", "val_dst"
        allowed = f"1 to {min(n, 32767)}"
    elif columns * GROUP < n:
        why, operand = f"src has {columns} columns, room for {columns * GROUP} of {n}", "src"
        allowed = f"at least {-(-n // GROUP)} columns"
    if why:
        call.fail(
            SEARCH_SIZE,
            why,
            operand=operand,
            seen=why,
            allowed=allowed,
            fix="put the elements on 16 partitions, column by column, and pass their number as n",
        )


def _searched_part(call: Call) -> Array:
    """Return the mask of the first ``n`` elements of each group."""
    src, n = call.operand("src"), call["n"]
    row = np.arange(src.shape[0])[:, None] % GROUP
    mask = row + GROUP * np.arange(src.free_size)[None, :] < n
    return np.asarray(mask).reshape(src.shape)


def _snake_part(name: str) -> Callable[[Call], Array]:
    """Return the mask of the K results of each group: result j on partition j % 16."""

    def part(call: Call) -> Array:
        dst = call.operand(name)
        row = np.arange(dst.shape[0])[:, None] % GROUP
        mask = row + GROUP * np.arange(dst.free_size)[None, :] < dst.free_size
        return np.asarray(mask).reshape(dst.shape)

    return part


def _snake_topk(
    val_dst: Any, idx_dst: Any, src: Any, n: int, sorted: bool = False, name: str | None = None
) -> tuple[Array, Array]:
    """Return the K largest in the layout of the source: ``topk`` of NKI 0.7.0 and later."""
    rows, k = src.shape[0], val_dst.free_size
    results = _largest(src, n, k)
    placed = []
    for result in results if not sorted else [result[:, ::-1] for result in results]:
        full = np.zeros((rows // GROUP, GROUP * k), result.dtype)
        full[:, :k] = result
        groups = full.reshape(rows // GROUP, k, GROUP).transpose(0, 2, 1)
        placed.append(groups.reshape(rows, k))
    return placed[0], placed[1]


def _largest(src: Array, n: int, k: int) -> tuple[Array, Array]:
    """Return the K largest of each group, ascending, and their indices."""
    groups = src.shape[0] // GROUP
    lists = src.reshape(groups, GROUP, -1).transpose(0, 2, 1).reshape(groups, -1)[:, :n]
    # Stable on the negated values: equal ones stay in the order of their indices.
    order = np.argsort(-lists, axis=1, kind="stable")[:, :k][:, ::-1]
    return np.take_along_axis(lists, order, axis=1), order.astype(np.uint32)


_SEARCHED = In(SBUF, part=_searched_part)


@instruction(
    engines=(Engine.gpsimd,),
    operands={"val_dst": Out(SBUF), "idx_dst": Out(SBUF), "src": _SEARCHED},
    require=(
        same_partitions("src", "val_dst", "idx_dst"),
        same_free_size("val_dst", "idx_dst"),
        dtype_in("src", (bfloat16,)),
        dtype_in("val_dst", (bfloat16,)),
        dtype_in("idx_dst", (uint32,)),
        int32_constant("n"),
        Constraint(
            "16 partitions per search, 8 <= n < 65536, K <= n and below 32768, n elements in src",
            (SEARCH_SIZE,),
            _topk_sizes,
        ),
    ),
    cost=search(over="n", result="val_dst", factor=4),
    raw_results=("idx_dst",),
    source="nki.isa.topk, 0.6.0",
    changes={
        "0.7.0": {
            "body": _snake_topk,
            "operands": {
                "val_dst": Out(SBUF, part=_snake_part("val_dst")),
                "idx_dst": Out(SBUF, part=_snake_part("idx_dst")),
                "src": _SEARCHED,
            },
        }
    },
)
def topk(
    val_dst: Any, idx_dst: Any, src: Any, n: int, sorted: bool = False, name: str | None = None
) -> tuple[Array, Array]:
    """Return the K largest of ``n`` values and their indices, for each group of 16 partitions.

    A group holds one list: element i is on its partition i % 16, in column i // 16. K is the number
    of elements per partition of ``val_dst``. Values ascend. Among equal values the call takes the
    smallest indices, and returns the smallest index last. All 16 partitions of a group receive the
    result. The documentation does not state which partitions do; its example returns whole tiles.

    From NKI 0.7.0 on the results have the layout of the list: result j is on partition j % 16, in
    column j // 16, and the other elements are not written. Without ``sorted`` NKI promises no
    order; the order is the same as in 0.6.0.

    Args:
        val_dst: Tile (P, K) of bfloat16 in SBUF that receives the values.
        idx_dst: Tile (P, K) of uint32 in SBUF that receives the indices.
        src: Tile of bfloat16 in SBUF, with a multiple of 16 partitions.
        n: Number of elements in the list of a group, 8 to 65535.
        sorted: Whether values descend; assumed, the documentation leaves the order open.
    """
    values, order = _largest(src, n, val_dst.free_size)
    return np.repeat(values, GROUP, axis=0), np.repeat(order, GROUP, axis=0)
