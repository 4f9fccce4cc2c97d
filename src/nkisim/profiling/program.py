"""The program of a run for the scheduler: operations with costs, tiles and dependencies.

Dependencies follow from the footprints of the operands: a read waits for the writes that it sees, a
write for the reads and writes of what it replaces. Tiles with an explicit address share a storage,
so overlapping addresses depend on each other too.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from nkisim.arch import Generation
from nkisim.diagnostics import Place
from nkisim.machine import Event
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.memory.region import is_hbm, is_psum
from nkisim.profiling.costs import Work, work_of
from nkisim.spec.enums import engine as Engine

__all__ = ["Capture", "Operation", "Program", "Tile"]

_SCANNED = 64
"""Writes of one HBM tensor that are compared one by one; of more, the last one counts."""

Box = tuple[int, int, int, int]
"""First and last partition, first and last byte in each; the last ones are exclusive."""


@dataclass(slots=True, eq=False)
class Tile:
    """An allocation on chip.

    Attributes:
        name: Its name or that of its variable.
        line: File and line of its allocation.
        region: SBUF or PSUM.
        row_bytes: Bytes in one partition.
        placed: Whether it has an explicit address.
        core: Core that owns it.
        site: Equal for tiles made by the same line with the same shape.
        number: Position among the tiles of its site.
        bank: Its PSUM bank; the tile itself where the allocator chooses.
        uses: Operations that access it, in program order.
    """

    name: str
    line: tuple[str, int]
    region: MemoryRegion
    row_bytes: int
    placed: bool
    core: int
    site: object
    number: int
    bank: object = None
    uses: list[int] = field(default_factory=list)


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
        opens: Tiles that it writes first.
        ordered: Whether it is in an ``nl.no_reorder`` region.
        touches_psum, touches_sbuf: Memories that it accesses.
        joins: Number of the ``core_barrier`` of both cores, or -1.
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
    touches_sbuf: bool
    joins: int = -1
    reuses: tuple[int, ...] = ()


@dataclass(slots=True)
class Program:
    """The operations of a run in the order in which they were issued.

    Attributes:
        operations: The instructions.
        tiles: The allocations on chip.
        generation: The target.
        cores: Number of cores.
    """

    generation: Generation
    operations: list[Operation] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    cores: int = 1

    def sites(self) -> dict[object, list[Tile]]:
        """Return the tiles by the line that makes them, in the order of their first use."""
        found: dict[object, list[Tile]] = {}
        for tile in self.tiles:
            found.setdefault(tile.site, []).append(tile)
        return found


class _Accesses:
    """Recent accesses of one storage, by footprint."""

    __slots__ = ("last_write", "reads", "writes")

    def __init__(self) -> None:
        self.writes: dict[Box, int] = {}
        self.reads: dict[tuple[Box, Engine], int] = {}
        self.last_write = -1

    def read(self, box: Box, number: int, engine: Engine, *, exact: bool) -> set[int]:
        """Record a read and return the writes that it waits for."""
        writes = self.writes
        if exact and len(writes) > _SCANNED:
            found = {writes.get(box, self.last_write)}
        else:
            found = {n for other, n in writes.items() if _overlap(box, other)}
        self.reads[box, engine] = number
        return found

    def write(self, box: Box, number: int) -> set[int]:
        """Record a write and return the accesses that it waits for."""
        found = set()
        for other, n in list(self.writes.items()):
            if _overlap(box, other):
                found.add(n)
                if _covers(box, other):
                    del self.writes[other]
        for key, n in list(self.reads.items()):
            if _overlap(box, key[0]):
                found.add(n)
                if _covers(box, key[0]):
                    del self.reads[key]
        self.writes[box] = self.last_write = number
        return found

    def append(self, box: Box, number: int) -> None:
        """Record a write to HBM, which waits for nothing."""
        self.writes[box] = self.last_write = number


class Capture:
    """Watcher that turns the events of a run into a program."""

    def __init__(self, generation: Generation) -> None:
        self.program = Program(generation)
        self._works: dict[object, Work] = {}
        # What is known of a tile's bytes ends with them.
        self._accesses: WeakKeyDictionary[Any, _Accesses] = WeakKeyDictionary()
        self._tiles: dict[Any, Tile] = {}
        self._sites: dict[Any, int] = {}
        self._barriers: dict[int, int] = {}
        self._hbm_writes: dict[tuple[int, Any], int] = {}

    def __call__(self, event: Event) -> None:
        """Add an event to the program."""
        program = self.program
        work = self._works.get(event.signature)
        if work is None:
            work = self._works[event.signature] = work_of(event, program.generation)
        number = len(program.operations)
        needs: set[int] = set()
        reuses: set[int] = set()
        tiles: dict[Tile, None] = {}
        opens: list[Tile] = []
        psum = sbuf = False
        for _, tensor in event.reads:
            hbm = is_hbm(tensor.buffer)
            box = _box(tensor.region, 0 if hbm else tensor.storage.pitch)
            accesses = self._accesses_of(tensor)
            needs |= accesses.read(box, number, work.engine, exact=hbm)
            if not hbm:
                tiles[self._tile(tensor, event.core)] = None
                psum, sbuf = psum or is_psum(tensor.buffer), sbuf or not is_psum(tensor.buffer)
        for _, tensor in event.writes:
            hbm = is_hbm(tensor.buffer)
            box = _box(tensor.region, 0 if hbm else tensor.storage.pitch)
            accesses = self._accesses_of(tensor)
            if hbm:
                accesses.append(box, number)
                self._hbm_writes[event.core, work.engine] = number
                continue
            reuses |= accesses.write(box, number)
            tile = self._tile(tensor, event.core)
            if not tile.uses:
                opens.append(tile)
            tiles[tile] = None
            psum, sbuf = psum or is_psum(tensor.buffer), sbuf or not is_psum(tensor.buffer)
        joins = -1
        if event.instruction in ("core_barrier", "sendrecv"):
            joins = self._barriers[event.core] = self._barriers.get(event.core, -1) + 1
            needs |= {n for (core, _), n in self._hbm_writes.items() if core == event.core}
        needs.discard(number)
        reuses -= needs | {number}
        for tile in tiles:
            tile.uses.append(number)
        program.cores = max(program.cores, event.core + 1)
        program.operations.append(
            Operation(
                number,
                event.instruction,
                work,
                event.core,
                event.place,
                (*needs, *reuses),
                tuple(tiles),
                tuple(opens),
                event.ordered,
                psum,
                sbuf,
                joins,
                tuple(reuses),
            )
        )

    def _accesses_of(self, tensor: NkiTensor) -> _Accesses:
        found = self._accesses.get(tensor.storage)
        if found is None:
            found = self._accesses[tensor.storage] = _Accesses()
        return found

    def _tile(self, tensor: NkiTensor, core: int) -> Tile:
        life = tensor.life
        tile = self._tiles.get(life)
        if tile is None:
            site = (life.line, life.shape, life.dtype, core)
            number = self._sites[site] = self._sites.get(site, -1) + 1
            tile = Tile(
                life.label,
                life.line,
                life.region,
                life.origin.row_bytes,
                life.address is not None,
                core,
                site,
                number,
            )
            tile.bank = tile
            if life.address is not None:
                tile.bank = (core, life.address[1] // self.program.generation.psum_bank_bytes)
            self._tiles[life] = tile
            self.program.tiles.append(tile)
        return tile


@functools.lru_cache(maxsize=1 << 14)
def _box(region: Any, pitch: int) -> Box:
    """Return the footprint of a view as a box; in HBM the rows are those of the view."""
    start, shape, strides, itemsize = region
    if 0 in shape:
        return (0, 0, 0, 0)
    if not pitch:
        pitch = max((abs(s) for s, n in zip(strides, shape, strict=True) if n > 1), default=1)
        pitch = max(pitch, itemsize)
    rows = low = high = 0
    for extent, stride in zip(shape, strides, strict=True):
        reach = (extent - 1) * stride
        if stride and stride % pitch == 0:
            rows += reach // pitch
        elif reach > 0:
            high += reach
        else:
            low += reach
    first, offset = divmod(start, pitch)
    if offset + high + itemsize > pitch:  # rows that wrap: every byte between
        return (0, 1, start + low, start + rows * pitch + high + itemsize)
    return (first, first + rows + 1, offset + low, offset + high + itemsize)


def _overlap(a: Box, b: Box) -> bool:
    return a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]


def _covers(a: Box, b: Box) -> bool:
    return a[0] <= b[0] and b[1] <= a[1] and a[2] <= b[2] and b[3] <= a[3]
