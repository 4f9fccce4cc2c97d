"""Accumulation in PSUM: the elements that a matmul adds to, and broken accumulation groups."""

from __future__ import annotations

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.machine.accesses import with_sentinel
from nkisim.machine.core import Core, Garbage
from nkisim.memory import NkiTensor
from nkisim.versions.rules import is_off

ACCUMULATE_UNWRITTEN = declare(
    "M003",
    "accumulate-unwritten",
    "A matmul adds to PSUM that nothing has written.",
    "the sum starts from whatever was left there",
    silent=True,
)
ACCUMULATE_AFTER_FILL = declare(
    "M004",
    "accumulate-after-fill",
    "A matmul adds to a PSUM tile whose accumulation was not begun by a matmul.",
    "on gen2 and gen3 only a matmul can begin an accumulation; adding onto a filled tile is "
    "undefined",
    silent=True,
)
INTERRUPTED_GROUP = declare(
    "M042",
    "interrupted-accumulation",
    "PSUM is read or written by another engine between two matmuls that accumulate into it.",
    "a partial sum is consumed, or lost",
    silent=True,
)
REUSED_GROUP = declare(
    "M043",
    "reused-accumulation",
    "accumulate=None adds to a PSUM tile whose earlier sum was already read out.",
    "only the first matmul since the tile was allocated overwrites; the second sum contains the "
    "first",
    silent=True,
)

INTERLEAVED_GROUPS = declare(
    "M052",
    "interleaved-sums",
    "accumulate=None is used in turn for several sums in parts of one PSUM tensor.",
    "the compiler infers accumulation groups by tensor; users saw it fail (NCC_ISCH714)",
    severity="warning",
)

LOST_SUM = declare(
    "W001",
    "lost-sum",
    "A matmul with accumulate=False overwrites a sum in PSUM that nothing has read.",
    "after a loop over K the tile holds the product of the last step only",
    silent=True,
)


def begin_sum(core: Core, dst: NkiTensor, accumulate: bool | None, name: str) -> np.ndarray | bool:
    """Return the mask of elements of ``dst`` to which the matmul adds; flag broken groups."""
    adds = _adds(core, dst, accumulate, name)
    if adds is not False and not dst._storage.complete:
        _record_garbage(core, dst, adds)
    return adds


def begin_selected_sum(
    core: Core,
    dst: NkiTensor,
    opened: np.ndarray | bool,
    accumulate: bool | None,
    name: str,
) -> np.ndarray | bool:
    """Return the mask of elements to which a matmul adds; ``dst`` is a copy of selected elements.

    Args:
        core: The core that runs the matmul.
        dst: The copy of the selected elements.
        opened: Elements whose accumulation an earlier matmul began: True, False or a mask.
        accumulate: The argument of the matmul.
        name: Its name, for messages.
    """
    if accumulate is not None and not accumulate:
        return False
    if accumulate is None:
        return opened
    if not np.all(opened):
        _not_begun(name, core, dst)
    return True


def _record_garbage(core: Core, dst: NkiTensor, adds: np.ndarray | bool) -> None:
    """Record garbage in elements to which the matmul adds: the sums contain it."""
    origins = dst._storage.garbage(dst.region)
    if origins is not None:
        core.garbage.append(Garbage(core.clock, "dst", np.where(adds, origins, 0)))


def _adds(core: Core, dst: NkiTensor, accumulate: bool | None, name: str) -> np.ndarray | bool:
    state = dst._storage.psum
    assert state is not None
    owner, region = dst._owner, dst.form.region
    if accumulate is not None and not accumulate:
        if state.unread(owner, region):
            _flag_lost(name, core, dst)
        return False
    if state.goes_on(owner, region):
        return True
    if accumulate and state.interrupted(owner, region):
        _flag_interrupted(name, dst, "written by another engine or another matmul")
        return True
    opened = state.opened(owner, region)
    if accumulate is None:
        if opened is not False and state.evicted(owner, region):
            lost = state.interrupted(owner, region)
            happened = "written through another tensor" if lost else "read"
            flag(
                REUSED_GROUP,
                f"{name} adds to `{dst.name}`, whose sum was already "
                + ("overwritten" if lost else "read out"),
                instruction=name,
                operand="dst",
                seen=f"accumulate=None on a tile that was {happened} since its last matmul",
                fix="pass accumulate=False to the first matmul of the new sum, in a loop over k "
                "accumulate=(k > 0), or allocate the PSUM tile where the new sum begins",
            )
        elif state.interleaved(owner, region) and not is_off(INTERLEAVED_GROUPS.id):
            flag(
                INTERLEAVED_GROUPS,
                f"{name} continues a sum in `{dst.name}` after a matmul into another part of it",
                instruction=name,
                operand="dst",
                seen="accumulate=None in two sums of one tensor, in turn",
                allowed="one sum after the other, or a tensor for each",
                fix="allocate a PSUM tile for each sum, or pass accumulate=(k > 0)",
            )
        return opened
    if opened is not True:
        _not_begun(name, core, dst)
    elif state.evicted(owner, region):
        _flag_interrupted(name, dst, "read")
    return True


def _flag_lost(name: str, core: Core, dst: NkiTensor) -> None:
    first = [] if core.tracker is None else core.tracker.last_writes(dst)
    flag(
        LOST_SUM,
        f"{name} overwrites the sum in `{dst.name}`, which nothing has read",
        instruction=name,
        operand="dst",
        seen="accumulate=False on a tile that no instruction has read since its last matmul",
        fix="pass accumulate=(k > 0), so that only the first step overwrites",
        notes=(
            f"dst   {dst.describe()}, made at {dst.life.line[0]}:{dst.life.line[1]}",
            *(f"lost  {site}" for site in first),
        ),
    )


def _flag_interrupted(name: str, dst: NkiTensor, how: str) -> None:
    flag(
        INTERRUPTED_GROUP,
        f"{name} continues an accumulation in `{dst.name}` that was {how} in between",
        instruction=name,
        operand="dst",
        seen=f"dst was {how} between two accumulating matmuls",
        fix="finish the accumulation first, or begin a new one with accumulate=False",
    )


def _not_begun(name: str, core: Core, dst: NkiTensor) -> None:
    hidden = dst._storage.unwritten(dst.region)
    if hidden is not None:
        # The following sum overwrites dst, so the sentinel may be written to memory.
        if core.values:
            dst._elements[...] = with_sentinel(dst, hidden)
        flag(
            ACCUMULATE_UNWRITTEN,
            f"{name} adds to `{dst.name}`, which nothing has written",
            instruction=name,
            operand="dst",
            seen=f"{int(hidden.sum())} unwritten elements",
            fix="pass accumulate=(k > 0), or leave accumulate=None",
            notes=(f"dst   {dst.describe()}",),
        )
    elif core.generation.number <= 3:
        flag(
            ACCUMULATE_AFTER_FILL,
            f"{name} adds to `{dst.name}`, an accumulation that no matmul has begun",
            instruction=name,
            operand="dst",
            seen="dst was last written by another engine",
            fix="drop the fill and pass accumulate=(k > 0)",
            notes=(f"dst   {dst.describe()}",),
        )


def note_sum(dst: NkiTensor) -> None:
    """Record that a matmul wrote all of ``dst``."""
    storage = dst._storage
    if not storage.complete:
        storage.mark_written(dst.form.start, dst.runs)
    assert storage.psum is not None
    if not storage.psum.goes_on(dst._owner, dst.form.region):
        storage.psum.open(dst._owner, dst.form.region)
