"""Reads and writes as the memory keeps them: who read what, and what was written."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.machine.core import CORE, Garbage
from nkisim.machine.unwritten import report_unwritten, with_sentinel
from nkisim.memory import NkiTensor, is_on_chip
from nkisim.memory.written_map import runs_of

__all__ = [
    "commit",
    "commit_where",
    "note_read",
    "note_written",
    "note_written_somewhere",
    "prepare_read",
    "reads_garbage",
    "trace_read",
]


def prepare_read(
    tensor: NkiTensor,
    instruction: str,
    operand: str,
    part: np.ndarray | None = None,
    *,
    decides: bool = False,
) -> np.ndarray:
    """Note a read, check that it was written, and return the elements in storage form.

    Of a read that takes ``part`` of the elements only, those are checked. In a read that
    ``decides`` garbage is an error.
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
    """Note a read and check that it was written, without looking at the elements."""
    note_read(tensor, instruction)
    _checked(tensor, instruction, operand, part, decides=decides)


def _checked(
    tensor: NkiTensor, instruction: str, operand: str, part: np.ndarray | None, *, decides: bool
) -> np.ndarray | None:
    """Check that a read was written; return which elements were not, and keep what is garbage."""
    hidden, origins = report_unwritten(tensor, instruction, operand, part, decides=decides)
    core = CORE.get()
    if origins is not None and core is not None:
        core.garbage.append(Garbage(core.clock, operand, origins))
    return hidden


def reads_garbage() -> bool:
    """Tell whether the running instruction has read what was made of unwritten elements."""
    core = CORE.get()
    return core is not None and bool(core.garbage)


def note_read(tensor: NkiTensor, instruction: str) -> None:
    """Tell those who follow the reads of a storage."""
    storage = tensor.storage
    if storage.psum is not None:
        storage.psum.read(tensor.form.region)
    if storage.shared is not None:
        core, epoch = _sharer()
        storage.shared.read(tensor, core, epoch, instruction)


def commit(tensor: NkiTensor, stored: Any) -> None:
    """Put elements in storage form into a tensor and note that they were written."""
    if tensor.storage.borrowed:
        tensor.storage.own()
    tensor.array[...] = stored
    note_written(tensor)


def commit_where(tensor: NkiTensor, stored: np.ndarray, where: np.ndarray) -> None:
    """Put elements in storage form into a tensor where ``where`` is true; the others stay."""
    tensor.storage.own()
    tensor.array[where] = stored[where] if stored.ndim else stored
    note_written(tensor, where)


def note_written(tensor: NkiTensor, where: np.ndarray | None = None) -> None:
    """Note that a tensor was written, all of it or the elements where ``where`` is true."""
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
        core, epoch = _sharer()
        storage.shared.write(tensor, core, epoch, where)


def note_written_somewhere(tensor: NkiTensor) -> None:
    """Note a write whose place is not known, so that nothing of the tensor counts as unwritten."""
    storage, origin = tensor.storage, tensor.origin
    rows = origin.form.shape[0] if is_on_chip(tensor.buffer) else 1
    runs = runs_of(origin.form.start, (rows, origin.row_bytes), (storage.pitch, 1), 1)
    storage.mark_written(origin.form.start, runs)


def _sharer() -> tuple[int, int]:
    """Return the running core's number in its pair and how often it has synchronised."""
    core = CORE.get()
    assert core is not None
    assert core.member is not None
    return core.member.core, core.member.synchronised
