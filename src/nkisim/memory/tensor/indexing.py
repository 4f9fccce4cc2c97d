"""Indexing: integers, slices, ``nl.ds`` and ``...`` turned into byte start, shape and strides."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index as as_int
from types import EllipsisType
from typing import Any, SupportsIndex

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.region import is_on_chip
from nkisim.memory.tensor.geometry import View
from nkisim.versions import since


@dataclass(frozen=True, slots=True)
class DynSlice:
    """``nl.ds(start, size)``: ``size`` elements from ``start``."""

    start: SupportsIndex
    size: SupportsIndex


Index = SupportsIndex | slice | DynSlice | None | EllipsisType
Selection = tuple[int, tuple[int, ...], tuple[int, ...]]

_FULL = slice(None)


def index_view(tensor: View, index: Any) -> Selection:
    """Return byte start, shape and strides of ``tensor[index]``."""
    entries = index if type(index) is tuple else (index,)
    shape, strides = tensor.shape, tensor.form.strides
    if len(entries) != len(shape) or any(entry is Ellipsis for entry in entries):
        entries = _expand(tensor, entries)
    start = tensor.form.start
    new_shape: list[int] = []
    new_strides: list[int] = []
    kept_rows: tuple[int, int] | None = None
    for dim, entry in enumerate(entries):
        extent, stride = shape[dim], strides[dim]
        if type(entry) is slice:
            first = 0 if entry.start is None else entry.start
            stop = extent if entry.stop is None else entry.stop
            if (
                entry.step is None
                and type(first) is type(stop) is int
                and 0 <= first < stop <= extent
            ):
                # The plain case of every loop over tiles.
                start += first * stride
                new_shape.append(stop - first)
                new_strides.append(stride)
                continue
            first, count, step = _slice(tensor, dim, extent, entry)
        elif type(entry) is DynSlice:
            first, count, step = _dyn_slice(tensor, dim, extent, entry)
        elif entry is None:
            flag(
                rules.NONE_INDEX,
                f"None in dimension {dim} of tensor `{tensor.name}` selects the whole dimension",
                operand=tensor.name,
                fix="reshape, or nl.expand_dims for a new axis",
            )
            first, count, step = 0, extent, 1
        else:
            start += _integer(tensor, dim, extent, entry) * stride
            if dim == 0:
                kept_rows = (1, stride)
            continue
        start += first * stride
        new_shape.append(count)
        new_strides.append(stride * step)
    if is_on_chip(tensor.form.buffer):
        _keep_two_dimensions(tensor, kept_rows, new_shape, new_strides)
    elif not new_shape and shape and since("0.6.0"):
        return start, (1,), (tensor.form.itemsize,)
    return start, tuple(new_shape), tuple(new_strides)


def _keep_two_dimensions(
    tensor: View, dropped_rows: tuple[int, int] | None, shape: list[int], strides: list[int]
) -> None:
    """Insert the partition or free dimension that integers removed from an on-chip view."""
    if dropped_rows is not None:
        if len(shape) < 2 or since("0.5.0"):
            shape.insert(0, dropped_rows[0])
            strides.insert(0, dropped_rows[1])
        else:
            flag(
                rules.PARTITION_DROPPED,
                f"an integer index removed the partition dimension of tensor `{tensor.name}`; "
                f"the result {tuple(shape)} lies in one partition",
                operand=tensor.name,
                seen=f"{tuple(shape)} from {tensor.shape}",
                fix="index the partition dimension with t[i:i+1, ...]",
            )
    if len(shape) < 2:
        shape.append(1)
        strides.append(tensor.form.itemsize)


def _expand(tensor: View, entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """Replace the ellipsis and missing trailing indices by full slices."""
    ellipses = sum(entry is Ellipsis for entry in entries)
    given = len(entries) - ellipses
    if ellipses > 1 or given > len(tensor.shape):
        flag(
            rules.INDEX_KIND,
            f"tensor `{tensor.name}` has {len(tensor.shape)} dimensions, indexed with {given} "
            f"indices" + (f" and {ellipses} ellipses" if ellipses > 1 else ""),
            operand=tensor.name,
            seen=entries,
            allowed=f"at most {len(tensor.shape)} indices and one ellipsis",
            fix="drop the extra indices",
        )
    fill = (_FULL,) * (len(tensor.shape) - given)
    if not ellipses:
        return entries + fill
    at = next(i for i, entry in enumerate(entries) if entry is Ellipsis)
    return entries[:at] + fill + entries[at + 1 :]


def _slice(tensor: View, dim: int, extent: int, entry: slice) -> tuple[int, int, int]:
    try:
        first = 0 if entry.start is None else as_int(entry.start)
        stop = extent if entry.stop is None else as_int(entry.stop)
        step = 1 if entry.step is None else as_int(entry.step)
    except TypeError:
        _bad_index(tensor, dim, entry)
        raise
    if step < 1:
        flag(
            rules.SLICE_STEP,
            f"slice step {step} in dimension {dim} of tensor `{tensor.name}`",
            operand=tensor.name,
            seen=step,
            allowed="1 or more",
            fix="use a positive step; reverse with an access pattern or a shuffle",
        )
    if first < 0:
        first += extent
    if stop < 0:
        stop += extent
    if first < 0 or stop > extent or stop < 0:
        _out_of_bounds(tensor, dim, extent, first, stop - 1)
    if stop <= first:
        _empty(tensor, dim, first, stop)
        return first, 0, step
    return first, (stop - first + step - 1) // step, step


def _dyn_slice(tensor: View, dim: int, extent: int, entry: DynSlice) -> tuple[int, int, int]:
    try:
        first, size = as_int(entry.start), as_int(entry.size)
    except TypeError:
        _bad_index(tensor, dim, entry)
        raise
    if first < 0 or first + size > extent:
        _out_of_bounds(tensor, dim, extent, first, first + size - 1)
    if size <= 0:
        _empty(tensor, dim, first, first + size)
        return first, 0, 1
    return first, size, 1


def _integer(tensor: View, dim: int, extent: int, entry: Any) -> int:
    try:
        position = as_int(entry)
    except TypeError:
        _bad_index(tensor, dim, entry)
        raise
    if position < 0:
        if not since("0.6.0"):
            flag(
                rules.NEGATIVE_INDEX,
                f"negative index {position} in dimension {dim} of tensor `{tensor.name}`",
                operand=tensor.name,
                seen=position,
                allowed=f"0 to {extent - 1}",
                fix=f"write shape[{dim}] - {-position}",
            )
        position += extent
    if not 0 <= position < extent:
        flag(
            rules.INDEX_OUT_OF_BOUNDS,
            f"Out-of-bound access for tensor `{tensor.name}` on dimension {dim}: "
            f"index {position} exceed dimension size of {extent}",
            operand=tensor.name,
            seen=position,
            allowed=f"0 to {extent - 1}",
            fix="index inside the extent",
        )
    return position


def _out_of_bounds(tensor: View, dim: int, extent: int, first: int, last: int) -> None:
    flag(
        rules.INDEX_OUT_OF_BOUNDS,
        f"Out-of-bound access for tensor `{tensor.name}` on dimension {dim}: "
        f"index range [{first}, {last}] exceed dimension size of {extent}",
        operand=tensor.name,
        seen=f"{first}:{last + 1}",
        allowed=f"0:{extent}",
        fix="end the slice at min(start + tile, extent), on both sides of the transfer"
        if first < extent
        else "start the slice inside the extent; a loop over it has an iteration too many",
        data={"start": int(first), "extent": int(extent)},
    )


def _empty(tensor: View, dim: int, first: int, stop: int) -> None:
    flag(
        rules.EMPTY_SLICE,
        f"slice {first}:{stop} in dimension {dim} of tensor `{tensor.name}` is empty",
        operand=tensor.name,
        seen=f"{first}:{stop}",
        fix="skip the call when nothing is left",
    )


def _bad_index(tensor: View, dim: int, entry: Any) -> None:
    kind = type(entry).__name__
    flag(
        rules.INDEX_KIND,
        f"'{kind}' object cannot be interpreted as an integer: "
        f"index of dimension {dim} of tensor `{tensor.name}`",
        operand=tensor.name,
        seen=kind,
        allowed="integers, slices, nl.ds, ...",
        fix="use slices; for indices held in a tensor use .ap(vector_offset=...)",
    )
