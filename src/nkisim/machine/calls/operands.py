"""Operand resolution: apply dynamic offsets, check bounds, stage tensor indirection.

A kernel passes views, some with an offset in a register or a tile, some with an unchecked pattern.
A resolved operand is a static view inside its own allocation, or rows of such a view selected by an
index tile. Index tiles are resolved too.

An instruction computes on resolved arguments. An operand of tensor indirection becomes a dense copy
of the selected columns; results are moved from such a copy to the selected places afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import index as as_int
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import flag
from nkisim.machine.accesses import prepare_read, trace_read
from nkisim.machine.calls.columns import (
    Columns,
    check_same_index,
    columns_of,
    places_of,
    scatter,
    staged_operand,
    staged_result,
)
from nkisim.machine.core import Core
from nkisim.memory import Indirection, NkiTensor, is_hbm
from nkisim.memory import rules as memory_rules
from nkisim.memory.tensor.access import bad_offset
from nkisim.spec import indirection
from nkisim.spec.call import Call
from nkisim.spec.enums import oob_mode as OobMode
from nkisim.spec.instruction import Instruction


class Rows(NamedTuple):
    """Rows of a table, selected by an index tile.

    Attributes:
        table: Static view; the indices select from its first dimension.
        indices: Row of the table for each row of the operand.
        inside: Mask of the indices that are in bounds.
    """

    table: NkiTensor
    indices: np.ndarray
    inside: np.ndarray


def taken_rows(dst: Any) -> np.ndarray | None:
    """Return the mask of the rows that a scatter writes; None if it writes all of them."""
    return None if type(dst) is not Rows or dst.inside.all() else dst.inside


def part_of(tensor: NkiTensor, taken: np.ndarray | None) -> np.ndarray | None:
    """Return the mask of the elements of a source that a scatter moves; None for all of them."""
    if taken is None or tensor.size % len(taken):
        return None
    return np.repeat(taken, tensor.size // len(taken)).reshape(tensor.shape)


def resolve_operand(
    core: Core,
    tensor: NkiTensor,
    instruction: str,
    operand: str,
    *,
    skip: bool = False,
    group: int | None = None,
) -> NkiTensor | Rows | Columns | None:
    """Return an operand with its offset applied and its bounds checked.

    If no values are computed, an offset in a tile is unknown: the view is returned unchanged.

    Args:
        core: The core that runs the instruction.
        tensor: The operand as the kernel wrote it.
        instruction: Its name, for messages.
        operand: The operand's name, for messages.
        skip: Whether out-of-bounds accesses are skipped; a scalar offset then gives None.
        group: Partitions with the same offsets in tensor indirection; None without it.
    """
    indirect = tensor.indirection
    if indirect is None:
        tensor.check_bounds()
        return tensor
    if indirect.kind == "columns":
        return _columns(core, tensor, indirect, instruction, operand, group)
    offsets = _offsets(core, indirect, instruction, operand)
    if offsets is None:
        return tensor
    if indirect.kind == "vector":
        return _rows(tensor, indirect, offsets, instruction, operand, skip=skip)
    value = int(offsets.flat[0])
    static = tensor.settled(value * indirect.stride)
    if not 0 <= value < indirect.extent or (is_hbm(tensor.buffer) and not static.fits()):
        if skip:
            return None
        _out_of_bounds(indirect, instruction, operand, 0, value)
    static.check_bounds()
    return static


def resolve_static(core: Core, tensor: NkiTensor, instruction: str, operand: str) -> NkiTensor:
    """Resolve a tensor that may have a scalar offset and is no operand of a planned instruction."""
    found = resolve_operand(core, tensor, instruction, operand)
    assert isinstance(found, NkiTensor)
    return found


def _columns(
    core: Core,
    tensor: NkiTensor,
    indirect: Indirection,
    instruction: str,
    operand: str,
    group: int | None,
) -> NkiTensor | Columns:
    """Resolve an operand of tensor indirection; unchanged if its offsets are not computed."""
    if group is None:
        bad_offset(tensor, f"{instruction} has no tensor indirection for {operand}", "indirect")
        raise AssertionError("unreachable: S025 always raises")
    places = places_of(tensor, indirect.source, group)
    read = np.zeros(indirect.source.size, bool)
    read[places] = True
    part = read.reshape(indirect.source.shape)
    stored = _offsets(core, indirect, instruction, operand, part)
    if stored is None:
        return tensor
    return columns_of(tensor, stored.reshape(-1)[places], group, instruction, operand)


def _offsets(
    core: Core,
    indirect: Indirection,
    instruction: str,
    operand: str,
    part: np.ndarray | None = None,
) -> np.ndarray | None:
    """Read a register or an index tile, or a part of it; None if values are not computed."""
    source = indirect.source
    if not isinstance(source, NkiTensor):
        return np.array([as_int(source)])
    kind = "index" if indirect.kind == "columns" else f"{indirect.kind}_offset"
    name = f"{kind} of {operand}"
    tile = resolve_static(core, source, instruction, name)
    tile.life.last_use = core.clock
    if tile.life.placed:
        tile.life.reach(tile)
    if core.tracker is not None:
        core.tracker.names(tile)
    if not core.values:
        if tile.indirection is None:
            trace_read(tile, instruction, name, part, decides=True)
        return None
    return prepare_read(tile, instruction, name, part, decides=True)


def _rows(
    tensor: NkiTensor,
    indirect: Indirection,
    stored: np.ndarray,
    instruction: str,
    operand: str,
    *,
    skip: bool,
) -> Rows:
    # Several index columns are consumed column by column, as the descriptor generator reads them.
    indices = stored.reshape(stored.shape[0], -1).T.reshape(-1).astype(np.int64)
    rows = tensor.shape[0]
    if indices.size < rows:
        bad_offset(tensor, f"vector_offset holds {indices.size} indices for {rows} rows")
    indices = indices[:rows]
    extent = min(indirect.extent, tensor.rows_after_start(indirect.stride))
    table = tensor.table(indirect, extent)
    inside = (indices >= 0) & (indices < extent)
    if not skip and not inside.all():
        first = int(np.argmin(inside))
        _out_of_bounds(indirect, instruction, operand, first, int(indices[first]))
    return Rows(table, indices, inside)


def _out_of_bounds(
    indirect: Indirection, instruction: str, operand: str, row: int, value: int
) -> None:
    flag(
        memory_rules.OFFSET_OUT_OF_BOUNDS,
        f"{instruction} {operand}: index {value} of row {row} is out of bounds for size "
        f"{indirect.extent}",
        instruction=instruction,
        operand=operand,
        seen=value,
        allowed=f"0 to {indirect.extent - 1}",
        fix="clip the indices, or use oob_mode.skip with a destination that was filled before",
    )


Selected = Mapping[int, Columns]
"""Selected columns of each operand of tensor indirection, by its place in the arguments."""


class Resolution:
    """Resolution for all calls of one signature.

    Attributes:
        replaced: Place and new value of each argument that broke a rule and was replaced.
        dynamic: Whether an operand has an offset that is read from a register or a tile.
        skips: Whether accesses out of bounds are skipped.
    """

    __slots__ = ("_group", "_instruction", "_operands", "_pairs", "dynamic", "replaced", "skips")

    def __init__(self, instruction: Instruction, call: Call) -> None:
        place = instruction.parameters.index
        self._instruction = instruction
        self._group = indirection.group_of(call)
        self._pairs = [(place(a), place(b)) for a, b in indirection.pairs_of(call)]
        self.skips = call.values.get("oob_mode") is OobMode.skip
        self._operands: list[tuple[int, str]] = []
        self.replaced = [(place(name), value) for name, value in call.normalised.items()]
        self.dynamic = False
        for index, name in enumerate(instruction.parameters):
            operand, value = instruction.operands.get(name), call.values[name]
            if operand is None:
                continue
            if isinstance(value, NkiTensor):
                if value.indirection is None and value.trusted:
                    continue
                self.dynamic = self.dynamic or value.indirection is not None
            elif not operand.many:
                continue
            self._operands.append((index, name))

    def __bool__(self) -> bool:
        """Return whether there is anything to resolve."""
        return bool(self.replaced or self._operands)

    def resolve(self, core: Core, values: Sequence[Any]) -> tuple[list[Any], Selected] | None:
        """Return the resolved arguments and the selected columns.

        None if the call is skipped because an offset is out of bounds.
        """
        arguments = list(values)
        selected: dict[int, Columns] = {}
        for index, value in self.replaced:
            arguments[index] = value
        for index, name in self._operands:
            value = values[index]
            if not isinstance(value, NkiTensor):
                found: Any = self._list(core, value, name)
            else:
                found = self._operand(core, value, name)
            if found is None:
                return None
            if type(found) is Columns:
                selected[index] = found
                reads = self._instruction.operands[name].reads
                found = (staged_operand if reads else staged_result)(found, value)
            arguments[index] = found
        for first, second in self._pairs:
            if first in selected and second in selected:
                check_same_index(selected[first], selected[second], self._instruction.name)
        return arguments, selected

    def _operand(self, core: Core, tensor: NkiTensor, name: str) -> Any:
        instruction, skip = self._instruction.name, self.skips
        return resolve_operand(core, tensor, instruction, name, skip=skip, group=self._group)

    def _list(self, core: Core, tensors: Sequence[NkiTensor], name: str) -> list[Any] | None:
        """Return the resolved tensors of a list; None if one is skipped."""
        instruction, skip = self._instruction.name, self.skips
        found = [
            resolve_operand(core, tensor, instruction, f"{name}[{i}]", skip=skip)
            for i, tensor in enumerate(tensors)
        ]
        return None if any(tensor is None for tensor in found) else found


def accessed(arguments: Sequence[Any], selected: Selected) -> Sequence[Any]:
    """Return resolved arguments with the selected columns in place of copies."""
    if not selected:
        return arguments
    return [selected.get(i, argument) for i, argument in enumerate(arguments)]


def scatter_results(
    arguments: Sequence[Any], selected: Selected, written: Iterable[int], sum_at: int | None
) -> None:
    """Move results from copies to the selected places.

    Args:
        arguments: The resolved arguments.
        selected: The selected columns.
        written: Places of the operands that are written.
        sum_at: Place of the operand that the instruction adds to, or None.
    """
    for index in written:
        if index in selected:
            scatter(selected[index], arguments[index], sums=index == sum_at)
