"""P005 and P006: loads that wait for their tile, and tiles that do not fit in SBUF together."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from nkisim.diagnostics import declare
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, with_operations
from nkisim.profiling.advice.code import statement_of
from nkisim.profiling.analysis import Prediction
from nkisim.profiling.program import Operation, Program, Tile
from nkisim.profiling.result import Advice
from nkisim.profiling.schedule import schedule

__all__ = ["buffer_advice", "spill_advice"]

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


def buffer_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on loads that wait until the tile they overwrite was read."""
    for line, operations in found.by_line.items():
        waiting = [
            o
            for o in operations
            if o.work.transfer is not None and not o.work.transfer.stores and o.reuses
        ]
        if len(waiting) < 2:
            continue
        # With two tiles in turn a load waits for the readers of the last load but one.
        changed: dict[int, Operation] = {}
        before: dict[tuple[Tile, ...], tuple[int, ...]] = {}
        for o in waiting:
            others = tuple(n for n in o.needs if n not in o.reuses)
            changed[o.number] = replace(o, needs=(*others, *before.get(o.tiles, ())))
            before[o.tiles] = o.reuses
        tile = waiting[0].tiles[0] if waiting[0].tiles else None
        name = "tile" if tile is None else tile.name
        made = None if tile is None else statement_of(ONE_BUFFER, tile.line)
        yield Candidate(
            Advice(
                ONE_BUFFER.id,
                "one buffer",
                f"{len(waiting)} loads overwrite `{name}` and wait until it was read",
                "allocate the tile inside the loop, or two tiles that alternate",
                None,
                *line,
                "" if made is None else f"{ast.unparse(made.statement)}  # inside the loop",
                {"transfers": len(waiting), "tile": name},
            ),
            with_operations(changed),
            frozenset({line}),
        )


def spill_advice(program: Program, prediction: Prediction) -> Iterator[Advice]:
    """Yield advice on spills, with the gain of a program without them."""
    if not prediction.spill_bytes:
        return
    gain = (prediction.times.total - schedule(program).total) / 1e3
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
        values={"spill_bytes": prediction.spill_bytes, "tile": largest.name},
    )
