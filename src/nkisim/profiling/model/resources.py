"""Resources that operations share: engines, ports and memories.

A *hold* is used by one operation at a time. A ``Space`` holds several tiles.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from nkisim.memory.region import is_psum, is_sbuf
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.tiles import Tile
from nkisim.profiling.model.transfers import Transfer
from nkisim.spec.enums import engine as Engine

Hold = tuple[Any, ...]
"""An engine, a part of the systolic array, a port, a PSUM bank or a descriptor generator."""

Moment = tuple[float, int]
"""A time, and the operation that determines it, or -1."""

START: Moment = (0.0, -1)

_ARRAY_PARTS = 16
"""Parts of the systolic array that compute at the same time."""


_MOST_GAPS = 64
"""Gaps of a timeline that operations may still fill; earlier time counts as occupied."""


class Timeline:
    """When a hold is occupied, as disjoint intervals in order.

    Attributes:
        busy: Sum of the intervals.
    """

    __slots__ = ("_ends", "_floor", "_numbers", "_starts", "busy")

    def __init__(self) -> None:
        self.busy = 0.0
        self._starts: list[float] = []
        self._ends: list[float] = []
        self._numbers: list[int] = []
        """The operation at the end of each interval."""
        self._floor = START

    def earliest(self, after: float, length: float) -> Moment:
        """Return when it is free for ``length`` from ``after`` on, and what occupies it before."""
        ends = self._ends
        if not ends or after >= ends[-1]:
            return after, -1
        when, cause = max((after, -1), self._floor)
        starts = self._starts
        for i in range(bisect.bisect_right(ends, when), len(ends)):
            if starts[i] - when >= length:
                break
            when, cause = ends[i], self._numbers[i]
        return when, cause

    def reserve(self, start: float, length: float, number: int) -> None:
        """Occupy it for an operation."""
        if not length:
            return
        self.busy += length
        starts, ends, numbers = self._starts, self._ends, self._numbers
        at, end = bisect.bisect_right(starts, start), start + length
        follows = at > 0 and ends[at - 1] == start
        precedes = at < len(starts) and starts[at] == end
        if follows and precedes:
            ends[at - 1], numbers[at - 1] = ends[at], numbers[at]
            del starts[at], ends[at], numbers[at]
        elif follows:
            ends[at - 1], numbers[at - 1] = end, number
        elif precedes:
            starts[at] = start
        else:
            starts.insert(at, start)
            ends.insert(at, end)
            numbers.insert(at, number)
            self._prune()

    def fill(self, after: float, length: float, number: int) -> tuple[float, float, int]:
        """Occupy the free time from ``after`` on, in pieces, for ``length`` in all.

        Returns:
            When the first piece begins, when the last one ends, and the operation that it waited
            for last, or -1.
        """
        self.busy += length
        starts, ends, numbers = self._starts, self._ends, self._numbers
        when, cause = max((after, -1), self._floor)
        first = at = bisect.bisect_right(ends, when)
        begin, left = -1.0, length
        while at < len(starts):
            free = starts[at] - when
            if free > 0 and begin < 0:
                begin = when
            if free >= left:
                break
            left -= max(free, 0.0)
            when, cause = ends[at], numbers[at]
            at += 1
        begin = when if begin < 0 else begin
        end = when + left
        # Everything from the first piece to the end is occupied now.
        while first < at and ends[first] <= begin:
            first += 1
        start = min([begin, *starts[first:at]])
        starts[first:at], ends[first:at], numbers[first:at] = [start], [end], [number]
        self._prune()
        return begin, end, cause

    def _prune(self) -> None:
        if len(self._starts) > 2 * _MOST_GAPS:
            self._floor = self._ends[_MOST_GAPS - 1], self._numbers[_MOST_GAPS - 1]
            for kept in (self._starts, self._ends, self._numbers):
                del kept[:_MOST_GAPS]

    def copy(self) -> Timeline:
        """Return a timeline with the same intervals."""
        made = Timeline()
        made.busy, made._floor = self.busy, self._floor
        made._starts, made._ends = self._starts[:], self._ends[:]
        made._numbers = self._numbers[:]
        return made


class DmaEngines:
    """The DMA engines of a core. Engines with the same transfers share a timeline."""

    __slots__ = ("_lines",)

    def __init__(self, count: int) -> None:
        self._lines = [Timeline()] * count

    @property
    def busy(self) -> float:
        """Busy time of the busiest engine."""
        return max(line.busy for line in self._lines)

    def lines(self, moved: Transfer, arrives: float, length: float) -> dict[Timeline, float]:
        """Return the timelines of a transfer, each with its share of the busiest one's work.

        The engines are those of its partitions, else the first free ones.
        """
        if len(moved.shares) == len(self._lines) and min(moved.shares) == 1:
            return dict.fromkeys(self._lines, 1.0)
        engines: Iterable[int] = range(moved.first_engine, moved.first_engine + len(moved.shares))
        if moved.first_engine < 0:
            free = [line.earliest(arrives, length)[0] for line in self._lines]
            engines = sorted(range(len(free)), key=free.__getitem__)
        parts: dict[tuple[Timeline, float], list[int]] = {}
        for engine, share in zip(engines, moved.shares, strict=False):
            parts.setdefault((self._lines[engine], share), []).append(engine)
        found: dict[Timeline, float] = {}
        for (line, share), members in parts.items():
            if len(members) < self._lines.count(line):
                line = line.copy()
                for engine in members:
                    self._lines[engine] = line
            found[line] = share
        return found


class Space:
    """Capacity of SBUF or PSUM (in bytes per partition, or in banks) that tiles take.

    Tiles take their space in program order: a tile fits when enough space is left after all earlier
    tiles that are not released, those included that are not allocated yet. So a later tile never
    takes the space of an earlier one, and a program whose tiles fit in program order never blocks.

    Args:
        limit: The capacity.
        tiles: The tiles, in the order of their first use.
        size: Size of a tile.
    """

    __slots__ = ("_end", "_floor", "_freed", "_limit", "_releases", "_size", "_taken")

    def __init__(self, limit: int, tiles: Iterable[Tile], size: Callable[[Tile], int]) -> None:
        self._end: dict[Tile, int] = {}
        total = 0
        for tile in tiles:
            total += size(tile)
            self._end[tile] = total
        self._limit = max(limit, peak(self._end, size))
        self._size = size
        self._freed = 0
        self._floor = START
        self._releases: list[tuple[float, int, int]] = []
        self._taken = 0

    def earliest(self, tile: Tile) -> Moment:
        """Return when a tile fits."""
        missing = self._end[tile] - self._limit - self._freed
        if missing <= 0:  # also if a later tile is allocated already
            return self._floor
        for number in range(self._taken, len(self._releases)):
            when, cause, size = self._releases[number]
            missing -= size
            if missing <= 0:
                return max(self._floor, (when, cause))
        raise AssertionError("tiles take their space in program order")

    def take(self, tile: Tile) -> None:
        """Allocate a tile; the releases that it needs are then available to later tiles too."""
        end = self._end[tile]
        while end - self._limit > self._freed:
            when, cause, size = self._releases[self._taken]
            self._taken += 1
            self._freed += size
            self._floor = max(self._floor, (when, cause))

    def release(self, tile: Tile, moment: Moment) -> None:
        """Free the space of a tile from a moment on."""
        bisect.insort(self._releases, (*moment, self._size(tile)), lo=self._taken)


def peak(tiles: Iterable[Tile], size: Callable[[Tile], int]) -> int:
    """Return the most that tiles take at the same time in program order."""
    ends: list[tuple[int, int]] = []
    used = most = 0
    for tile in tiles:
        while ends and ends[0][0] < tile.uses[0]:
            used -= heapq.heappop(ends)[1]
        heapq.heappush(ends, (tile.uses[-1], size(tile)))
        used += size(tile)
        most = max(most, used)
    return most


def spaces_of(program: Program) -> dict[Tile, Space]:
    """Return the space that each tile without an address occupies."""
    generation = program.generation
    found: dict[Tile, Space] = {}
    used = sorted((tile for tile in program.tiles if tile.uses), key=lambda tile: tile.uses[0])
    for core in range(program.cores):
        mine = [tile for tile in used if tile.core == core]
        free = [tile for tile in mine if not tile.placed]
        sbuf = [tile for tile in free if is_sbuf(tile.region)]
        fixed = peak((t for t in mine if t.placed and is_sbuf(t.region)), row_bytes)
        found |= dict.fromkeys(sbuf, Space(generation.sbuf_usable_bytes - fixed, sbuf, row_bytes))
        psum = [tile for tile in free if is_psum(tile.region)]

        def banks(tile: Tile) -> int:
            return -(-tile.row_bytes // generation.psum_bank_bytes)

        if peak(psum, banks) <= generation.psum_banks:
            found |= dict.fromkeys(psum, Space(generation.psum_banks, psum, banks))
        else:  # tiles share banks
            found |= dict.fromkeys(psum, Space(generation.psum_bytes, psum, row_bytes))
    return found


def row_bytes(tile: Tile) -> int:
    """Return the bytes of a tile in one partition."""
    return tile.row_bytes


def holds_of(program: Program) -> tuple[list[tuple[int, ...]], int]:
    """Return the resources that each operation holds, as numbers, and the count of resources.

    A resource is an engine, a port, a PSUM bank or a descriptor generator. The first one of an
    operation is its engine, or the generator of its descriptors.
    """
    overlap = program.assumptions["row_tiles"] == "overlap"
    in_parts = overlap and any(operation.work.array for operation in program.operations)
    known: dict[Hold, int] = {}
    found = [
        tuple(known.setdefault(hold, len(known)) for hold in _holds(operation, program, in_parts))
        for operation in program.operations
    ]
    return found, len(known)


def numbered(keys: Iterable[Hashable]) -> tuple[list[int], int]:
    """Number distinct keys by first appearance: return the number of each key, and the count."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(key, len(known)) for key in keys], len(known)


