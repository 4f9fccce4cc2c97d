"""P002, P007, P011 and P012: instructions and transfers on another engine or queue.

All transfers of a source line move to the queue that has fewer transfers. A line with most of the
transfers uses the queues in turn, by iteration of its innermost loop.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence

from nkisim.arch import Generation
from nkisim.diagnostics import NkiValidationError, Rule, declare_advice
from nkisim.dtypes import as_dtype
from nkisim.machine import Event
from nkisim.machine.calls.legality import check_call
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, Line
from nkisim.profiling.model.costs import work_of
from nkisim.profiling.model.program import MOST_EXAMPLES, Operation, Program
from nkisim.profiling.model.transfers import Transfer
from nkisim.rewriting import Edit, replaced, with_arguments
from nkisim.source import Statement
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.call import Call
from nkisim.spec.enums import engine as Engine

SOFTWARE_DESCRIPTORS = declare_advice(
    "P002",
    "software-descriptors",
    "For a large part of the time GpSimd makes descriptors that hardware could make.",
    "transfers wait for their descriptors, and GpSimd computes nothing meanwhile",
)
ONE_QUEUE = declare_advice(
    "P012",
    "one-queue",
    "One of two queues triggers almost all transfers whose descriptors hardware makes.",
    "each queue has a generator of descriptors of its own, and one of them is idle",
)
ONE_EVACUATOR = declare_advice(
    "P007",
    "psum-emptied-by-one-engine",
    "One engine makes all copies from PSUM of a line, and another one could share them.",
    "products wait for a free PSUM bank while an engine that could empty one is idle",
)
ONE_ENGINE = declare_advice(
    "P011",
    "one-busy-engine",
    "One engine is busy most of the time, and a mostly idle one could run some of its "
    "instructions.",
    "instructions wait for their engine, although another one is free",
)

_QUEUES = (Engine.sync, Engine.scalar)
_LEAST_DESCRIBING = 0.2
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
    if software and busy >= _LEAST_DESCRIBING:
        edits, queues = _spread(found, software, on)
        yield Candidate(
            rule=SOFTWARE_DESCRIPTORS,
            title="GpSimd makes descriptors",
            cause=f"{count} transfers keep GpSimd busy for {busy:.0%} of the time",
            action="let hardware make the descriptors, on the Sync queue and on the Scalar queue",
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
        turns = _iteration(operations, len(_QUEUES))
        if len(operations) > _UNEVEN * total and turns:
            loads.update(dict.fromkeys(_QUEUES, len(operations) // 2))
            queues[line[1]] = "both"
            text = f"{engine}scalar if {turns} % 2 else {engine}sync"
        else:
            queue = min(_QUEUES, key=loads.__getitem__)
            loads[queue] += len(operations)
            queues[line[1]] = queue.name
            text = f"{engine}{queue.name}"
        moved = _moved(operations[0])
        mode = {"dge_mode": f"{case.nisa}.dge_mode.hwdge"} if moved.mode == "software" else {}
        there = all(_moved(o).trigger.name == queues[line[1]] for o in operations)
        edits += [] if there and not mode else _transfer_edits(case, mode | {"engine": text})
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


def _transfer_edits(case: Statement, arguments: dict[str, str]) -> list[Edit]:
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


_SHARED = (Engine.vector, Engine.scalar, Engine.gpsimd)
"""Engines that have instructions in common."""

_BUSY_SHARE = 0.5
_IDLE_RATIO = 0.5
"""Busy time of the other engine, as a share of that of the busy one, up to which it is idle."""

_MOST_TURNS = 6
_LEAST_OPERATIONS = 4


def engine_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on engines that could share instructions."""
    busy, used = found.profile.engine_busy_us, found.profile.utilization
    for line, operations in found.by_line.items():
        first = operations[0]
        here = first.work.engine
        if here not in _SHARED or len(operations) < _LEAST_OPERATIONS:
            continue
        if any(o.work.engine is not here or o.name != first.name for o in operations):
            continue
        others = _elsewhere(found.program, line)
        if first.name == "tensor_copy" and any(is_psum(tile.region) for tile in first.tiles):
            other = Engine.vector if here is Engine.scalar else Engine.scalar
            if other in others:
                yield _shared(found, ONE_EVACUATOR, line, operations, other, 2)
            continue
        for other, slower in others.items():
            # Transfers whose descriptors GpSimd makes would wait for its instructions.
            describes = other is Engine.gpsimd and found.profile.descriptors.get("software")
            idle = busy[other.name] <= _IDLE_RATIO * busy[here.name]
            if used[here.name] >= _BUSY_SHARE and idle and not describes:
                mine = sum(o.work.busy for o in operations) / 1e3 / found.program.cores
                wanted = (busy[here.name] - busy[other.name]) / (1 + slower)
                count = 1 if wanted >= mine else max(2, round(mine / wanted))
                if count <= _MOST_TURNS:
                    yield _shared(found, ONE_ENGINE, line, operations, other, count)


