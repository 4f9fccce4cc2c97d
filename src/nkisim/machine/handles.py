"""Handles of instructions, with which a kernel adds edges to the schedule.

Instructions run in program order here, so an edge changes no result; it orders accesses for the
race checks. The compiler must be able to implement the edge by a semaphore. The instruction waits
every time it runs, so its producer must have run before, in the same iteration of all device loops
around the producer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nkisim.diagnostics import Place, Severity, declare, flag
from nkisim.machine.core import Core
from nkisim.memory.tensor.refused import ByVersion
from nkisim.objects import NKIObject
from nkisim.removed import refuse_argument
from nkisim.spec.enums import dependency
from nkisim.versions import VERSIONS

SCHEDULE_EDGE = declare(
    "R011",
    "schedule-edge",
    "depends_on names an instruction that comes later, or one inside a device loop from outside; "
    "edges make a circle.",
    "the instruction waits for a signal that never comes, or that comes in every iteration",
)


NamedOrder = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of instructions, each with the names of those that run before it."""


def checked_schedule(schedule: Any) -> NamedOrder:
    """Return the argument of ``with_schedule`` as a schedule.

    Raises:
        TypeError: An entry is not a pair of a name, and a name or a list of names.
        ValueError: The pairs make a circle.
    """
    accepted = 'pairs ("after", "before") or ("after", ["before", ...]) of names'
    if not isinstance(schedule, (list, tuple)):
        raise TypeError(f"with_schedule: got {type(schedule).__name__}, accepted: {accepted}")
    found: dict[str, tuple[str, ...]] = {}
    for entry in schedule:
        is_pair = isinstance(entry, tuple) and len(entry) == 2
        after, before = entry if is_pair else (None, None)
        names = before if isinstance(before, list) else [before]
        if not isinstance(after, str) or not all(isinstance(name, str) for name in names):
            raise TypeError(f"with_schedule: got {entry!r}, accepted: {accepted}")
        found[after] = (*found.get(after, ()), *names)
    for first in found:
        waiting, seen = [*found[first]], set[str]()
        while waiting:
            name = waiting.pop()
            if name == first:
                raise ValueError(
                    f"with_schedule: {first!r} waits for itself, through {seen or name}"
                )
            waiting += [] if name in seen else found.get(name, ())
            seen.add(name)
    return tuple(found.items())


def apply_schedule(core: Core, schedule: NamedOrder, place: Place) -> None:
    """Add the edges of a schedule to a core whose kernel has ended, as ``depends_on`` does.

    An edge against the order of the program has no effect, unless edges make a circle. ``place`` is
    the line of the kernel.
    """
    for name in {name for after, before in schedule for name in (after, *before)}:
        if name not in core.named:
            _refuse_edge(f"no instruction is called {name!r}", name, place, "warning")
    for after, names in schedule:
        for number in core.named.get(after, ()):
            for before in names:
                others = core.named.get(before, ())
                earlier = [other for other in others if other < number]
                if earlier:
                    core.edges.setdefault(number, set()).add(earlier[-1])
                elif any(core.waits(other, number) for other in others):
                    _refuse_edge(f"{before!r} waits for {after!r} already", after, place)


def _refuse_edge(why: str, name: str, place: Place, severity: Severity | None = None) -> None:
    flag(
        SCHEDULE_EDGE,
        f"with_schedule: {why}",
        operand=name,
        seen=why,
        allowed="names of instructions, without a circle",
        fix="name instructions with name=, and leave one of the edges out",
        severity=severity,
        place=place,
    )


class Issued(NamedTuple):
    """An executed instruction.

    Attributes:
        core: The core that ran it.
        instruction: Its name.
        number: Its number in program order of the core.
        scope: The device loops that it ran in, with their iterations; see ``Core.scope``.
    """

    core: Core
    instruction: str
    number: int
    scope: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"{self.instruction}, instruction {self.number}"


class NkiInstruction(NKIObject):
    """Handle of an instruction: the result of every ``nki.isa`` instruction from NKI 0.6.0 on.

    From NKI 0.7.0 on collectives return one too.
    """

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def _of_kind(self, *producers: Any, kind: Any = None) -> NkiInstruction:
        """Make this instruction run after other ones; return its handle.

        Args:
            *producers: Handles of earlier instructions, in the same iteration of the same device
                loops or outside of them.
            kind: From NKI 0.7.0 on: ``nisa.dependency.runtime`` waits on the device;
                ``nisa.dependency.schedule`` orders the issue only, so engines may still overlap.
                None is ``runtime``.
        """
        if kind is not None and not isinstance(kind, dependency):
            allowed = "nisa.dependency.runtime, nisa.dependency.schedule"
            fix = "kind=nisa.dependency.runtime"
            refuse_argument("depends_on", "kind", kind, allowed, fix, wanted="a nisa.dependency")
        for producer in producers:
            if not isinstance(producer, NkiInstruction):
                allowed = "what a call of nki.isa returns"
                fix, wanted = "pass the result of the instruction", "handles of instructions"
                refuse_argument("depends_on", "producers", producer, allowed, fix, wanted=wanted)
            if kind is not dependency.schedule:
                _add_edge(producer._handle, self._handle)
        return self

    def _at_runtime(self, *producers: Any) -> NkiInstruction:
        """Make this instruction run after other ones; return its handle.

        Args:
            *producers: Handles of earlier instructions, in the same iteration of the same device
                loops or outside of them.
        """
        return self._of_kind(*producers)

    _of_kind.__name__ = _at_runtime.__name__ = "depends_on"
    depends_on = ByVersion(
        "depends_on",
        dict.fromkeys(VERSIONS[: VERSIONS.index("0.7.0")], _at_runtime) | {"0.7.0": _of_kind},
    )

    def __repr__(self) -> str:
        return f"NkiInstruction({self._handle})"


def handle_of(core: Core, instruction: str) -> NkiInstruction | None:
    """Return the handle of the instruction that just ran; None in versions without handles."""
    if not core.handles:
        return None
    return NkiInstruction(Issued(core, instruction, core.clock, core.scope))


def _add_edge(producer: Issued, consumer: Issued) -> None:
    """Record an edge, or flag one that no semaphore can implement."""
    inside = consumer.scope[: len(producer.scope)] == producer.scope
    if producer.core is not consumer.core:
        why, fix = "it runs on another core", "synchronise cores with nisa.core_barrier"
    elif producer.number >= consumer.number:
        why = "it is the same one" if producer.number == consumer.number else "it comes later"
        fix = "call depends_on of the later instruction, with the earlier one"
    elif not inside:
        why = "it is in a device loop, or in an iteration of one, that has ended"
        fix = "put both into one iteration, or the producer before the loop"
    else:
        consumer.core.edges.setdefault(consumer.number, set()).add(producer.number)
        return
    flag(
        SCHEDULE_EDGE,
        f"{consumer.instruction} cannot depend on {producer.instruction}: {why}",
        instruction=consumer.instruction,
        operand="producers",
        seen=f"{producer} for {consumer}",
        allowed="an earlier instruction of the same iteration, or before the loop",
        fix=fix,
    )
