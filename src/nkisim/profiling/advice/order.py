"""P013, P014 and P015: the same instructions in another order.

The conditions follow from names: statements that change places share tiles that each iteration
allocates, and what they only read. Lists keep the tiles that a later group of statements uses.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from nkisim.arch.timing import timing_of
from nkisim.diagnostics import declare_advice
from nkisim.memory.region import is_psum
from nkisim.profiling.advice.candidate import Candidate, Found, Line, line_of
from nkisim.rewriting import Edit, reordered
from nkisim.source import Effect, Effects, Function, Statement

TABLES_IN_TURN = declare_advice(
    "P013",
    "tables-in-turn",
    "Activation functions of different tables run in turn.",
    "the Scalar engine loads a table at each change",
)
STAGES_IN_TURN = declare_advice(
    "P015",
    "stages-in-turn",
    "The engines of a loop wait in turns: an iteration begins after the last stage of another.",
    "an instruction that may not be reordered waits for its data, and holds its engine",
)
LATE_LOAD_FIRST = declare_advice(
    "P014",
    "late-load-first",
    "A load whose tile is used late comes before loads whose tiles are used first.",
    "the first instructions wait for bytes that they do not need",
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
            yield from _table_candidate(found, case, {s: table for s, (table,) in wanted.items()})


def _table_candidate(
    found: Found, case: Statement, tables: Mapping[ast.stmt, str]
) -> Iterator[Candidate]:
    inside = [line for statement in tables for line in found.lines_in(statement)]
    lines = [line for line in inside if any(o.work.table for o in found.by_line[line])]
    changes = 0
    for core in range(found.program.cores):
        ran = [o for o in found.program.operations if o.work.table and o.core == core]
        pairs = itertools.pairwise(ran)
        changes += sum(a.work.table != b.work.table and line_of(b) in lines for a, b in pairs)
    edits = _table_edits(found, case, tables)
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


def _table_edits(found: Found, case: Statement, tables: Mapping[ast.stmt, str]) -> list[Edit]:
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


def order_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on blocks with loads that can come later."""
    loads = {
        line: all(o.runs_ahead and o.source is not None for o in operations)
        for line, operations in found.by_line.items()
    }
    blocks: dict[ast.stmt, tuple[Statement, dict[ast.stmt, Line]]] = {}
    for line in (line for line, is_load in loads.items() if is_load):
        case = found.statement(line)
        if case is None:
            continue
        moved: ast.stmt = case.statement
        for loop in reversed(case.loops()):  # a loop of nothing but loads moves as a whole
            if loop.orelse or not all(loads[inside] for inside in found.lines_in(loop)):
                break
            moved = loop
        first = case.tree.siblings(moved)[0]
        blocks.setdefault(first, (case, {}))[1].setdefault(moved, line)
    for case, moving in blocks.values():
        block, order, late = _sunk(found, case, moving)
        if late:
            lines = sorted(moving[statement] for statement in late)
            yield Candidate(
                rule=LATE_LOAD_FIRST,
                title="a tile that is used late is loaded first",
                cause="instructions that do not read the tile come after the load at "
                + ", ".join(f"line {number}" for _, number in lines),
                action="load each tile just before the first instruction that reads it",
                line=lines[0],
                lines=[line for line, is_load in loads.items() if is_load],
                edits=[reordered(case.tree, block, order)],
                values={"lines": [number for _, number in lines]},
            )


def _sunk(
    found: Found, case: Statement, moving: Mapping[ast.stmt, Line]
) -> tuple[list[ast.stmt], list[ast.stmt], list[ast.stmt]]:
    """Return the statements of a block, their order with late loads, and the loads that moved.

    A load goes in front of its first use, with the allocation of its tile.
    """
    block = case.tree.siblings(next(iter(moving)))
    order = list(block)
    late: list[ast.stmt] = []
    known = found.of_block(case, block)
    goes_with = set()
    for statement in reversed(block):
        own = known.get(statement)
        if own is None or not (statement in moving or isinstance(statement, ast.Assign)):
            continue
        passed = []
        for other in order[order.index(statement) + 1 :]:
            effect = known[other]
            if effect is None or own.conflicts(effect):
                break
            passed.append(other)
        else:
            continue
        works = any(s not in moving and isinstance(s, ast.Expr | ast.For) for s in passed)
        if (works and statement in moving) or (passed and other in goes_with):
            order.remove(statement)
            order.insert(order.index(other), statement)
            goes_with.add(statement)
            late += [statement] if statement in moving else []
    return block, order, late


def groups_of(
    found: Found, case: Statement, body: Sequence[ast.stmt], labels: Sequence[str]
) -> Groups | None:
    """Return the groups of successive statements; None if their effects are not certain.

    A statement with a label runs in the first group after what it depends on that has no other
    label. One without, such as an allocation, runs with what it depends on or with its first use.
    """
    effects, known = found.effects(case), found.of_block(case, body)
    done = [effect for effect in known.values() if effect is not None]
    if effects is None or len(done) < len(body):
        return None
    numbers: list[int] = []
    of_group: dict[int, str] = {}
    for i, label in enumerate(labels):
        number = max((numbers[j] for j in range(i) if done[j].conflicts(done[i])), default=0)
        while label and of_group.setdefault(number, label) != label:
            number += 1
        numbers.append(number)
    for i in reversed(range(len(body))):
        after = [numbers[j] for j in range(i + 1, len(body)) if done[j].conflicts(done[i])]
        if not labels[i] and numbers[i] == 0 and after:
            numbers[i] = min(after)
    return Groups(found, case, body, numbers, done, effects)


