"""P013: activation functions of several tables that take turns.

The statements of a loop are split into loops, so that each runs the functions of one table. Without
a loop, the statements of a block change places.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping

from nkisim.arch.timing import timing_of
from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found, line_of
from nkisim.profiling.advice.edits import reordered
from nkisim.profiling.advice.groups import groups_of
from nkisim.rewriting import Edit
from nkisim.source import Function, Statement

TABLES_IN_TURN = declare(
    "P013",
    "tables-in-turn",
    "Activation functions of different tables run in turn.",
    "the Scalar engine loads a table at each change",
    severity="note",
    advice=True,
)


def table_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on blocks whose functions belong to several tables."""
    tables = {
        line: {o.work.table for o in operations if o.work.table}
        for line, operations in found.by_line.items()
    }
    blocks: dict[ast.stmt, Statement] = {}
    for line in (line for line, needed in tables.items() if needed):
        case = found.statement(line)
        around = () if case is None else (case.statement, *case.tree.ancestors(case.statement))
        for above in itertools.takewhile(lambda node: not isinstance(node, Function), around):
            if case is not None and isinstance(above, ast.stmt):
                blocks.setdefault(case.tree.siblings(above)[0], case)
    for first, case in blocks.items():
        wanted: dict[ast.stmt, set[str]] = {}
        for statement in case.tree.siblings(first):
            needed = set().union(*(tables[line] for line in found.lines_in(statement)))
            wanted |= {statement: needed} if needed else {}
        several = len(set().union(*wanted.values())) > 1
        if several and all(len(names) == 1 for names in wanted.values()):
            yield from _candidate(found, case, {s: table for s, (table,) in wanted.items()})


def _candidate(
    found: Found, case: Statement, tables: Mapping[ast.stmt, str]
) -> Iterator[Candidate]:
    inside = [line for statement in tables for line in found.lines_in(statement)]
    lines = [line for line in inside if any(o.work.table for o in found.by_line[line])]
    changes = 0
    for core in range(found.program.cores):
        ran = [o for o in found.program.operations if o.work.table and o.core == core]
        pairs = itertools.pairwise(ran)
        changes += sum(a.work.table != b.work.table and line_of(b) in lines for a, b in pairs)
    edits = _edits(found, case, tables)
    names = sorted(set(tables.values()))
    load = timing_of(found.program.generation).table_load / 1e3
    if not edits or changes < len(names):
        return
    yield Candidate(
        rule=TABLES_IN_TURN,
        title="tables of activation functions in turn",
        cause=f"functions of the tables {' and '.join(names)} run in turn: {changes} loads of a "
        f"table, {load:.2f} us each",
        action="run the functions of one table for all tiles, then those of the next one",
        line=min(lines),
        lines=lines,
        edits=edits,
        values={"tables": names, "changes": changes},
    )


def _edits(found: Found, case: Statement, tables: Mapping[ast.stmt, str]) -> list[Edit]:
    """Return the edits that group the statements of a block; none if it is not certain."""
    tree, first = case.tree, next(iter(tables))
    body, owner = list(tree.siblings(first)), tree.parent(first)
    if not isinstance(owner, ast.For):
        places = [body.index(statement) for statement in tables]
        body = body[min(places) : max(places) + 1]
    groups = groups_of(found, case, body, [tables.get(statement, "") for statement in body])
    if groups is None:
        return []
    if isinstance(owner, ast.For):
        return groups.edits(owner, overlapped=False)
    order = sorted(range(len(body)), key=groups.numbers.__getitem__)
    return [reordered(tree, body, [body[i] for i in order])]
