"""Handles of instructions, with which a kernel adds edges to the schedule.

Instructions run in program order here, so an edge changes no result; it orders accesses for the
race checks. The compiler must be able to implement the edge by a semaphore. The instruction waits
every time it runs, so its producer must have run before, in the same iteration of all device loops
around the producer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from nkisim.diagnostics import declare, flag
from nkisim.machine.core import Core
from nkisim.memory.tensor.refused import ByVersion
from nkisim.objects import NKIObject
from nkisim.removed import refuse_argument
from nkisim.spec.enums import dependency
from nkisim.versions import VERSIONS

SCHEDULE_EDGE = declare(
    "R011",
    "schedule-edge",
    "depends_on names an instruction that comes later, or one inside a device loop from outside.",
    "the instruction waits for a signal that never comes, or that comes in every iteration",
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
