"""P015: stages of an iteration that wait for each other, although the next one could begin."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found
from nkisim.profiling.advice.groups import groups_of
from nkisim.source import Statement

STAGES_IN_TURN = declare(
    "P015",
    "stages-in-turn",
    "The engines of a loop wait in turns: an iteration begins after the last stage of another.",
    "an instruction that may not be reordered waits for its data, and holds its engine",
    severity="note",
    advice=True,
)

_LEAST_ITERATIONS = 4
_AT_ITS_BOUND = 0.97
"""If ``bound_share`` is above this value, P015 is not tried: little is left to gain."""


def stage_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on innermost loops whose instructions run on several engines."""
    if found.profile.bound_share > _AT_ITS_BOUND:
        return
    loops: dict[ast.For, Statement] = {}
    for line, operations in found.by_line.items():
        case = found.statement(line)
        around = [] if case is None else case.loops()
        if case is not None and around and len(operations) >= _LEAST_ITERATIONS:
            loops.setdefault(around[-1], case)
    for loop, case in loops.items():
        yield from _of_loop(found, loop, case)


def _of_loop(found: Found, loop: ast.For, case: Statement) -> Iterator[Candidate]:
    """Yield up to two software-pipelined forms of a loop of stages on different engines.

    Either the first stage runs one iteration ahead of the others, or the last stage runs one
    iteration behind them.
    """
    engines = []
    for statement in loop.body:
        first = (found.by_line[line][0] for line in found.lines_in(statement))
        engines.append(next((o.engine.name for o in first if not o.runs_ahead), ""))
    works = [i for i, name in enumerate(engines) if name]
    cuts = [j for i, j in itertools.pairwise(works) if engines[i] != engines[j]]
    for cut in {cuts[0]: 0, cuts[-1]: 0} if cuts else ():
        labels = [name and ("ahead" if i < cut else "behind") for i, name in enumerate(engines)]
        groups = groups_of(found, case, loop.body, labels)
        edits = [] if groups is None else groups.edits(loop, overlapped=True)
        lines = [(case.tree.file, loop.body[i].lineno) for i in works]
        if edits:
            yield Candidate(
                rule=STAGES_IN_TURN,
                title="stages of a loop run in turn",
                cause=f"an iteration begins on {engines[works[0]]} after the one before has ended "
                f"on {engines[works[-1]]}",
                action=f"begin the next iteration before the stage on {engines[cut]} of this one",
                line=lines[works.index(cut)],
                lines=found.lines_in(loop),
                edits=edits,
                values={"engines": [engines[works[0]], engines[cut]]},
            )
