"""A schedule of a program: when each operation starts, and when its result is ready.

Operations are placed one by one in program order, each at the earliest time that every law allows:

- *dependences*: what it reads was written, and what it overwrites was read;
- *hold*: its engine, port, bank or descriptor generator is free for as long as it takes;
- *order*: what its engine may not reorder has started;
- *branch*: in a loop on the device, its engine has branched, and the iteration before has ended on
  every engine of the core;
- *space*: the tiles that it opens fit in SBUF and PSUM;
- *ring*: few enough transfers of its ring are under way;
- *rendezvous*: the other cores have reached the barrier or the collective.

A transfer then takes the time that its DMA engines have free. Each moves one packet at a time, so
that a transfer may be moved in the gaps between others.

A compiler may move an operation before others of its engine: here it fills a gap in which the
engine waits, and never delays an earlier operation of the program. So time depends on the
instructions and their order alone, and less work rarely takes longer. A transfer that reads what
the kernel computed is a trigger in the order of its engine: what comes after it on that engine
waits for it. A transfer that reads an input is triggered as early as space allows. Inside
``nl.no_reorder`` nothing is moved, and nothing passes a barrier on its engine.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Literal

from nkisim.arch.timing import Timing, timing_of
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.resources import (
    START,
    DmaEngines,
    Moment,
    Timeline,
    holds_of,
    numbered,
    spaces_of,
)
from nkisim.profiling.model.tiles import Tile
from nkisim.profiling.model.transfers import DMA_ENGINES, Transfer
from nkisim.spec.enums import engine as Engine

_NEVER = float("inf")


@dataclass(slots=True)
class Schedule:
    """Times of the operations of a program, in ns from the first one.

    Attributes:
        start: When an operation takes its engine; of a transfer, when it is triggered.
        moved: When the bytes of a transfer begin to move; else as ``start``.
        end: When the engine is free again.
        ready: When the result can be read.
        issued: When the descriptors of a transfer are made, by operation.
        cause: The operation that determined the start, or -1.
        waited_for: Of a transfer that waited for DMA engines, the transfer that used them.
        dma_busy: Busy time of the busiest DMA engine of each core.
        total: When the last result is ready.
    """

    start: list[float]
    moved: list[float]
    end: list[float]
    ready: list[float]
    cause: list[int]
    issued: dict[int, float]
    waited_for: dict[int, int]
    dma_busy: dict[int, float]
    total: float


Transfers = Literal["ahead", "one by one", "free"]
"""How transfers are scheduled: as early as every law allows; one per ring at a time; or with no
time of their own."""


def schedule(program: Program, transfers: Transfers = "ahead") -> Schedule:
    """Return the schedule of a program."""
    return _Scheduler(program, transfers).run()


_Scope = tuple[tuple[int, int], ...]
"""Loops on the device, outermost first: number of the entry, and iteration."""


@dataclass(slots=True)
class _Iteration:
    """The iteration of loops on the device that a core is in.

    Attributes:
        scope: Its loops; () outside of loops.
        begins: When it may begin.
        ends: When the last result so far is ready.
    """

    scope: _Scope = ()
    begins: Moment = START
    ends: Moment = START


class _Scheduler:
    """State of scheduling one program."""

    def __init__(self, program: Program, transfers: Transfers) -> None:
        self.program = program
        self.free = transfers == "free"
        self.timing: Timing = timing_of(program.generation)
        count = len(program.operations)
        self.start = [0.0] * count
        self.moved = [0.0] * count
        self.end = [0.0] * count
        self.ready = [_NEVER] * count
        self.cause = [-1] * count
        self.issued: dict[int, float] = {}
        self.waited_for: dict[int, int] = {}
        self.holds, hold_count = holds_of(program)
        self.timelines = [Timeline() for _ in range(hold_count)]
        self.engines, engine_count = numbered(_stream(o) for o in program.operations)
        self.last: list[Moment] = [START] * engine_count
        """The end of the last operation of each engine."""
        self.floor: list[Moment] = [START] * engine_count
        """The start of the last operation of each engine that nothing may pass."""
        self.scopes: list[_Scope] = [()] * engine_count
        """The latest iteration of loops on the device that each engine has begun."""
        self.branch = float(program.assumptions["loop_iteration_us"]) * 1e3
        loops = any(operation.scope for operation in program.operations)
        self.in_turn = loops and program.assumptions["device_loops"] == "in turn"
        self.iterations = [_Iteration() for _ in range(program.cores)]
        self.rings, ring_count = numbered(_ring(o) for o in program.operations)
        self.under_way: list[list[Moment]] = [[] for _ in range(ring_count)]
        ahead = int(program.assumptions["transfers_in_flight"])
        self.in_flight = 1 if transfers == "one by one" else ahead
        self.spaces = spaces_of(program)
        self.left = {tile: len(tile.uses) for tile in program.tiles}
        self.last_use: dict[Tile, Moment] = {}
        self.partners: dict[int, list[Operation]] = {}
        for operation in program.operations:
            if operation.joins >= 0:
                self.partners.setdefault(operation.joins, []).append(operation)
        self.dma = [DmaEngines(DMA_ENGINES) for _ in range(program.cores)]
        self.tables: dict[int, tuple[str, Moment]] = {}
        self.warm: dict[int, tuple[float, float]] = {}

    def run(self) -> Schedule:
        """Schedule every operation."""
        arrived: dict[int, list[Operation]] = {}
        waiting = _in_turn(self.program.operations)
        while waiting:
            deferred: list[Operation] = []
            blocked: set[int] = set()
            for operation in waiting:
                if operation.core in blocked or not self._is_known(operation):
                    blocked.add(operation.core)
                    deferred.append(operation)
                    continue
                if operation.joins < 0:
                    self._place(operation, self._earliest(operation))
                    continue
                met = arrived.setdefault(operation.joins, [])
                met.append(operation)
                blocked.add(operation.core)
                if len(met) == len(self.partners[operation.joins]):
                    latest = max(map(self._earliest, met))
                    for each in met:
                        self._place(each, latest)
                        blocked.discard(each.core)
            assert len(deferred) < len(waiting), "no operation can start"
            waiting = deferred
        return Schedule(
            self.start,
            self.moved,
            self.end,
            self.ready,
            self.cause,
            self.issued,
            self.waited_for,
            {core: engines.busy for core, engines in enumerate(self.dma)},
            max(self.ready, default=0.0),
        )

    def _is_known(self, operation: Operation) -> bool:
        return all(self.ready[need] is not _NEVER for need in operation.needs)

    # -- laws --------------------------------------------------------------------------------------

    def _earliest(self, operation: Operation) -> Moment:
        """Return the earliest start of an operation and what determines it."""
        latest = self._dependences(operation)
        if operation.opens:
            latest = max(latest, self._space(operation))
        if operation.work.transfer is not None:
            latest = max(latest, self._ring_limit(operation))
        if self.in_turn:
            latest = max(latest, self._iteration(operation))
        elif operation.scope:
            self._branch(operation)
        if operation.scope or not operation.runs_ahead:
            latest = max(latest, self._order(operation))
        if operation.work.table:
            latest = max(latest, self._table(operation))
        return self._hold(operation, latest)

    def _dependences(self, operation: Operation) -> Moment:
        when, cause = START
        operations, engine = self.program.operations, operation.work.engine
        ready, handoff = self.ready, self.timing.handoff
        for other in operation.needs:
            at = ready[other]
            if operations[other].work.engine is not engine:
                at += handoff
            elif engine is Engine.tensor:
                at = self.end[other]  # sums are formed near PSUM: products are pipelined
            if at > when:
                when, cause = at, other
        return when, cause

    def _space(self, operation: Operation) -> Moment:
        latest = START
        for tile in operation.opens:
            if tile in self.spaces:
                latest = max(latest, self.spaces[tile].earliest(tile))
        return latest

    def _ring_limit(self, operation: Operation) -> Moment:
        under_way = self.under_way[self.rings[operation.number]]
        return under_way[-self.in_flight] if len(under_way) >= self.in_flight else START

    def _order(self, operation: Operation) -> Moment:
        """Return when the operation may start by the order of its engine.

        An operation that keeps its place waits for all earlier ones of its engine, another one only
        for those that keep their place: until they free the engine.
        """
        engine = self.engines[operation.number]
        return self.last[engine] if operation.stays else self.floor[engine]

    def _branch(self, operation: Operation) -> None:
        """Let the engine of the first operation of an iteration branch, once for each loop."""
        engine, scope = self.engines[operation.number], operation.scope
        if scope <= self.scopes[engine]:
            return
        old = self.scopes[engine]
        self.scopes[engine] = scope
        when, cause = self.last[engine]
        when += _begun(old, scope) * self.branch
        self.last[engine] = self.floor[engine] = (when, cause)

    def _iteration(self, operation: Operation) -> Moment:
        """Return when the core has branched to the iteration of loops on the device.

        Everything before an iteration, and before what follows a loop, has ended by then.
        """
        current = self.iterations[operation.core]
        if current.scope != operation.scope:
            when, cause = max(current.begins, current.ends)
            when += _begun(current.scope, operation.scope) * self.branch
            current.scope, current.begins = operation.scope, (when, cause)
        return current.begins

    def _table(self, operation: Operation) -> Moment:
        """Return since when the table of activation functions is loaded, or may be replaced."""
        table, since = self.tables.get(operation.core, (operation.work.table, START))
        if table == operation.work.table:
            return since
        return max(since, self.last[self.engines[operation.number]])

    def _hold(self, operation: Operation, latest: Moment) -> Moment:
        """Return when everything that an operation holds is free for as long as it takes."""
        when, cause = latest
        holds = [self.timelines[hold] for hold in self.holds[operation.number]]
        while True:
            found, length = when, self._occupancy(operation, when)
            for timeline in holds:
                free, other = timeline.earliest(found, length)
                if free > found:
                    found, cause = free, other
            if found == when:
                return when, cause
            when = found

    # -- placing -----------------------------------------------------------------------------------

    def _place(self, operation: Operation, moment: Moment) -> None:
        when, number, work = moment[0], operation.number, operation.work
        self.cause[number] = moment[1]
        self.start[number] = self.moved[number] = when
        for tile in operation.opens:
            if tile in self.spaces:
                self.spaces[tile].take(tile)
        length = self._occupancy(operation, when)
        if work.transfer is not None:
            self._transfer(operation, work.transfer, when, when + length)
        else:
            self.end[number] = when + length
            self.ready[number] = when + length + work.tail
            self._remember(operation, when, length)
        for hold in self.holds[number]:
            self.timelines[hold].reserve(when, length, number)
        if self.in_turn:
            current = self.iterations[operation.core]
            current.ends = max(current.ends, (self.ready[number], number))
        if not operation.runs_ahead:
            engine = self.engines[number]
            held = when + (length if self._occupies_its_engine(operation) else 0.0)
            self.last[engine] = max(self.last[engine], (held, number))
            if operation.stays:
                self.floor[engine] = max(self.floor[engine], (held, number))
        for tile in operation.tiles:
            self.left[tile] -= 1
            last = max(self.last_use.get(tile, START), (self.ready[number], number))
            self.last_use[tile] = last
            if not self.left[tile] and tile in self.spaces:
                self.spaces[tile].release(tile, last)

    @staticmethod
    def _occupies_its_engine(operation: Operation) -> bool:
        """Return whether the engine itself works: not while hardware makes descriptors."""
        moved = operation.work.transfer
        return moved is None or moved.mode != "hardware"

    def _transfer(self, operation: Operation, moved: Transfer, when: float, issued: float) -> None:
        """Move the bytes of a transfer once its descriptors are made."""
        number, timing = operation.number, self.timing
        self.issued[number] = issued
        if self.free:
            self.end[number] = self.ready[number] = when
            return
        dispatch = timing.dma_dispatch_store if moved.stores else timing.dma_dispatch_load
        # A documented dispatch by hardware includes the issue.
        arrives = max(when + dispatch, issued) if moved.mode == "hardware" else issued + dispatch
        begin, end = _NEVER, 0.0
        takes = operation.work.busy
        for line, share in self.dma[operation.core].lines(moved, arrives, takes).items():
            begins, ends, other = line.fill(arrives, takes * share, number)
            if other >= 0 and ends > end:
                self.waited_for[number] = other
            begin, end = min(begin, begins), max(end, ends)
        self.moved[number], self.end[number] = begin, end
        self.ready[number] = end + operation.work.tail
        bisect.insort(self.under_way[self.rings[number]], (self.ready[number], number))

    def _occupancy(self, operation: Operation, when: float) -> float:
        """Return for how long an operation holds its engine or its descriptor generator."""
        work, timing, core = operation.work, self.timing, operation.core
        if work.transfer is not None:
            return 0.0 if self.free else work.issue
        if work.table:
            # The first load is in the fixed cost.
            loaded = self.tables.get(core, (work.table, START))[0]
            return work.busy + (0.0 if loaded == work.table else timing.table_load)
        if work.engine is Engine.tensor and timing.tensor_ramp:
            return work.busy + self._slow(operation, when) * (1 / timing.tensor_start_rate - 1)
        return work.busy

    def _slow(self, operation: Operation, when: float) -> float:
        """Return the part of a product's busy time (ns at full rate) at the starting rate.

        The Tensor engine has the starting rate for ``tensor_ramp`` ns after a pause.
        """
        ramp = self.timing.tensor_ramp
        done, until = self.warm.get(operation.core, (0.0, 0.0))
        if when - until > ramp:
            done = 0.0
        return min(operation.work.busy, max(0.0, ramp * self.timing.tensor_start_rate - done))

    def _remember(self, operation: Operation, when: float, length: float) -> None:
        """Record the activation table, and how warm the Tensor engine is."""
        work, core, number = operation.work, operation.core, operation.number
        if work.table:
            table, since = self.tables.get(core, (work.table, START))
            self.tables[core] = (work.table, since if table == work.table else (when, number))
        elif work.engine is Engine.tensor and self.timing.tensor_ramp:
            done, until = self.warm.get(core, (0.0, 0.0))
            if when - until > self.timing.tensor_ramp:
                done = 0.0
            self.warm[core] = done + work.busy, max(until, when + length)


def _begun(before: _Scope, scope: _Scope) -> int:
    """Return the number of loops of which an iteration begins between two operations."""
    return len(scope) - sum(a == b for a, b in zip(before, scope, strict=False))


def _in_turn(operations: list[Operation]) -> list[Operation]:
    """Return the operations with successive transfers in the order in which rings serve them.

    A run is a sequence of successive transfers of a core. DMA engines serve rings in turn, by
    bytes. So the transfers of a run are ordered by the bytes that their ring has moved in the run,
    their own included. A transfer that depends on another one of the run begins the next run.
    """
    found: list[Operation] = []
    runs: dict[int, dict[int, int]] = {}
    moved: dict[tuple[int, object], int] = {}
    scopes: dict[int, object] = {}

    def end(core: int) -> None:
        """Append the transfers of a core's run, in the order of these bytes, and end the run."""
        run = runs.pop(core, {})
        found.extend(operations[number] for number in sorted(run, key=lambda n: (run[n], n)))
        for key in [key for key in moved if key[0] == core]:
            del moved[key]

    for operation in operations:
        core, transfer = operation.core, operation.work.transfer
        releases = any(tile.uses[-1] == operation.number for tile in operation.tiles)
        if transfer is None or not operation.runs_ahead or releases:
            end(core)
            found.append(operation)
            continue
        if scopes.setdefault(core, operation.scope) != operation.scope:
            end(core)
            scopes[core] = operation.scope
        if not runs.get(core, {}).keys().isdisjoint(operation.needs):
            end(core)
        key = (core, operation.ring)
        moved[key] = moved.get(key, 0) + transfer.nbytes
        runs.setdefault(core, {})[operation.number] = moved[key]
    for core in list(runs):
        end(core)
    return found


def _ring(operation: Operation) -> object:
    """Return the part of a ring that a transfer uses: its DMA engines."""
    moved = operation.work.transfer
    if moved is None:
        return None
    return operation.ring, moved.first_engine, len(moved.shares)


def _stream(operation: Operation) -> tuple[object, ...]:
    """Return the engine and core whose instruction stream has the operation."""
    return (operation.engine, operation.core)
