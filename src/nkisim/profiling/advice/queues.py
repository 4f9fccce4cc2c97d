"""P002 and P012: descriptors that GpSimd makes, or that one of two queues makes alone.

A line of the kernel goes to the queue with fewer transfers. A line with more than both queues
should have takes turns in its innermost loop.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from nkisim.diagnostics import Rule, declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line, iterations_of
from nkisim.profiling.advice.edits import replaced, with_arguments
from nkisim.profiling.model.program import Operation
from nkisim.profiling.model.transfers import Transfer
from nkisim.rewriting import Edit
from nkisim.spec.enums import engine as Engine
from nkisim.suggestions.statement import Case

SOFTWARE_DESCRIPTORS = declare(
    "P002",
    "software-descriptors",
    "note",
    "For a large part of the time GpSimd makes descriptors that hardware could make.",
    "transfers wait for their descriptors, and GpSimd computes nothing meanwhile",
    advice=True,
)
ONE_QUEUE = declare(
    "P012",
    "one-queue",
    "note",
    "One of two queues triggers almost all transfers whose descriptors hardware makes.",
    "each queue has a generator of descriptors of its own, and one of them is idle",
    advice=True,
)

_QUEUES = (Engine.sync, Engine.scalar)
_BUSY_SHARE = 0.2
"""Share of the time for which GpSimd must be busy before its descriptors are worth moving."""

_ONE_SIDED = 0.8
"""Share of the transfers by hardware that one queue triggers, from which on it is too many."""

_UNEVEN = 0.6
"""Share of the transfers above which a queue gives some of a line to the other one."""

_MOST_LINES = 6

_Lines = dict[Line, list[Operation]]


def queue_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on what makes the descriptors of transfers."""
    if found.program.generation.number == 2:  # no descriptors by hardware
        return
    software, hardware = (_lines(found, by) for by in (_could_use_hardware, _by_hardware))
    on = Counter(_moved(o).trigger for operations in hardware.values() for o in operations)
    busy, count = found.profile.utilization["gpsimd"], sum(map(len, software.values()))
    if software and busy >= _BUSY_SHARE:
        yield _candidate(
            found,
            SOFTWARE_DESCRIPTORS,
            "GpSimd makes descriptors",
            f"{count} transfers keep GpSimd busy for {busy:.0%} of the time",
            "let hardware make the descriptors, on the Sync queue and on the Scalar queue; gen2 "
            "has no such hardware",
            software,
            on,
        )
    count = sum(on.values())
    if count > 1 and set(on) <= set(_QUEUES) and max(on.values()) >= _ONE_SIDED * count:
        busiest = max(on, key=on.__getitem__)
        other = _QUEUES[1 - _QUEUES.index(busiest)].name
        yield _candidate(
            found,
            ONE_QUEUE,
            "one queue triggers the transfers",
            f"{count} transfers have descriptors by hardware, almost all on the {busiest.name} "
            f"queue, whose generator is busy for {found.profile.utilization['dge']:.0%} of the "
            "time",
            f"trigger about half of them on the {other} queue",
            hardware,
            Counter(),
        )


def _lines(found: Found, wanted: Callable[[Operation], bool]) -> _Lines:
    """Return the transfers of a kind by line, those of the lines with most of them."""
    chosen = {line: [o for o in all_ if wanted(o)] for line, all_ in found.by_line.items()}
    most = sorted((line for line in chosen if chosen[line]), key=lambda line: -len(chosen[line]))
    return {line: chosen[line] for line in most[:_MOST_LINES]}


def _moved(operation: Operation) -> Transfer:
    assert operation.work.transfer is not None
    return operation.work.transfer


def _could_use_hardware(operation: Operation) -> bool:
    """Return whether hardware could make descriptors that software makes.

    It takes transpositions of few shapes only, and neither gathers nor converts.
    """
    moved = operation.work.transfer
    if moved is None or moved.mode != "software" or operation.name != "dma_copy":
        return False
    return not moved.indirect and not moved.converts


def _by_hardware(operation: Operation) -> bool:
    moved = operation.work.transfer
    return moved is not None and moved.mode == "hardware" and operation.name == "dma_copy"


def _candidate(
    found: Found,
    rule: Rule,
    title: str,
    cause: str,
    action: str,
    lines: _Lines,
    loads: Counter[Engine],
) -> Candidate:
    """Return the advice to put the transfers of lines on both queues."""
    loads = Counter(loads)
    total = sum(map(len, lines.values())) + sum(loads.values())
    queues: dict[int, str] = {}
    edits: list[Edit] = []
    for line, operations in lines.items():
        case = _statement(found, rule, line)
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
        mode = {"dge_mode": f"{case.nisa}.dge_mode.hwdge"} if rule is SOFTWARE_DESCRIPTORS else {}
        there = all(_moved(o).trigger.name == queues[line[1]] for o in operations)
        edits += [] if there and not mode else _edits(case, mode | {"engine": text})
    return Candidate(
        rule=rule,
        title=title,
        cause=cause,
        action=action,
        line=min(lines),
        lines=frozenset(lines),
        edits=tuple(edits),
        values={"transfers": sum(map(len, lines.values())), "queues": queues},
    )


def _statement(found: Found, rule: Rule, line: Line) -> Case | None:
    """Return the statement of a transfer, if it can be written with ``engine=``."""
    case = found.statement(rule, line, "dma_copy")
    if case is not None:
        return case
    case = found.statement(rule, line)
    call = getattr(case.statement, "value", None) if case is not None else None
    if case is None or not isinstance(call, ast.Call) or case.call is not call:
        return None
    given = case.arguments
    loads = case.function == "load" and isinstance(case.statement, ast.Assign) and len(given) == 1
    stores = case.function == "store" and isinstance(case.statement, ast.Expr) and len(given) == 2
    return case if loads or stores else None


def _edits(case: Case, arguments: dict[str, str]) -> list[Edit]:
    """Return the edits that give a transfer arguments of ``dma_copy``."""
    if case.function == "dma_copy":
        return with_arguments(case, arguments)
    nisa, nl, lines = case.nisa, case.nl, []
    if case.function == "load":
        assert isinstance(case.statement, ast.Assign)
        dst, src = ast.unparse(case.statement.targets[0]), case.text("src")
        source = case.arguments["src"]
        whole = ast.unparse(source.value) if isinstance(source, ast.Subscript) else src
        lines = [f"{dst} = {nl}.ndarray({src}.shape, dtype={whole}.dtype, buffer={nl}.sbuf)"]
    else:
        dst, src = case.text("dst"), case.text("value")
    given = {"dst": dst, "src": src} | arguments
    lines.append(f"{nisa}.dma_copy({', '.join(f'{k}={v}' for k, v in given.items())})")
    return [replaced(case.source.tree, case.statement, lines)]
