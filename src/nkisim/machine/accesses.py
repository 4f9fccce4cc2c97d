"""Bookkeeping of reads and writes: written bytes, accesses by core, reads of unwritten memory.

Values computed from unwritten elements are garbage; the map of written bytes stores their origin.
The finding is a warning until garbage reaches an output, an index, a register or another core.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import RECORDER, declare, flag, user_place
from nkisim.diagnostics.pictures import bitmap
from nkisim.machine.cluster import Member
from nkisim.machine.core import CORE, Garbage
from nkisim.memory import NkiTensor, is_on_chip, rules
from nkisim.memory.region import MemoryRegion
from nkisim.memory.tensor.geometry import View
from nkisim.memory.written_map import MOST_ORIGINS, runs_of

INTEGER_SENTINEL = 4
"""Value of unwritten integers; unwritten floats are NaN."""

_RULES = {
    MemoryRegion.sbuf: rules.UNWRITTEN_SBUF,
    MemoryRegion.psum: rules.UNWRITTEN_PSUM,
    MemoryRegion.private_hbm: rules.UNWRITTEN_HBM,
    MemoryRegion.shared_hbm: rules.UNWRITTEN_HBM,
}


PRIVATE_EXCHANGE = declare(
    "C010",
    "private-exchange",
    "A core reads private HBM that only the other core has written, in a tensor of its own.",
    "each core has its own copy, and nothing is exchanged",
    silent=True,
)


class Unwritten(NamedTuple):
    """Unwritten elements and garbage in one read.

    Attributes:
        hidden: Mask of the unwritten elements, or None.
        origins: For each element the number of the suspended finding that its garbage comes from, 0
            for none. None if no element is garbage.
    """

    hidden: np.ndarray | None = None
    origins: np.ndarray | None = None


_SOUND = Unwritten()


def report_unwritten(
    tensor: View,
    instruction: str,
    operand: str,
    part: np.ndarray | None = None,
    *,
    decides: bool = False,
) -> Unwritten:
    """Flag a read of unwritten elements, and return their mask.

    With ``part`` only these elements are checked. In a read that ``decides``, such as the read of
    an index, garbage is an error.
    """
    storage = tensor._storage
    if storage.sound(tensor.region):
        return _SOUND
    unwritten, origins = storage.unwritten(tensor.region), storage.garbage(tensor.region)
    if origins is not None and part is not None:
        origins = np.where(part, origins, 0).astype(np.uint8)
    if decides and origins is not None:
        _confirm(
            origins, f"{operand}   {instruction} uses what comes from this read, {user_place()}"
        )
    hidden = unwritten if unwritten is None or part is None else unwritten & part
    if hidden is not None and hidden.any():
        number = _flag_unwritten(tensor, instruction, operand, hidden, decides=decides)
        origins = np.zeros(tensor.shape, np.uint8) if origins is None else origins
        origins[hidden] = number
    if decides or (origins is not None and not origins.any()):
        origins = None
    return Unwritten(unwritten, origins)


def _flag_unwritten(
    tensor: View, instruction: str, operand: str, hidden: np.ndarray, *, decides: bool
) -> int:
    """Flag a read of unwritten elements; return the number of the finding."""
    first = tuple(int(i) for i in np.unravel_index(int(np.argmax(hidden)), hidden.shape))
    count = int(hidden.sum())
    file, line = tensor.life.line
    if _is_written_by_other_core(tensor, hidden):
        flag(
            PRIVATE_EXCHANGE,
            f"{instruction} reads {count} elements of {tensor.life.called(operand)} that the other "
            "core wrote in a tensor of its own",
            instruction=instruction,
            operand=operand,
            seen=f"{tensor.describe()}, first such element {first}",
            allowed="nl.shared_hbm",
            fix="allocate it with buffer=nl.shared_hbm, and keep the barrier",
            notes=(f"{operand}   made at {file}:{line}, once by each core",),
        )
        return 0
    finding = flag(
        _RULES[tensor.buffer],
        f"{instruction} reads {count} of {tensor.size} elements of {tensor.life.called(operand)} "
        "that nothing has written",
        instruction=instruction,
        operand=operand,
        seen=f"first unwritten element {first}",
        fix="write the whole tile first (a load, or nisa.memset), or read only the part that was "
        "written",
        notes=(f"{operand}   {tensor.describe()}, made at {file}:{line}",),
        severity=None if decides else "warning",
        data={"unwritten": count, "elements": int(tensor.size)},
    )
    if finding.picture is None:
        finding.picture = bitmap(hidden, "read, and never written")
    recorder = RECORDER.get()
    return 0 if recorder is None else recorder.suspend(finding, MOST_ORIGINS)


def _is_written_by_other_core(tensor: View, hidden: np.ndarray) -> bool:
    """Return whether the other core wrote these in its tensor and the cores have synchronised."""
    core = CORE.get()
    if core is None or core.member is None or not core.member.synchronised:
        return False
    twin = core.memory.twin_of(tensor)
    if twin is None:
        return False
    missing = twin._storage.unwritten(tensor.region)
    return missing is None or not (missing & hidden).any()


def confirm_garbage(tensor: View, what: str) -> None:
    """Change the findings of garbage in a tensor to errors; ``what`` names the tensor."""
    origins = tensor._storage.garbage(tensor.region)
    if origins is not None:
        count = np.count_nonzero(origins)
        _confirm(origins, f"{what}   {count} of {tensor.size} elements come from this read")


def _confirm(origins: np.ndarray, consequence: str) -> None:
    recorder = RECORDER.get()
    if recorder is not None:
        for number in np.unique(origins[origins > 0]):
            recorder.confirm(int(number), MOST_ORIGINS, consequence)


def with_sentinel(tensor: View, hidden: np.ndarray | None) -> np.ndarray:
    """Return the elements with the sentinel where ``hidden`` is true; memory is unchanged."""
    if hidden is None:
        return tensor._elements
    seen = np.array(tensor._elements)
    seen[hidden] = np.nan if tensor.dtype.kind == "float" else INTEGER_SENTINEL
    return seen


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
    storage = tensor._storage
    if storage.psum is not None or storage.shared is not None:
        note_read(tensor, instruction)
    if storage.complete:
        return tensor._elements
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
    storage = tensor._storage
    if storage.psum is not None:
        storage.psum.read(tensor.form.region)
    if storage.shared is not None:
        member = _member()
        epoch = member.synchronised
        storage.shared.read(tensor, member.core, epoch, instruction, member.guards)


def commit(tensor: NkiTensor, stored: Any) -> None:
    """Write elements in storage form to a tensor and record the write."""
    if tensor._storage.borrowed:
        tensor._storage.own()
    tensor._elements[...] = stored
    note_written(tensor)


def commit_where(tensor: NkiTensor, stored: np.ndarray, where: np.ndarray) -> None:
    """Write elements in storage form to a tensor where ``where`` is true."""
    tensor._storage.own()
    tensor._elements[where] = stored[where] if stored.ndim else stored
    note_written(tensor, where)


def note_written(tensor: NkiTensor, where: np.ndarray | None = None) -> None:
    """Record a write of a tensor, or of its elements where ``where`` is true."""
    storage = tensor._storage
    if not storage.complete:
        if where is None:
            storage.mark_written(tensor.form.start, tensor.runs)
        else:
            form = tensor.form
            storage.mark_written_where(where, form.start, form.strides, form.itemsize)
    if storage.psum is not None:
        storage.psum.write(tensor._owner, tensor.form.region)
    if storage.shared is not None:
        member = _member()
        storage.shared.write(tensor, member.core, member.synchronised, where)


def note_written_somewhere(tensor: NkiTensor) -> None:
    """Record a write with unknown offset: the whole tensor counts as written."""
    storage, origin = tensor._storage, tensor.origin
    rows = origin.form.shape[0] if is_on_chip(tensor.buffer) else 1
    runs = runs_of(origin.form.start, (rows, origin.row_bytes), (storage.pitch, 1), 1)
    storage.mark_written(origin.form.start, runs)


def _member() -> Member:
    """Return the running core's membership in its cluster."""
    core = CORE.get()
    assert core is not None
    assert core.member is not None
    return core.member
