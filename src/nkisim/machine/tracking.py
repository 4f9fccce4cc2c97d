"""What detectors are told of a run: every instruction with what it reads and writes, and loops.

A tracker reads the declared effects of instructions; it computes nothing itself. A core without one
pays an attribute test per instruction that does not go the short way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from nkisim.memory import NkiTensor
from nkisim.spec.enums import engine as Engine

__all__ = ["Effect", "LoopKind", "Step", "Tracked", "Tracker"]

LoopKind = Literal["affine", "dynamic", "counted"]
"""Loops that a tracker follows: those without an order, and those that the device runs, with bounds
that were loaded from memory or not."""


class Effect(NamedTuple):
    """One operand of a running instruction.

    Attributes:
        operand: Its name.
        tensor: The view; the table where rows are named by index.
        rows: Which rows of the table, or None for all of the view.
        part: Which elements of the view, or None for all of them.
        certain: False where values decide what is touched, or where it is not known: at most the
            view then, perhaps nothing.
    """

    operand: str
    tensor: NkiTensor
    rows: np.ndarray | None = None
    part: np.ndarray | None = None
    certain: bool = True

    @property
    def plain(self) -> bool:
        """True when exactly the elements of the view are touched."""
        return self.certain and self.rows is None and self.part is None


class Step(NamedTuple):
    """One instruction, as it begins and as it ends.

    Attributes:
        core: Who runs it.
        instruction: Its name.
        engine: What runs it.
        reads, writes: Its operands.
        lasts: True when it also leaves something on its engine or with another core, so that its
            results may be there for that alone.
        adds_to: The operands that its result is a sum with, unscaled.
    """

    core: Any
    instruction: str
    engine: Engine
    reads: tuple[Effect, ...] = ()
    writes: tuple[Effect, ...] = ()
    lasts: bool = False
    adds_to: tuple[str, ...] = ()


class Tracker(Protocol):
    """Follows a run, all of its cores."""

    def names(self, tensor: NkiTensor) -> None:
        """Note that the coming instruction reads an index tile."""

    def before(self, step: Step) -> None:
        """Note that an instruction begins; nothing is written yet."""

    def after(self, step: Step) -> None:
        """Note that it has written its results."""

    def last_writes(self, tensor: NkiTensor) -> list[str]:
        """Return who wrote a tensor last, with places and loop indices."""

    def iterations(self, core: Any, kind: LoopKind, values: range) -> Iterable[int]:
        """Return the iterations of a loop, to be followed as they come."""


class Tracked:
    """A context in which an instruction runs; tells its tracker, if there is one."""

    __slots__ = ("_step", "_tracker")

    def __init__(self, tracker: Tracker | None, step: Step) -> None:
        self._tracker = tracker
        self._step = step

    def __enter__(self) -> None:
        if self._tracker is not None:
            self._tracker.before(self._step)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tracker is not None and kind is None:
            self._tracker.after(self._step)
