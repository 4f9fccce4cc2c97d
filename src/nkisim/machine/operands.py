"""Operand resolution: apply dynamic offsets, check bounds.

A kernel passes views, some with an offset in a register or a tile, some with an unchecked pattern.
A resolved operand is a static view inside its own allocation, or rows of such a view selected by an
index tile. Index tiles are resolved too.
"""

from __future__ import annotations

from operator import index as as_int
from typing import NamedTuple

import numpy as np

from nkisim.diagnostics import flag
from nkisim.machine.accesses import prepare_read, trace_read
from nkisim.machine.columns import Columns, columns_of, places_of
from nkisim.machine.core import Core
from nkisim.memory import Indirection, NkiTensor, is_hbm
from nkisim.memory import rules as memory_rules
from nkisim.memory.access import bad_offset


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
    extent = min(indirect.extent, tensor.room(indirect.stride))
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
