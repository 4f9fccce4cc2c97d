"""Laws that every schedule obeys, as functions that return what breaks them.

They are written from the model's description and use the operations of a program, their costs and
the constants of the generation, but nothing of the scheduler.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

from nkisim.arch.timing import timing_of
from nkisim.isa import engine as Engine
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.schedule import Schedule
from nkisim.profiling.model.schedule import schedule as scheduled
from nkisim.profiling.model.spills import SPILL
from nkisim.profiling.result import LineTime, MemoryUse

NS = 1e-6
"""Rounding of sums of up to 1e6 ns in float64, with room."""

DMA_ENGINES = 16
ARRAY_PARTS = 16


def kept_copies(program: Program) -> list[tuple[int, int, str]]:
    """Return the dependences of spills: what is saved was written, and what is used is back."""
    found = []
    for operation in program.operations:
        if operation.name != SPILL:
            continue
        uses = operation.tiles[0].uses
        if operation.work.transfer.stores:
            found += [(n, operation.number, "read") for n in uses if n < operation.number]
        else:
            found += [(operation.number, n, "read") for n in uses if n > operation.number]
    return found


def least_wait(program: Program, earlier: Operation, kind: str, later: Operation) -> float:
    """Return the ns from the end of one operation to the start of one that depends on it."""
    both_on_tensor = earlier.work.engine is later.work.engine is Engine.tensor
    if kind == "replace" or both_on_tensor:
        return 0.0  # what it read may be replaced; sums are formed near PSUM
    apart = earlier.work.engine is not later.work.engine
    return earlier.work.tail + (timing_of(program.generation).handoff if apart else 0.0)


def least_time(program: Program, operation: Operation) -> float:
    """Return the ns from the start of an operation to its end, if it waits for nothing."""
    moved, timing = operation.work.transfer, timing_of(program.generation)
    if moved is None:
        return operation.work.busy
    dispatch = timing.dma_dispatch_store if moved.stores else timing.dma_dispatch_load
    issue = operation.work.issue
    begins = max(issue, dispatch) if moved.mode == "hardware" else issue + dispatch
    return begins + operation.work.busy


def shorter_than_chains(program, times, dependences) -> list[str]:
    """Return the operations that are ready before a chain of dependences allows."""
    first = [0.0] * len(program.operations)
    into: dict[int, list[tuple[int, str]]] = {}
    for earlier, later, kind in dependences:
        into.setdefault(later, []).append((earlier, kind))
    found = []
    for later in program.operations:
        for number, kind in into.get(later.number, ()):
            earlier = program.operations[number]
            ends = first[number] + least_time(program, earlier)
            first[later.number] = max(
                first[later.number], ends + least_wait(program, earlier, kind, later)
            )
        least = first[later.number] + least_time(program, later) + later.work.tail
        if min(times.ready[later.number], times.total) < least - NS:
            found.append(f"{later.name} {later.number} needs {least}")
    return found


def shorter_than_engines(program: Program, times: Schedule) -> list[str]:
    """Return the engines whose work takes longer than the schedule."""
    busy: dict[object, float] = {}
    for operation in program.operations:
        moved = operation.work.transfer
        took = operation.work.busy if moved is None else operation.work.issue
        for hold in holds(operation):
            busy[hold] = busy.get(hold, 0.0) + took
        for engine, share in dma_engines(operation):
            key = ("dma", operation.core, engine)
            busy[key] = busy.get(key, 0.0) + share * operation.work.busy
    found = [f"{hold} is busy for {took}" for hold, took in busy.items() if took > times.total + NS]
    for core, took in times.dma_busy.items():
        fixed = [busy.get(("dma", core, engine), 0.0) for engine in range(DMA_ENGINES)]
        if took < max(fixed) - NS or took > times.total + NS:
            found.append(f"DMA engines of core {core} are busy for {took}, at least {max(fixed)}")
    return found


def holds(operation: Operation) -> list[object]:
    """Return what an operation occupies from its start: an engine, parts of it, or a generator."""
    core, moved = operation.core, operation.work.transfer
    if moved is not None:
        return [("generator" if moved.mode == "hardware" else "engine", moved.trigger.name, core)]
    engine = operation.work.engine.name
    if engine == "tensor":
        mask = operation.work.array or (1 << ARRAY_PARTS) - 1
        return [("part", part, core) for part in range(ARRAY_PARTS) if mask >> part & 1]
    return [("engine", engine, core)]


def dma_engines(operation: Operation) -> list[tuple[int, float]]:
    """Return the DMA engines of a transfer to or from SBUF, with their shares of the work."""
    moved = operation.work.transfer
    if moved is None or moved.first_engine < 0:
        return []
    return list(enumerate(moved.shares, moved.first_engine))


def ports(operation: Operation, generation: int, in_sbuf: bool, in_psum: set[int]) -> list[object]:
    """Return the ports and banks that an operation shares with other engines."""
    if operation.work.transfer is not None:
        return []
    engine, core = operation.work.engine.name, operation.core
    found: list[object] = []
    if generation == 2:
        if engine in ("vector", "gpsimd") and in_sbuf:
            found.append(("SBUF", core))
        if engine in ("vector", "scalar") and in_psum:
            found.append(("PSUM", core))
    else:
        if operation.work.fast_vector or (engine == "gpsimd" and operation.name != "core_barrier"):
            found.append(("shared port", core))
        if engine in ("vector", "scalar"):
            found += [("bank", tile) for tile in in_psum]
    return found


def spans_of(program: Program, times: Schedule, regions) -> dict[object, list[tuple]]:
    """Return start, end and number of the operations that use each thing, in order."""
    spans: dict[object, list[tuple[float, float, int]]] = {}
    for operation in program.operations:
        number, issued = operation.number, operation.work.transfer is not None
        end = times.issued[number] if issued else times.end[number]
        shared = ports(operation, program.generation.number, *regions[number])
        for hold in (*holds(operation), *shared):
            spans.setdefault(hold, []).append((times.start[number], end, number))
    return {hold: sorted(used) for hold, used in spans.items()}


def overlapping(program: Program, times: Schedule, regions) -> list[str]:
    """Return the operations that use the same thing at the same time."""
    found = []
    for hold, used in spans_of(program, times, regions).items():
        for (_, end, one), (start, _, other) in itertools.pairwise(used):
            if start < end - NS:
                found.append(f"{one} and {other} both use {hold}")
    jobs: dict[object, list[tuple[float, float, float]]] = {}
    for operation in program.operations:
        begin, end = times.moved[operation.number], times.end[operation.number]
        for engine, share in dma_engines(operation):
            job = (begin, end, share * operation.work.busy)
            jobs.setdefault((operation.core, engine), []).append(job)
    for engine, windows in jobs.items():
        if overfull(windows):
            found.append(f"DMA engine {engine} moves two transfers at once")
    return found


def overfull(windows: list[tuple[float, float, float]]) -> bool:
    """Return whether work does not fit between its begins and its ends.

    The DMA engines of one transfer may begin at different times, of which a schedule has the first
    one and the last end.
    """
    for begin in {begin for begin, _, _ in windows}:
        inside = sorted((end, took) for b, end, took in windows if b >= begin)
        done = 0.0
        for end, took in inside:
            done += took
            if done > end - begin + NS:
                return True
    return False


def over_capacity(memory: Iterable[MemoryUse], capacity: dict[str, int]) -> list[str]:
    """Return the memories that hold more than they have room for."""
    changes: dict[tuple[str, int], list[tuple[float, int]]] = {}
    for use in memory:
        found = changes.setdefault((use.region, use.core), [])
        found += [(use.start_us, use.row_bytes), (use.end_us, -use.row_bytes)]
    return [
        f"{region} of core {core} holds {most}"
        for (region, core), steps in changes.items()
        if (most := max(itertools.accumulate(step for _, step in sorted(steps)))) > capacity[region]
    ]


def memory_of(program: Program, times: Schedule) -> list[MemoryUse]:
    """Return the tiles of a schedule over time, in ns."""
    return [
        MemoryUse(
            tile.region.value,
            tile.name,
            *tile.line,
            tile.row_bytes,
            times.start[tile.uses[0]],
            max(times.ready[number] for number in tile.uses),
            tile.core,
        )
        for tile in program.tiles
        if tile.uses
    ]


def too_early(program: Program, times: Schedule, dependences) -> list[str]:
    """Return the operations that start before what they depend on."""
    found = []
    for number, other, kind in dependences:
        earlier, later = program.operations[number], program.operations[other]
        begins = times.end[number] + least_wait(program, earlier, kind, later)
        if times.start[other] < begins - NS:
            found.append(f"{later.name} {other} ({kind}) starts before {earlier.name} {number}")
    return found


def reordered(program: Program, times: Schedule) -> list[str]:
    """Return the operations that pass one in ``no_reorder`` or a barrier on its engine."""
    engines: dict[tuple[Engine, int], list[Operation]] = {}
    for operation in program.operations:
        if operation.work.transfer is None:
            engines.setdefault((operation.work.engine, operation.core), []).append(operation)
    return [
        f"{one.name} {one.number} starts after {other.name} {other.number}"
        for operations in engines.values()
        for one, other in itertools.combinations(operations, 2)
        if (one.ordered or other.ordered or max(one.joins, other.joins) >= 0)
        and times.start[one.number] > times.start[other.number] + NS
    ]


def spilled_too_much(spilled: int, moved: list[int], operand_bytes: int) -> list[str]:
    """Return whether spills move more than the operands, or are not what is reported."""
    found = []
    if spilled > operand_bytes:
        found.append(f"{spilled} bytes are spilled, {operand_bytes} are used")
    if abs(spilled - sum(moved)) > len(moved):  # each one is rounded to a byte
        found.append(f"{spilled} bytes are reported, {sum(moved)} are moved")
    return found


def unexplained(lines: Iterable[LineTime], times: Schedule) -> list[str]:
    """Return what the shares of the critical path leave out or count twice."""
    shares = [line.critical_us * 1e3 for line in lines]
    found = [f"a share of {share}" for share in shares if share < 0]
    if abs(sum(shares) - times.total) > NS * max(1, len(shares)):
        found.append(f"{sum(shares)} of {times.total}")
    return found


def slower(program: Program, easier: Program, schedule=scheduled) -> list[str]:
    """Return whether a program takes longer than one with more work or more dependences."""
    before, after = schedule(program).total, schedule(easier).total
    return [f"{before} became {after}"] if after > before + NS else []


def without(program: Program, removed: int) -> Program:
    """Return a program without one operation and without what waits for it alone."""
    kept = [o for o in program.operations if o.number != removed]
    number = {o.number: new for new, o in enumerate(kept)}
    tiles = {tile: replace(tile, uses=[]) for tile in program.tiles}
    for tile, copy in tiles.items():
        copy.bank = copy if tile.bank is tile else tile.bank
        copy.uses = [number[n] for n in tile.uses if n != removed]
    operations = []
    for new, operation in enumerate(kept):
        mine = tuple(tiles[tile] for tile in operation.tiles)
        operations.append(
            replace(
                operation,
                number=new,
                needs=tuple(number[n] for n in operation.needs if n != removed),
                reuses=tuple(number[n] for n in operation.reuses if n != removed),
                tiles=mine,
                opens=tuple(tile for tile in mine if tile.uses[0] == new),
            )
        )
    return replace(program, operations=operations, tiles=[t for t in tiles.values() if t.uses])


def changed(program: Program, number: int, **fields) -> Program:
    """Return a program with other fields of one operation."""
    operations = list(program.operations)
    operations[number] = replace(operations[number], **fields)
    return replace(program, operations=operations)
