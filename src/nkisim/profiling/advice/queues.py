"""P002 and P012: descriptors that GpSimd makes, or that one of two queues makes alone.

A line of the kernel goes to the queue with fewer transfers. A line with more than both queues
should have takes turns in its innermost loop.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, Line, with_operations
from nkisim.profiling.advice.code import (
    Turns,
    one_function,
    only_on,
    statement_of,
    turns_of,
    with_arguments,
)
from nkisim.profiling.program import Operation
from nkisim.profiling.result import Advice
from nkisim.profiling.transfers import Transfer
from nkisim.spec.enums import engine as Engine
from nkisim.suggestions.statement import Case

__all__ = ["queue_advice"]

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


class _Assigned(NamedTuple):
    """The queue of the transfers of a line: one for all of them, or both in turn."""

    queue: Engine
    turns: Turns | None

    def of(self, operation: Operation) -> Engine:
        """Return the queue of a transfer."""
        return self.queue if self.turns is None else _QUEUES[self.turns.number(operation)]


def queue_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on what makes the descriptors of transfers."""
    if found.program.generation.number == 2:  # no descriptors by hardware
        return
    software, hardware = (_lines(found, by) for by in (_could_use_hardware, _by_hardware))
    busy = found.profile.utilization["gpsimd"]
    if software and busy >= _BUSY_SHARE:
        yield _software(software, hardware, busy)
    count = sum(map(len, hardware.values()))
    on = Counter(_moved(o).trigger for operations in hardware.values() for o in operations)
    fixed = any(engine not in _QUEUES for engine in on)
    if count > 1 and not fixed and max(on.values()) >= _ONE_SIDED * count:
        yield _one_queue(found, hardware, max(on, key=on.__getitem__), count)


def _lines(found: Found, wanted: Callable[[Operation], bool]) -> dict[Line, list[Operation]]:
    """Return the transfers of a kind by line, those of the lines with most of them."""
    chosen = {line: [o for o in all_ if wanted(o)] for line, all_ in found.by_line.items()}
    shown = (line for line in chosen if chosen[line] and _statement(line) is not None)
    most = sorted(shown, key=lambda line: -len(chosen[line]))
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


def _assign(lines: dict[Line, list[Operation]], loads: dict[Engine, int]) -> dict[Line, _Assigned]:
    """Return the queue of each line, so that both have about the same number of transfers."""
    loads, total = dict(loads), sum(map(len, lines.values())) + sum(loads.values())
    assigned = {}
    for line, operations in lines.items():
        turns = turns_of(operations, len(_QUEUES))
        if len(operations) > _UNEVEN * total and turns is not None:
            assigned[line] = _Assigned(Engine.sync, turns)
            for queue in _QUEUES:
                loads[queue] += len(operations) // 2
        else:
            queue = min(_QUEUES, key=loads.__getitem__)
            assigned[line] = _Assigned(queue, None)
            loads[queue] += len(operations)
    return assigned


def _changed(
    lines: dict[Line, list[Operation]], assigned: dict[Line, _Assigned]
) -> dict[int, Operation]:
    """Return the transfers with descriptors by hardware on their queues."""
    changed = {}
    for line, operations in lines.items():
        for o in operations:
            transfer = _moved(o)._replace(mode="hardware", trigger=assigned[line].of(o))
            changed[o.number] = replace(o, work=o.work._replace(transfer=transfer))
    return changed


def _software(
    lines: dict[Line, list[Operation]],
    hardware: dict[Line, list[Operation]],
    busy: float,
) -> Candidate:
    """P002: hardware makes the descriptors, on both queues."""
    loads = dict.fromkeys(_QUEUES, 0)
    for o in (o for operations in hardware.values() for o in operations):
        loads[_moved(o).trigger] = loads.get(_moved(o).trigger, 0) + 1
    assigned = _assign(lines, loads)
    first, count = min(lines), sum(map(len, lines.values()))
    return Candidate(
        Advice(
            SOFTWARE_DESCRIPTORS.id,
            "GpSimd makes descriptors",
            f"{count} transfers keep GpSimd busy for {busy:.0%} of the time",
            "let hardware make the descriptors, on the Sync queue and on the Scalar queue",
            None,
            *first,
            _code(lines, assigned),
            {"transfers": count, "busy_share": busy, "queues": _queues(assigned)},
        ),
        with_operations(_changed(lines, assigned)),
        frozenset(lines),
    )