class Groups(NamedTuple):
    """Statements of a block and the group of each.

    Attributes:
        found, case: The program, and a statement of the file.
        statements, numbers: The statements, and the numbers of their groups.
        done, effects: Their effects, and those of their function.
    """

    found: Found
    case: Statement
    statements: Sequence[ast.stmt]
    numbers: Sequence[int]
    done: Sequence[Effect]
    effects: Effects

    def _are_independent(self, loop: ast.For) -> bool:
        """Return whether groups may run in different iterations of ``loop`` at the same time.

        Whatever one group writes and another one accesses must be allocated in each iteration.
        """
        for (i, a), (j, b) in itertools.combinations(enumerate(self.done), 2):
            if self.numbers[i] != self.numbers[j]:
                shared = (a.touched & b.written) | (a.written & b.touched)
                if not all(self.effects.is_new(variable, loop) for variable in shared):
                    return False
                if not all(self.effects.is_inside(n, loop) for n in a.conflicts(b) - shared):
                    return False
        return True

    def _needs(self, group: int) -> tuple[list[int], list[str]] | None:
        """Return the statements that a group runs, and the names that an earlier group binds.

        The group repeats pure statements of earlier groups, such as indices. None if a name has
        several values, or the value of the previous iteration.
        """
        again: set[int] = set()
        kept: set[str] = set()
        own = [i for i, number in enumerate(self.numbers) if number == group]
        waiting = {name for i in own for name in self.done[i].names}
        while waiting:
            name = waiting.pop()
            makers = [i for i, effect in enumerate(self.done) if name in effect.binds]
            if not makers or name in kept:
                continue
            if len(self.effects.bound_at(name)) > 1:
                return None
            maker, *_ = makers
            if any(name in effect.names for effect in self.done[:maker]):
                return None
            if self.numbers[maker] == group or maker in again:
                continue
            made = self.effects.value(name)
            if made is None:
                return None
            if self.effects.is_pure(made):
                again.add(maker)
                waiting |= self.done[maker].names
            else:
                kept.add(name)
        return sorted({*own, *again}), sorted(kept)

    def edits(self, loop: ast.For, *, overlapped: bool) -> list[Edit]:
        """Return the edits of a loop; none if it is not certain that results stay the same.

        Args:
            loop: The loop around the statements.
            overlapped: Whether the second of two groups runs one iteration behind the first one;
                otherwise each group gets a loop.
        """
        tree, body, count = self.case.tree, self.statements, max(self.numbers) + 1
        index = self.effects.iteration([loop], loop)
        needs = [need for group in range(count) if (need := self._needs(group)) is not None]
        line = tree.data.find(b"\n", tree.span(loop.iter)[1])
        if index is None or count < 2 or len(needs) < count or not self._are_independent(loop):
            return []
        if overlapped and (count != 2 or index != ast.unparse(loop.target)):
            return []
        lasting = {name: "" for _, names in needs for name in names}
        if any(
            t.placed or (is_psum(t.region) and t.name in lasting) for t in self.found.program.tiles
        ):
            return []
        if loop.orelse or line > tree.span(body[0])[0]:
            return []
        kept = {name: self.found.fresh(f"kept_{name}") for name in lasting}
        texts = tree.texts(line, body)
        newline, outer, inner = tree.newline, tree.indent(loop), tree.indent(body[0])
        start = tree.span(loop)[0]
        head = tree.data[start:line].decode().rstrip("\r")
        parts = []
        for group, (statements, names) in enumerate(needs):
            text = "".join(f"{newline}{inner}{name} = {kept[name]}[{index}]" for name in names)
            text += "".join(texts[i] for i in statements)
            own = [i for i, number in enumerate(self.numbers) if number == group]
            made = {name for i in own for name in self.done[i].binds}
            saved = [name for name in kept if name in made]
            text += "".join(f"{newline}{inner}{kept[name]}.append({name})" for name in saved)
            parts.append(text)
        lists = "".join(f"{name} = []{newline}{outer}" for name in kept.values())
        if overlapped:
            text = self._overlapped(loop, self.found.fresh("step"), parts)
        else:
            text = f"{newline}{outer}".join(head + part for part in parts)
        return [Edit(start, tree.end_of_line(body[-1]), lists + text)]

    def _overlapped(self, loop: ast.For, step: str, parts: Sequence[str]) -> str:
        """Return a loop whose step runs the first group, and the second of the step before."""
        tree, variable = self.case.tree, ast.unparse(loop.target)
        assert isinstance(loop.iter, ast.Call)
        count, inner = loop.iter.args[0], tree.indent(self.statements[0])
        bound = tree.code(count)
        bound = f"({bound})" if isinstance(count, ast.IfExp | ast.BoolOp | ast.Compare) else bound
        deeper = inner + inner.removeprefix(tree.indent(loop))
        lines = [f"for {step} in {tree.code(loop.iter.func)}({bound} + 1):"]
        for condition, value, part in zip(
            (f"{step} < {bound}", f"{step} > 0"), (step, f"{step} - 1"), parts, strict=True
        ):
            lines += [f"{inner}if {condition}:", f"{deeper}{variable} = {value}"]
            rows = part.splitlines()[1:]
            lines += [row.replace(inner, deeper, 1) if row.strip() else row for row in rows]
        return tree.newline.join(lines)