def _elsewhere(program: Program, line: Line) -> dict[Engine, float]:
    """Return the other engines that may run all instructions of a line, with their slowness."""
    events = list(program.examples.get(line, {}).values())
    if not events or len(events) == MOST_EXAMPLES or "engine" not in events[0].arguments:
        return {}
    first, found = events[0], {}
    for engine in INSTRUCTIONS[first.instruction].engines:
        other = engine in _SHARED and engine is not first.engine
        if other and all(_may_run(event, engine, program.generation) for event in events):
            here, there = (
                work_of(event, program.generation, program.assumptions, prebuilt=False).busy
                for event in (first, first._replace(engine=engine))
            )
            found[engine] = there / here
    return found


def _may_run(event: Event, engine: Engine, generation: Generation) -> bool:
    """Return whether an engine accepts an instruction and computes the same result."""
    declared = INSTRUCTIONS[event.instruction]
    calls = []
    for asked in (event.engine, engine):
        call = Call(declared, {**event.arguments, "engine": asked}, generation)
        try:
            check_call(declared, call)
        except NkiValidationError:
            return False
        if any((v.severity or v.rule.severity) == "error" for v in call.violations):
            return False
        calls.append(call)
    return declared.arithmetic(calls[0]) == declared.arithmetic(calls[1])


def _shared(
    found: Found, rule: Rule, line: Line, operations: list[Operation], other: Engine, count: int
) -> Candidate:
    """Return the advice to run an instruction elsewhere in the last of so many turns."""
    first, used = operations[0], found.profile.utilization
    here = first.work.engine
    case, turns = found.statement(line, first.name), _iteration(operations, count)
    edits: list[Edit] = []
    if case is not None and (count == 1 or turns):
        engine = f"{case.nisa}.engine.{other.name}"
        turn = ""
        if count > 1 and turns:
            turn = f"{turns} % {count}" + ("" if count == 2 else f" == {count - 1}")
            engine += f" if {turn} else {case.nisa}.engine.{here.name}"
        if first.name == "tensor_copy" and other is Engine.scalar and _is_of_floats(found, line):
            edits = _as_activation(case, turn)
        else:
            edits = with_arguments(case, {"engine": engine})
    share = "them" if count == 1 else "every second one" if count == 2 else f"one of {count}"
    title = "PSUM is emptied by one engine"
    cause = f"{len(operations)} copies from PSUM run on {here.name}"
    if rule is ONE_ENGINE:
        title = "one engine is busy, another one idle"
        cause = (
            f"{here.name} is busy for {used[here.name]:.0%} of the time, {other.name} for "
            f"{used[other.name]:.0%}; {len(operations)} {first.name} run on {here.name}"
        )
    return Candidate(
        rule=rule,
        title=title,
        cause=cause,
        action=f"run {share} on {other.name}",
        line=line,
        edits=edits,
        values={"engine": here.name, "other": other.name, "turns": count},
    )


def _is_of_floats(found: Found, line: Line) -> bool:
    """Return whether a copy reads and writes floats, as an activation computes in float32."""
    events = found.program.examples.get(line, {}).values()
    types = [as_dtype(event.arguments[n].dtype) for event in events for n in ("dst", "src")]
    return all(dtype is not None and dtype.is_float for dtype in types)


def _as_activation(case: Statement, turn: str) -> list[Edit]:
    """Return the edits that copy by an activation, always or in a turn, as gen2 has no other way.

    None unless the statement is a copy of operands without a choice of their own.
    """
    call = case.call
    if call is None or not case.tree.is_bare(case.statement, call):
        return []
    if not set(case.arguments) <= {"dst", "src", "engine"}:
        return []
    dst, src = case.text("dst"), case.text("src")
    copied = case.isa("activation", dst=dst, op=f"{case.nl}.copy", data=src)
    if not turn:
        return [replaced(case.tree, case.statement, [copied])]
    lines = [f"if {turn}:", f"    {copied}", "else:", f"    {case.tree.code(case.statement)}"]
    return [replaced(case.tree, case.statement, lines)]


def _iteration(operations: Sequence[Operation], least: int) -> str:
    """Return the number of an iteration, from 0, as an expression of the loop variable.

    It is the innermost loop around operations that has so many iterations; empty if there is none,
    or if its steps are uneven.
    """
    for name, _ in reversed(operations[0].place.loops):
        values = sorted({dict(o.place.loops).get(name, 0) for o in operations})
        if len(values) >= max(least, 2):
            step, *others = {b - a for a, b in itertools.pairwise(values)}
            text = f"({name} - {values[0]})" if values[0] else name
            return "" if others else text if step == 1 else f"{text} // {step}"
    return ""
