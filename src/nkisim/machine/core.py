"""One NeuronCore during a run: memories, clock, accumulators, and who watches it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nkisim.arch import Generation
from nkisim.diagnostics import Place, Recorder, flag
from nkisim.machine.cluster import Member
from nkisim.machine.tracking import Effect, Step, Tracked, Tracker
from nkisim.memory import CoreMemory, NkiTensor, SharedHbm
from nkisim.spec import rules
from nkisim.spec.enums import engine as Engine

__all__ = ["CORE", "RELEASES", "Accumulators", "Core", "Event", "Garbage", "current_core"]

RELEASES = ("0.3.0", "0.5.0")
"""NKI releases that differ in the meaning of an instruction, oldest first."""


@dataclass(frozen=True, slots=True)
class Event:
    """One executed instruction, as clients see it.

    Attributes:
        number: Position in program order, from 1.
        instruction: Name of the instruction.
        engine: Engine that runs it.
        reads, writes: Operand names with their tensors.
        place: The user's line and loop indices.
    """

    number: int
    instruction: str
    engine: Engine
    reads: tuple[tuple[str, NkiTensor], ...]
    writes: tuple[tuple[str, NkiTensor], ...]
    place: Place


class Garbage(NamedTuple):
    """What an instruction has read that was made of unwritten elements.

    Attributes:
        clock: Number of the instruction.
        operand: Its operand.
        origins: Where it is from, by element of the operand and 0 for none.
    """

    clock: int
    operand: str
    origins: np.ndarray


@dataclass(slots=True)
class Accumulators:
    """The 128 float32 registers with which an engine sums or maximises over instructions.

    Attributes:
        values: The registers.
        owner: Instruction that began the chain they hold; empty before the first.
        lanes: First lane and number of lanes of that chain.
        disturbed: Instruction that ran since and may have changed them; empty if none.
        used: Number of the last instruction that used them, and its lanes.
        origins: Where the garbage in them is from, by lane; None before there was any.
    """

    values: np.ndarray = field(default_factory=lambda: np.full(128, np.nan, np.float32))
    owner: str = ""
    lanes: tuple[int, int] = (0, 0)
    disturbed: str = ""
    used: tuple[int, tuple[int, int]] = (0, (0, 0))
    origins: np.ndarray | None = None

    def rows(self, start: int, count: int) -> np.ndarray:
        """Return the registers of some lanes as a column; shares memory."""
        return self.values[start : start + count].reshape(-1, 1)


class Core:
    """The state that instructions act on. A run owns it; nothing of it outlives the run.

    Attributes:
        generation: What is simulated.
        memory: SBUF, PSUM and HBM.
        recorder: Collects findings.
        clock: Number of instructions executed.
        plans: Checked calls, by signature; shared by all runs with the same settings.
        generators: Random number generators of the engines, made by the instructions that use them.
        watchers: Called with an ``Event`` after every instruction.
        tracker: Told of every instruction before and after it runs, or None.
        values: False when no numbers are computed.
        plain: True when nobody looks at numbers that are computed, or waits for a turn.
        release: NKI release whose meaning instructions have.
        member: Place among several cores, or None for a core on its own.
        tick: Called when an instruction begins, with whether other cores can see what it touches;
            None for a core on its own.
        program_id, num_programs, has_grid: Position in the launch grid.
        asked: Which of ``program_id`` and ``num_programs`` the kernel has asked for.
        no_reorder_depth: How many ``nl.no_reorder`` regions are open.
        register_spans: Numbers of the instructions at which each register was made and last read.
        mask_fills: Where the lowest float32 number first became minus infinity.
        garbage: What the running instruction has read that was made of unwritten elements.
    """

    __slots__ = (
        "_accumulators",
        "_scratch",
        "asked",
        "clock",
        "garbage",
        "generation",
        "generators",
        "has_grid",
        "mask_fills",
        "member",
        "memory",
        "no_reorder_depth",
        "num_programs",
        "plain",
        "plans",
        "program_id",
        "recorder",
        "register_spans",
        "release",
        "tick",
        "tracker",
        "values",
        "watchers",
    )

    def __init__(
        self,
        generation: Generation,
        recorder: Recorder,
        *,
        precise: bool = True,
        watchers: tuple[Callable[[Event], None], ...] = (),
        has_grid: bool = False,
        values: bool = True,
        release: str = RELEASES[0],
        member: Member | None = None,
        shared: SharedHbm | None = None,
        tracker: Tracker | None = None,
    ) -> None:
        self.generation = generation
        self.memory = CoreMemory(generation, precise=precise, values=values, shared=shared)
        self.member = member
        self.tick = None if member is None else member.tick
        self.values = values
        self.release = release
        self.recorder = recorder
        self.tracker = tracker
        self.plain = not (member or watchers or tracker or (values and recorder.watches_values))
        self.clock = 0
        self.plans = _PLANS.setdefault((generation.number, precise), Plans())
        self.watchers = watchers
        self.program_id = 0 if member is None else member.core
        self.num_programs = 1 if member is None else member.cluster.cores
        self.has_grid = has_grid
        self.no_reorder_depth = 0
        self.asked: set[str] = set()
        self._accumulators: dict[Engine, Accumulators] = {}
        self._scratch = np.empty(0, np.float32)
        self.garbage: list[Garbage] = []
        self.mask_fills: list[Place] = []
        self.register_spans: list[list[int]] = []
        self.generators: dict[Engine, Any] = {}

    def begin(self, *, shared: bool) -> None:
        """Begin an instruction that has no plan; ``shared`` when it touches what cores share."""
        self.clock += 1
        if self.tick is not None:
            self.tick(shared)

    def tracked(
        self, name: str, *, read: NkiTensor | None = None, written: NkiTensor | None = None
    ) -> Tracked:
        """Return a context that tells the tracker, if any, of an instruction without a plan."""
        reads = () if read is None else (Effect("src", read),)
        writes = () if written is None else (Effect("dst", written),)
        return Tracked(self.tracker, Step(self, name, Engine.unknown, reads, writes, lasts=True))

    def scratch(self, rows: int, columns: int) -> np.ndarray:
        """Return a float32 array to compute in; its contents last until the next call."""
        if self._scratch.size < rows * columns:
            self._scratch = np.empty(rows * columns, np.float32)
        return self._scratch[: rows * columns].reshape(rows, columns)

    def accumulators(self, engine: Engine) -> Accumulators:
        """Return the accumulator registers of an engine."""
        found = self._accumulators.get(engine)
        if found is None:
            found = self._accumulators[engine] = Accumulators()
        return found

    def takes_only(self, operand: str, where: np.ndarray) -> None:
        """Note that the results of the running instruction hold only a part of an operand."""
        for i, (clock, name, origins) in enumerate(self.garbage):
            if name == operand:
                taken = np.where(where.reshape(origins.shape), origins, 0).astype(np.uint8)
                self.garbage[i] = Garbage(clock, name, taken)

    def accumulators_in_use(self) -> list[Accumulators]:
        """Return the accumulator registers that the running instruction uses."""
        return [found for found in self._accumulators.values() if found.used[0] == self.clock]


class Plans(dict[Any, Any]):
    """Checked calls by signature, as many as are worth keeping."""

    def add(self, key: Any, plan: Any) -> Any:
        """Keep a plan, and return it."""
        if len(self) >= _MOST_PLANS:
            self.clear()  # those in use are made again
        self[key] = plan
        return plan


_MOST_PLANS = 1 << 14

_PLANS: dict[tuple[int, bool], Plans] = {}

CORE: ContextVar[Core | None] = ContextVar("nkisim_core", default=None)
"""The core that the kernel in this context runs on; None outside a kernel."""


def current_core(what: str) -> Core:
    """Return the core of the running kernel, or raise L063."""
    core = CORE.get()
    if core is None:
        flag(
            rules.OUTSIDE_KERNEL,
            f"{what} is called outside a kernel",
            instruction=what,
            fix="call it inside a function run by nki.simulate or decorated with @nki.jit",
        )
        raise AssertionError("unreachable: L063 always raises")
    return core
