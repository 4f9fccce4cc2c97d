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
from nkisim.profiling.advice.candidate import Candidate, Found, Line
from nkisim.profiling.advice.edits import reordered
from nkisim.profiling.advice.groups import groups_of
from nkisim.rewriting import Edit
from nkisim.source import Function
from nkisim.suggestions.statement import Case

TABLES_IN_TURN = declare(
    "P013",
    "tables-in-turn",
    "note",
    "Activation functions of different tables run in turn.",
    "the Scalar engine loads a table at each change",
    advice=True,
)


def table_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on blocks whose functions belong to several tables."""
    tables = {
        line: {o.work.table for o in operations if o.work.table}
        for line, operations in found.by_line.items()
    }
    cases: dict[ast.AST, dict[ast.stmt, dict[Line, set[str]]]] = {}
    first: dict[ast.AST, Case] = {}
    for line, needed in tables.items():
        case = found.statement(TABLES_IN_TURN, line) if needed else None
        above: ast.AST | None = None if case is None else case.statement
        while case is not None and isinstance(above, ast.stmt) and not isinstance(above, Function):
            owner, _ = case.source.tree.block(above) or (case.module, "")
            cases.setdefault(owner, {}).setdefault(above, {})[line] = needed
            first.setdefault(owner, case)
            above = owner
    for owner, statements in cases.items():
        wanted = {s: set().union(*lines.values()) for s, lines in statements.items()}
        several = len(set().union(*wanted.values())) > 1
        if several and all(len(names) == 1 for names in wanted.values()):
            lines = frozenset(line for each in statements.values() for line in each)
            names = {statement: table for statement, (table,) in wanted.items()}
            yield from _candidate(found, first[owner], owner, names, lines)


def _candidate(
    found: Found, case: Case, owner: ast.AST, tables: Mapping[ast.stmt, str], lines: frozenset[Line]
) -> Iterator[Candidate]:
    changes = 0
    for core in range(found.program.cores):
        ran = [o for o in found.program.operations if o.work.table and o.core == core]
        pairs = itertools.pairwise(ran)
        changes += sum(
            a.work.table != b.work.table and (b.place.file, b.place.line) in lines for a, b in pairs
        )
    edits = _edits(found, case, owner, tables)
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
        edits=tuple(edits),
        values={"tables": names, "changes": changes},
    )


def _edits(found: Found, case: Case, owner: ast.AST, tables: Mapping[ast.stmt, str]) -> list[Edit]:
    """Return the edits that group the statements of a block; none if it is not certain."""
    tree = case.source.tree
    body = list(tree.siblings(next(iter(tables))))
    if not isinstance(owner, ast.For):
        places = [body.index(statement) for statement in tables]
        body = body[min(places) : max(places) + 1]
    groups = groups_of(case, body, [tables.get(statement, "") for statement in body])
    if groups is None:
        return []
    if isinstance(owner, ast.For):
        return groups.edits(found, owner, overlapped=False)
    order = sorted(range(len(body)), key=groups.numbers.__getitem__)
    return [reordered(tree, body, [body[i] for i in order])]
