"""Tensor indirection: columns of a tile that an index tile selects, for each group of partitions.

The partitions of a group have the same offsets. A group has 16 partitions, on the Tensor engine 32.
The offsets of a group of n are in the index tile, in the rows of the same partitions: offset i is
in row i mod n of the group and in column i div n.

An instruction computes on a dense copy of the selected elements. The copy has their state: whether
they are written, and whether they are garbage. Results are computed into a dense copy too and then
moved to the selected places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from nkisim.diagnostics import flag
from nkisim.machine.accumulation import begin_selected_sum
from nkisim.machine.core import Core
from nkisim.memory import NkiTensor, Region, Storage, is_psum
from nkisim.memory import rules as memory_rules
from nkisim.memory.layout import Form
from nkisim.memory.tensor.access import bad_offset
from nkisim.spec.rules import INDIRECT_OPERAND


class Columns(NamedTuple):
    """Elements of a tile, selected in each partition.

    Attributes:
        table: Static view of all elements, as (partitions, elements).
        offsets: Selected column for each element of the operand, as (partitions, count).
        group: Number of partitions with the same offsets.
    """

    table: NkiTensor
    offsets: np.ndarray
    group: int

    @property
    def mask(self) -> np.ndarray:
        """Mask of the selected elements of the table."""
        found = np.zeros(self.table.shape, bool)
        np.put_along_axis(found, self.offsets, True, 1)
        return found

    def regions(self) -> Iterator[Region]:
        """Yield the selected part of each column, group by group."""
        start, (rows, _), strides, itemsize = self.table.region
        for first in range(0, rows, self.group):
            count = min(self.group, rows - first)
            for offset in np.unique(self.offsets[first]):
                place = start + first * strides[0] + int(offset) * strides[1]
                yield place, (count, 1), strides, itemsize


def places_of(tensor: NkiTensor, index: NkiTensor, group: int) -> np.ndarray:
    """Return where in the index tile each offset is, as (partitions, count); S025 if missing.

    A place is the number of an element of the tile, counted row by row.
    """
    rows, count = tensor.shape
    order = np.arange(count)
    wanted = (np.arange(rows) // group * group)[:, None] + order % group
    columns = order // group
    if wanted.max() >= rows or columns.max() >= index.free_size:
        bad_offset(
            tensor,
            f"{count} offsets are not in index {index.shape}: groups of {group} partitions hold "
            f"{group} in each column",
            "indirect",
        )
    return np.asarray(wanted * index.free_size + columns)


def columns_of(
    tensor: NkiTensor, offsets: np.ndarray, group: int, instruction: str, operand: str
) -> Columns:
    """Return the elements that offsets select; flag M036 if offsets are out of bounds."""
    indirect = tensor.indirection
    assert indirect is not None
    offsets = offsets.astype(np.int64)
    outside = (offsets < 0) | (offsets >= indirect.extent)
    if outside.any():
        row, place = (int(i) for i in np.unravel_index(int(np.argmax(outside)), outside.shape))
        flag(
            memory_rules.OFFSET_OUT_OF_BOUNDS,
            f"{instruction} {operand}: offset {offsets[row, place]} of partition {row} is out of "
            f"bounds for {indirect.extent} elements",
            instruction=instruction,
            operand=operand,
            seen=int(offsets[row, place]),
            allowed=f"0 to {indirect.extent - 1}",
            fix="clip the offsets",
        )
    return Columns(tensor.columns(indirect), offsets, group)


def check_same_index(data: Columns, scales: Columns, instruction: str) -> None:
    """Check that data and its scales are selected by the same offsets; S026 if not."""
    if not np.array_equal(data.offsets, scales.offsets):
        flag(
            INDIRECT_OPERAND,
            f"{instruction}: `{data.table.name}` and its scales `{scales.table.name}` are selected "
            "by different offsets",
            instruction=instruction,
            operand=scales.table.name,
            seen="two indices",
            allowed="the same index",
            fix="pass the same index to both calls of indirect()",
        )


def staged_operand(columns: Columns, tensor: NkiTensor) -> NkiTensor:
    """Return a dense copy of a read operand's selected elements, with their state."""
    table, offsets, _ = columns
    copy = _dense(columns, tensor)
    storage = table._storage
    if storage.psum is not None:
        for region in columns.regions():
            storage.psum.read(region)
    hidden, garbage = storage.unwritten(table.region), storage.garbage(table.region)
    if hidden is None:
        copy._storage.mark_written(copy.form.start, copy.runs)
    else:
        _mark_written(copy, ~np.take_along_axis(hidden, offsets, 1))
    if garbage is not None:
        _mark_garbage(copy, np.take_along_axis(garbage, offsets, 1))
    return copy


def staged_result(columns: Columns, tensor: NkiTensor) -> NkiTensor:
    """Return a dense copy of the elements that results replace; none counts as written."""
    return _dense(columns, tensor)


def staged_sum(
    core: Core, columns: Columns, copy: NkiTensor, accumulate: bool | None, name: str
) -> np.ndarray | bool:
    """Return the mask of the elements of a staged result that a matmul adds to."""
    state = columns.table._storage.psum
    assert state is not None
    opened = state.opened(columns.table._owner, columns.table.region)
    if not isinstance(opened, bool):
        opened = np.take_along_axis(opened, columns.offsets, 1)
    return begin_selected_sum(core, copy, opened, accumulate, name)


def _dense(columns: Columns, tensor: NkiTensor) -> NkiTensor:
    """Return a copy of the selected elements, on the same partitions of separate memory."""
    table, itemsize, (rows, count) = columns.table, columns.table.itemsize, tensor.shape
    first, pitch = table.start_partition, count * itemsize
    storage = Storage.fresh(first + rows, pitch, psum=is_psum(tensor.buffer))
    place, strides = first * pitch, (pitch, itemsize)
    form = Form(tensor.shape, tensor.dtype, tensor.buffer, place, strides, itemsize)
    copy = NkiTensor(tensor.life, storage, storage, form)
    copy._elements[...] = np.take_along_axis(table._elements, columns.offsets, 1)
    return copy


def scatter(columns: Columns, result: NkiTensor, *, sums: bool) -> None:
    """Move results and their state to the selected places; of equal offsets the last one wins."""
    table, offsets, _ = columns
    hidden, garbage = (
        result._storage.unwritten(result.region),
        result._storage.garbage(result.region),
    )
    written = np.ones(offsets.shape, bool) if hidden is None else ~hidden
    rows, order = np.nonzero(written)
    there = offsets[rows, order]
    table._elements[rows, there] = result._elements[rows, order]
    mask = np.zeros(table.shape, bool)
    mask[rows, there] = True
    _mark_written(table, mask)
    state = table._storage.psum
    if state is not None:
        for region in columns.regions():
            (state.open if sums else state.write)(table._owner, region)
    if garbage is not None:
        origins = np.zeros(table.shape, np.uint8)
        origins[rows, there] = garbage[rows, order]
        _mark_garbage(table, origins)


def _mark_written(tensor: NkiTensor, mask: np.ndarray) -> None:
    form = tensor.form
    tensor._storage.mark_written_where(mask, form.start, form.strides, form.itemsize)


def _mark_garbage(tensor: NkiTensor, origins: np.ndarray) -> None:
    if origins.any():
        form = tensor.form
        tensor._storage.mark_garbage(origins, form.start, form.strides, form.itemsize)
