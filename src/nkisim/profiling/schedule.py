"""A schedule of a program: when each operation starts, and when its result is ready.

Operations are placed one by one, always the one that can start first. An operation can start when
every law allows it (``_Scheduler._laws``):

- *dependences*: what it reads was written, and what it overwrites was read;
- *hold*: its engine, port, bank or descriptor generator is free;
- *space*: the tiles that it opens fit in SBUF and PSUM;
- *ring*: few enough transfers of its line are under way on its DMA engines;
- *rendezvous*: the other core has reached the barrier.

A transfer then waits for its DMA engines, each of which moves one transfer at a time.

A compiler may move an operation before others of its engine that still wait; here up to ``_WINDOW``
operations ahead. Transfers of one line of the kernel are triggered in order. Inside
``nl.no_reorder`` nothing is moved, and nothing passes a barrier on its engine.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nkisim.arch.timing import Timing, timing_of
from nkisim.profiling.program import Operation, Program, Tile
from nkisim.profiling.resources import START, Moment, holds_of, numbered, spaces_of
from nkisim.profiling.spills import SPILL
from nkisim.profiling.transfers import DMA_ENGINES, Transfer
from nkisim.spec.enums import engine as Engine

__all__ = ["Policy", "Schedule", "schedule"]

_WINDOW = 64
_CANDIDATES = 8
"""Operations of an engine that are compared, of those whose operands are ready."""

_NEVER = float("inf")
_UNKNOWN: Moment = (_NEVER, -1)

Law = Callable[[Operation], Moment | None]
"""Returns the earliest start of an operation and what determines it; None while it is unknown."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How far transfers run ahead of their use.

    Attributes:
        in_flight: Transfers of one ring that are under way at the same time.
        buffers: Tiles of one line that are alive at the same time; 0 for as many as fit in SBUF.
        delay: Time added to every transfer, in ns.
    """

    in_flight: int
    buffers: int = 0
    delay: float = 0.0


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


def schedule(program: Program, policy: Policy) -> Schedule:
    """Return the schedule of a program."""
    return _Scheduler(program, policy).run()


class _Scheduler:
    """State of scheduling one program."""

    def __init__(self, program: Program, policy: Policy) -> None:
        self.program = program
        self.policy = policy
        self.timing: Timing = timing_of(program.generation)
        count = len(program.operations)
        self.start = [0.0] * count
        self.moved = [0.0] * count
        self.end = [0.0] * count
        self.ready = [_NEVER] * count
        self.cause = [-1] * count
        self.issued: dict[int, float] = {}
        self.waited_for: dict[int, int] = {}
        self.queues, self.queue_count = numbered(_queue(o) for o in program.operations)
        self.holds, hold_count = holds_of(program)
        self.free = [START] * hold_count
        self.rings, ring_count = numbered(map(_ring, program.operations, self.queues))
        self.under_way: list[list[Moment]] = [[] for _ in range(ring_count)]
        self.spaces = spaces_of(program, policy.buffers)
        self.left = {tile: len(tile.uses) for tile in program.tiles}
        self.last_use: dict[Tile, Moment] = {}
        self.releases = 0
        self.rendezvous: dict[int, list[Operation]] = {}
        for operation in program.operations:
            if operation.joins >= 0:
                self.rendezvous.setdefault(operation.joins, []).append(operation)
        self.dma_free = [[START] * DMA_ENGINES for _ in range(program.cores)]
        self.dma_busy = [[0.0] * DMA_ENGINES for _ in range(program.cores)]
        self.tables: dict[int, str] = {}
        self.ramp: dict[int, tuple[float, float]] = {}
        self.comes_next: Callable[[Operation], bool] = lambda operation: True
        self.operands: dict[int, Moment] = {}
        self.laws = {
            (needs, opens, moves): self._laws(needs, opens, moves)
            for needs in (False, True)
            for opens in (False, True)
            for moves in (False, True)
        }

    def run(self) -> Schedule:
        """Schedule every operation."""
        operations = self.program.operations
        if all(operation.ordered for operation in operations):
            for operation in operations:
                if self.ready[operation.number] is _NEVER:
                    self.place(operation, self.earliest(operation))
        else:
            _ListScheduling(self).run()
        return Schedule(
            self.start,
            self.moved,
            self.end,
            self.ready,
            self.cause,
            self.issued,
            self.waited_for,
            {core: max(busy) for core, busy in enumerate(self.dma_busy)},
            max(self.ready, default=0.0),
        )

    def earliest(self, operation: Operation) -> Moment:
        """Return the earliest start of an operation and what determines it.

        The time is infinite while it is unknown: until tiles are released, or the other core
        reaches the barrier.
        """
        if operation.joins >= 0:
            return self._rendezvous(operation)
        return self._alone(operation)

    def _laws(self, needs: bool, opens: bool, moves: bool) -> tuple[Law, ...]:
        """Return the laws for operations that need others, open tiles or are transfers."""
        concerned: dict[Law, bool] = {
            self._dependences: needs,
            self._hold: True,
            self._space: opens,
            self._ring_limit: moves,
        }
        return tuple(law for law, applies in concerned.items() if applies)

    def _alone(self, operation: Operation) -> Moment:
        """Return the earliest start of an operation, ignoring the other core."""
        latest = START
        moves = operation.work.transfer is not None
        for law in self.laws[bool(operation.needs), bool(operation.opens), moves]:
            found = law(operation)
            if found is None:
                return _UNKNOWN
            if found[0] > latest[0]:
                latest = found
        return latest

    def _dependences(self, operation: Operation) -> Moment | None:
        known = self.operands.get(operation.number)
        if known is not None:
            return known
        when, cause = START
        operations, engine = self.program.operations, operation.work.engine
        ready, handoff = self.ready, self.timing.handoff
        for other in operation.needs:
            at = ready[other]
            if at is _NEVER:
                return None
            if operations[other].work.engine is not engine:
                at += handoff
            elif engine is Engine.tensor:
                at = self.end[other]  # sums are formed near PSUM: products are pipelined
            if at > when:
                when, cause = at, other
        self.operands[operation.number] = when, cause
        return when, cause

    def _hold(self, operation: Operation) -> Moment:
        free, latest = self.free, START
        for hold in self.holds[operation.number]:
            found = free[hold]
            if found[0] > latest[0]:
                latest = found
        return latest

    def _space(self, operation: Operation) -> Moment | None:
        latest = START
        for tile in operation.opens:
            for space in self.spaces.get(tile, ()):
                found = space.earliest(tile)
                if found is None:
                    return None
                latest = max(latest, found)
        return latest

    def _ring_limit(self, operation: Operation) -> Moment:
        under_way = self.under_way[self.rings[operation.number]]
        most = self.policy.in_flight
        return under_way[-most] if len(under_way) >= most else START

    def _rendezvous(self, operation: Operation) -> Moment:
        """Return when both cores have reached a barrier or an exchange."""
        latest = self._alone(operation)
        for other in self.rendezvous[operation.joins]:
            if other is operation:
                continue
            if not self.comes_next(other):
                return _UNKNOWN
            found = self._alone(other)
            if found[0] > latest[0]:
                latest = found
        return latest

    def place(self, operation: Operation, moment: Moment) -> None:
        """Set the start of an operation, and of its counterpart on the other core, if any."""
        met = self.rendezvous[operation.joins] if operation.joins >= 0 else (operation,)
        for each in met:
            self._place(each, moment)

    def _place(self, operation: Operation, moment: Moment) -> None:
        when, number, work = moment[0], operation.number, operation.work
        self.cause[number] = moment[1]
        self.start[number] = self.moved[number] = when
        for tile in operation.opens:
            for space in self.spaces.get(tile, ()):
                space.take(tile)
        if work.transfer is not None:
            held = self._transfer(operation, work.transfer, when)
        else:
            held = self.end[number] = when + self._duration(operation, when)
            self.ready[number] = held + work.tail
        for hold in self.holds[number]:
            self.free[hold] = (held, number)
        for tile in operation.tiles:
            self.left[tile] -= 1
            last = max(self.last_use.get(tile, START), (self.ready[number], number))
            self.last_use[tile] = last
            if not self.left[tile]:
                self.releases += 1
                for space in self.spaces.get(tile, ()):
                    space.release(tile, last)

    def _transfer(self, operation: Operation, moved: Transfer, when: float) -> float:
        """Trigger a transfer: descriptors, then DMA engines. Return when descriptors are made."""
        number, timing = operation.number, self.timing
        self.issued[number] = issued = when + _issue(moved, timing) / moved.merged
        dispatch = timing.dma_dispatch_store if moved.stores else timing.dma_dispatch_load
        # A documented dispatch by hardware includes the issue.
        arrives = max(when + dispatch, issued) if moved.mode == "hardware" else issued + dispatch
        free, busy = self.dma_free[operation.core], self.dma_busy[operation.core]
        takes = timing.dma_overhead / moved.merged + operation.work.busy
        begin, end = _NEVER, 0.0
        for engine in _dma_engines(moved, free):
            at, other = free[engine]
            if at > arrives and at + takes > end:
                self.waited_for[number] = other
            begins = max(arrives, at)
            begin, end = min(begin, begins), max(end, begins + takes)
            free[engine] = (begins + takes, number)
            busy[engine] += takes
        self.moved[number], self.end[number] = begin, end
        self.ready[number] = end + operation.work.tail + self.policy.delay
        self.under_way[self.rings[number]].append((self.ready[number], number))
        return issued

    def _duration(self, operation: Operation, when: float) -> float:
        """Return the occupancy of an engine, with what depends on the operations before."""
        work, timing, core = operation.work, self.timing, operation.core
        busy = work.busy
        if work.table:
            loaded = self.tables.setdefault(core, work.table)  # the first load is in the fixed cost
            if loaded != work.table:
                self.tables[core] = work.table
                busy += timing.table_load
        elif work.engine is Engine.tensor and timing.tensor_ramp:
            done, last = self.ramp.get(core, (0.0, -_NEVER))
            cold = timing.tensor_ramp * timing.tensor_start_rate
            if when - last > cold:
                done = 0.0
            slow = min(work.busy, max(0.0, cold - done))
            busy += slow * (1 / timing.tensor_start_rate - 1)
            self.ramp[core] = (done + work.busy, when + busy)
        return busy


def _issue(moved: Transfer, timing: Timing) -> float:
    """Return how long the descriptors of a transfer occupy what makes them."""
    if moved.mode == "software":
        return timing.dma_indirect_issue if moved.indirect else timing.dma_software_issue
    return timing.dma_hardware_issue if moved.mode == "hardware" else timing.dma_prebuilt_issue


def _dma_engines(moved: Transfer, free: list[Moment]) -> range | list[int]:
    """Return the DMA engines of a transfer: those of its partitions, else the first free ones."""
    if moved.first_engine >= 0:
        return range(moved.first_engine, moved.first_engine + moved.engines)
    return sorted(range(DMA_ENGINES), key=free.__getitem__)[: moved.engines]


class _ListScheduling:
    """Places operations one by one, always the one that can start first.

    The start of a queue is a lower bound, because resources only fill up: it is computed again when
    the queue is next. A queue that waits for space is tried again after a release.
    """

    def __init__(self, state: _Scheduler) -> None:
        self.state = state
        operations = state.program.operations
        self.waiting = [len(operation.needs) for operation in operations]
        self.followers: dict[int, list[int]] = {}
        self.order: list[list[int]] = [[] for _ in range(state.queue_count)]
        self.position: list[int] = []
        self.passes: list[int] = []
        """The first position of its queue that an operation may pass."""
        self.head = [0] * state.queue_count
        self.startable: list[list[int]] = [[] for _ in range(state.queue_count)]
        fixed = [0] * state.queue_count
        for operation, queue in zip(operations, state.queues, strict=True):
            for need in operation.needs:
                self.followers.setdefault(need, []).append(operation.number)
            numbers = self.order[queue]
            position = len(numbers)
            self.position.append(position)
            numbers.append(operation.number)
            stays = operation.ordered or operation.joins >= 0 or operation.work.transfer is not None
            self.passes.append(position if stays else fixed[queue])
            if stays:
                fixed[queue] = position + 1
        for number, count in enumerate(self.waiting):
            if not count:
                self.startable[state.queues[number]].append(number)
        self.bound = dict.fromkeys(range(state.queue_count), 0.0)
        self.unknown: set[int] = set()
        state.comes_next = self._comes_next

    def run(self) -> None:
        """Place every operation."""
        state = self.state
        left, releases = len(state.ready), 0
        while left:
            operation, moment = self._next()
            state.place(operation, moment)
            met = state.rendezvous[operation.joins] if operation.joins >= 0 else (operation,)
            for each in met:
                self._after(each.number)
                left -= 1
            if self.unknown and (state.releases != releases or state.rendezvous):
                releases = state.releases
                self.bound |= dict.fromkeys(self.unknown, 0.0)
                self.unknown.clear()

    def _next(self) -> tuple[Operation, Moment]:
        """Return the operation that can start first, and its start."""
        bound = self.bound
        while True:
            queue = min(bound, key=bound.__getitem__)
            operation, moment = self._candidate(queue)
            if moment[0] is _NEVER:
                assert bound[queue] is not _NEVER, "no operation can start"
                self.unknown.add(queue)
                bound[queue] = _NEVER
                continue
            if moment[0] > bound[queue]:
                bound[queue] = moment[0]
                if any(start < moment[0] for start in bound.values()):
                    continue
            return operation, moment

    def _candidate(self, queue: int) -> tuple[Operation, Moment]:
        """Return the operation of a queue that can start first."""
        state, operations = self.state, self.state.program.operations
        head = self.head[queue]
        first = self.order[queue][head]
        chosen = operations[first], _UNKNOWN
        engine_free = state.free[state.holds[first][0]][0]
        for number in self.startable[queue][:_CANDIDATES]:
            if self.position[number] - head >= _WINDOW or self.passes[number] > head:
                break
            moment = state.earliest(operations[number])
            if moment[0] < chosen[1][0]:
                chosen = operations[number], moment
                if moment[0] <= engine_free:
                    break
        return chosen

    def _comes_next(self, operation: Operation) -> bool:
        """Return whether an operation is the next one of its queue, with known operands."""
        queue = self.state.queues[operation.number]
        return not self.waiting[operation.number] and (
            self.position[operation.number] == self.head[queue]
        )

    def _after(self, number: int) -> None:
        """Update the queues after an operation was placed."""
        state = self.state
        queue = state.queues[number]
        self.startable[queue].remove(number)
        numbers, head = self.order[queue], self.head[queue]
        while head < len(numbers) and state.ready[numbers[head]] is not _NEVER:
            head += 1
        self.head[queue] = head
        self.unknown.discard(queue)
        if head == len(numbers):
            del self.bound[queue]
        else:
            self.bound[queue] = 0.0
        for follower in self.followers.get(number, ()):
            self.waiting[follower] -= 1
            if not self.waiting[follower]:
                other = state.queues[follower]
                bisect.insort(self.startable[other], follower)
                self.bound[other] = 0.0


def _queue(operation: Operation) -> tuple[Any, ...]:
    """Return the queue of an operation: its engine, or the line and the tile of a transfer."""
    if operation.work.transfer is not None:
        if operation.name == SPILL:
            return ("dma", operation.core, operation.name, operation.work.transfer.stores)
        site = operation.tiles[0].site if operation.tiles else None
        return ("dma", operation.core, operation.place.file, operation.place.line, site)
    return (operation.work.engine.name, operation.core)


def _ring(operation: Operation, queue: int) -> tuple[int, ...]:
    """Return the ring of a transfer: its queue on its DMA engines."""
    moved = operation.work.transfer
    return (queue,) if moved is None else (queue, moved.first_engine, moved.engines)
