"""Advice: what to change in a kernel, ranked by the time that a schedule of the change saves.

Each rule looks for its condition in the program, changes the costs or dependencies of the
operations concerned as the action would, and schedules the changed program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from nkisim.arch.timing import timing_of
from nkisim.diagnostics import declare
from nkisim.memory.region import is_psum
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.costs import Work, product_ns
from nkisim.profiling.program import Operation, Program, Tile
from nkisim.profiling.result import Advice, ProfileData
from nkisim.profiling.schedule import Policy, schedule
from nkisim.profiling.spills import SPILL
from nkisim.spec.enums import engine as Engine

__all__ = ["advise"]

SHORT_RUNS = declare(
    "P001",
    "short-dma-runs",
    "note",
    "Several transfers of a line move runs of fewer than 4096 contiguous bytes.",
    "each run costs a DMA engine the time of a descriptor, whatever its length",
    advice=True,
)
SOFTWARE_DESCRIPTORS = declare(
    "P002",
    "software-descriptors",
    "note",
    "For a large part of the time GpSimd makes descriptors that hardware could make.",
    "transfers wait for their descriptors, and GpSimd computes nothing meanwhile",
    advice=True,
)
FEW_COLUMNS = declare(
    "P003",
    "few-moving-columns",
    "note",
    "Products with the same stationary tile stream fewer than 512 columns each.",
    "the fixed cost of a product is paid more often than necessary",
    advice=True,
)
STATIONARY_LOADS = declare(
    "P004",
    "stationary-loads",
    "note",
    "Products with the same stationary tile stream fewer columns than the tile has.",
    "loading the stationary tile takes longer than the product that could hide it",
    advice=True,
)
ONE_BUFFER = declare(
    "P005",
    "one-buffer",
    "note",
    "Loads in a loop overwrite one tile and wait until it was read.",
    "transfers and computation take turns, although they could overlap",
    advice=True,
)
SPILLS = declare(
    "P006",
    "sbuf-spills",
    "note",
    "The tiles that are needed at the same time do not fit in SBUF.",
    "the compiler writes some of them to HBM and reads them again",
    advice=True,
)
ONE_EVACUATOR = declare(
    "P007",
    "psum-emptied-by-one-engine",
    "note",
    "One engine makes all copies from PSUM of a line, and another one could share them.",
    "products wait for a free PSUM bank while an engine that could empty one is idle",
    advice=True,
)
TRANSPOSING_LOAD = declare(
    "P008",
    "transposing-load",
    "note",
    "A transfer transposes: it moves single elements in place of rows.",
    "every element costs a DMA engine the time of a descriptor",
    advice=True,
)

_EFFICIENT_RUN = 4096
"""Bytes per contiguous run from which on a transfer is efficient."""

_MOVING = 512
_MOST = 5
_LEAST_SHARE = 0.01
"""Share of the device time that a change must save to be worth a line."""

_BUSY_SHARE = 0.2
"""Share of the time for which GpSimd must be busy before its descriptors are worth moving."""

_BLOCK = 128
_BLOCK_TRANSPOSE_NS = 400.0
"""Time of a transposition of a 128 x 128 block on the Tensor engine with its copy from PSUM."""

Change = Callable[[Operation], Operation]


class _Candidate(NamedTuple):
    """A possible piece of advice: its text, and the change of an operation that it makes."""

    advice: Advice
    change: Change


def advise(program: Program, prediction: Prediction, found: ProfileData) -> list[Advice]:
    """Return the changes worth trying, largest gain first.

    Args:
        program: The program as captured.
        prediction: Its prediction, with spills.
        found: Its profile.
    """
    policy = Policy(int(timing_of(program.generation).dma_in_flight))
    pieces = [*_spill_advice(program, prediction, policy)]
    for candidate in _candidates(prediction.program, found):
        changed = _changed(prediction.program, candidate.change)
        gain = (prediction.tight.total - schedule(changed, policy).total) / 1e3
        if gain >= _LEAST_SHARE * found.latency_us:
            pieces.append(replace(candidate.advice, gain_us=round(gain, 2)))
    pieces.sort(key=lambda piece: -(piece.gain_us or 0.0))
    return pieces[:_MOST]


def _changed(program: Program, change: Change) -> Program:
    """Return a program with changed operations."""
    return replace(program, operations=[change(operation) for operation in program.operations])


def _candidates(program: Program, found: ProfileData) -> Iterator[_Candidate]:
    by_line: dict[tuple[str, int], list[Operation]] = {}
    for operation in program.operations:
        by_line.setdefault((operation.place.file, operation.place.line), []).append(operation)
    for (file, line), operations in by_line.items():
        first = operations[0]
        if first.work.transfer is not None and first.name != SPILL:
            rate = timing_of(program.generation).dma_engine_rate
            yield from _transfer_advice(file, line, operations, rate)
        elif first.work.flops:
            yield from _product_advice(file, line, operations, program)
    yield from _descriptor_advice(program, found)
    yield from _buffer_advice(by_line)
    if program.generation.number > 2:  # Scalar copies from PSUM from gen3 on
        yield from _evacuation_advice(by_line, program)


def _transfer_advice(
    file: str, line: int, operations: list[Operation], rate: float
) -> Iterator[_Candidate]:
    """P001 and P008: short runs, and loads that transpose element by element."""
    numbers = {operation.number for operation in operations}
    moved = operations[0].work.transfer
    assert moved is not None
    run = moved.run_bytes
    count = max(Counter(operation.core for operation in operations).values())
    element_wise = run <= 8 and moved.descriptors >= 1024
    if element_wise or moved.transposes:
        blocks = max(1, moved.nbytes // (_BLOCK * _BLOCK * 4))

        def contiguous(operation: Operation) -> Operation:
            if operation.number not in numbers or operation.work.transfer is None:
                return operation
            work = _with_run(operation, _EFFICIENT_RUN, 1, rate)
            return replace(
                operation, work=work._replace(tail=work.tail + blocks * _BLOCK_TRANSPOSE_NS)
            )

        yield _Candidate(
            Advice(
                TRANSPOSING_LOAD.id,
                "a load transposes",
                f"{count} transfers move {moved.descriptors:,} runs of {run} bytes each",
                "load rows as they lie in HBM and transpose 128 x 128 blocks on the Tensor engine",
                None,
                file,
                line,
                "nisa.nc_transpose(dst=psum_tile, data=tile)\n"
                "nisa.tensor_copy(dst=transposed, src=psum_tile)",
            ),
            contiguous,
        )
        return
    if run < _EFFICIENT_RUN and count > 1:
        merged = min(count, max(1, _EFFICIENT_RUN // max(run, 1)))

        def longer(operation: Operation) -> Operation:
            if operation.number not in numbers or operation.work.transfer is None:
                return operation
            return replace(operation, work=_with_run(operation, run * merged, merged, rate))

        yield _Candidate(
            Advice(
                SHORT_RUNS.id,
                "short DMA runs",
                f"{count} transfers have runs of {run} bytes; DMA is efficient from 4096 bytes on",
                f"move {merged} tiles with one transfer: wider tiles, or several consecutive rows "
                "in each partition",
                None,
                file,
                line,
            ),
            longer,
        )


def _with_run(operation: Operation, run: int, merged: int, rate: float) -> Work:
    """Return the cost of a transfer with longer runs that shares its fixed costs."""
    moved = operation.work.transfer
    assert moved is not None
    descriptors = max(1, moved.nbytes // max(run, 1))
    floor = operation.work.busy * descriptors / max(moved.descriptors, 1)
    busy = min(operation.work.busy, max(floor, moved.nbytes / (moved.engines * rate)))
    transfer = moved._replace(run_bytes=run, descriptors=descriptors, merged=merged)
    return operation.work._replace(busy=busy, transfer=transfer)


def _product_advice(
    file: str, line: int, operations: list[Operation], program: Program
) -> Iterator[_Candidate]:
    """P003 and P004: few moving columns, and stationary loads that nothing hides.

    Only products with the same stationary operand can be one product of more columns.
    """
    moving = operations[0].work.columns
    stationary = operations[0].work.stationary_columns
    if not moving or moving >= _MOVING:
        return
    equal = Counter(operation.stationary for operation in operations)
    merged = {o.number: min(int(_MOVING // moving), equal[o.stationary]) for o in operations}
    most = max(merged.values())
    if most < 2:
        return

    def wider(operation: Operation) -> Operation:
        together = merged.get(operation.number, 1)
        if together == 1:
            return operation
        work = operation.work
        whole = product_ns(
            together * moving, work.stationary_columns, work.passes, program.generation
        )
        return replace(operation, work=work._replace(busy=min(work.busy, whole / together)))

    if moving < stationary:
        advice = Advice(
            STATIONARY_LOADS.id,
            "stationary loads are not hidden",
            f"{len(operations)} products load {stationary:g} stationary columns for {moving:g} "
            "moving columns",
            f"keep the stationary tile and stream {most} moving tiles against it in one product",
            None,
            file,
            line,
        )
    else:
        advice = Advice(
            FEW_COLUMNS.id,
            "few moving columns",
            f"{len(operations)} products stream {moving:g} columns; one product takes {_MOVING}",
            f"put {most} moving tiles side by side and multiply them at once",
            None,
            file,
            line,
        )
    yield _Candidate(advice, wider)


def _descriptor_advice(program: Program, found: ProfileData) -> Iterator[_Candidate]:
    """P002: descriptors made in software on a busy GpSimd."""
    software = [o for o in program.operations if _could_use_hardware(o)]
    if not software or program.generation.number == 2:
        return
    if found.utilization["gpsimd"] < _BUSY_SHARE:
        return
    queues = {o.number: (Engine.sync, Engine.scalar)[i % 2] for i, o in enumerate(software)}

    def by_hardware(operation: Operation) -> Operation:
        moved, queue = operation.work.transfer, queues.get(operation.number)
        if moved is None or queue is None:
            return operation
        transfer = moved._replace(mode="hardware", trigger=queue)
        return replace(operation, work=operation.work._replace(transfer=transfer))

    first = software[0].place
    yield _Candidate(
        Advice(
            SOFTWARE_DESCRIPTORS.id,
            "GpSimd makes descriptors",
            f"{len(software)} transfers keep GpSimd busy for "
            f"{found.utilization['gpsimd']:.0%} of the time",
            "let hardware make the descriptors, of one transfer on the Sync queue and of the next "
            "on the Scalar queue",
            None,
            first.file,
            first.line,
            "nisa.dma_copy(dst=..., src=..., dge_mode=nisa.dge_mode.hwdge, "
            "engine=nisa.engine.sync)  # and engine=nisa.engine.scalar in turn",
        ),
        by_hardware,
    )


def _could_use_hardware(operation: Operation) -> bool:
    """Return whether hardware could make descriptors that software makes."""
    moved = operation.work.transfer
    if moved is None or moved.mode != "software" or operation.name != "dma_copy":
        return False
    return not moved.indirect and not moved.converts


def _buffer_advice(by_line: dict[tuple[str, int], list[Operation]]) -> Iterator[_Candidate]:
    """P005: loads that wait until the tile they overwrite was read."""
    for (file, line), operations in by_line.items():
        waiting = [
            o
            for o in operations
            if o.work.transfer is not None and not o.work.transfer.stores and o.reuses
        ]
        if len(waiting) < 2:
            continue
        # With two tiles in turn a load waits for the readers of the last load but one.
        needs: dict[int, tuple[int, ...]] = {}
        before: dict[tuple[Tile, ...], tuple[int, ...]] = {}
        for o in waiting:
            others = tuple(n for n in o.needs if n not in o.reuses)
            needs[o.number] = (*others, *before.get(o.tiles, ()))
            before[o.tiles] = o.reuses

        def doubled(operation: Operation, needs: dict[int, tuple[int, ...]] = needs) -> Operation:
            if operation.number not in needs:
                return operation
            return replace(operation, needs=needs[operation.number])

        name = waiting[0].tiles[0].name if waiting[0].tiles else "tile"
        yield _Candidate(
            Advice(
                ONE_BUFFER.id,
                "one buffer",
                f"{len(waiting)} loads overwrite `{name}` and wait until it was read",
                "allocate the tile inside the loop, or two tiles that alternate",
                None,
                file,
                line,
            ),
            doubled,
        )


def _evacuation_advice(
    by_line: dict[tuple[str, int], list[Operation]], program: Program
) -> Iterator[_Candidate]:
    """P007: copies from PSUM that one engine does alone."""
    timing = timing_of(program.generation)
    for (file, line), operations in by_line.items():
        first = operations[0]
        copies = first.name == "tensor_copy" and first.work.engine in (Engine.vector, Engine.scalar)
        if not copies or len(operations) < 4:
            continue
        if not any(is_psum(tile.region) for tile in first.tiles):
            continue
        numbers = {operation.number for operation in operations[1::2]}
        other, ratio = Engine.scalar, timing.vector_ghz / timing.scalar_ghz
        if first.work.engine is Engine.scalar:
            other, ratio = Engine.vector, 1 / ratio

        def shared(
            operation: Operation,
            numbers: set[int] = numbers,
            other: Engine = other,
            ratio: float = ratio,
        ) -> Operation:
            if operation.number not in numbers:
                return operation
            work = operation.work._replace(engine=other, busy=operation.work.busy * ratio)
            return replace(operation, work=work)

        yield _Candidate(
            Advice(
                ONE_EVACUATOR.id,
                "PSUM is emptied by one engine",
                f"{len(operations)} copies from PSUM run on {first.work.engine.name}",
                f"run every second copy on {other.name}",
                None,
                file,
                line,
                f"nisa.tensor_copy(dst=..., src=..., engine=nisa.engine.{other.name})",
            ),
            shared,
        )


def _spill_advice(program: Program, prediction: Prediction, policy: Policy) -> Iterator[Advice]:
    """P006: tiles that do not fit in SBUF together."""
    if not prediction.spill_bytes:
        return
    gain = (prediction.tight.total - schedule(program, policy).total) / 1e3
    tiles = [tile for tile in program.tiles if not is_psum(tile.region)]
    largest = max(tiles, key=lambda tile: tile.allocated_bytes)
    yield Advice(
        SPILLS.id,
        "SBUF spills",
        f"{prediction.spill_bytes / 1e6:.1f} MB are written to HBM and read again, because live "
        "tiles exceed SBUF",
        f"use smaller blocks; the largest tile is `{largest.name}` with "
        f"{largest.allocated_bytes:,} bytes per partition",
        round(gain, 2),
        *largest.line,
    )