def _one_queue(
    found: Found, lines: dict[Line, list[Operation]], busiest: Engine, count: int
) -> Candidate:
    """P012: the other queue takes a part of the transfers."""
    assigned = _assign(lines, dict.fromkeys(_QUEUES, 0))
    code = []
    for line in sorted(lines):
        turns, queue = assigned[line].turns, assigned[line].queue
        if turns is None and all(_moved(o).trigger is queue for o in lines[line]):
            continue
        statement = _statement(line)
        assert statement is not None
        engine = f"{statement.nisa}.engine."
        text = f"{engine}{queue.name}"
        if turns is not None:
            text = f"{engine}scalar if {turns.text} else {engine}sync"
        code.append(_shown(line, {"engine": text}))
    first = min(lines)
    other = _QUEUES[1 - _QUEUES.index(busiest)].name
    share = found.profile.utilization["dge"]
    return Candidate(
        Advice(
            ONE_QUEUE.id,
            "one queue triggers the transfers",
            f"{count} transfers have descriptors by hardware, almost all on the {busiest.name} "
            f"queue, whose generator is busy for {share:.0%} of the time",
            f"trigger about half of them on the {other} queue",
            None,
            *first,
            "\n".join(code),
            {"transfers": count, "queue": busiest.name, "queues": _queues(assigned)},
        ),
        with_operations(_changed(lines, assigned)),
        frozenset(lines),
    )


def _statement(line: Line) -> Case | None:
    """Return the statement of a transfer, if it can be written with ``engine=``."""
    case = statement_of(SOFTWARE_DESCRIPTORS, line, "dma_copy")
    if case is not None:
        return case
    case = statement_of(SOFTWARE_DESCRIPTORS, line)
    call = getattr(case.statement, "value", None) if case is not None else None
    if case is None or not isinstance(call, ast.Call) or case.call is not call:
        return None
    given = case.arguments
    loads = case.function == "load" and isinstance(case.statement, ast.Assign) and len(given) == 1
    stores = case.function == "store" and isinstance(case.statement, ast.Expr) and len(given) == 2
    return case if loads or stores else None


def _shown(line: Line, arguments: dict[str, str]) -> str:
    """Return the statement of a transfer with arguments of ``dma_copy``."""
    case = _statement(line)
    assert case is not None
    if case.function == "dma_copy":
        return with_arguments(SOFTWARE_DESCRIPTORS, line, "dma_copy", arguments)
    nisa, nl, before = case.nisa, case.nl, ""
    if case.function == "load":
        assert isinstance(case.statement, ast.Assign)
        dst, src = ast.unparse(case.statement.targets[0]), case.text("src")
        source = case.arguments["src"]
        whole = ast.unparse(source.value) if isinstance(source, ast.Subscript) else src
        before = f"{dst} = {nl}.ndarray({src}.shape, dtype={whole}.dtype, buffer={nl}.sbuf)\n"
    else:
        dst, src = case.text("dst"), case.text("value")
    given = {"dst": dst, "src": src} | arguments
    return f"{before}{nisa}.dma_copy({', '.join(f'{k}={v}' for k, v in given.items())})"


def _code(lines: dict[Line, list[Operation]], assigned: dict[Line, _Assigned]) -> str:
    """Return the transfers with descriptors by hardware, on generations that have it."""
    cases = {line: case for line in sorted(lines) if (case := _statement(line)) is not None}
    first = next(iter(cases.values()))
    nisa = first.nisa
    texts = {
        "mode": (f"{nisa}.dge_mode.hwdge", f"{nisa}.dge_mode.unknown"),
        "sync": (f"{nisa}.engine.sync", f"{nisa}.engine.unknown"),
        "scalar": (f"{nisa}.engine.scalar", f"{nisa}.engine.unknown"),
    }
    condition, code = only_on(("gen3", "gen4"), nisa), []
    used = {q.name for a in assigned.values() for q in (_QUEUES if a.turns else (a.queue,))}
    together = one_function(cases.values())
    if together:
        names = {name: first.fresh(name) for name in ("by_hardware", *texts)}
        code = [f"{names['by_hardware']} = {condition}  # before the loops"]
        code += [
            f"{names[name]} = {there} if {names['by_hardware']} else {here}"
            for name, (there, here) in texts.items()
            if name in used or name == "mode"
        ]
    else:
        names = {name: f"{a} if {condition} else {b}" for name, (a, b) in texts.items()}
    for line in cases:
        turns, queue = assigned[line].turns, names[assigned[line].queue.name]
        if turns is not None:
            queue = f"({names['scalar']}) if {turns.text} else ({names['sync']})"
        place = "" if together else f"  # {os.path.basename(line[0])}:{line[1]}"
        code.append(_shown(line, {"dge_mode": names["mode"], "engine": queue}) + place)
    return "\n".join(code)


def _queues(assigned: dict[Line, _Assigned]) -> dict[int, str]:
    """Return the queue of each line, or ``"both"``."""
    return {line: "both" if a.turns else a.queue.name for (_, line), a in assigned.items()}
