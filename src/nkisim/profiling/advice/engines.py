"""P007 and P011: one engine is busy, and another one could do a part of its instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nkisim.arch import GENERATIONS, Generation
from nkisim.diagnostics import NkiValidationError, Rule, declare
from nkisim.machine import Event
from nkisim.machine.legality import check_call
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, Line, with_operations
from nkisim.profiling.advice.code import Turns, only_on, statement_of, turns_of, with_arguments
from nkisim.profiling.costs import Work, work_of
from nkisim.profiling.program import MOST_EXAMPLES, Operation, Program
from nkisim.profiling.result import Advice
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.call import Call
from nkisim.spec.enums import engine as Engine

__all__ = ["engine_advice"]

ONE_EVACUATOR = declare(
    "P007",
    "psum-emptied-by-one-engine",
    "note",
    "One engine makes all copies from PSUM of a line, and another one could share them.",
    "products wait for a free PSUM bank while an engine that could empty one is idle",
    advice=True,
)
ONE_ENGINE = declare(
    "P011",
    "one-busy-engine",
    "note",
    "One engine is busy most of the time, and a mostly idle one could run some of its "
    "instructions.",
    "instructions wait for their engine, although another one is free",
    advice=True,
)

_SHARED = (Engine.vector, Engine.scalar, Engine.gpsimd)
"""Engines that have instructions in common."""

_BUSY_SHARE = 0.5
_IDLE_RATIO = 0.5
"""Busy time of the other engine, as a share of that of the busy one, up to which it is idle."""

_MOST_TURNS = 6
_LEAST_OPERATIONS = 4


def engine_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on engines that could share instructions."""
    busy = found.profile.utilization
    for line, operations in found.by_line.items():
        engine, name = operations[0].work.engine, operations[0].name
        if engine not in _SHARED or len(operations) < _LEAST_OPERATIONS:
            continue
        if any(o.work.engine is not engine or o.name != name for o in operations):
            continue
        if statement_of(ONE_ENGINE, line, name) is None:
            continue
        if name == "tensor_copy" and _reads_psum(operations[0]):
            yield from _evacuation(found, line, operations)
        elif busy[engine.name] >= _BUSY_SHARE:
            yield from _balance(found, line, operations)


def _reads_psum(operation: Operation) -> bool:
    return any(is_psum(tile.region) for tile in operation.tiles)


def _elsewhere(program: Program, line: Line) -> dict[Engine, list[Work]]:
    """Return the costs of a line's instructions on the other engines that may run all of them."""
    events = list(program.examples.get(line, {}).values())
    if not events or len(events) == MOST_EXAMPLES or "engine" not in events[0].arguments:
        return {}
    found = {}
    for engine in INSTRUCTIONS[events[0].instruction].engines:
        other = engine in _SHARED and engine is not events[0].engine
        if other and all(_may_run(event, engine, program.generation) for event in events):
            moved = [replace(event, engine=engine) for event in events]
            found[engine] = [
                work_of(event, program.generation, program.assumptions, prebuilt=False)
                for event in moved
            ]
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


def _evacuation(found: Found, line: Line, operations: list[Operation]) -> Iterator[Candidate]:
    """P007: copies from PSUM that one engine does alone."""
    first = operations[0]
    work = _elsewhere(found.program, line)
    other = Engine.vector if first.work.engine is Engine.scalar else Engine.scalar
    if other not in work:
        return
    turns = turns_of(operations, 2)
    yield Candidate(
        Advice(
            ONE_EVACUATOR.id,
            "PSUM is emptied by one engine",
            f"{len(operations)} copies from PSUM run on {first.work.engine.name}",
            f"run every second copy on {other.name}",
            None,
            *line,
            _code(ONE_EVACUATOR, found, line, first, other, turns),
            {"copies": len(operations), "engine": first.work.engine.name, "other": other.name},
        ),
        with_operations(_moved(operations, work[other][0], 2, turns)),
        frozenset({line}),
    )


def _balance(found: Found, line: Line, operations: list[Operation]) -> Iterator[Candidate]:
    """P011: all instructions of a line, or every n-th, on an engine that is mostly idle."""
    first, busy = operations[0], found.profile.engine_busy_us
    here = first.work.engine
    for other, (work, *_) in _elsewhere(found.program, line).items():
        # Transfers whose descriptors GpSimd makes would wait for its instructions.
        describes = other is Engine.gpsimd and found.profile.descriptors.get("software")
        if describes or busy[other.name] > _IDLE_RATIO * busy[here.name]:
            continue
        slower = work.busy / first.work.busy
        mine = sum(o.work.busy for o in operations) / 1e3 / found.program.cores
        wanted = (busy[here.name] - busy[other.name]) / (1 + slower)
        count = 1 if wanted >= mine else max(2, round(mine / wanted))
        turns = turns_of(operations, count) if count > 1 else None
        if count > _MOST_TURNS or (count > 1 and turns is None):
            continue
        share = "them" if count == 1 else "every second one" if count == 2 else f"one of {count}"
        yield Candidate(
            Advice(
                ONE_ENGINE.id,
                "one engine is busy, another one idle",
                f"{here.name} is busy for {found.profile.utilization[here.name]:.0%} of the time, "
                f"{other.name} for {found.profile.utilization[other.name]:.0%}; "
                f"{len(operations)} {first.name} run on {here.name}",
                f"run {share} on {other.name}",
                None,
                *line,
                _code(ONE_ENGINE, found, line, first, other, turns, count),
                {"engine": here.name, "other": other.name, "turns": count},
            ),
            with_operations(_moved(operations, work, count, turns)),
            frozenset({line}),
        )


def _moved(
    operations: list[Operation], work: Work, count: int, turns: Turns | None
) -> dict[int, Operation]:
    """Return the operations that another engine runs: the last of so many turns."""
    slower = work.busy / operations[0].work.busy
    changed = {}
    for index, o in enumerate(operations):
        turn = index % count if turns is None else turns.number(o)
        if turn == count - 1:
            changed[o.number] = replace(o, work=work._replace(busy=o.work.busy * slower))
    return changed


def _code(
    rule: Rule,
    found: Found,
    line: Line,
    first: Operation,
    other: Engine,
    turns: Turns | None,
    count: int = 2,
) -> str:
    """Return the statement with the engines in turn; other generations stay with the first one."""
    case = statement_of(rule, line, first.name)
    nisa = "nisa" if case is None else case.nisa
    events = found.program.examples[line].values()
    legal = [g.name for g in GENERATIONS if all(_may_run(event, other, g) for event in events)]
    here, there = (f"{nisa}.engine.{e.name}" for e in (first.work.engine, other))
    conditions = []
    if turns is not None:
        conditions.append(turns.text if count == 2 else f"{turns.text} == {count - 1}")
    if len(legal) < len(GENERATIONS):
        conditions.append(only_on(legal, nisa))
    engine = f"{there} if {' and '.join(conditions)} else {here}" if conditions else there
    return with_arguments(rule, line, first.name, {"engine": engine})
