"""P002 and P012: descriptors that GpSimd makes, or that one of two queues makes alone.

All transfers of a source line move to the queue that has fewer transfers. A line with most of the
transfers uses the queues in turn, by iteration of its innermost loop.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line, iterations_of
from nkisim.profiling.advice.edits import replaced, with_arguments
from nkisim.profiling.model.program import Operation
from nkisim.profiling.model.transfers import Transfer
from nkisim.rewriting import Edit
from nkisim.source import Statement
from nkisim.spec.enums import engine as Engine

SOFTWARE_DESCRIPTORS = declare(
    "P002",
    "software-descriptors",
    "For a large part of the time GpSimd makes descriptors that hardware could make.",
    "transfers wait for their descriptors, and GpSimd computes nothing meanwhile",
    severity="note",
    advice=True,
)
ONE_QUEUE = declare(
    "P012",
    "one-queue",
    "One of two queues triggers almost all transfers whose descriptors hardware makes.",
    "each queue has a generator of descriptors of its own, and one of them is idle",
    severity="note",
    advice=True,
)

_QUEUES = (Engine.sync, Engine.scalar)
_BUSY_SHARE = 0.2
"""Least busy share of GpSimd for which P002 is reported."""

_ONE_SIDED = 0.8
"""P012 is reported if one queue triggers at least this share of the transfers by hardware."""

_UNEVEN = 0.6
"""A source line with more than this share of the transfers uses both queues in turn."""

_MOST_LINES = 6

_Lines = dict[Line, list[Operation]]


def queue_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on what makes the descriptors of transfers."""
    if found.program.generation.number == 2:  # no descriptors by hardware
        return
    software, hardware = _lines(found, "software"), _lines(found, "hardware")
    on = Counter(_moved(o).trigger for operations in hardware.values() for o in operations)
    busy, count = found.profile.utilization["gpsimd"], sum(map(len, software.values()))
    if software and busy >= _BUSY_SHARE:
        edits, queues = _spread(found, software, on)
        yield Candidate(
            rule=SOFTWARE_DESCRIPTORS,
            title="GpSimd makes descriptors",
            cause=f"{count} transfers keep GpSimd busy for {busy:.0%} of the time",
            action="let hardware make the descriptors, on the Sync queue and on the Scalar queue; "
            "gen2 has no such hardware",
            line=min(software),
            lines=software,
            edits=edits,
            values={"transfers": count, "queues": queues},
        )
    count = sum(on.values())
    if count > 1 and set(on) <= set(_QUEUES) and max(on.values()) >= _ONE_SIDED * count:
        busiest = max(on, key=on.__getitem__)
        other = _QUEUES[1 - _QUEUES.index(busiest)].name
        edits, queues = _spread(found, hardware, Counter())
        yield Candidate(
            rule=ONE_QUEUE,
            title="one queue triggers the transfers",
            cause=f"{count} transfers have descriptors by hardware, almost all on the "
            f"{busiest.name} queue, whose generator is busy for "
            f"{found.profile.utilization['dge']:.0%} of the time",
            action=f"trigger about half of them on the {other} queue",
            line=min(hardware),
            lines=hardware,
            edits=edits,
            values={"transfers": count, "queues": queues},
        )


def _lines(found: Found, mode: str) -> _Lines:
    """Return the transfers whose descriptors have a mode, by source line.

    The result has the ``_MOST_LINES`` lines with most such transfers, and only transfers whose
    descriptors hardware could make: no gathers and no conversions. Transposing loads are left out
    too, because hardware transposes few shapes.
    """
    chosen = {
        line: operations
        for line, at_line in found.by_line.items()
        if (operations := [o for o in at_line if o.name == "dma_copy" and _is_plain(o, mode)])
    }
    most = sorted(chosen, key=lambda line: -len(chosen[line]))
    return {line: chosen[line] for line in most[:_MOST_LINES]}


def _is_plain(operation: Operation, mode: str) -> bool:
    moved = _moved(operation)
    return moved.mode == mode and not moved.indirect and not moved.converts


def _moved(operation: Operation) -> Transfer:
    assert operation.work.transfer is not None
    return operation.work.transfer


def _spread(found: Found, lines: _Lines, on: Counter[Engine]) -> tuple[list[Edit], dict[int, str]]:
    """Return the edits that put the transfers of lines on both queues, and the queue by line.

    ``on`` has the number of other transfers on each queue.
    """
    loads = Counter(on)
    total = sum(map(len, lines.values())) + sum(loads.values())
    queues: dict[int, str] = {}
    edits: list[Edit] = []
    for line, operations in lines.items():
        case = _statement(found, line)
        if case is None:
            continue
        engine = f"{case.nisa}.engine."
        turns = iterations_of(operations, len(_QUEUES))
        if len(operations) > _UNEVEN * total and turns is not None:
            loads.update(dict.fromkeys(_QUEUES, len(operations) // 2))
            queues[line[1]] = "both"
            text = f"{engine}scalar if {turns.text} % 2 else {engine}sync"
        else:
            queue = min(_QUEUES, key=loads.__getitem__)
            loads[queue] += len(operations)
            queues[line[1]] = queue.name
            text = f"{engine}{queue.name}"
        moved = _moved(operations[0])
        mode = {"dge_mode": f"{case.nisa}.dge_mode.hwdge"} if moved.mode == "software" else {}
        there = all(_moved(o).trigger.name == queues[line[1]] for o in operations)
        edits += [] if there and not mode else _edits(case, mode | {"engine": text})
    return edits, queues


def _statement(found: Found, line: Line) -> Statement | None:
    """Return the statement of a transfer, if it can be written with ``engine=``."""
    case = found.statement(line, "dma_copy") or found.statement(line)
    if case is None or case.call is None or case.function == "dma_copy":
        return case
    plain = case.tree.parent(case.call) is case.statement
    kind, count = {"load": (ast.Assign, 1), "store": (ast.Expr, 2)}.get(case.function, (None, 0))
    fits = kind is not None and isinstance(case.statement, kind) and len(case.arguments) == count
    return case if plain and fits else None


def _edits(case: Statement, arguments: dict[str, str]) -> list[Edit]:
    """Return the edits that give a transfer arguments of ``dma_copy``."""
    if case.function == "dma_copy":
        return with_arguments(case, arguments)
    made, dst, src = [], case.text("dst"), case.text("src") or case.text("value")
    if isinstance(case.statement, ast.Assign):
        source, dst = case.arguments["src"], ast.unparse(case.statement.targets[0])
        whole = ast.unparse(source.value) if isinstance(source, ast.Subscript) else src
        made = [case.tile(dst, src, dtype=f"{whole}.dtype")]
    moved = case.isa("dma_copy", dst=dst, src=src, **arguments)
    return [replaced(case.tree, case.statement, [*made, moved])]