def _holds(operation: Operation, program: Program, in_parts: bool) -> tuple[Hold, ...]:
    core, engine, moved = operation.core, operation.work.engine, operation.work.transfer
    if moved is not None:
        # Two generators in hardware, one for each queue, work independently of the engines.
        generator = ("generator",) if moved.mode == "hardware" else ()
        return ((*generator, moved.trigger.name, core),)
    if operation.work.link:
        return (("link", core),)
    if engine is Engine.tensor and in_parts:
        mask = operation.work.array or (1 << _ARRAY_PARTS) - 1
        return tuple((engine.name, core, part) for part in range(_ARRAY_PARTS) if mask >> part & 1)
    return ((engine.name, core), *_ports(operation, program))


def _ports(operation: Operation, program: Program) -> tuple[Hold, ...]:
    """Return the ports and banks that an operation shares with other engines."""
    engine, core = operation.work.engine, operation.core
    reads_psum = operation.touches_psum and engine in (Engine.vector, Engine.scalar)
    if program.generation.number == 2:
        shares_sbuf = operation.sbuf_bytes and engine in (Engine.vector, Engine.gpsimd)
        ports = ((("sbuf", core), shares_sbuf), (("psum", core), reads_psum))
        return tuple(port for port, used in ports if used)
    holds: list[Hold] = []
    exclusive = program.assumptions["shared_port"] == "exclusive"
    if exclusive and (operation.work.fast_vector or engine is Engine.gpsimd):
        holds.append(("port", core))
    if reads_psum:
        holds += [("bank", tile.bank) for tile in operation.tiles if is_psum(tile.region)]
    return tuple(holds)
