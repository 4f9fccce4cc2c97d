"""Resources that operations share: engines, ports and memories.

A *hold* is used by one operation at a time. A ``Space`` holds several tiles.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from nkisim.memory.region import is_psum, is_sbuf
from nkisim.profiling.program import Operation, Program, Tile
from nkisim.spec.enums import engine as Engine

__all__ = [
    "START",
    "Hold",
    "Moment",
    "Space",
    "holds_of",
    "numbered",
    "peak",
    "row_bytes",
    "spaces_of",
]

Hold = tuple[Any, ...]
"""An engine, a part of the systolic array, a port, a PSUM bank or a descriptor generator."""

Moment = tuple[float, int]
"""A time, and the operation that determines it, or -1."""

START: Moment = (0.0, -1)

_ARRAY_PARTS = 16
"""Parts of the systolic array that compute at the same time."""


class Space:
    """A memory, or a number of buffers, that tiles take in program order.

    A tile fits when the earlier tiles that are not released leave enough space, whether they are in
    use already or not. So a later tile never takes the space of an earlier one, and a program whose
    tiles fit in program order never blocks.

    Args:
        limit: Size of the memory.
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

    def earliest(self, tile: Tile) -> Moment | None:
        """Return when a tile fits, or None while that is unknown."""
        missing = self._end[tile] - self._limit - self._freed
        if missing <= 0:  # also if a later tile is allocated already
            return self._floor
        for when, cause, size in self._releases[self._taken :]:
            missing -= size
            if missing <= 0:
                return max(self._floor, (when, cause))
        return None

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


def spaces_of(program: Program, buffers: int) -> dict[Tile, tuple[Space, ...]]:
    """Return the spaces that each tile without an address occupies.

    Args:
        program: The program.
        buffers: Tiles of one line in SBUF that are in use at the same time, besides those that the
            program itself needs at once; 0 for any number.
    """
    generation = program.generation
    found: dict[Tile, tuple[Space, ...]] = {}
    used = sorted((tile for tile in program.tiles if tile.uses), key=lambda tile: tile.uses[0])
    for core in range(program.cores):
        mine = [tile for tile in used if tile.core == core]
        free = [tile for tile in mine if not tile.placed]
        sbuf = [tile for tile in free if is_sbuf(tile.region)]
        fixed = peak((t for t in mine if t.placed and is_sbuf(t.region)), row_bytes)
        memory = Space(generation.sbuf_usable_bytes - fixed, sbuf, row_bytes)
        found |= dict.fromkeys(sbuf, (memory,))
        psum = [tile for tile in free if is_psum(tile.region)]

        def banks(tile: Tile) -> int:
            return -(-tile.row_bytes // generation.psum_bank_bytes)

        if peak(psum, banks) <= generation.psum_banks:
            found |= dict.fromkeys(psum, (Space(generation.psum_banks, psum, banks),))
        else:  # tiles share banks
            found |= dict.fromkeys(psum, (Space(generation.psum_bytes, psum, row_bytes),))
        if buffers:
            sites: dict[object, list[Tile]] = {}
            for tile in sbuf:
                sites.setdefault((tile.site, tile.part), []).append(tile)
            for tiles in sites.values():
                line = Space(peak(tiles, _one) + buffers - 1, tiles, _one)
                found |= {tile: (*found[tile], line) for tile in tiles}
    return found


def row_bytes(tile: Tile) -> int:
    """Return the bytes of a tile in one partition."""
    return tile.row_bytes


def _one(tile: Tile) -> int:
    return 1


def holds_of(program: Program) -> tuple[list[tuple[int, ...]], int]:
    """Return the numbers of what each operation holds, and how many there are.

    The first one is its engine, or what makes its descriptors.
    """
    in_parts = any(operation.work.array for operation in program.operations)
    known: dict[Hold, int] = {}
    found = [
        tuple(known.setdefault(hold, len(known)) for hold in _holds(operation, program, in_parts))
        for operation in program.operations
    ]
    return found, len(known)


def numbered(keys: Iterable[Hashable]) -> tuple[list[int], int]:
    """Return the number of each key, in the order of first appearance, and how many there are."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(key, len(known)) for key in keys], len(known)


def _holds(operation: Operation, program: Program, in_parts: bool) -> tuple[Hold, ...]:
    core, engine, moved = operation.core, operation.work.engine, operation.work.transfer
    if moved is not None:
        # Two generators in hardware, one for each queue, work independently of the engines.
        generator = ("generator",) if moved.mode == "hardware" else ()
        return ((*generator, moved.trigger.name, core),)
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
    if operation.work.fast_vector or engine is Engine.gpsimd:
        holds.append(("port", core))
    if reads_psum:
        holds += [("bank", tile.bank) for tile in operation.tiles if is_psum(tile.region)]
    return tuple(holds)
