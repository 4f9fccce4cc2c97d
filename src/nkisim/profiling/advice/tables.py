"""P013: activation functions of several tables that take turns.

The statements of a loop are split into loops, so that each runs the functions of one table. Without
a loop, the statements of a block change places.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence

from nkisim.arch.timing import timing_of
from nkisim.diagnostics import declare
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, Line
from nkisim.profiling.advice.edits import line_end, reordered, texts_of
from nkisim.profiling.advice.effects import Effect, Effects
from nkisim.profiling.advice.loads import Load
from nkisim.rewriting import Edit
from nkisim.source import Function
from nkisim.suggestions.statement import Case

__all__ = ["table_advice"]

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
    tree, function = case.source.tree, case.source.tree.function_of(case.statement)
    body = list(tree.siblings(next(iter(tables))))
    loop = owner if isinstance(owner, ast.For) else None
    if function is None or (loop is None and owner is not function):
        return []
    if loop is None:
        places = [body.index(statement) for statement in tables]
        body = body[min(places) : max(places) + 1]
    elif loop.orelse or not isinstance(loop.target, ast.Name):
        return []
    effects = Effects(tree, function, case.path)
    known = [effects.of(statement) for statement in body]
    done = [effect for effect in known if effect is not None]
    if len(done) < len(body) or not all(tree.begins_line(statement) for statement in body):
        return []
    groups = _groups([tables.get(statement, "") for statement in body], done)
    if loop is None:
        return [reordered(tree, body, sorted(body, key=lambda s: groups[body.index(s)]))]
    start = tree.data.find(b"\n", tree.span(loop.iter)[1])
    if start > tree.span(body[0])[0]:
        return []
    texts = texts_of(tree, start, body)
    return _split(found, case, loop, _Body(body, done, groups, texts, effects))


def _groups(tables: Sequence[str], effects: Sequence[Effect]) -> list[int]:
    """Return for each statement the number of the group in which it runs.

    A statement runs in the first group after what it depends on that has no other table;
    statements that depend on nothing, such as allocations, in that of their first use.
    """
    groups: list[int] = []
    of_group: dict[int, str] = {}
    for i, table in enumerate(tables):
        before = [groups[j] for j in range(i) if effects[j].conflicts(effects[i])]
        group = max(before, default=0)
        while table and of_group.setdefault(group, table) != table:
            group += 1
        groups.append(group)
    for i in reversed(range(len(tables))):
        after = [groups[j] for j in range(i + 1, len(tables)) if effects[j].conflicts(effects[i])]
        if not tables[i] and groups[i] == 0 and after:
            groups[i] = min(after)
    return groups


class _Body:
    """The statements of a loop, their effects, groups and lines of text."""

    def __init__(
        self,
        statements: Sequence[ast.stmt],
        done: Sequence[Effect],
        groups: Sequence[int],
        texts: Sequence[str],
        effects: Effects,
    ) -> None:
        self.statements = statements
        self.done = done
        self.groups = groups
        self.texts = texts
        self.effects = effects

    def is_independent(self, loop: ast.For) -> bool:
        """Return whether iterations of different groups share nothing that one of them writes."""
        for (i, a), (j, b) in itertools.combinations(enumerate(self.done), 2):
            if self.groups[i] == self.groups[j]:
                continue
            shared = (a.touched & b.written) | (a.written & b.touched)
            bound = a.conflicts(b) - shared
            if not all(self.effects.is_new(variable, loop) for variable in shared):
                return False
            if any(not self.effects.is_inside(name, loop) for name in bound):
                return False
        return True

    def needed(self, group: int) -> tuple[list[int], list[str]] | None:
        """Return statements that a group computes again, and names that it gets from before.

        None if a name has several values.
        """
        again: set[int] = set()
        kept: set[str] = set()
        own = [i for i, number in enumerate(self.groups) if number == group]
        waiting = {name for i in own for name in self.done[i].names}
        while waiting:
            name = waiting.pop()
            makers = [i for i, effect in enumerate(self.done) if name in effect.binds]
            if not makers or name in kept:
                continue
            maker = makers[0]
            statement = self.statements[maker]
            if len(makers) > 1 or len(self.effects.bound_at(name)) > 1:
                return None
            if any(name in effect.names for effect in self.done[:maker]):
                return None  # it comes from the iteration before
            if self.groups[maker] == group or maker in again:
                continue
            if not isinstance(statement, ast.Assign) or ast.unparse(statement.targets[0]) != name:
                return None
            if self.effects.is_pure(statement.value):
                again.add(maker)
                waiting |= self.done[maker].names
            else:
                kept.add(name)
        return sorted(again), sorted(kept)


def _split(found: Found, case: Case, loop: ast.For, body: _Body) -> list[Edit]:
    """Return the edits that split a loop; tiles that later loops use are kept in lists."""
    tree = case.source.tree
    index = Load(case, "", loop.iter, None).positions([loop], loop)
    count = max(body.groups) + 1
    needs = [body.needed(group) for group in range(count)]
    if index is None or count < 2 or None in needs or not body.is_independent(loop):
        return []
    every = [need for need in needs if need is not None]
    newline, indent = tree.newline, tree.indent(body.statements[0])
    outer = tree.indent(loop)
    lasting = [name for _, names in every for name in names]
    if any(t.placed or (is_psum(t.region) and t.name in lasting) for t in found.program.tiles):
        return []
    kept = {name: found.fresh(f"kept_{name}") for name in lasting}
    start = tree.span(loop)[0]
    head = tree.data[start : tree.data.find(b"\n", tree.span(loop.iter)[1])].decode().rstrip("\r")
    text = "".join(f"{name} = []{newline}{outer}" for name in kept.values())
    for group, (again, names) in enumerate(every):
        text += head if not group else f"{newline}{outer}{head}"
        text += "".join(f"{newline}{indent}{name} = {kept[name]}[{index}]" for name in names)
        own = [i for i, number in enumerate(body.groups) if number == group]
        text += "".join(body.texts[i] for i in sorted((*own, *again)))
        made = {name for i in own for name in body.done[i].binds}
        saved = [name for name in kept if name in made]
        text += "".join(f"{newline}{indent}{kept[name]}.append({name})" for name in saved)
    return [Edit(start, line_end(tree, body.statements[-1]), text)]
