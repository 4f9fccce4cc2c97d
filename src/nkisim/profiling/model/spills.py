"""Spills: transfers that the compiler adds where tiles without an address exceed SBUF.

In program order, the tile whose next use is furthest away leaves SBUF first. A spilled tile is
written to HBM once and read again before each use for which it was not kept. Together they never
move more than the operands of all instructions: as if nothing stayed in SBUF between two of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from nkisim.arch.timing import Timing, timing_of
from nkisim.memory.region import is_sbuf
from nkisim.profiling.model.costs import Work
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.resources import peak, row_bytes
from nkisim.profiling.model.tiles import Tile
from nkisim.profiling.model.transfers import DMA_ENGINES, Transfer
from nkisim.spec.enums import engine as Engine

SPILL = "spill"
"""Name of the added operations."""

_PARTITIONS = 128


class DoesNotFitError(ValueError):
    """The tiles of one instruction together are larger than SBUF; the compiler refuses them."""


class Spilled(NamedTuple):
    """A program with the transfers that the compiler adds.

    Attributes:
        program: The program.
        nbytes: Bytes that they move.
    """

    program: Program
    nbytes: int


def with_spills(program: Program) -> Spilled:
    """Return a program with spills, or the program itself if its tiles fit.

    Raises:
        DoesNotFitError: An instruction could never have all of its operands on chip.
    """
    limit = program.generation.sbuf_usable_bytes
    for core in range(program.cores):
        mine = [t for t in program.tiles if t.core == core and t.uses and is_sbuf(t.region)]
        if peak(sorted(mine, key=lambda tile: tile.uses[0]), row_bytes) > limit:
            break
    else:
        return Spilled(program, 0)
    return _Spiller(program, limit).run()


class _Spiller:
    """State of adding spills to a program."""

    def __init__(self, program: Program, limit: int) -> None:
        self.limit = limit
        self.timing: Timing = timing_of(program.generation)
        self.source = program
        self.result = replace(program, operations=[], tiles=[])
        self.numbers: list[int] = []
        self.resident: dict[int, dict[Tile, None]] = {}
        self.used: dict[int, int] = {}
        self.position: dict[Tile, int] = {}
        self.copies: dict[Tile, Tile] = {}
        self.saved: dict[Tile, int] = {}
        self.reloads: dict[Tile, int] = {}
        self.nbytes = 0

    def run(self) -> Spilled:
        """Copy the program, with transfers that spill and reload tiles where SBUF is full."""
        for tile in self.source.tiles:
            self._copy(tile)
        for operation in self.source.operations:
            self._add(operation)
        most = sum(operation.sbuf_bytes for operation in self.source.operations)
        if self.nbytes > most:
            self._scale(most / self.nbytes)
        return Spilled(self.result, self.nbytes)

    def _copy(self, tile: Tile) -> None:
        """Add a copy of a tile to the result, for the time until it is spilled."""
        self.copies[tile] = copy = replace(tile, uses=[])
        if tile.bank is tile:
            copy.bank = copy
        self.result.tiles.append(copy)

    def _add(self, operation: Operation) -> None:
        mine = [tile for tile in operation.tiles if is_sbuf(tile.region) and not tile.placed]
        resident = self.resident.setdefault(operation.core, {})
        for tile in mine:
            if tile not in resident:
                self._make_room(operation.core, tile.row_bytes, mine)
                resident[tile] = None
                self.used[operation.core] = self.used.get(operation.core, 0) + tile.row_bytes
                if tile in self.saved:
                    self._copy(tile)
                    self.reloads[tile] = self._move(operation, tile, self.saved[tile], stores=False)
        reloads = {self.reloads[tile] for tile in mine if tile in self.reloads}
        number = self._append(
            replace(
                operation,
                needs=(*(self.numbers[n] for n in operation.needs), *sorted(reloads)),
                reuses=tuple(self.numbers[n] for n in operation.reuses),
                tiles=tuple(self.copies[tile] for tile in operation.tiles),
                writes=tuple(self.copies[tile] for tile in operation.writes),
                fed_by=operation.fed_by if operation.fed_by < 0 else self.numbers[operation.fed_by],
            )
        )
        self.numbers.append(number)
        for tile in operation.tiles:
            self.position[tile] = position = self.position.get(tile, 0) + 1
            if tile in resident and position == len(tile.uses):
                del resident[tile]
                self.used[operation.core] -= tile.row_bytes

    def _make_room(self, core: int, wanted: int, kept: list[Tile]) -> None:
        """Spill tiles until ``wanted`` bytes are free; those in ``kept`` stay."""
        resident = self.resident[core]
        while self.used.get(core, 0) + wanted > self.limit:
            candidates = [tile for tile in resident if tile not in kept]
            if not candidates:
                raise self._does_not_fit(kept)
            victim = max(candidates, key=self._next_use)
            del resident[victim]
            self.used[core] -= victim.row_bytes
            if victim not in self.saved:
                last = self.numbers[victim.uses[self.position[victim] - 1]]
                self.saved[victim] = self._move(
                    self.result.operations[last], victim, last, stores=True
                )

    def _does_not_fit(self, tiles: list[Tile]) -> DoesNotFitError:
        operation = self.source.operations[len(self.numbers)]
        needed = sum(tile.row_bytes for tile in tiles)
        names = ", ".join(f"`{tile.name}`" for tile in tiles)
        return DoesNotFitError(
            f"{operation.name} at {operation.place} uses {names}, together {needed:,} bytes per "
            f"partition; SBUF has {self.limit:,}. The compiler refuses it: use smaller tiles"
        )

    def _next_use(self, tile: Tile) -> int:
        return tile.uses[self.position.get(tile, 0)]

    def _move(self, near: Operation, tile: Tile, after: int, *, stores: bool) -> int:
        """Add a transfer of a tile after an operation and return its number."""
        nbytes = tile.row_bytes * _PARTITIONS
        self.nbytes += nbytes
        moved = Transfer(
            nbytes=nbytes,
            hbm_bytes=nbytes,
            descriptors=_PARTITIONS,
            run_bytes=tile.row_bytes,
            shares=(1.0,) * DMA_ENGINES,
            trigger=Engine.sync,
            mode="prebuilt",
            stores=stores,
        )
        notify = self.timing.dma_notify_store if stores else self.timing.dma_notify_load
        rate = self.timing.dma_core_rate * self.timing.dma_reached
        busy = self.timing.dma_overhead + nbytes / rate
        issue = float(self.timing.dma_prebuilt_issue)
        work = Work(Engine.dma, busy, float(notify), transfer=moved, issue=issue)
        spill = Operation(
            len(self.result.operations),
            SPILL,
            work,
            near.core,
            near.place,
            needs=(after,),
            tiles=(self.copies[tile],),
            opens=(),
            ordered=near.ordered,
            touches_psum=False,
            sbuf_bytes=nbytes,
            runs_ahead=not stores and not near.ordered,
        )
        return self._append(spill)

    def _append(self, operation: Operation) -> int:
        number = len(self.result.operations)
        opens = tuple(tile for tile in operation.tiles if not tile.uses)
        for tile in operation.tiles:
            tile.uses.append(number)
        self.result.operations.append(replace(operation, number=number, opens=opens))
        return number

    def _scale(self, share: float) -> None:
        """Reduce the bytes of all spills."""
        for number, operation in enumerate(self.result.operations):
            moved = operation.work.transfer
            if operation.name == SPILL and moved is not None:
                nbytes = int(moved.nbytes * share)
                transfer = moved._replace(nbytes=nbytes, hbm_bytes=nbytes)
                work = operation.work._replace(busy=operation.work.busy * share, transfer=transfer)
                self.result.operations[number] = replace(operation, work=work)
        self.nbytes = int(self.nbytes * share)
