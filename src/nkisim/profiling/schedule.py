"""A schedule of a program: when each operation starts, and when its result is ready.

Five engines run in parallel, each one operation at a time. A compiler may move an operation before
others of its engine that still wait; here it looks ``_WINDOW`` operations ahead. Transfers of one
line of the kernel form a queue: they are triggered in order, and a limited number is under way.
All transfers of a core share its DMA engines.

Inside ``nl.no_reorder`` nothing is moved: operations take engines and DMA engines in program order.
"""

from __future__ import annotations

import bisect
import heapq
from dataclasses import dataclass
from typing import Any

from nkisim.arch.timing import Timing, timing_of
from nkisim.memory.region import is_psum
from nkisim.profiling.program import Operation, Program, Tile
from nkisim.profiling.spills import SPILL
from nkisim.spec.enums import engine as Engine

__all__ = ["Policy", "Schedule", "schedule"]

_WINDOW = 64
_CANDIDATES = 8
"""Operations of an engine that are compared, of those whose operands are ready."""

_NEVER = float("inf")

Queue = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """How far transfers run ahead of their use.

    Attributes:
        in_flight: Transfers of one queue that are under way at the same time.
        buffers: Tiles of one line that are alive at the same time; 0 for any number.
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
        total: When the last result is ready.
    """

    start: list[float]
    moved: list[float]
    end: list[float]
    ready: list[float]
    cause: list[int]
    issued: dict[int, float]
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
        self.free: dict[Queue, float] = {}
        self.last: dict[Queue, int] = {}
        self.issue: dict[Queue, tuple[float, int]] = {}
        self.issued: dict[int, float] = {}
        self.bus: dict[int, tuple[float, int]] = {}
        self.under_way: dict[Queue, list[float]] = {}
        self.tables: dict[int, str] = {}
        self.ramp: dict[int, tuple[float, float]] = {}
        self.left = {tile: len(tile.uses) for tile in program.tiles}
        self.released: dict[Tile, tuple[float, int]] = {}
        self.by_site = {
            site: (tiles, _alive_together(tiles) + policy.buffers - 1)
            for site, tiles in program.sites().items()
        }
        self.banks: dict[int, int] = {}
        self.open_psum: dict[int, list[Tile]] = {}
        self.meetings: dict[int, list[int]] = {}
        for operation in program.operations:
            if operation.joins >= 0:
                self.meetings.setdefault(operation.joins, []).append(operation.number)
        self.exclusive: dict[Any, tuple[float, int]] = {}
        self.queues = [_queue(operation) for operation in program.operations]
        self.releases = 0

    def run(self) -> Schedule:
        """Schedule every operation."""
        operations = self.program.operations
        if all(operation.ordered for operation in operations):
            for operation in operations:
                found = self._earliest(operation, forced=True)
                assert found is not None
                self._place(operation, found)
        else:
            _ListScheduling(self).run()
        total = max(self.ready, default=0.0)
        return Schedule(
            self.start, self.moved, self.end, self.ready, self.cause, self.issued, total
        )

    def _earliest(self, operation: Operation, *, forced: bool = False) -> tuple[float, int] | None:
        """Return when an operation can start and what decides it, or None if that is unknown.

        ``forced`` ignores that banks or buffers are taken.
        """
        queue = self.queues[operation.number]
        ready, handoff = self.ready, self.timing.handoff
        when, cause = self.free.get(queue, 0.0), self.last.get(queue, -1)
        operations, engine = self.program.operations, operation.work.engine
        for other in operation.needs:
            at = ready[other]
            if at is _NEVER:
                return None
            if operations[other].work.engine is not engine:
                at += handoff
            if at > when:
                when, cause = at, other
        if operation.opens and not forced:
            found = self._room(operation)
            if found is None:
                return None
            if found[0] > when:
                when, cause = found
        if operation.joins >= 0:
            for other in self.meetings[operation.joins]:
                for need in operations[other].needs:
                    if ready[need] is _NEVER:
                        return None if not forced else (when, cause)
                    if ready[need] > when:
                        when, cause = ready[need], need
        if operation.work.transfer is not None:
            trigger = (operation.core, operation.work.transfer.trigger)
            free, other = self.issue.get(trigger, (0.0, -1))
            if free > when:
                when, cause = free, other
            under_way = self.under_way.get(queue, ())
            if len(under_way) >= self.policy.in_flight:
                at = under_way[-self.policy.in_flight]
                if at > when:
                    when, cause = at, self.last.get(queue, -1)
        else:
            for token in self._tokens(operation):
                at, other = self.exclusive.get(token, (0.0, -1))
                if at > when:
                    when, cause = at, other
        return when, cause

    def _room(self, operation: Operation) -> tuple[float, int] | None:
        """Return when the tiles that an operation opens have room, or None if unknown."""
        when, cause = 0.0, -1
        for tile in operation.opens:
            if tile.placed:
                continue
            if is_psum(tile.region):
                found = self._bank(tile)
            elif self.policy.buffers:
                tiles, ahead = self.by_site[tile.site]
                if tile.number < ahead:
                    continue
                found = self.released.get(tiles[tile.number - ahead])
            else:
                continue
            if found is None:
                return None
            if found[0] > when:
                when, cause = found
        return when, cause

    def _bank(self, tile: Tile) -> tuple[float, int] | None:
        """Return when enough PSUM banks are free for a tile, or None if unknown."""
        generation = self.program.generation
        wanted = -(-tile.row_bytes // generation.psum_bank_bytes)
        free = generation.psum_banks - self.banks.get(tile.core, 0)
        if free >= wanted:
            return 0.0, -1
        closed = sorted(
            self.released[other]
            for other in self.open_psum.get(tile.core, ())
            if other in self.released
        )
        for found, other in zip(closed, self._closed(tile.core), strict=False):
            free += -(-other.row_bytes // generation.psum_bank_bytes)
            if free >= wanted:
                return found
        return None

    def _closed(self, core: int) -> list[Tile]:
        """Return the PSUM tiles that are no longer used, in the order of their release."""
        tiles = [tile for tile in self.open_psum.get(core, ()) if tile in self.released]
        return sorted(tiles, key=self.released.__getitem__)

    def _place(self, operation: Operation, found: tuple[float, int]) -> None:
        """Give an operation its time."""
        when, self.cause[operation.number] = found
        number, work, queue = operation.number, operation.work, self.queues[operation.number]
        self.start[number] = self.moved[number] = when
        if work.transfer is not None:
            self._transfer(operation, when)
        else:
            busy = self._duration(operation, when)
            self.end[number] = end = when + busy
            self.ready[number] = end + work.tail
            self.free[queue] = end
            if work.engine is Engine.gpsimd:
                trigger = (operation.core, Engine.gpsimd)
                self.issue[trigger] = max(self.issue.get(trigger, (0.0, -1)), (end, number))
            for token in self._tokens(operation):
                self.exclusive[token] = (end, number)
        self.last[queue] = number
        for tile in operation.opens:
            if not tile.placed and is_psum(tile.region):
                self._take_bank(tile)
        for tile in operation.tiles:
            self.left[tile] -= 1
            if not self.left[tile]:
                self.released[tile] = (self.ready[number], number)
                self.releases += 1

    def _take_bank(self, tile: Tile) -> None:
        generation, core = self.program.generation, tile.core
        wanted = -(-tile.row_bytes // generation.psum_bank_bytes)
        used = self.banks.get(core, 0)
        tiles = self.open_psum.setdefault(core, [])
        for other in self._closed(core):
            if used + wanted <= generation.psum_banks:
                break
            tiles.remove(other)
            used -= -(-other.row_bytes // generation.psum_bank_bytes)
        tiles.append(tile)
        self.banks[core] = used + wanted

    def _transfer(self, operation: Operation, when: float) -> None:
        """Trigger a transfer: descriptors, then a share of the DMA engines."""
        number, moved, timing = operation.number, operation.work.transfer, self.timing
        assert moved is not None
        queue, trigger = self.queues[number], (operation.core, moved.trigger)
        if moved.mode == "software":
            issue = timing.dma_indirect_issue if moved.indirect else timing.dma_software_issue
        else:
            hardware = moved.mode == "hardware"
            issue = timing.dma_hardware_issue if hardware else timing.dma_prebuilt_issue
        issued = when + issue / moved.merged
        self.issue[trigger] = (issued, number)
        self.issued[number] = issued
        if moved.mode == "software":
            engine = (Engine.gpsimd, operation.core)
            self.free[engine] = max(self.free.get(engine, 0.0), issued)
        dispatch = timing.dma_dispatch_store if moved.stores else timing.dma_dispatch_load
        # A documented dispatch by hardware includes the issue.
        arrives = max(when + dispatch, issued) if moved.mode == "hardware" else issued + dispatch
        bus, other = self.bus.get(operation.core, (0.0, -1))
        begin = max(arrives, bus)
        if bus > arrives and self.cause[number] < 0:
            self.cause[number] = other
        end = begin + timing.dma_overhead / moved.merged + operation.work.busy
        self.bus[operation.core] = (end, number)
        self.moved[number], self.end[number] = begin, end
        self.ready[number] = end + operation.work.tail + self.policy.delay
        self.free[queue] = issued
        self.under_way.setdefault(queue, []).append(self.ready[number])

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
            if when - last > timing.tensor_ramp * timing.tensor_start_rate:
                done = 0.0
            cold = timing.tensor_ramp * timing.tensor_start_rate
            slow = min(work.busy, max(0.0, cold - done))
            busy += slow * (1 / timing.tensor_start_rate - 1)
            self.ramp[core] = (done + work.busy, when + busy)
        return busy

    def _tokens(self, operation: Operation) -> tuple[Any, ...]:
        """Return what an operation uses that only one engine can use at a time."""
        engine, core = operation.work.engine, operation.core
        vector_or_scalar = engine in (Engine.vector, Engine.scalar)
        tokens: list[Any] = []
        if self.program.generation.number == 2:
            if engine in (Engine.vector, Engine.gpsimd) and operation.touches_sbuf:
                tokens.append(("sbuf", core))
            if vector_or_scalar and operation.touches_psum:
                tokens.append(("psum", core))
            return tuple(tokens)
        if operation.work.fast_vector or engine is Engine.gpsimd:
            tokens.append(("port", core))
        if vector_or_scalar and operation.touches_psum:
            tokens += [tile.bank for tile in operation.tiles if is_psum(tile.region)]
        return tuple(tokens)


class _ListScheduling:
    """Places operations one by one, always the one that can start first.

    A queue's start is a lower bound, because resources only fill up: it is computed again when the
    queue's turn comes. A queue that waits for a bank or a buffer is tried again after a release.
    """

    def __init__(self, state: _Scheduler) -> None:
        self.state = state
        operations = state.program.operations
        self.waiting = [len(operation.needs) for operation in operations]
        self.followers: list[list[int]] = [[] for _ in operations]
        self.order: dict[Queue, list[int]] = {}
        self.position: list[int] = []
        self.head: dict[Queue, int] = {}
        self.startable: dict[Queue, list[int]] = {}
        for operation, queue in zip(operations, state.queues, strict=True):
            for need in operation.needs:
                self.followers[need].append(operation.number)
            numbers = self.order.setdefault(queue, [])
            self.position.append(len(numbers))
            numbers.append(operation.number)
            self.head.setdefault(queue, 0)
            self.startable.setdefault(queue, [])
        for number, count in enumerate(self.waiting):
            if not count:
                self.startable[state.queues[number]].append(number)
        self.bound = dict.fromkeys(self.order, 0.0)
        self.placed = [False] * len(operations)

    def run(self) -> None:
        """Place every operation."""
        state, bound = self.state, self.bound
        releases = 0
        for _ in range(len(self.placed)):
            if state.releases != releases:
                releases = state.releases
                for queue, start in bound.items():
                    if start is _NEVER:
                        bound[queue] = 0.0
            number, found = self._next()
            state._place(state.program.operations[number], found)
            self._after(number)

    def _next(self) -> tuple[int, tuple[float, int]]:
        """Return the operation that can start first, and its start."""
        bound = self.bound
        while True:
            queue = min(bound, key=bound.__getitem__)
            if bound[queue] is _NEVER:
                break
            number, found = self._candidate(queue)
            if found is None:
                bound[queue] = _NEVER
                continue
            if found[0] > bound[queue]:
                bound[queue] = found[0]
                if any(start < found[0] for start in bound.values()):
                    continue
            return number, found
        # Every candidate waits for a bank or a buffer: open one more.
        numbers = [self.startable[queue][0] for queue in bound if self.startable[queue]]
        number = min(numbers)
        forced = self.state._earliest(self.state.program.operations[number], forced=True)
        assert forced is not None
        return number, forced

    def _candidate(self, queue: Queue) -> tuple[int, tuple[float, int] | None]:
        """Return the operation of a queue that can start first, and its start."""
        state, operations = self.state, self.state.program.operations
        head = self.head[queue]
        free = state.free.get(queue, 0.0)
        best: tuple[float, int] | None = None
        chosen = -1
        transfers = queue[0] == "dma"
        for number in self.startable[queue][:_CANDIDATES]:
            ahead = self.position[number] - head
            if ahead and (transfers or ahead >= _WINDOW or self._ordered(queue, head, number)):
                break
            found = state._earliest(operations[number])
            if found is not None and (best is None or found[0] < best[0]):
                best, chosen = found, number
                if found[0] <= free:
                    break
        return chosen, best

    def _ordered(self, queue: Queue, head: int, number: int) -> bool:
        """Return whether ``nl.no_reorder`` forbids an operation to pass the head of its queue."""
        operations = self.state.program.operations
        return operations[number].ordered or operations[self.order[queue][head]].ordered

    def _after(self, number: int) -> None:
        """Update the queues after an operation was placed."""
        state = self.state
        queue = state.queues[number]
        self.startable[queue].remove(number)
        self.placed[number] = True
        numbers, head = self.order[queue], self.head[queue]
        while head < len(numbers) and self.placed[numbers[head]]:
            head += 1
        self.head[queue] = head
        if head == len(numbers):
            del self.bound[queue]
        else:
            self.bound[queue] = 0.0
        for follower in self.followers[number]:
            self.waiting[follower] -= 1
            if not self.waiting[follower]:
                other = state.queues[follower]
                bisect.insort(self.startable[other], follower)
                self.bound[other] = 0.0


def _alive_together(tiles: list[Tile]) -> int:
    """Return how many tiles of one line the program itself uses at the same time."""
    ends: list[int] = []
    most = 0
    for tile in tiles:
        while ends and ends[0] < tile.uses[0]:
            heapq.heappop(ends)
        heapq.heappush(ends, tile.uses[-1])
        most = max(most, len(ends))
    return most


def _queue(operation: Operation) -> Queue:
    """Return the queue of an operation: its engine, or the line and the tile of a transfer."""
    if operation.work.transfer is not None:
        if operation.name == SPILL:
            return ("dma", operation.core, operation.name, operation.work.transfer.stores)
        site = operation.tiles[0].site if operation.tiles else None
        return ("dma", operation.core, operation.place.file, operation.place.line, site)
    return (operation.work.engine, operation.core)
