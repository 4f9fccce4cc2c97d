"""Data movement by index: gathers, the shuffle, and the two compactions of the GpSimd engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import float32, int32, uint16, uint32
from nkisim.machine import instruction
from nkisim.machine.accesses import INTEGER_SENTINEL
from nkisim.memory import NkiTensor
from nkisim.spec import ON_CHIP, SBUF, Call, Constraint, In, Out, rules, unconverted
from nkisim.spec.constraints import (
    dtype_in,
    int32_constant,
    same_dtype,
    same_free_size,
    same_partitions,
)
from nkisim.spec.cost import runs, startup_stream, stream
from nkisim.spec.enums import engine as Engine

Array = np.ndarray

LANES = 16
"""Partitions that one GpSimd core is connected to."""
QUADRANT = 32
KEEP = 255
"""Entry of a shuffle mask that leaves the destination row unchanged."""

GATHER_SIZE = declare(
    "S049",
    "gather-size",
    "local_gather has operands of the wrong size.",
    "each GpSimd core serves 16 partitions and up to 4096 indices",
    meaningless=True,
)
GATHER_INDEX = declare(
    "S050",
    "gather-index",
    "A gather index lies outside the source.",
    "the data that is read is undefined",
    on_values=True,
    silent=True,
)
SHUFFLE_MASK = declare(
    "S051",
    "shuffle-mask",
    "nc_stream_shuffle has a mask or a start partition that it does not take.",
    "a mask has 32 entries of 0 to 31 or 255, and quadrants start at multiples of 32",
    meaningless=True,
)
BOUNDS_SHAPE = declare(
    "S056",
    "bounds-shape",
    "sequence_bounds has more than one partition, or a destination that is not (1, 2, n).",
    "one partition of ids gives a row of starts and a row of ends",
    meaningless=True,
)
NONZERO_LAYOUT = declare(
    "S057",
    "nonzero-layout",
    "nonzero_with_count has a destination without the extra element for the count.",
    "each GpSimd core writes the indices and then their number",
    meaningless=True,
)


def _flag_index(name: str, indices: Array, bound: int) -> None:
    """Flag indices that are not below ``bound``."""
    outside = indices >= bound
    if outside.any():
        at = np.unravel_index(int(np.argmax(outside)), outside.shape)
        flag(
            GATHER_INDEX,
            f"{name}: {int(outside.sum())} indices lie outside the source",
            instruction=name,
            operand="index",
            seen=f"{int(indices[at])} at {tuple(int(i) for i in at)}",
            allowed=f"0 to {bound - 1}",
            fix="clip the indices first",
        )


def _undefined(values: Array, where: Array) -> None:
    """Write the sentinel of unwritten memory where the device leaves elements undefined."""
    if where.any():
        is_float = values.dtype.kind not in "iub"
        values[where] = np.nan if is_float else INTEGER_SENTINEL


@instruction(
    engines=(Engine.gpsimd,),
    operands={"dst": Out(SBUF), "data": In(SBUF), "indices": In(SBUF, decides=True)},
    require=(
        same_partitions("dst", "data", "indices"),
        same_free_size("dst", "indices"),
        same_dtype("dst", "data"),
        dtype_in("indices", (uint32,)),
    ),
    arithmetic=unconverted,
    spread="lanes",
    cost=startup_stream(over="dst", factor=4),
    source="nki.isa.nc_n_gather, 0.3.0",
)
def nc_n_gather(dst: Any, data: Any, indices: Any, name: str | None = None) -> Array:
    """Return, in each partition, the elements at the given positions of the flattened data.

    Args:
        dst: Tile in SBUF that receives the elements, of the dtype of ``data``.
        data: Tile in SBUF that is read.
        indices: Tile of uint32 with as many elements per partition as ``dst``: positions in the
            flattened free dimensions of ``data``.
    """
    _flag_index("nc_n_gather", indices, data.shape[1])
    outside = indices >= data.shape[1]
    result = np.take_along_axis(data, np.where(outside, 0, indices).astype(np.int64), axis=1)
    _undefined(result, outside)
    return result


def _local_gather_sizes(call: Call) -> None:
    source, index, dst = call.operand("src_buffer"), call.operand("index"), call.operand("dst")
    width, per_core = call["num_elem_per_idx"], LANES * index.free_size
    valid = per_core if call["num_valid_indices"] is None else call["num_valid_indices"]
    why = ""
    if source.shape[0] != index.shape[0] or source.shape[0] % LANES:
        why = f"src_buffer has {source.shape[0]} and index {index.shape[0]} partitions"
    elif width not in (1, 2, 4, 8, 16, 32):
        why = f"num_elem_per_idx is {width}"
    elif valid > per_core or valid < 1:
        why = f"num_valid_indices is {valid} of {per_core} indices per core"
    elif valid > 4096:
        why = f"there are {valid} indices per core"
    elif dst.shape[0] != source.shape[0] or dst.free_size < valid * width:
        why = f"dst has shape {dst.shape}, {valid * width} elements per partition are gathered"
    if why:
        call.fail(
            GATHER_SIZE,
            why,
            operand="index",
            seen=why,
            allowed="equal partitions, a multiple of 16; 1, 2, 4, 8, 16 or 32 elements per index; "
            "at most 4096 indices per core",
            fix="pad the partitions to a multiple of 16, or gather in parts",
        )


def _gathered_part(call: Call) -> Array:
    """Return the mask of the written elements of ``dst``: the first ones of each partition."""
    dst, valid = call["dst"], call["num_valid_indices"] or LANES * call["index"].free_size
    touched = np.arange(dst.free_size) < valid * call["num_elem_per_idx"]
    return np.broadcast_to(touched, (dst.shape[0], dst.free_size)).reshape(dst.shape)


@instruction(
    engines=(Engine.gpsimd,),
    operands={
        "dst": Out(SBUF, part=_gathered_part),
        "src_buffer": In(SBUF),
        "index": In(SBUF, decides=True),
    },
    require=(
        same_dtype("dst", "src_buffer"),
        dtype_in("index", (uint16,)),
        Constraint(
            "16 partitions per core, up to 4096 indices", (GATHER_SIZE,), _local_gather_sizes
        ),
    ),
    arithmetic=unconverted,
    spread="lanes",
    cost=runs(over="dst"),
    source="nki.isa.local_gather, 0.3.0",
)
def local_gather(
    dst: NkiTensor,
    src_buffer: Any,
    index: Any,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> Array:
    """Gather runs of elements with indices shared by the 16 partitions of each GpSimd core.

    The indices of a core are ordered by partition first. Elements of ``dst`` beyond the gathered
    ones are unchanged.

    Args:
        src_buffer: Tile in SBUF that is read, with a multiple of 16 partitions.
        index: Tile of uint16 on the partitions of ``src_buffer``: the columns at which runs begin.
        num_elem_per_idx: Number of consecutive elements that one index gathers: 1, 2, 4, 8, 16 or
            32.
        num_valid_indices: Number of indices that each group of 16 partitions uses, at most 4096;
            None uses all.
    """
    rows, columns = src_buffer.shape
    count = num_valid_indices or LANES * index.shape[1]
    run = np.arange(num_elem_per_idx)
    result = np.empty((rows, dst.free_size), src_buffer.dtype)
    for first in range(0, rows, LANES):
        lanes = slice(first, first + LANES)
        flat = index[lanes].T.reshape(-1)[:count].astype(np.int64)
        at = (flat[:, None] + run).reshape(-1)
        _flag_index("local_gather", at, columns)
        outside = at >= columns
        gathered = src_buffer[lanes][:, np.where(outside, 0, at)]
        _undefined(gathered, np.broadcast_to(outside, gathered.shape))
        result[lanes, : at.size] = gathered
    return result


def _is_entry(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and (0 <= int(value) < QUADRANT or value == KEEP)


def _shuffle(call: Call) -> None:
    src, dst, mask = call.operand("src"), call.operand("dst"), call["shuffle_mask"]
    if isinstance(mask, NkiTensor) or not hasattr(mask, "__len__"):
        call.fail(
            rules.STATIC_ARGUMENT,
            f"shuffle_mask must be a list of 32 integers, got {type(mask).__name__}",
            operand="shuffle_mask",
            seen=type(mask).__name__,
            allowed="a list known at compile time",
            fix="pass a Python list",
        )
    why = ""
    wrong = [m for m in mask if not _is_entry(m)]
    active = -(-max(src.shape[0], dst.shape[0]) // QUADRANT) * QUADRANT
    step = QUADRANT if active == 32 else 64 if active == 64 else 128
    starts = [t.start_partition for t in (src, dst)]
    if len(mask) != QUADRANT:
        why = f"shuffle_mask has {len(mask)} entries"
    elif wrong:
        why = f"shuffle_mask holds {wrong[0]}"
    elif any(start % step for start in starts):
        why = f"src and dst start at partitions {starts} with {active} active partitions"
    if why:
        call.fail(
            SHUFFLE_MASK,
            why,
            operand="shuffle_mask",
            seen=why,
            allowed=f"32 entries of 0 to 31 or 255; starts at multiples of {step}",
            fix="correct the mask, or align the tiles to quadrants",
        )


def _moves(rows: int, mask: Any) -> dict[int, int]:
    """Return, for each row of ``dst`` that the shuffle mask writes, the row of ``src`` it gets."""
    return {
        row: row // QUADRANT * QUADRANT + int(mask[row % QUADRANT])
        for row in range(rows)
        if int(mask[row % QUADRANT]) != KEEP
    }


def _shuffled(call: Call) -> dict[int, int]:
    return _moves(call["dst"].shape[0], call["shuffle_mask"])


def _rows_part(tensor: NkiTensor, rows: Iterable[int]) -> Array:
    """Return a mask of some rows of a tensor."""
    touched = np.isin(np.arange(tensor.shape[0]), list(rows))
    return np.broadcast_to(touched.reshape(-1, *(1,) * (tensor.ndim - 1)), tensor.shape)


@instruction(
    engines=(Engine.vector,),
    operands={
        "dst": Out(ON_CHIP, part=lambda call: _rows_part(call["dst"], _shuffled(call))),
        "src": In(ON_CHIP, part=lambda call: _rows_part(call["src"], _shuffled(call).values())),
    },
    require=(
        same_dtype("dst", "src"),
        same_free_size("dst", "src"),
        Constraint(
            "32 mask entries of 0 to 31 or 255; quadrants aligned", (SHUFFLE_MASK,), _shuffle
        ),
    ),
    arithmetic=unconverted,
    reads_first=True,
    cost=stream(over="src"),
    source="nki.isa.nc_stream_shuffle, 0.3.0",
)
def nc_stream_shuffle(
    dst: NkiTensor, src: Any, shuffle_mask: Any, name: str | None = None
) -> Array:
    """Copy rows within each quadrant of 32 partitions by the mask; 255 leaves a row unchanged.

    Args:
        dst: Tile that receives the rows, of the dtype of ``src``.
        src: Tile whose rows are copied.
        shuffle_mask: List of 32 integers: entry i is the row of the quadrant, 0 to 31, that its row
            i receives, or 255 for none.
    """
    moves = _moves(dst.shape[0], shuffle_mask)
    to, of = np.array(list(moves), np.int64), np.array(list(moves.values()), np.int64)
    _flag_index("nc_stream_shuffle", of, src.shape[0])
    outside = of >= src.shape[0]
    result = np.empty((dst.shape[0], src.shape[1]), src.dtype)
    moved = src[np.where(outside, 0, of)]
    _undefined(moved, np.broadcast_to(outside[:, None], moved.shape))
    result[to] = moved
    return result


def _first_lanes(name: str) -> Callable[[Call], Array]:
    """Return the function that computes a mask of the first partition of each GpSimd core."""
    return lambda call: _rows_part(call[name], range(0, call[name].shape[0], LANES))


def _extra_element(call: Call) -> None:
    src, dst = call.operand("src"), call.operand("dst")
    if dst.free_size != src.free_size + 1:
        call.fail(
            NONZERO_LAYOUT,
            f"dst must have {src.free_size + 1} elements per partition, got {dst.free_size}",
            operand="dst",
            seen=dst.shape,
            allowed=f"({src.shape[0]}, {src.free_size + 1})",
            fix="allocate one element more than src for the count",
        )


@instruction(
    engines=(Engine.gpsimd,),
    operands={
        "dst": Out(SBUF, part=_first_lanes("dst")),
        "src": In(SBUF, part=_first_lanes("src")),
    },
    require=(
        same_partitions("dst", "src"),
        dtype_in("src", (float32, int32)),
        dtype_in("dst", (int32,)),
        Constraint("dst has one element more than src", (NONZERO_LAYOUT,), _extra_element),
        int32_constant("index_offset", "padding_val"),
    ),
    since=3,
    arithmetic=unconverted,
    cost=startup_stream(over="src", factor=4),
    source="nki.isa.nonzero_with_count, 0.3.0",
)
def nonzero_with_count(
    dst: NkiTensor,
    src: Any,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> Array:
    """Write the positions of nonzero elements, padding, and their count, on every 16th partition.

    The other partitions of ``dst`` are unchanged.

    Args:
        dst: Tile of int32 with one element per partition more than ``src``, the last for the count.
        src: Tile of float32 or int32 that is searched, on every 16th partition.
        index_offset: Integer that is added to each position.
        padding_val: Integer that fills the elements between the last position and the count.
    """
    result = np.full((src.shape[0], src.shape[1] + 1), padding_val, np.int32)
    for row in range(0, src.shape[0], LANES):
        positions = np.flatnonzero(src[row]) + index_offset
        result[row, : positions.size] = positions
        result[row, -1] = positions.size
    return result


def _bounds_shape(call: Call) -> None:
    ids, dst = call.operand("segment_ids"), call.operand("dst")
    rows = dst.shape[1] if len(dst.shape) == 3 else 2
    fits = dst.free_size == 2 * ids.free_size and rows == 2
    if ids.shape[0] != 1 or dst.shape[0] != 1 or not fits:
        call.fail(
            BOUNDS_SHAPE,
            f"dst must be (1, 2, {ids.free_size}) for segment_ids {ids.shape}, got {dst.shape}",
            operand="dst",
            seen=f"{ids.shape}, {dst.shape}",
            allowed=f"(1, n) and (1, 2, n), here (1, 2, {ids.free_size})",
            fix="put the ids on one partition",
        )


@instruction(
    engines=(Engine.gpsimd,),
    operands={"dst": Out(SBUF), "segment_ids": In(SBUF)},
    require=(
        dtype_in("segment_ids", (float32, int32)),
        dtype_in("dst", (float32, int32)),
        Constraint("one partition; dst (1, 2, n)", (BOUNDS_SHAPE,), _bounds_shape),
    ),
    arithmetic=unconverted,
    cost=startup_stream(over="segment_ids", factor=8),
    source="nki.isa.sequence_bounds, 0.3.0",
)
def sequence_bounds(dst: Any, segment_ids: Any, name: str | None = None) -> Array:
    """Return start and end of the segment of each element; padding (id 0) has start n, end -1.

    Args:
        dst: Tile (1, 2, n): row 0 receives the starts, row 1 the ends.
        segment_ids: Tile (1, n) of float32 or int32: the segment of each element, 0 for padding.
    """
    ids = segment_ids.reshape(-1)
    n = ids.size
    change = np.flatnonzero(np.diff(ids)) + 1
    edges = np.concatenate([[0], change, [n]]) if n else np.zeros(1, np.int64)
    lengths = np.diff(edges)
    starts = np.repeat(edges[:-1], lengths)
    ends = np.repeat(edges[1:], lengths)
    padding = ids == 0
    result = np.stack([np.where(padding, n, starts), np.where(padding, -1, ends)])
    return result.reshape(1, -1).astype(dst.dtype.numpy)
