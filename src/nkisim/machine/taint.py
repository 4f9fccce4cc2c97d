"""Taint propagation of uninitialised values.

Unwritten elements and values computed from them are garbage; reads of garbage are recorded on the
core. After an instruction has written its results, the elements that can depend on garbage are
marked with its origin. The marks are conservative: false positives are possible, false negatives
are not, except in runs without values, where nothing is marked if an offset in a tile selects the
destination or a predicate selects the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nkisim.machine.core import Core, Garbage
from nkisim.machine.operands import Rows
from nkisim.machine.transfer import Partial
from nkisim.memory import NkiTensor
from nkisim.spec.instruction import Instruction, Spread

Array = np.ndarray


class Target(NamedTuple):
    """Destination of a result: the view or rows, and the written part of it."""

    tensor: NkiTensor | Rows
    part: Array | None


def propagate_taint(
    core: Core, instruction: Instruction, targets: Sequence[Target], result: Any
) -> None:
    """Mark the results of an instruction with the origins of the garbage that it has read.

    Args:
        core: The core that ran it.
        instruction: The instruction that ran.
        targets: Destinations of its results.
        result: The body's return value; None if the body did not run.
    """
    read = [found for found in core.garbage if found.clock == core.clock]
    core.garbage.clear()
    if not core.values:
        read = [found for found in read if not _is_chosen(instruction, found.operand)]
    if not read:
        return
    results = result if type(result) is tuple else (result,)
    for number, (target, part) in enumerate(targets):
        value = results[number] if number < len(results) else None
        if isinstance(target, Rows):
            shape = (len(target.indices), *target.table.shape[1:])
            _mark_rows(target, _reached(read, instruction.spread, shape), value)
            continue
        if target.indirection is not None:
            continue  # the destination is unknown
        origins = _reached(read, instruction.spread, target.shape)
        if part is not None:
            origins = np.where(part, origins, 0)
        if type(value) is Partial:
            origins = np.where(value.where.reshape(target.shape), origins, 0)
        _mark(target, origins)
    for registers in core.accumulators_in_use():
        first, count = registers.used[1]
        if registers.origins is None:
            registers.origins = np.zeros(len(registers.values), np.uint8)
        lanes = _reached(read, "lanes", (count, 1))
        registers.origins[first : first + count] = lanes[:, 0]


def _is_chosen(instruction: Instruction, name: str) -> bool:
    operand = instruction.operands.get(name)
    return operand is not None and operand.chosen


def _mark(target: NkiTensor, origins: Array) -> None:
    if origins.any():
        origins = origins.astype(np.uint8, copy=False)
        target.storage.mark_garbage(origins, target.start, target.form.strides, target.itemsize)


def _mark_rows(rows: Rows, origins: Array, value: Any) -> None:
    """Mark the rows of a table that were written by index."""
    keep = rows.inside
    if type(value) is Partial:
        keep = keep & value.where.reshape(len(keep), -1).all(axis=1)
    for i in np.flatnonzero(keep):
        row = int(rows.indices[i])
        _mark(rows.table[row : row + 1], origins[i : i + 1])


def _reached(read: list[Garbage], spread: Spread, shape: tuple[int, ...]) -> Array:
    """Return the origins of garbage in a result of this shape, by element and 0 for none."""
    joined = np.zeros(shape, np.uint8)
    for found in read:
        np.maximum(joined, _one(found, spread, shape), out=joined)
    return joined


def _one(found: Garbage, spread: Spread, shape: tuple[int, ...]) -> Array:
    """Return the origins in a result that come from one operand."""
    origins, size = found.origins, int(np.prod(shape))
    if found.operand == "dst":  # the accumulator of a sum
        return origins
    if spread == "product":
        columns = origins.reshape(len(origins), -1).max(axis=0)
        if found.operand == "stationary" and columns.size == shape[0]:
            return np.broadcast_to(columns.reshape(-1, *(1,) * (len(shape) - 1)), shape)
        if found.operand == "moving" and columns.size * shape[0] == size:
            return np.broadcast_to(columns.reshape(shape[1:]), shape)
    if spread == "transpose" and origins.swapaxes(0, -1).shape == shape:
        return origins.swapaxes(0, -1)
    if spread == "elements" and origins.size == size:
        return origins.reshape(shape)
    if spread in ("elements", "lanes") and len(origins) == shape[0]:
        lanes = origins.reshape(len(origins), -1).max(axis=1)
        return np.broadcast_to(lanes.reshape(-1, *(1,) * (len(shape) - 1)), shape)
    return np.broadcast_to(origins.max(), shape)
