"""P001 and P008: short runs, and loads that transpose element by element."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from nkisim.arch.timing import timing_of
from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line, with_operations
from nkisim.profiling.costs import Work
from nkisim.profiling.program import Operation
from nkisim.profiling.result import Advice

__all__ = ["transfer_advice"]

SHORT_RUNS = declare(
    "P001",
    "short-dma-runs",
    "note",
    "Several transfers of a line move runs of fewer than 4096 contiguous bytes.",
    "each run costs a DMA engine the time of a descriptor, whatever its length",
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

_BLOCK = 128
_BLOCK_TRANSPOSE_NS = 400.0
"""Time of a transposition of a 128 x 128 block on the Tensor engine with its copy from PSUM."""


def transfer_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on the transfers of each line."""
    rate = timing_of(found.program.generation).dma_engine_rate
    for line, operations in found.by_line.items():
        if operations[0].work.transfer is not None:
            yield from _of_line(line, operations, rate)


def _of_line(line: Line, operations: list[Operation], rate: float) -> Iterator[Candidate]:
    moved = operations[0].work.transfer
    assert moved is not None
    run = moved.run_bytes
    count = max(Counter(operation.core for operation in operations).values())
    transfers = [o for o in operations if o.work.transfer is not None]
    if (run <= 8 and moved.descriptors >= 1024) or moved.transposes:
        blocks = max(1, moved.nbytes // (_BLOCK * _BLOCK * 4))
        changed = {}
        for o in transfers:
            work = _with_run(o, _EFFICIENT_RUN, 1, rate)
            work = work._replace(tail=work.tail + blocks * _BLOCK_TRANSPOSE_NS)
            changed[o.number] = replace(o, work=work)
        yield Candidate(
            Advice(
                TRANSPOSING_LOAD.id,
                "a load transposes",
                f"{count} transfers move {moved.descriptors:,} runs of {run} bytes each",
                "load rows as they lie in HBM and transpose 128 x 128 blocks on the Tensor engine",
                None,
                *line,
                "nisa.nc_transpose(dst=psum_tile, data=tile)\n"
                "nisa.tensor_copy(dst=transposed, src=psum_tile)",
                {"transfers": count, "run_bytes": run},
            ),
            with_operations(changed),
            frozenset({line}),
        )
    elif run < _EFFICIENT_RUN and count > 1:
        merged = min(count, max(1, _EFFICIENT_RUN // max(run, 1)))
        longer = {
            o.number: replace(o, work=_with_run(o, run * merged, merged, rate)) for o in transfers
        }
        yield Candidate(
            Advice(
                SHORT_RUNS.id,
                "short DMA runs",
                f"{count} transfers have runs of {run} bytes; DMA is efficient from 4096 bytes on",
                f"move {merged} tiles with one transfer: wider tiles, or several consecutive rows "
                "in each partition",
                None,
                *line,
                values={"transfers": count, "run_bytes": run, "merged": merged},
            ),
            with_operations(longer),
            frozenset({line}),
        )


def _with_run(operation: Operation, run: int, merged: int, rate: float) -> Work:
    """Return the cost of a transfer with longer runs that shares its fixed costs."""
    moved = operation.work.transfer
    assert moved is not None
    descriptors = max(1, moved.nbytes // max(run, 1))
    floor = operation.work.busy * descriptors / max(moved.descriptors, 1)
    busy = min(operation.work.busy, max(floor, moved.nbytes / (len(moved.shares) * rate)))
    transfer = moved._replace(run_bytes=run, descriptors=descriptors)
    issue = operation.work.issue / merged
    return operation.work._replace(busy=busy, transfer=transfer, issue=issue)
