"""Advice: what to change in a kernel, ranked by the time that a schedule of the change saves.

Each rule looks for its condition in the program, changes the costs or dependencies of the
operations concerned as the action would, and schedules the changed program. A change that the model
cannot express is a note without a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from nkisim.arch.timing import timing_of
from nkisim.memory.region import is_psum
from nkisim.profiling.costs import Work
from nkisim.profiling.program import Operation, Program
from nkisim.profiling.result import Advice, Profile
from nkisim.profiling.schedule import Policy, schedule
from nkisim.profiling.spills import SPILL, with_spills
from nkisim.spec.enums import engine as Engine

__all__ = ["advise"]

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
    change: Change | None


def advise(program: Program, found: Profile) -> list[Advice]:
    """Return the changes worth trying, largest gain first."""
    timing = timing_of(program.generation)
    policy = Policy(int(timing.dma_in_flight))
    spilled = with_spills(program)
    before = schedule(spilled.program, policy).total
    pieces = [*_spill_advice(program, found, spilled.nbytes)]
    for candidate in _candidates(spilled.program, found):
        if candidate.change is None:
            pieces.append(candidate.advice)
            continue
        changed = _changed(spilled.program, candidate.change)
        gain = (before - schedule(changed, policy).total) / 1e3
        if gain >= _LEAST_SHARE * found.latency_us:
            pieces.append(replace(candidate.advice, gain_us=round(gain, 2)))
    pieces.sort(key=lambda piece: -(piece.gain_us or 0.0))
    return pieces[:_MOST]


def _changed(program: Program, change: Change) -> Program:
    """Return a program with changed operations."""
    operations = [change(operation) for operation in program.operations]
    return Program(program.generation, operations, program.tiles, program.cores)


def _candidates(program: Program, found: Profile) -> Iterator[_Candidate]:
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
    yield from _evacuation_advice(by_line)


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
                "P008",
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
                "P001",
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
    """P003 and P004: few moving columns, and stationary loads that nothing hides."""
    moving = operations[0].work.columns
    stationary = operations[0].work.stationary_columns
    if not moving or moving >= _MOVING or len(operations) < 2:
        return
    numbers = {operation.number for operation in operations}
    issue = timing_of(program.generation).matmul_issue_cycles
    exposed = moving < stationary
    whole = max(moving, stationary) + issue
    wanted = moving + issue * moving / _MOVING

    def wider(operation: Operation) -> Operation:
        if operation.number not in numbers:
            return operation
        return replace(
            operation, work=operation.work._replace(busy=operation.work.busy * wanted / whole)
        )

    if exposed:
        advice = Advice(
            "P004",
            "stationary loads are not hidden",
            f"{len(operations)} products load {stationary:g} stationary columns for {moving:g} "
            "moving columns",
            "keep the stationary tile and stream several moving tiles against it in one product",
            None,
            file,
            line,
        )
    else:
        advice = Advice(
            "P003",
            "few moving columns",
            f"{len(operations)} products stream {moving:g} columns; one product takes {_MOVING}",
            f"put {int(_MOVING // moving)} moving tiles side by side and multiply them at once",
            None,
            file,
            line,
        )
    yield _Candidate(advice, wider)


def _descriptor_advice(program: Program, found: Profile) -> Iterator[_Candidate]:
    """P002: descriptors made in software on a busy GpSimd."""
    software = [
        operation
        for operation in program.operations
        if operation.work.transfer is not None
        and operation.work.transfer.mode == "software"
        and not operation.work.transfer.indirect
    ]
    if not software or program.generation.number == 2:
        return
    if found.utilization["gpsimd"] < _BUSY_SHARE:
        return

    def by_hardware(operation: Operation) -> Operation:
        moved = operation.work.transfer
        if moved is None or moved.mode != "software" or moved.indirect:
            return operation
        trigger = Engine.scalar if operation.number % 2 else Engine.sync
        transfer = moved._replace(mode="hardware", trigger=trigger)
        return replace(operation, work=operation.work._replace(transfer=transfer))

    first = software[0].place
    yield _Candidate(
        Advice(
            "P002",
            "GpSimd makes descriptors",
            f"{len(software)} transfers keep GpSimd busy for "
            f"{found.utilization['gpsimd']:.0%} of the time",
            "ask for descriptors made by hardware, on the Sync and Scalar queues in turn",
            None,
            first.file,
            first.line,
            "nisa.dma_copy(dst=..., src=..., dge_mode=nisa.dge_mode.hwdge)",
        ),
        by_hardware,
    )


def _buffer_advice(by_line: dict[tuple[str, int], list[Operation]]) -> Iterator[_Candidate]:
    """P005: transfers that wait until the tile they overwrite was read."""
    for (file, line), operations in by_line.items():
        waiting = [o for o in operations if o.work.transfer is not None and o.reuses]
        if len(waiting) < 2:
            continue
        numbers = {operation.number for operation in waiting}

        def doubled(operation: Operation, numbers: set[int] = numbers) -> Operation:
            if operation.number not in numbers:
                return operation
            reuses = set(operation.reuses)
            return replace(
                operation, needs=tuple(n for n in operation.needs if n not in reuses), reuses=()
            )

        name = waiting[0].tiles[0].name if waiting[0].tiles else "tile"
        yield _Candidate(
            Advice(
                "P005",
                "one buffer",
                f"{len(waiting)} loads overwrite `{name}` and wait until it was read",
                "allocate the tile inside the loop, or two tiles that alternate",
                None,
                file,
                line,
            ),
            doubled,
        )


def _evacuation_advice(by_line: dict[tuple[str, int], list[Operation]]) -> Iterator[_Candidate]:
    """P007: copies from PSUM that one engine does alone."""
    for (file, line), operations in by_line.items():
        first = operations[0]
        copies = first.name == "tensor_copy" and first.work.engine in (Engine.vector, Engine.scalar)
        if not copies or len(operations) < 4:
            continue
        if not any(is_psum(tile.region) for tile in first.tiles):
            continue
        numbers = {operation.number for operation in operations[1::2]}
        other = Engine.scalar if first.work.engine is Engine.vector else Engine.vector

        def shared(
            operation: Operation, numbers: set[int] = numbers, other: Engine = other
        ) -> Operation:
            if operation.number not in numbers:
                return operation
            return replace(operation, work=operation.work._replace(engine=other))

        yield _Candidate(
            Advice(
                "P007",
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


def _spill_advice(program: Program, found: Profile, nbytes: int) -> Iterator[Advice]:
    """P006: tiles that do not fit in SBUF together."""
    if not nbytes:
        return
    timing = timing_of(program.generation)
    without = schedule(program, Policy(int(timing.dma_in_flight))).total
    gain = found.latency_us - (without + timing.fixed) / 1e3
    largest = max(program.tiles, key=lambda tile: tile.row_bytes if not is_psum(tile.region) else 0)
    yield Advice(
        "P006",
        "SBUF spills",
        f"{nbytes / 1e6:.1f} MB are written to HBM and read again, because live tiles exceed SBUF",
        f"use smaller blocks; the largest tile is `{largest.name}` with {largest.row_bytes:,} "
        "bytes per partition",
        round(gain, 2),
        *largest.line,
    )
