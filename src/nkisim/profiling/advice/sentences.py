"""Advice without code: P001, P003, P004, P006, P008 and P016.

These rules propose no edit: which tile sizes and layouts are possible depends on the kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from nkisim.diagnostics import declare_advice
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, Line
from nkisim.profiling.model.program import Operation

SHORT_RUNS = declare_advice(
    "P001",
    "short-dma-runs",
    "Several transfers of a line move runs of fewer than 4096 contiguous bytes.",
    "each run costs a DMA engine the time of a descriptor, whatever its length",
)
FEW_COLUMNS = declare_advice(
    "P003",
    "few-moving-columns",
    "Products with the same stationary tile stream fewer than 512 columns each.",
    "the fixed cost of a product is paid more often than necessary",
)
STATIONARY_LOADS = declare_advice(
    "P004",
    "stationary-loads",
    "Products with the same stationary tile stream fewer columns than the tile has.",
    "loading the stationary tile takes longer than the product that could hide it",
)
SPILLS = declare_advice(
    "P006",
    "sbuf-spills",
    "The tiles that are needed at the same time do not fit in SBUF.",
    "the compiler writes some of them to HBM and reads them again",
)
TRANSPOSING_LOAD = declare_advice(
    "P008",
    "transposing-load",
    "A transfer transposes: it moves single elements in place of rows.",
    "every element costs a DMA engine the time of a descriptor",
)
IDLE_CORE = declare_advice(
    "P016",
    "idle-core",
    "A long kernel runs on one core of a pair, and does not use program ids.",
    "the second core of the pair is idle",
)

_LEAST_LAUNCHES = 10
"""P016 needs a kernel that takes at least this many times the fixed cost of a call."""

_EFFICIENT_RUN = 4096
"""A transfer is efficient if its contiguous runs have at least this many bytes."""

_MOVING = 512


def sentences(found: Found) -> Iterator[Candidate]:
    """Yield the advice on transfers, products and spills."""
    for line, operations in found.by_line.items():
        if operations[0].work.transfer is not None:
            yield from _transfers(line, operations)
        elif operations[0].work.flops:
            yield from _products(line, operations)
    yield from _spills(found)
    yield from _idle_core(found)


def _transfers(line: Line, operations: list[Operation]) -> Iterator[Candidate]:
    moved = operations[0].work.transfer
    assert moved is not None
    run = moved.run_bytes
    count = max(Counter(operation.core for operation in operations).values())
    if (run <= 8 and moved.descriptors >= 1024) or moved.transposes:
        yield Candidate(
            rule=TRANSPOSING_LOAD,
            title="a load transposes",
            cause=f"{count} transfers move {moved.descriptors:,} runs of {run} bytes each",
            action="load rows as they lie in HBM, transpose 128 x 128 blocks with nc_transpose and "
            "copy them from PSUM",
            line=line,
            values={"transfers": count, "run_bytes": run},
        )
    elif run < _EFFICIENT_RUN and count > 1:
        merged = min(count, max(1, _EFFICIENT_RUN // max(run, 1)))
        yield Candidate(
            rule=SHORT_RUNS,
            title="short DMA runs",
            cause=f"{count} transfers have runs of {run} bytes; DMA is efficient from "
            f"{_EFFICIENT_RUN} bytes on",
            action=f"move {merged} tiles with one transfer: wider tiles, or several consecutive "
            "rows in each partition",
            line=line,
            values={"transfers": count, "run_bytes": run, "merged": merged},
        )


def _products(line: Line, operations: list[Operation]) -> Iterator[Candidate]:
    """Yield advice to merge the products of a line that have the same stationary operand."""
    moving = operations[0].work.columns
    stationary = operations[0].work.stationary_columns
    if not moving or moving >= _MOVING:
        return
    equal = Counter(operation.source for operation in operations)
    most = min(int(_MOVING // moving), max(equal.values()))
    if most < 2:
        return
    hidden = moving >= stationary
    cause = f"{len(operations)} products "
    if hidden:
        cause += f"stream {moving:g} columns; one product takes {_MOVING}"
    else:
        cause += f"load {stationary:g} stationary columns for {moving:g} moving columns"
    yield Candidate(
        rule=FEW_COLUMNS if hidden else STATIONARY_LOADS,
        title="few moving columns" if hidden else "stationary loads are not hidden",
        cause=cause,
        action=f"put {most} moving tiles side by side and multiply them at once"
        if hidden
        else f"keep the stationary tile and stream {most} moving tiles against it in one product",
        line=line,
        values={"products": len(operations), "moving": moving, "merged": most},
    )


def _spills(found: Found) -> Iterator[Candidate]:
    nbytes = found.profile.spill_bytes
    if not nbytes:
        return
    tiles = [tile for tile in found.program.tiles if not is_psum(tile.region)]
    largest = max(tiles, key=lambda tile: tile.allocated_bytes)
    yield Candidate(
        rule=SPILLS,
        title="SBUF spills",
        cause=f"{nbytes / 1e6:.1f} MB are written to HBM and read again, because live tiles exceed "
        "SBUF",
        action=f"use smaller blocks; the largest tile is `{largest.name}` with "
        f"{largest.allocated_bytes:,} bytes per partition",
        line=largest.line,
        lines=found.by_line,
        values={"spill_bytes": nbytes, "tile": largest.name},
    )


def _idle_core(found: Found) -> Iterator[Candidate]:
    program, profile = found.program, found.profile
    short = profile.latency_us < _LEAST_LAUNCHES * profile.fixed_us
    if program.cores > 1 or program.generation.lnc_max < 2 or short:
        return
    ran = [f for f in found.file.functions if found.lines_in(f)] if found.file else []
    if found.file is None or any("program_id" in found.file.code(f) for f in ran):
        return
    longest = profile.lines[0]
    yield Candidate(
        rule=IDLE_CORE,
        title="one core of a pair is idle",
        cause=f"the kernel is launched on one core; `{profile.kernel}[2]` would run on "
        f"{program.generation.lnc_max} cores, each with engines and SBUF of its own",
        action="divide the tiles by nl.program_id(0) and launch the kernel on both cores",
        line=(longest.file, longest.line),
        lines=found.by_line,
        values={"cores": program.generation.lnc_max},
    )
