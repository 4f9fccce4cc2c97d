"""P003 and P004: few moving columns, and stationary loads that nothing hides.

Only products with the same stationary operand can be one product of more columns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line, with_operations
from nkisim.profiling.costs import product_ns
from nkisim.profiling.program import Operation, Program
from nkisim.profiling.result import Advice

__all__ = ["product_advice"]

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

_MOVING = 512


def product_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on the products of each line."""
    for line, operations in found.by_line.items():
        if operations[0].work.flops:
            yield from _of_line(line, operations, found.program)


def _of_line(line: Line, operations: list[Operation], program: Program) -> Iterator[Candidate]:
    moving = operations[0].work.columns
    stationary = operations[0].work.stationary_columns
    if not moving or moving >= _MOVING:
        return
    equal = Counter(operation.source for operation in operations)
    merged = {o.number: min(int(_MOVING // moving), equal[o.source]) for o in operations}
    most = max(merged.values())
    if most < 2:
        return

    def wider(operation: Operation) -> Operation:
        together, work = merged[operation.number], operation.work
        whole = product_ns(
            together * moving, work.stationary_columns, work.passes, program.generation
        )
        return replace(operation, work=work._replace(busy=min(work.busy, whole / together)))

    values = {"products": len(operations), "moving": moving, "merged": most}
    if moving < stationary:
        advice = Advice(
            STATIONARY_LOADS.id,
            "stationary loads are not hidden",
            f"{len(operations)} products load {stationary:g} stationary columns for {moving:g} "
            "moving columns",
            f"keep the stationary tile and stream {most} moving tiles against it in one product",
            None,
            *line,
            values=values,
        )
    else:
        advice = Advice(
            FEW_COLUMNS.id,
            "few moving columns",
            f"{len(operations)} products stream {moving:g} columns; one product takes {_MOVING}",
            f"put {most} moving tiles side by side and multiply them at once",
            None,
            *line,
            values=values,
        )
    changed = {o.number: wider(o) for o in operations if merged[o.number] > 1}
    yield Candidate(advice, with_operations(changed), frozenset({line}))
