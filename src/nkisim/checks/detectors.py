"""The detectors of a run behind one tracker, which reports every access to each in order.

An instruction reads before it writes. Its reads are compared with the last writes and then marked.
Elements that it will overwrite are copied first, and compared with the results afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from nkisim.checks.history import History
from nkisim.checks.inputs import InputCoverage
from nkisim.checks.lostwork import LostWork, Overwritten
from nkisim.checks.narrowsums import LongSums, PartialSums
from nkisim.checks.outputs import CountedLoops
from nkisim.checks.racecheck import Races
from nkisim.checks.size import Size
from nkisim.checks.tails import StaleTails
from nkisim.diagnostics import RULES, Place, flag
from nkisim.machine import Effect, Iterations, LoopKind, Step
from nkisim.memory import Lifetime, NkiTensor

DETECTORS = ("arguments", "lostwork", "races", "size")
"""Names of the detectors."""


class Detectors:
    """A tracker for all cores of a run.

    Attributes:
        tails: Detects tiles that are read beyond their last load; None where not enabled.
        counts: Detects loops with a data-dependent number of iterations; None where not enabled.

    Args:
        names: The members of ``DETECTORS`` to run.
        most_instructions: Number of unrolled instructions per engine above which a program is too
            long.
        unsettled: Whether stale elements behind a shorter load are replaced by other values.
        idle: Whether loops with a data-dependent number of iterations have zero iterations.
    """

    def __init__(
        self,
        names: Collection[str],
        most_instructions: int,
        *,
        unsettled: bool = False,
        idle: bool = False,
    ) -> None:
        self._history = History()
        lost = "lostwork" in names
        self._lost = LostWork(self._history) if lost else None
        self._overwritten = None if self._lost is None else Overwritten(self._history, self._lost)
        self._inputs = InputCoverage() if lost else None
        self._sums = LongSums() if lost else None
        self._partial_sums = PartialSums(self._history) if lost else None
        self.tails = StaleTails(self._history, unsettled) if lost else None
        self._races = Races(self._history) if "races" in names else None
        self.counts = CountedLoops(idle) if "races" in names else None
        self._size = Size(self._history, most_instructions) if "size" in names else None
        self._named: list[NkiTensor] = []
        self._left: set[Lifetime] = set()

    def names(self, tensor: NkiTensor) -> None:
        """Note that the next instruction reads an index tile."""
        self._named.append(tensor)

    def before(self, step: Step) -> None:
        """Note that an instruction begins; nothing is written yet."""
        if self._size is not None:
            self._size.count(step)
        named = [Effect("offset", tile) for tile in self._named]
        self._named.clear()
        if self._left:
            self._check_left((*named, *step.reads, *step.writes), step.instruction)
        for effect in (*named, *step.reads):
            self._read(step, effect)
        if self._overwritten is not None:
            self._overwritten.before(step)
        if self._races is not None:
            self._races.before(step)

    def _read(self, step: Step, effect: Effect) -> None:
        if self._lost is not None:
            self._lost.read(effect)
        if self._inputs is not None:
            self._inputs.read(effect, step.core)
        if effect.tensor.indirection is not None:
            return  # where it reads is not known
        if self._lost is not None and effect.tensor.life.address is not None:
            for site in self._history.sites(effect):
                self._lost.used(site)
        if self._races is not None and effect.certain:
            self._races.read(step, effect)
        if self.tails is not None:
            self.tails.read(step, effect)
        self._history.touched(effect).mark_read()

    def after(self, step: Step) -> None:
        """Note that an instruction has written its results."""
        if not step.writes:
            return
        number = self._history.record(step)
        if self._overwritten is not None:
            self._overwritten.after(number)
        if self._races is not None:
            self._races.written(step, number)
        if self._lost is not None:
            self._lost.written(step, number)
        if self._sums is not None:
            self._sums.written(step, self._history.site(number))
        if self._partial_sums is not None:
            self._partial_sums.written(step, number)
        for effect in step.writes:
            if effect.tensor.indirection is None:
                self._history.touched(effect).put(number)
        if self.tails is not None:
            self.tails.written(step, number)

    def last_writes(self, tensor: NkiTensor) -> list[str]:
        """Return the last writes of a tensor, with places and loop indices."""
        return [str(site) for site in self._history.sites(Effect("", tensor))]

    def iterations(self, core: Any, kind: LoopKind, values: range, name: str) -> Iterations:
        """Return the iterations of a loop, recorded as they run."""
        if kind == "counted" and self.counts is not None:
            values = self.counts.turns(values, name)
        follow = self._history.affine if kind == "affine" else self._history.dynamic
        return Iterations(values, lambda: follow(core, values))

    def left(self, allocations: Iterable[Lifetime]) -> None:
        """Note that an iteration of a loop's body function has ended, which made allocations."""
        self._left.update(allocations)

    def _check_left(self, effects: Iterable[Effect], what: str, place: Place | None = None) -> None:
        """Flag tensors that an iteration of a loop's body made, and that are used after it."""
        for effect in effects:
            life = effect.tensor.life
            if life in self._left:
                file, line = life.line
                flag(
                    RULES["L037"],
                    f"{what} uses `{life.label}`, which the body of a device loop made",
                    instruction=what,
                    operand=effect.operand,
                    seen=effect.tensor.describe(),
                    fix=f"make {life.label} before the loop and write into it, with dst=",
                    notes=(f"made at {file}:{line}",),
                    place=place,
                )

    def finish(
        self,
        returned: Collection[NkiTensor],
        arguments: Collection[tuple[str, NkiTensor]],
        kernel: Callable[..., Any],
        place: Place,
    ) -> None:
        """Flag the findings of a finished run as a whole; ``place`` is the kernel's definition."""
        self._check_left([Effect("", tensor) for tensor in returned], "return", place)
        if self._races is not None:
            self._races.finish()
        if self._lost is not None:
            self._lost.finish(returned, [tensor for _, tensor in arguments])
        if self._overwritten is not None:
            self._overwritten.finish(returned)
        if self._sums is not None:
            self._sums.finish()
        if self._partial_sums is not None:
            self._partial_sums.finish()
        if self._inputs is not None:
            self._inputs.finish(arguments, kernel, place)
        if self._size is not None:
            self._size.finish()
