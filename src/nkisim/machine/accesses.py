"""Bookkeeping of reads and writes: unwritten elements, written bytes, accesses by core."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.machine.cluster import Member
from nkisim.machine.core import CORE, Garbage
from nkisim.machine.unwritten import report_unwritten, with_sentinel
from nkisim.memory import NkiTensor, is_on_chip
from nkisim.memory.written_map import runs_of


def prepare_read(
    tensor: NkiTensor,
    instruction: str,
    operand: str,
    part: np.ndarray | None = None,
    *,
    decides: bool = False,
) -> np.ndarray:
    """Record a read, check that it was written, and return the elements in storage form.

    With ``part`` only these elements are checked. In a read that ``decides`` garbage is an error.
    """
    storage = tensor.storage
    if storage.psum is not None or storage.shared is not None:
        note_read(tensor, instruction)
    if storage.complete:
        return tensor.array
    return with_sentinel(tensor, _checked(tensor, instruction, operand, part, decides=decides))


def trace_read(
    tensor: NkiTensor,
    instruction: str,
    operand: str,
    part: np.ndarray | None = None,
    *,
    decides: bool = False,
) -> None:
    """Record a read and check that it was written, without reading the elements."""
    note_read(tensor, instruction)
    _checked(tensor, instruction, operand, part, decides=decides)


def _checked(
    tensor: NkiTensor, instruction: str, operand: str, part: np.ndarray | None, *, decides: bool
) -> np.ndarray | None:
    """Check that a read was written; return the mask of unwritten elements and record garbage."""
    hidden, origins = report_unwritten(tensor, instruction, operand, part, decides=decides)
    core = CORE.get()
    if origins is not None and core is not None:
        core.garbage.append(Garbage(core.clock, operand, origins))
    return hidden


def reads_garbage() -> bool:
    """Return whether the running instruction has read garbage."""
    core = CORE.get()
    return core is not None and bool(core.garbage)


def note_read(tensor: NkiTensor, instruction: str) -> None:
    """Record a read in the maps of its storage."""
    storage = tensor.storage
    if storage.psum is not None:
        storage.psum.read(tensor.form.region)
    if storage.shared is not None:
        member = _sharer()
        epoch = member.synchronised
        storage.shared.read(tensor, member.core, epoch, instruction, member.guards)


def commit(tensor: NkiTensor, stored: Any) -> None:
    """Write elements in storage form to a tensor and record the write."""
    if tensor.storage.borrowed:
        tensor.storage.own()
    tensor.array[...] = stored
    note_written(tensor)


def commit_where(tensor: NkiTensor, stored: np.ndarray, where: np.ndarray) -> None:
    """Write elements in storage form to a tensor where ``where`` is true."""
    tensor.storage.own()
    tensor.array[where] = stored[where] if stored.ndim else stored
    note_written(tensor, where)


def note_written(tensor: NkiTensor, where: np.ndarray | None = None) -> None:
    """Record a write of a tensor, or of its elements where ``where`` is true."""
    storage = tensor.storage
    if not storage.complete:
        if where is None:
            storage.mark_written(tensor.form.start, tensor.runs)
        else:
            form = tensor.form
            storage.mark_written_where(where, form.start, form.strides, form.itemsize)
    if storage.psum is not None:
        storage.psum.write(tensor.owner, tensor.form.region)
    if storage.shared is not None:
        member = _sharer()
        storage.shared.write(tensor, member.core, member.synchronised, where)


def note_written_somewhere(tensor: NkiTensor) -> None:
    """Record a write with unknown offset: the whole tensor counts as written."""
    storage, origin = tensor.storage, tensor.origin
    rows = origin.form.shape[0] if is_on_chip(tensor.buffer) else 1
    runs = runs_of(origin.form.start, (rows, origin.row_bytes), (storage.pitch, 1), 1)
    storage.mark_written(origin.form.start, runs)


def _sharer() -> Member:
    """Return the running core as one of a pair."""
    core = CORE.get()
    assert core is not None
    assert core.member is not None
    return core.member
