"""State of one NeuronCore during a run: memories, clock, accumulators, observers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from nkisim.arch import Generation
from nkisim.diagnostics import Place, Recorder, flag, user_place
from nkisim.machine.cluster import Member
from nkisim.machine.tracking import Effect, Step, Tracked, Tracker
from nkisim.memory import CoreMemory, Lifetime, NkiTensor, SharedHbm
from nkisim.memory.tensor.refused import KERNEL_CODE
from nkisim.spec import rules
from nkisim.spec.enums import engine as Engine
from nkisim.versions import VERSIONS, has

T = TypeVar("T")


class Event(NamedTuple):
    """One executed instruction, as passed to watchers.

    Attributes:
        number: Position in program order of its core, from 1.
        instruction: Name of the instruction.
        engine: Engine that runs it.
        reads, writes: Operand names with their tensors.
        place: Line of the user's code, and loop indices.
        core: Number of the core in the launch grid.
        rank: Rank that the core belongs to.
        arguments: The arguments of the call by name, defaults filled in.
        signature: Equal for calls with equal shapes, types, memories and constants.
        ordered: Whether it is in an ``nl.no_reorder`` region.
        meets: Name of the group of cores that wait for each other in this instruction: event n of
            each core with this name is one meeting. Empty for an instruction of one core.
        scope: The device loops that it runs in, with their iterations; see ``Core.scope``.
    """

    number: int
    instruction: str
    engine: Engine
    reads: tuple[tuple[str, NkiTensor], ...]
    writes: tuple[tuple[str, NkiTensor], ...]
    place: Place
    core: int = 0
    arguments: Mapping[str, Any] = MappingProxyType({})
    signature: object = None
    ordered: bool = False
    rank: int = 0
    meets: tuple[Any, ...] = ()
    scope: tuple[tuple[int, int], ...] = ()


class Turns(NamedTuple):
    """The runs of a device loop: the line of its first run, and the iterations of each."""

    place: Place
    counts: list[int]


class Garbage(NamedTuple):
    """Garbage that an instruction has read: values computed from unwritten elements.

    Attributes:
        clock: Number of the instruction.
        operand: Its operand.
        origins: Origin of the garbage by element of the operand, 0 for none.
    """

    clock: int
    operand: str
    origins: np.ndarray


@dataclass(slots=True)
class Accumulators:
    """The 128 float32 registers with which an engine sums or maximises over instructions.

    Attributes:
        values: The registers.
        owner: Instruction that began the present chain; empty before the first chain.
        lanes: First lane and number of lanes of that chain.
        disturbed: Later instruction that may have changed them; empty if none.
        used: Number of the last instruction that used them, and its lanes.
        origins: Origin of the garbage in them, by lane; None before the first.
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
    """The state that instructions act on, for the duration of one run.

    Attributes:
        generation: The simulated generation.
        memory: SBUF, PSUM and HBM.
        recorder: Collects findings.
        clock: Number of instructions executed.
        plans: Checked calls, by signature; shared by all runs with the same settings.
        generators: Random number generators of the engines, created on first use.
        watchers: Called with an ``Event`` after every instruction.
        tracker: Called before and after every instruction, or None.
        values: False if no values are computed.
        trip_count: Value of registers loaded from memory in a run without values, or None.
        plain: True for a single core without watchers, tracker and value checks.
        version: NKI version that defines legality and meaning of instructions.
        member: Membership in a cluster, or None for a single core.
        tick: Called when an instruction begins, with whether it accesses memory shared with other
            cores; None for a single core.
        program_id, num_programs, has_grid: Position in the launch grid.
        asked: Which of ``program_id`` and ``num_programs`` the kernel has read.
        no_reorder_depth: Number of open ``nl.no_reorder`` regions.
        scope: For each device loop that is running, outermost first: the loop's number in the
            enclosing iteration, negative if its bounds are constants, and the iteration.
        lnc: Physical cores of a logical core of the chip.
        loops: Each device loop that has run, by its number and those of the loops around it.
        exchanged: Line and name of each collective, with its operands in HBM that the kernel made.
        handles: Whether instructions return handles.
        prepared: The prepared collective that awaits its trigger, or None.
        edges: For each instruction, the numbers of the instructions that it waits for by handles.
        scheduled: Whether the kernel has a schedule, whose edges name instructions.
        named: Numbers of the instructions with each name, if it has.
        register_spans: Instruction numbers of the creation and the last read of each register.
        mask_fills: Places where the lowest float32 number first became minus infinity.
        garbage: Garbage that the running instruction has read.
    """

    def __init__(
        self,
        generation: Generation,
        recorder: Recorder,
        *,
        precise: bool = True,
        watchers: tuple[Callable[[Event], None], ...] = (),
        has_grid: bool = False,
        values: bool = True,
        trip_count: int | None = None,
        version: str = VERSIONS[0],
        member: Member | None = None,
        shared: SharedHbm | None = None,
        tracker: Tracker | None = None,
        lnc: int = 1,
        scheduled: bool = False,
    ) -> None:
        self.generation = generation
        self.memory = CoreMemory(
            generation,
            precise=precise,
            values=values,
            shared=shared,
            whole_log=recorder.strictness == "check",
        )
        self.member = member
        self.tick = None if member is None else member.tick
        self.values = values
        self.trip_count = trip_count
        self.version = version
        self.recorder = recorder
        self.tracker = tracker
        self.plain = not (member or watchers or tracker or (values and recorder.watches_values))
        self.clock = 0
        self.plans = _PLANS.setdefault((generation.number, precise, version), Plans())
        self.watchers = watchers
        self.program_id = 0 if member is None else member.core
        self.num_programs = 1 if member is None else member.cluster.cores
        self.has_grid = has_grid
        self.no_reorder_depth = 0
        self.scope: tuple[tuple[int, int], ...] = ()
        self._entered = 0
        self.lnc = lnc
        self.loops: dict[tuple[int, ...], Turns] = {}
        self.exchanged: list[tuple[Place, str, list[tuple[str, Lifetime]]]] = []
        self.handles = has(version, "nki.isa", "NkiInstruction")
        self.prepared: Any = None
        self.edges: dict[int, set[int]] = {}
        self.scheduled = scheduled
        self.named: dict[str, list[int]] = {}
        self.asked: set[str] = set()
        self._accumulators: dict[Engine, Accumulators] = {}
        self._scratch = np.empty(0, np.float32)
        self.garbage: list[Garbage] = []
        self.mask_fills: list[Place] = []
        self.register_spans: list[list[int]] = []
        self.generators: dict[Engine, Any] = {}

    def begin(self, *, shared: bool) -> None:
        """Begin an instruction without a plan; ``shared`` if it accesses memory shared by cores."""
        self.clock += 1
        if self.tick is not None:
            self.tick(shared)

    def emit(self, event: Event) -> None:
        """Pass an event to the watchers, which may read what tensors hold."""
        token = KERNEL_CODE.set(False)
        try:
            for watcher in self.watchers:
                watcher(event)
        finally:
            KERNEL_CODE.reset(token)

    def turns(self, values: Iterable[T], *, fixed: bool = False) -> Iterator[T]:
        """Return the iterations of a device loop, recorded in ``scope`` as they run.

        ``fixed`` is whether its bounds are constants.
        """
        outer, place = self.scope, user_place()
        number = self._entered + 1
        loop = -number if fixed else number
        ended = 0
        try:
            for turn, value in enumerate(values):
                self.scope, self._entered = (*outer, (loop, turn)), 0
                yield value
                ended += 1
        finally:
            self.scope, self._entered = outer, number
            path = (*(abs(around) for around, _ in outer), number)
            self.loops.setdefault(path, Turns(place, [])).counts.append(ended)

    def waits(self, later: int, earlier: int) -> bool:
        """Return whether edges make an instruction wait for another, directly or through others."""
        waiting, seen = [later], {later}
        while waiting:
            producers = self.edges.get(waiting.pop(), set())
            if earlier in producers:
                return True
            waiting += producers - seen
            seen |= producers
        return False

    def tracked(
        self, name: str, *, read: NkiTensor | None = None, written: NkiTensor | None = None
    ) -> Tracked:
        """Return a context that reports an instruction without a plan to the tracker, if any."""
        reads = () if read is None else (Effect("src", read),)
        writes = () if written is None else (Effect("dst", written),)
        return Tracked(self.tracker, Step(self, name, Engine.unknown, reads, writes, lasts=True))

    def scratch(self, rows: int, columns: int) -> np.ndarray:
        """Return a float32 scratch array; its contents are valid until the next call."""
        if self._scratch.size < rows * columns:
            self._scratch = np.empty(rows * columns, np.float32)
        return self._scratch[: rows * columns].reshape(rows, columns)

    def accumulators(self, engine: Engine) -> Accumulators:
        """Return the accumulator registers of an engine."""
        found = self._accumulators.get(engine)
        if found is None:
            found = self._accumulators[engine] = Accumulators()
        return found

    def limit_garbage(self, operand: str, where: np.ndarray) -> None:
        """Record that the running instruction uses only the elements of an operand in ``where``."""
        for i, (clock, name, origins) in enumerate(self.garbage):
            if name == operand:
                taken = np.where(where.reshape(origins.shape), origins, 0).astype(np.uint8)
                self.garbage[i] = Garbage(clock, name, taken)

    def accumulators_in_use(self) -> list[Accumulators]:
        """Return the accumulator registers that the running instruction uses."""
        return [found for found in self._accumulators.values() if found.used[0] == self.clock]


class Plans(dict[Any, Any]):
    """Bounded cache of checked calls by signature."""

    def add(self, key: Any, plan: Any) -> Any:
        """Add a plan, and return it."""
        if len(self) >= _MOST_PLANS:
            self.clear()  # plans in use are rebuilt
        self[key] = plan
        return plan


_MOST_PLANS = 1 << 14

_PLANS: dict[tuple[int, bool, str], Plans] = {}

CORE: ContextVar[Core | None] = ContextVar("nkisim_core", default=None)
"""The core of the kernel that runs in this context; None outside a kernel."""


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
