"""The last write of each element, for all cores of a run: the history that detectors share.

Every accessed storage gets a shadow of stamps. A stamp is the number of the last write, negative
once it has been read, and 0 before the first write. A stamp covers as many bytes as the views
allow, so most tiles need one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from nkisim.diagnostics import Place, user_place
from nkisim.machine import Effect, Step
from nkisim.memory import Lifetime, NkiTensor
from nkisim.memory.storage import Storage
from nkisim.memory.written_map import Grains
from nkisim.spec.enums import engine as Engine

_MOST_PLACES = 1 << 17
"""Number of instructions after which loop indices are not recorded, to limit memory."""


class Turn(NamedTuple):
    """One iteration of a loop: the number of its entry, and the value of the variable."""

    loop: int
    value: int


class Site(NamedTuple):
    """One write.

    Attributes:
        instruction: Name of the instruction.
        engine: Its engine.
        place: The line, with loop indices.
        core: Label of the core, empty where there is only one.
        clock: Number of the instruction on its core.
        epoch: Number of synchronisations with the other core so far.
        turns: Iterations of the unordered loops around it.
        owners: The allocations it wrote.
        size: Elements of its first result.
        works: Whether it read a tensor and its only effect is its result; False for fills and for
            instructions with other effects.
        indirect: Whether its address came from a register or an index tile.
        ordered: Whether it is inside a ``no_reorder`` region.
        moves: Whether it only moves data.
    """

    instruction: str
    engine: Engine
    place: Place
    core: str
    clock: int
    epoch: int
    turns: tuple[Turn, ...]
    owners: tuple[Lifetime, ...]
    size: int
    works: bool
    indirect: bool
    ordered: bool
    moves: bool

    @property
    def key(self) -> tuple[str, int, str]:
        """Key shared by all writes of one line."""
        return self.place.file, self.place.line, self.instruction

    def __str__(self) -> str:
        engine = "" if self.engine is Engine.unknown else f" on the {self.engine.name} engine"
        core = f", {self.core}" if self.core else ""
        return f"{self.instruction} at {self.place}{engine}{core}"


class Touched:
    """The stamps of an operand: a view of its shadow, or parts of one."""

    __slots__ = ("_chosen", "_view")

    def __init__(self, view: np.ndarray, chosen: Any = ...) -> None:
        self._view = view
        self._chosen = chosen

    def stamps(self) -> np.ndarray:
        """Return the stamps; those of parts are copies."""
        found: np.ndarray = self._view[self._chosen]
        return found

    def put(self, number: int) -> None:
        """Note a write."""
        self._view[self._chosen] = number

    def mark_read(self) -> None:
        """Note a read."""
        if self._chosen is ...:
            np.minimum(self._view, -self._view, out=self._view)
        else:
            self._view[self._chosen] = -np.abs(self._view[self._chosen])

    def writers(self) -> list[int]:
        """Return the numbers of the last writes here, read since or not."""
        return _numbers(np.abs(self.stamps()))

    def unread(self) -> list[int]:
        """Return the numbers of the last writes here that have not been read."""
        return _numbers(self.stamps())


def _numbers(stamps: np.ndarray) -> list[int]:
    """Return the positive numbers among stamps."""
    if not stamps.size:
        return []
    high = int(stamps.max())
    if high <= 0:
        return []
    if int(stamps.min()) == high:
        return [high]
    return [int(n) for n in np.unique(stamps) if n > 0]


class History:
    """The writes of a run, and the loops that its cores are in."""

    def __init__(self) -> None:
        self._sites: list[Site] = []
        self._lines: dict[tuple[str, int], Place] = {}
        self._entered = 0
        self._turns: dict[Any, list[Turn]] = {}
        self._repeating: Counter[Any] = Counter()

    def site(self, number: int) -> Site:
        """Return the write of a number."""
        return self._sites[number - 1]

    def record(self, step: Step) -> int:
        """Record a write; return its number."""
        core = step.core
        member = core.member
        self._sites.append(
            Site(
                step.instruction,
                step.engine,
                self._place(),
                "" if member is None else member.label,
                core.clock,
                0 if member is None else member.synchronised,
                self.turns(core),
                tuple(effect.tensor.life for effect in step.writes),
                step.writes[0].tensor.size,
                bool(step.reads) and not step.lasts,
                any(is_indirect(effect) for effect in step.writes),
                core.no_reorder_depth > 0,
                step.moves,
            )
        )
        return len(self._sites)

    def _place(self) -> Place:
        place = user_place()
        if len(self._sites) < _MOST_PLACES:
            return place
        return self._lines.setdefault((place.file, place.line), Place(place.file, place.line))

    def touched(self, effect: Effect) -> Touched:
        """Return the stamps of an operand."""
        shadow = _shadow(effect.tensor._storage)
        region = effect.tensor.region
        if effect.rows is not None:
            return Touched(shadow.of_elements(*region), effect.rows)
        if effect.part is not None:
            return Touched(shadow.of_elements(*region), effect.part)
        return Touched(shadow.of_runs(*region))

    def sites(self, effect: Effect) -> list[Site]:
        """Return the last writes to the elements of an operand."""
        return [self.site(number) for number in self.touched(effect).writers()]

    # -- loops -------------------------------------------------------------------------------------

    def turns(self, core: Any) -> tuple[Turn, ...]:
        """Return the current iterations of a core's unordered loops."""
        return tuple(self._turns.get(core, ()))

    def repeats(self, core: Any) -> bool:
        """Return whether a core is in a device loop, after its first iteration."""
        return self._repeating[core] > 0

    def affine(self, core: Any, values: range) -> Iterator[int]:
        """Return the iterations of an unordered loop."""
        self._entered += 1
        loop, turns = self._entered, self._turns.setdefault(core, [])
        depth = len(turns)
        try:
            for index in values:
                turns[depth:] = [Turn(loop, index)]
                yield index
        finally:
            del turns[depth:]
            if not turns:
                self._turns.pop(core, None)

    def dynamic(self, core: Any, values: range) -> Iterator[int]:
        """Return the iterations of a device loop."""
        first = True
        for index in values:
            with self._repeated(core, not first):
                yield index
            first = False

    @contextmanager
    def _repeated(self, core: Any, repeated: bool) -> Iterator[None]:
        self._repeating[core] += repeated
        try:
            yield
        finally:
            self._repeating[core] -= repeated
            if not self._repeating[core]:
                del self._repeating[core]  # has cores in a repeated iteration only


def is_indirect(effect: Effect) -> bool:
    """Return whether the address of an operand is data-dependent."""
    return effect.rows is not None or effect.tensor.indirection is not None


def bits_of(tensor: NkiTensor) -> np.ndarray:
    """Return a copy of the bits of a tensor's elements."""
    return np.array(tensor._elements).view(f"u{tensor.itemsize}")


def _shadow(storage: Storage) -> Grains:
    if storage.shadow is None:
        storage.shadow = Grains(storage.data.size, 0, np.int32)
    found: Grains = storage.shadow
    return found
