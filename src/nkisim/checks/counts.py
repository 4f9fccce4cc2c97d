"""Loops with a data-dependent number of iterations: outputs left unwritten when it is zero.

A run uses one such number, and the outputs may be complete for it. So the kernel runs a second time
with zero iterations of these loops; outputs that are incomplete then are a finding.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nkisim.diagnostics import Place, declare, flag, user_place
from nkisim.memory import NkiTensor

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
