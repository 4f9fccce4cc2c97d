"""P007 and P011: one engine is busy, and another one could do a part of its instructions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nkisim.arch import Generation
from nkisim.diagnostics import NkiValidationError, Rule, declare
from nkisim.machine import Event
from nkisim.machine.calls.legality import check_call
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, Line, iterations_of
from nkisim.profiling.advice.edits import with_arguments
from nkisim.profiling.model.costs import work_of
from nkisim.profiling.model.program import MOST_EXAMPLES, Operation, Program
from nkisim.rewriting import Edit
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.call import Call
from nkisim.spec.enums import engine as Engine

ONE_EVACUATOR = declare(
    "P007",
    "psum-emptied-by-one-engine",
    "One engine makes all copies from PSUM of a line, and another one could share them.",
    "products wait for a free PSUM bank while an engine that could empty one is idle",
    severity="note",
    advice=True,
)
ONE_ENGINE = declare(
    "P011",
    "one-busy-engine",
    "One engine is busy most of the time, and a mostly idle one could run some of its "
    "instructions.",
    "instructions wait for their engine, although another one is free",
    severity="note",
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
                for event in (first, replace(first, engine=engine))
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
    case, turns = found.statement(line, first.name), iterations_of(operations, count)
    edits: list[Edit] = []
    if case is not None and (count == 1 or turns is not None):
        engine = f"{case.nisa}.engine.{other.name}"
        if count > 1 and turns is not None:
            last = "" if count == 2 else f" == {count - 1}"
            engine += f" if {turns.text} % {count}{last} else {case.nisa}.engine.{here.name}"
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
