"""Tracker interface for detectors: instructions with their reads and writes, and loops.

A tracker reads the declared effects of instructions; it computes nothing itself. Without a tracker
the cost is one attribute test per instruction outside the fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from nkisim.memory import Lifetime, NkiTensor
from nkisim.spec.enums import engine as Engine

LoopKind = Literal["affine", "dynamic", "counted"]
"""Kinds of tracked loops: unordered loops, and device loops with bounds from memory or constant."""


class Effect(NamedTuple):
    """One operand of a running instruction.

    Attributes:
        operand: Its name.
        tensor: The view; with ``rows``, the table that they are selected from.
        rows: Selected rows of the table, or None for all of the view.
        part: Mask of the accessed elements of the view, or None for all.
        certain: False if the access depends on values or is unknown: at most the view is accessed,
            possibly nothing.
    """

    operand: str
    tensor: NkiTensor
    rows: np.ndarray | None = None
    part: np.ndarray | None = None
    certain: bool = True

    @property
    def plain(self) -> bool:
        """True if exactly the elements of the view are accessed."""
        return self.certain and self.rows is None and self.part is None


class Step(NamedTuple):
    """One instruction, as passed to a tracker before and after it runs.

    Attributes:
        core: The core that runs it.
        instruction: Its name.
        engine: The engine that runs it.
        reads, writes: Its operands.
        lasts: True if it also changes state of its engine or of another core: it has an effect even
            if its results are not read.
        adds_to: The operands that it adds to its result unscaled.
        moves: Whether it only moves data.
        sums: Whether it can add to its result, as ``accumulate`` of a matmul does.
    """

    core: Any
    instruction: str
    engine: Engine
    reads: tuple[Effect, ...] = ()
    writes: tuple[Effect, ...] = ()
    lasts: bool = False
    adds_to: tuple[str, ...] = ()
    moves: bool = False
    sums: bool = False


class Iterations:
    """A range that reports the current iteration of its loop."""

    def __init__(self, values: range, begin: Callable[[], Iterator[int]]) -> None:
        self._values = values
        self._begin = begin

    def __iter__(self) -> Iterator[int]:
        return self._begin()

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: int) -> int:
        return self._values[index]

    def __repr__(self) -> str:
        return repr(self._values)


class Tracker(Protocol):
    """Follows a run, all of its cores."""

    def names(self, tensor: NkiTensor) -> None:
        """Record that the next instruction reads an index tile."""

    def before(self, step: Step) -> None:
        """Record that an instruction begins; nothing is written yet."""

    def after(self, step: Step) -> None:
        """Record that it has written its results."""

    def last_writes(self, tensor: NkiTensor) -> list[str]:
        """Return the last writers of a tensor, with places and loop indices."""

    def iterations(self, core: Any, kind: LoopKind, values: range, name: str) -> Iterable[int]:
        """Return the tracked iterations of a loop; ``name`` is its function, such as fori_loop."""

    def left(self, allocations: Iterable[Lifetime]) -> None:
        """Record that an iteration of a loop's body function has ended, which made allocations."""


class Tracked:
    """Context in which an instruction runs; reports it to the tracker, if any."""

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
