"""P014: loads whose tiles are used late in front of loads whose tiles are used first."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line
from nkisim.profiling.advice.edits import reordered
from nkisim.source import Statement

LATE_LOAD_FIRST = declare(
    "P014",
    "late-load-first",
    "A load whose tile is used late comes before loads whose tiles are used first.",
    "the first instructions wait for bytes that they do not need",
    severity="note",
    advice=True,
)


def order_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on blocks with loads that can come later."""
    loads = {
        line: all(o.runs_ahead and o.source is not None for o in operations)
        for line, operations in found.by_line.items()
    }
    blocks: dict[ast.stmt, tuple[Statement, dict[ast.stmt, Line]]] = {}
    for line in (line for line, is_load in loads.items() if is_load):
        case = found.statement(line)
        if case is None:
            continue
        moved: ast.stmt = case.statement
        for loop in reversed(case.loops()):  # a loop of nothing but loads moves as a whole
            if loop.orelse or not all(loads[inside] for inside in found.lines_in(loop)):
                break
            moved = loop
        first = case.tree.siblings(moved)[0]
        blocks.setdefault(first, (case, {}))[1].setdefault(moved, line)
    for case, moving in blocks.values():
        block, order, late = _sunk(found, case, moving)
        if late:
            lines = sorted(moving[statement] for statement in late)
            yield Candidate(
                rule=LATE_LOAD_FIRST,
                title="a tile that is used late is loaded first",
                cause="instructions that do not read the tile come after the load at "
                + ", ".join(f"line {number}" for _, number in lines),
                action="load each tile just before the first instruction that reads it",
                line=lines[0],
                lines=[line for line, is_load in loads.items() if is_load],
                edits=[reordered(case.tree, block, order)],
                values={"lines": [number for _, number in lines]},
            )


def _sunk(
    found: Found, case: Statement, moving: Mapping[ast.stmt, Line]
) -> tuple[list[ast.stmt], list[ast.stmt], list[ast.stmt]]:
    """Return the statements of a block, their order with late loads, and the loads that moved.

    A load goes in front of its first use, with the allocation of its tile.
    """
    block = case.tree.siblings(next(iter(moving)))
    order = list(block)
    late: list[ast.stmt] = []
    effects = found.of_block(case, block)
    known = {} if effects is None else dict(zip(block, effects[1], strict=True))
    goes_with = set()
    for statement in reversed(block):
        own = known.get(statement)
        if own is None or not (statement in moving or isinstance(statement, ast.Assign)):
            continue
        passed = []
        for other in order[order.index(statement) + 1 :]:
            effect = known[other]
            if effect is None or own.conflicts(effect):
                break
            passed.append(other)
        else:
            continue
        works = any(s not in moving and isinstance(s, ast.Expr | ast.For) for s in passed)
        if (works and statement in moving) or (passed and other in goes_with):
            order.remove(statement)
            order.insert(order.index(other), statement)
            goes_with.add(statement)
            late += [statement] if statement in moving else []
    return block, order, late
