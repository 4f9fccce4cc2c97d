"""P015: stages of an iteration that wait for each other, although the next one could begin."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found
from nkisim.profiling.advice.groups import groups_of
from nkisim.suggestions.statement import Case

STAGES_IN_TURN = declare(
    "P015",
    "stages-in-turn",
    "note",
    "The engines of a loop wait in turns: an iteration begins after the last stage of another.",
    "an instruction that may not be reordered waits for its data, and holds its engine",
    advice=True,
)

_LEAST_ITERATIONS = 4
_AT_ITS_BOUND = 0.97
"""Share of the bound from which on no order of the instructions saves 1 %."""


def stage_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on innermost loops whose instructions run on several engines."""
    if found.profile.bound_share > _AT_ITS_BOUND:
        return
    loops: dict[ast.For, Case] = {}
    for line, operations in found.by_line.items():
        case = found.statement(STAGES_IN_TURN, line)
        around = [] if case is None else case.loops()
        if case is not None and around and len(operations) >= _LEAST_ITERATIONS:
            loops.setdefault(around[-1], case)
    for loop, case in loops.items():
        yield from _of_loop(found, loop, case)


def _of_loop(found: Found, loop: ast.For, case: Case) -> Iterator[Candidate]:
    """Yield the loop with its first stage ahead, and with its last one behind."""
    engines = []
    for statement in loop.body:
        rows = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
        at = [found.by_line.get((case.finding.file, row), ()) for row in rows]
        ran = [o.engine for operations in at for o in operations[:1] if not o.runs_ahead]
        engines.append(ran[0].name if ran else "")
    works = [i for i, name in enumerate(engines) if name]
    cuts = [j for i, j in itertools.pairwise(works) if engines[i] != engines[j]]
    for cut in {cuts[0]: 0, cuts[-1]: 0} if cuts else ():
        labels = [name and ("ahead" if i < cut else "behind") for i, name in enumerate(engines)]
        groups = groups_of(case, loop.body, labels)
        edits = [] if groups is None else groups.edits(found, loop, overlapped=True)
        lines = [(case.finding.file, loop.body[i].lineno) for i in works]
        if edits:
            yield Candidate(
                rule=STAGES_IN_TURN,
                title="stages of a loop run in turn",
                cause=f"an iteration begins on {engines[works[0]]} after the one before has ended "
                f"on {engines[works[-1]]}",
                action=f"begin the next iteration before the stage on {engines[cut]} of this one",
                line=lines[works.index(cut)],
                lines=frozenset(line for line in found.by_line if _is_in(line[1], loop)),
                edits=tuple(edits),
                values={"engines": [engines[works[0]], engines[cut]]},
            )


def _is_in(row: int, loop: ast.For) -> bool:
    return loop.lineno <= row <= (loop.end_lineno or loop.lineno)
