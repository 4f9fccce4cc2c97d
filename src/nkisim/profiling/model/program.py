"""The program of a run for the scheduler: operations with costs, tiles and dependencies.

Dependencies follow from the footprints of the operands (``footprints``). Tiles with an explicit
address share a storage, so overlapping addresses depend on each other too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from nkisim.arch import Generation
from nkisim.diagnostics import Place
from nkisim.machine import Event
from nkisim.memory import NkiTensor
from nkisim.memory.region import is_hbm, is_psum
from nkisim.memory.written_map import Region
from nkisim.profiling.model.assumptions import Assumptions, defaults
from nkisim.profiling.model.costs import Work, work_of
from nkisim.profiling.model.footprints import Accesses
from nkisim.profiling.model.steps import Step, step_of
from nkisim.profiling.model.tiles import Parts, Tile
from nkisim.profiling.model.transfers import Transfer
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.enums import engine as Engine

MOST_EXAMPLES = 16
"""Signatures of a line that are kept; of a line with more, some are not known."""


@dataclass(slots=True, eq=False)
class Operation:
    """One instruction.

    Attributes:
        number: Position in the program.
        name: Name of the instruction.
        work: Its cost.
        core: Core that runs it.
        place: Line of the kernel, and loop indices.
        needs: Operations that it waits for.
        reuses: Those of them that it waits for only because it overwrites what they read or wrote.
        tiles: Tiles that it accesses.
        opens: Tiles that it accesses first.
        ordered: Whether it is in an ``nl.no_reorder`` region.
        touches_psum: Whether it accesses PSUM.
        sbuf_bytes: Bytes of SBUF that its operands cover.
        joins: Number of the barrier, exchange or collective that several cores reach, or -1.
        source: Of a product its stationary operand, of a load what it reads from HBM and how: equal
            for operations that read the same values.
        writes: Tiles that it writes.
        step: What it computes, where an ``activation`` could do it too.
        fed_by: Number of the operation that wrote exactly the data that ``step`` reads, or -1.
        runs_ahead: Whether it is a transfer that reads inputs, or what such transfers moved, and
            nothing that the kernel computed: it is triggered before earlier operations of its
            engine if they wait.
        ring: Of a transfer, its ring: by core, engine that triggers, origin of descriptors,
            direction and tensor in HBM.
        call: Index of its call in ``Program.calls``; -1 for a spill.
        scope: The device loops that it is in, outermost first: number of the entry, and iteration.
    """

    number: int
    name: str
    work: Work
    core: int
    place: Place
    needs: tuple[int, ...]
    tiles: tuple[Tile, ...]
    opens: tuple[Tile, ...]
    ordered: bool
    touches_psum: bool
    sbuf_bytes: int
    joins: int = -1
    reuses: tuple[int, ...] = ()
    source: object = None
    writes: tuple[Tile, ...] = ()
    step: Step | None = None
    fed_by: int = -1
    runs_ahead: bool = False
    ring: object = None
    call: int = -1
    scope: tuple[tuple[int, int], ...] = ()

    @property
    def engine(self) -> Engine:
        """Engine whose instruction stream it is in; of a transfer, the one that triggers it."""
        moved = self.work.transfer
        return self.work.engine if moved is None else moved.trigger

    @property
    def stays(self) -> bool:
        """Whether it keeps its place in the order of its engine, and nothing passes it."""
        waits = self.work.transfer is not None and not self.runs_ahead
        return self.ordered or self.joins >= 0 or waits


@dataclass(slots=True)
class Program:
    """The operations of a run in the order in which they were issued.

    Attributes:
        operations: The instructions.
        tiles: The allocations on chip.
        generation: The target.
        cores: Number of cores, those of all ranks together.
        assumptions: The value of each assumption of the model.
        calls: One event of each signature, from which costs can be computed again.
        assumed_descriptors: Origin of descriptors where the kernel leaves it to the compiler.
        examples: By file and line, an instruction of each signature; those that several engines
            run, or that an ``activation`` could do, and at most ``MOST_EXAMPLES`` of a line.
    """

    generation: Generation
    operations: list[Operation] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    cores: int = 1
    assumptions: Assumptions = field(default_factory=defaults)
    calls: list[Event] = field(default_factory=list)
    assumed_descriptors: str = "software"
    examples: dict[tuple[str, int], dict[object, Event]] = field(default_factory=dict)

    def assuming(self, assumptions: Assumptions) -> Program:
        """Return the program with the costs under other assumptions."""
        works = [self._work(event, assumptions) for event in self.calls]
        operations = [
            o if o.call < 0 or o.work == works[o.call] else replace(o, work=works[o.call])
            for o in self.operations
        ]
        return replace(self, assumptions=assumptions, operations=operations)

    def _work(self, event: Event, assumptions: Assumptions) -> Work:
        prebuilt = self.assumed_descriptors == "prebuilt"
        return work_of(event, self.generation, assumptions, prebuilt=prebuilt, cores=self.cores)


class Capture:
    """Watcher that turns the events of a run into a program.

    Args:
        generation: The target.
        descriptors: Origin of descriptors where the kernel leaves it to the compiler,
            ``"software"`` or ``"prebuilt"``; on gen2 they are always prebuilt.
        assumptions: The value of each assumption of the model; None for the defaults.
        ranks: Number of ranks.
        cores: Number of cores of each rank.
    """

    def __init__(
        self,
        generation: Generation,
        descriptors: str = "software",
        assumptions: Assumptions | None = None,
        *,
        ranks: int = 1,
        cores: int = 1,
    ) -> None:
        prebuilt = descriptors == "prebuilt" or generation.number == 2
        assumed = "prebuilt" if prebuilt else "software"
        self.program = Program(generation, cores=ranks * cores, assumed_descriptors=assumed)
        if assumptions is not None:
            self.program.assumptions = assumptions
        self._cores_per_rank = cores
        self._calls: dict[object, tuple[int, Work, Step | None]] = {}
        self._results: dict[Any, tuple[int, Region]] = {}
        """The last step that wrote to an allocation, and where."""
        # Freed with the storage of the tile.
        self._accesses: WeakKeyDictionary[Any, Accesses] = WeakKeyDictionary()
        self._parts: dict[Any, Parts] = {}
        self._joins: dict[object, int] = {}
        self._counts: Counter[object] = Counter()
        self._core_of: list[int] = []
        self._issued: dict[tuple[int, int], int] = {}

    def __call__(self, event: Event) -> None:
        """Add an event to the program."""
        program = self.program
        call, work, step = self._called(event)
        if step is not None or "engine" in event.arguments:
            self._keep_example(event)
        number = len(program.operations)
        core = event.rank * self._cores_per_rank + event.core
        needs: set[int] = set()
        reuses: set[int] = set()
        tiles: dict[Tile, None] = {}
        sbuf_bytes = 0
        source: Any = None
        fed_by = -1
        if step is not None and step.kind == "square" and not _is_square(event):
            step = None
        for name, tensor in event.reads:
            written = self._accesses_of(tensor).read(tensor.region, number, core)
            needs |= written
            if name == "stationary" or work.transfer is not None:
                source = (tensor.life, tensor.region, max(written, default=-1))
            elif step is not None and name == step.reads:
                last = self._results.get(tensor.life)
                if last is not None and last[1] == tensor.region and written == {last[0]}:
                    fed_by = last[0]
            if not is_hbm(tensor.buffer):
                tiles |= dict.fromkeys(self._tiles(tensor, core))
                sbuf_bytes += 0 if is_psum(tensor.buffer) else tensor.size * tensor.itemsize
        writes: dict[Tile, None] = {}
        for name, tensor in event.writes:
            if _starts_a_tile(event, name, tensor):
                self._begin(tensor)
            reuses |= self._accesses_of(tensor).write(tensor.region, number, core)
            if step is not None and name == "dst":
                self._results[tensor.life] = number, tensor.region
            if not is_hbm(tensor.buffer):
                writes |= dict.fromkeys(self._tiles(tensor, core))
                sbuf_bytes += 0 if is_psum(tensor.buffer) else tensor.size * tensor.itemsize
        tiles |= writes
        if work.transfer is not None:
            source = _loaded(event, source)
        if event.instruction == "core_barrier":
            data = self._accesses_of(event.arguments["data"])
            needs |= data.fence(number, core, self._core_of)
        joins = self._join(event)
        # Both cores of a rank write the results of one collective, as one operation.
        met = {n for n in reuses if joins >= 0 and program.operations[n].joins == joins}
        needs -= met | {number}
        reuses -= needs | met | {number}
        moves_inputs = all(program.operations[need].runs_ahead for need in needs)
        opens = tuple(tile for tile in tiles if not tile.uses)
        for tile in tiles:
            tile.uses.append(number)
        program.cores = max(program.cores, core + 1)
        self._core_of.append(core)
        self._issued[core, event.number] = number
        program.operations.append(
            Operation(
                number,
                event.instruction,
                work,
                core,
                event.place,
                (*sorted(needs), *sorted(reuses)),
                tuple(tiles),
                opens,
                event.ordered,
                any(is_psum(tile.region) for tile in tiles),
                sbuf_bytes,
                joins,
                tuple(sorted(reuses)),
                source,
                tuple(writes),
                step,
                fed_by,
                work.transfer is not None and moves_inputs and not event.ordered,
                None if work.transfer is None else _ring(event, work.transfer, core),
                call,
                event.scope,
            )
        )

    def add_edges(self, edges: Sequence[Mapping[int, Collection[int]]]) -> None:
        """Make instructions wait for others, by core and their numbers there."""
        operations = self.program.operations
        for core, of_core in enumerate(edges):
            for consumer, producers in of_core.items():
                number = self._issued.get((core, consumer))
                others = [self._issued.get((core, producer)) for producer in producers]
                if number is not None:
                    operation = operations[number]
                    new = {n for n in others if n is not None} - {*operation.needs}
                    operation.needs = (*sorted(new), *operation.needs)
                    operation.runs_ahead = False

    def _called(self, event: Event) -> tuple[int, Work, Step | None]:
        """Return the index of a call among those of other signatures, its cost and its step."""
        found = self._calls.get(event.signature)
        if found is None:
            program = self.program
            work = program._work(event, program.assumptions)
            found = self._calls[event.signature] = len(program.calls), work, step_of(event)
            program.calls.append(event)
        return found

    def _join(self, event: Event) -> int:
        """Return the number of the barrier, exchange or collective that an event takes part in."""
        if not event.meets:
            return -1
        key = (event.rank, event.core, event.meets)
        count = self._counts[key]
        self._counts[key] += 1
        return self._joins.setdefault((event.meets, count), len(self._joins))

    def _begin(self, tensor: NkiTensor) -> None:
        """Give an allocation that is overwritten whole a new place."""
        self._accesses.pop(tensor._storage, None)
        self._parts.pop(tensor.life, None)

    def _keep_example(self, event: Event) -> None:
        """Keep an instruction of each signature of a line."""
        place = event.place
        found = self.program.examples.setdefault((place.file, place.line), {})
        if event.signature not in found and len(found) < MOST_EXAMPLES:
            found[event.signature] = event

    def _accesses_of(self, tensor: NkiTensor) -> Accesses:
        found = self._accesses.get(tensor._storage)
        if found is None:
            pitch = tensor._storage.pitch
            if is_hbm(tensor.buffer):
                form = tensor.life.origin.form
                pitch = form.shape[-1] * form.itemsize if len(form.shape) > 1 else pitch
            found = self._accesses[tensor._storage] = Accesses(pitch)
        return found

    def _tiles(self, tensor: NkiTensor, core: int) -> list[Tile]:
        """Return the parts of an allocation that an operand covers."""
        life = tensor.life
        parts = self._parts.get(life)
        if parts is None:
            parts = self._parts[life] = Parts(life.origin.row_bytes)
        columns = self._accesses_of(tensor).columns(tensor.region)
        if is_psum(tensor.buffer):
            columns = (0, parts.row_bytes)
        if parts.misses(columns):
            new = Tile(
                life.label,
                life.line,
                life.region,
                parts.add(columns),
                life.address is not None,
                core,
                (life.line, life.shape, life.dtype, core),
                len(parts.tiles),
                parts.row_bytes,
            )
            new.bank = new
            if life.address is not None:
                new.bank = (core, life.address[1] // self.program.generation.psum_bank_bytes)
            parts.tiles.append(new)
            self.program.tiles.append(new)
        return parts.covering(columns)


def _ring(event: Event, moved: Transfer, core: int) -> object:
    tensors = [t for _, t in (*event.reads, *event.writes) if is_hbm(t.buffer)]
    return core, moved.trigger, moved.mode, moved.stores, tensors[0].life if tensors else None


def _starts_a_tile(event: Event, name: str, tensor: NkiTensor) -> bool:
    """Return whether an instruction overwrites an allocation whole without reading it.

    The compiler gives such a tile a new place, unless it has an address.
    """
    declared = INSTRUCTIONS.get(event.instruction)
    if declared is None or is_hbm(tensor.buffer) or tensor.life.address is not None:
        return False
    operand = declared.operands[name]
    if operand.masked or operand.part is not None:
        return False
    if operand.role == "sum" and event.arguments["accumulate"] is not False:
        return False
    given = event.arguments[name]
    if given.indirection is not None or 0 in tensor.form.strides:
        return False
    form = tensor.life.origin.form
    whole = tensor.size * tensor.itemsize == math.prod(form.shape) * form.itemsize
    return whole and all(other._storage is not tensor._storage for _, other in event.reads)


def _is_square(event: Event) -> bool:
    """Return whether both operands of an instruction are the same elements."""
    (_, a), (_, b) = event.reads[:2]
    return a.life is b.life and a.region == b.region


def _loaded(event: Event, read: tuple[Any, Region, int]) -> object:
    """Return what a transfer loads and how.

    None for stores, for data that the kernel itself writes, and for addresses known at run time.
    """
    (_, target), (_, origin) = event.writes[0], event.reads[0]
    given = (event.arguments.get("src"), event.arguments.get("dst"))
    dynamic = any(isinstance(t, NkiTensor) and t.indirection is not None for t in given)
    if len(event.reads) > 1 or dynamic or is_hbm(target.buffer) or not is_hbm(origin.buffer):
        return None
    if read[2] >= 0:
        return None
    return event.instruction, read, target.shape, target.dtype, target.start_partition, event.core
