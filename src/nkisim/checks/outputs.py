"""Checks of a kernel's outputs: whole, fully written tensors in shared HBM.

A run uses one number of iterations of a loop whose number depends on data, and the outputs may be
complete for it. So a kernel with such loops runs a second time, with zero iterations of them;
outputs that are incomplete then are a finding.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from nkisim.diagnostics import Place, Recorder, declare, flag, user_place
from nkisim.machine import Core
from nkisim.machine.accesses import confirm_garbage
from nkisim.memory import MemoryRegion, NkiTensor, is_on_chip
from nkisim.objects import parts_of
from nkisim.spec import rules

OUTPUT_BUFFER = declare(
    "A012",
    "output-buffer",
    "A returned tensor is not in nl.shared_hbm.",
    "compilation fails for outputs in private HBM",
)
OUTPUT_UNWRITTEN = declare(
    "M006",
    "output-unwritten",
    "A returned tensor was not written, or only in part.",
    "the caller gets whatever was left in the memory",
    silent=True,
)
ONE_PROGRAM = declare(
    "C003",
    "one-program",
    "A kernel that uses program_id but not num_programs runs on one core and leaves a part of "
    "its output unwritten.",
    "the part of the absent core is not computed",
    silent=True,
)
OUTPUT_KIND = declare(
    "L060",
    "output-kind",
    "A kernel returns something other than whole HBM tensors.",
    "frameworks can only rebuild tensors and flat tuples of them",
)


def check_outputs(result: Any, core: Core, place: Place) -> None:
    """Check the return value of a kernel; ``place`` is its definition."""
    if result is None:
        _check_nothing_returned(core, place)
    parts = result if isinstance(result, (tuple, list)) else (result,)
    for index, part in enumerate(parts):
        name = f"output {index}"
        if part is not None and not isinstance(part, NkiTensor):
            flag(
                OUTPUT_KIND,
                f"{name} is not a tensor but of type {type(part).__name__}",
                operand=name,
                seen=type(part).__name__,
                allowed="a tensor in nl.shared_hbm, or a flat tuple of them",
                fix="return tensors only",
                place=place,
            )
        _check_tensors(name, part, core, place)


def _check_nothing_returned(core: Core, place: Place) -> None:
    """Flag a kernel that makes an output and returns none."""
    made = [a for a in core.memory.log if a.region is MemoryRegion.shared_hbm and a.line[1]]
    if made:
        flag(
            OUTPUT_KIND,
            f"the kernel returns nothing, although it allocates {len(made)} tensors in shared_hbm",
            operand="output",
            seen=f"first allocated at {made[0].line[0]}:{made[0].line[1]}",
            allowed="the tensors in nl.shared_hbm that hold the results",
            fix="return the output tensor",
            place=place,
        )


def _check_tensors(name: str, result: Any, core: Core, place: Place) -> None:
    """Check a returned tensor, or the tensors inside a returned container."""
    if isinstance(result, NkiTensor):
        _check_tensor(name, result, core, place)
        return
    for way, part in parts_of(result):
        _check_tensors(name + way, part, core, place)


def _check_tensor(name: str, tensor: NkiTensor, core: Core, place: Place) -> None:
    if is_on_chip(tensor.buffer) or not tensor.whole:
        flag(
            OUTPUT_KIND,
            f"{name} is "
            f"{'an on-chip tensor' if is_on_chip(tensor.buffer) else 'a view of a tensor'}: "
            f"{tensor.describe()}",
            operand=name,
            seen=tensor.describe(),
            allowed="a whole tensor in nl.shared_hbm",
            fix="copy it to a tensor in nl.shared_hbm and return that",
            data={"buffer": tensor.buffer.value},
            place=_made(tensor, place),
        )
    elif tensor.buffer is not MemoryRegion.shared_hbm and not tensor.origin.is_argument:
        flag(
            OUTPUT_BUFFER,
            f"{name} is in {tensor.buffer.value}",
            operand=name,
            seen=tensor.describe(),
            allowed="shared_hbm",
            fix="allocate it with buffer=nl.shared_hbm",
            place=_made(tensor, place),
        )
    confirm_garbage(tensor, f"{name} {tensor.life.called('')}".rstrip())
    hidden = tensor._storage.unwritten(tensor.region)
    if hidden is not None:
        lonely = core.num_programs == 1 and core.asked == {"program_id"} and not hidden.all()
        box, fix = _box(hidden), "cover the tensor with stores, tails included, or fill it first"
        if lonely:
            fix = "launch with kernel[2], or derive the split from nl.num_programs()"
        flag(
            ONE_PROGRAM if lonely else OUTPUT_UNWRITTEN,
            f"{name} `{tensor.name}` has {int(hidden.sum())} of {tensor.size} elements "
            f"that were never written"
            + (": the kernel splits its work by program_id and runs on one core" if lonely else ""),
            operand=name,
            seen=f"unwritten: {_ranges(box)}",
            fix=fix,
            data={"unwritten_box": box},
            place=_made(tensor, place),
        )


def _made(tensor: NkiTensor, place: Place) -> Place:
    """Return where a tensor was made, or a place for one that no line of the kernel made."""
    line = tensor.life.line
    return Place(*line) if line[1] else place


def _box(hidden: np.ndarray) -> list[tuple[int, int]]:
    """Return start and stop per dimension of the box that holds every unwritten element."""
    spans = []
    for axis in range(hidden.ndim):
        others = tuple(a for a in range(hidden.ndim) if a != axis)
        touched = np.flatnonzero(hidden.any(axis=others))
        spans.append((int(touched[0]), int(touched[-1]) + 1))
    return spans


def _ranges(box: list[tuple[int, int]]) -> str:
    """Describe a box of indices."""
    spans = [f"{start}:{stop}" for start, stop in box]
    return f"inside [{', '.join(spans)}]" if spans else "the only element"


# -- NaN and infinity ------------------------------------------------------------------------------

_ORIGINS = (rules.NAN_CREATED, rules.MASKED_ROW, rules.FLOAT_OVERFLOW)
"""Rules of instructions that make NaN or infinity."""


def nonfinite_outputs(result: Any) -> dict[str, str]:
    """Return the outputs that have NaN or infinity, each with the first such value and its index.

    Values that depend on unwritten memory do not count: they are findings of their own.
    """
    parts = result if isinstance(result, (tuple, list)) else (result,)
    found = {}
    for index, tensor in enumerate(parts):
        if not isinstance(tensor, NkiTensor) or not tensor.dtype.is_float:
            continue
        finite = np.isfinite(tensor._elements)
        if finite.all():
            continue
        wrong = ~finite
        for garbage in (tensor._storage.unwritten(tensor.region), _tainted(tensor)):
            if garbage is not None:
                wrong &= ~garbage
        if wrong.any():
            at = tuple(int(i) for i in np.unravel_index(int(np.argmax(wrong)), wrong.shape))
            found[f"output {index}"] = f"{tensor._elements[at]} at {at}"
    return found


def _tainted(tensor: NkiTensor) -> np.ndarray | None:
    origins = tensor._storage.garbage(tensor.region)
    return None if origins is None else origins != 0


def lead_with_origins(recorder: Recorder, outputs: dict[str, str]) -> None:
    """Put the findings of instructions that made NaN or infinity first, with the outputs."""
    for finding in recorder.findings:
        if finding.rule in _ORIGINS or "makes" in finding.data:
            finding.data = {**finding.data, "outputs": [*outputs]}
            finding.notes += tuple(
                f"{name} has {seen}, although all inputs are finite"
                for name, seen in outputs.items()
            )


NO_TURN = declare(
    "R017",
    "no-turn",
    "With zero iterations of a loop whose count is loaded from memory, elements of an output "
    "stay unwritten.",
    "the caller then gets the previous contents of that memory",
    severity="warning",
    detector="races",
    on_values=True,
)


class CountedLoops:
    """Records the loops whose number of iterations is loaded from memory.

    Args:
        idle: Whether each of these loops runs no iteration, as in the second run of the check.
    """

    def __init__(self, idle: bool) -> None:
        self._idle = idle
        self._places: dict[tuple[str, int], tuple[Place, str]] = {}

    @property
    def suspected(self) -> bool:
        """Whether a loop had iterations that depend on a loaded count."""
        return bool(self._places)

    def turns(self, values: range, name: str) -> range:
        """Return the iterations of a counted loop in this run; ``name`` names its loop function."""
        if self._idle:
            return range(0)
        if len(values):
            place = user_place()
            line = Place(place.file, place.line)
            self._places.setdefault((place.file, place.line), (line, name))
        return values

    def report(self, returned: Collection[NkiTensor], idle: Collection[NkiTensor]) -> None:
        """Flag the loops if complete outputs are incomplete without their iterations."""
        missing = 0
        for whole, tensor in zip(returned, idle, strict=False):
            unwritten = tensor._storage.unwritten(tensor.region)
            before = whole._storage.unwritten(whole.region)
            if unwritten is not None:
                here = unwritten if before is None else unwritten & ~before
                missing += int(np.count_nonzero(here))
        if not missing:
            return
        size = sum(tensor.size for tensor in returned)
        for place, name in self._places.values():
            flag(
                NO_TURN,
                f"with zero iterations of this loop {missing} of {size} elements of the outputs "
                "stay unwritten",
                instruction=name,
                seen="a bound that is loaded from memory, so that it may be 0",
                fix="write the values for zero iterations to the outputs before or after the loop",
                place=place,
            )
