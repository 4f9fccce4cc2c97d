"""P009: data that is loaded again from HBM, although SBUF could keep it.

A load whose source does not change with a loop moves in front of it. A load that repeats that of
an earlier loop uses its tiles. The conditions hold for all arguments: they follow from names, not
from one run.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from nkisim.diagnostics import declare_advice
from nkisim.memory.region import is_sbuf
from nkisim.profiling.advice.candidate import Candidate, Found, Line, line_of
from nkisim.profiling.model.program import Operation, Program, Tile
from nkisim.rewriting import Edit, after, before, removed, replaced
from nkisim.source import Effects, File, Statement, base_name, names_in, rewritten, written_operands

LOADED_AGAIN = declare_advice(
    "P009",
    "loaded-again",
    "A load reads data from HBM that an earlier one has read, and SBUF has room to keep it.",
    "the same bytes pass the DMA engines again",
)

_ALLOCATION = "nki.language.ndarray"


def reload_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on lines that load what was loaded before."""
    if found.profile.spill_bytes:  # nothing more can be kept
        return
    first: dict[object, Operation] = {}
    again: dict[Line, dict[int, Operation]] = {}
    for o in found.program.operations:
        if o.work.transfer is None or o.source is None:
            continue
        kept = first.setdefault(o.source, o)
        if kept is not o:
            line = line_of(o)
            again.setdefault(line, {})[o.number] = kept
    loaded_only = _loaded_only(found.program) if again else set()
    for line, repeats in again.items():
        operations = found.program.operations
        loads = [o for number, kept in repeats.items() for o in (operations[number], kept)]
        if all(t in loaded_only for o in loads for t in o.writes):
            candidate = _candidate(found, line, repeats)
            if candidate.edits or found.statement(line) is None:
                yield candidate


def _loaded_only(program: Program) -> set[Tile]:
    """Return the tiles in SBUF without an address that only whole loads write."""
    sizes: dict[Tile, tuple[Tile, ...] | None] = {}
    for o in program.operations:
        loads = o.work.transfer is not None and o.source is not None
        for tile in o.writes:
            whole = loads and sizes.get(tile, o.writes) == o.writes
            sizes[tile] = o.writes if whole else None
    return {t for t, w in sizes.items() if w is not None and is_sbuf(t.region) and not t.placed}


def _candidate(found: Found, line: Line, repeats: dict[int, Operation]) -> Candidate:
    loads = [found.program.operations[number] for number in repeats]
    nbytes = sum(o.work.transfer.nbytes for o in loads if o.work.transfer is not None)
    places = sorted({line_of(o) for o in repeats.values()})
    where = " and ".join(f"{os.path.basename(file)}:{number}" for file, number in places)
    title, cause = "data is loaded again", f"{len(loads)} loads read what {where} has loaded"
    action = "keep the tiles of the first loads in SBUF and use them again"
    edits: list[Edit] = []
    load = load_at(found, line)
    if load is not None and places == [line]:
        outer = _unchanging(load)
        edits = [] if outer is None else _hoisted(found, load, outer)
        if edits and outer is not None:
            title, variable = "a load that a loop does not change", ast.unparse(outer.target)
            cause = f"{len(loads)} loads repeat earlier ones, which do not change with `{variable}`"
            action = f"load before the loop over `{variable}` and keep the tiles in SBUF"
    elif load is not None and len(places) == 1:
        edits = _reused(found, load, load_at(found, places[0]))
    elif places == [line] and (filled := _unchanging_fill(found, line)) is not None:
        variable, edits = filled
        title = "a tile that a loop fills with the same data"
        cause = f"{len(loads)} loads repeat earlier ones, which do not change with `{variable}`"
        action = f"fill the tile before the loop over `{variable}`"
    return Candidate(
        rule=LOADED_AGAIN,
        title=title,
        cause=f"{cause}; {nbytes / 1e6:.2f} MB move again",
        action=action,
        line=line,
        edits=edits,
        values={"transfers": len(loads), "nbytes": nbytes},
    )


# -- loops that do not change a load ---------------------------------------------------------------


def _unchanging(load: Load) -> ast.For | None:
    """Return the outermost loop whose variable the load does not depend on."""
    for loop in load.loops:
        if isinstance(loop.target, ast.Name) and loop.target.id not in load.variables:
            return loop
    return None


def _hoisted(found: Found, load: Load, outer: ast.For) -> list[Edit]:
    """Return the edits that put a load in front of a loop."""
    tree, allocation = load.tree, load.allocation
    inside = [n for n in load.loops if n is outer or load.is_within(n, outer)]
    varying = [n for n in inside if ast.unparse(n.target) in load.variables]
    helpers = [h for h in load.helpers or () if load.is_within(h, outer)]
    moved = [load.statement]
    if allocation is not None and (varying or load.is_within(allocation, outer)):
        moved.insert(0, allocation)
    if any(len(tree.siblings(statement)) == 1 for statement in moved) and not varying:
        return []  # a block would be empty
    body = [line for statement in (*helpers, *moved) for line in tree.lines(statement)]
    if not varying:
        return [before(tree, outer, body), *(removed(tree, statement) for statement in moved)]
    index = load.effects.iteration(varying, outer)
    if index is None:
        return []
    kept = found.fresh(f"kept_{load.name}")
    lines = [f"{kept} = []"]
    for depth, loop in enumerate(varying):
        head = f"for {ast.unparse(loop.target)} in {ast.unparse(loop.iter)}:"
        lines.append("    " * depth + head)
    lines += ["    " * len(varying) + text for text in (*body, f"{kept}.append({load.name})")]
    edits = [before(tree, outer, lines)]
    edits.append(replaced(tree, load.statement, [f"{load.name} = {kept}[{index}]"]))
    return [*edits, *([] if allocation is None else [removed(tree, allocation)])]


def _unchanging_fill(found: Found, line: Line) -> tuple[str, list[Edit]] | None:
    """Return the variable of a loop around an inner loop of loads, and the edits that pass it.

    The outer loop allocates a tile and fills it by the inner loop. Both move in front of it if
    nothing else in the outer loop writes what they access, or binds a name that they read.
    """
    case = found.statement(line)
    effects = None if case is None else found.effects(case)
    loops = [] if case is None else case.loops()
    if case is None or effects is None or len(loops) < 2:
        return None
    outer, fill = loops[-2:]
    tile = base_name(case.arguments["dst"]) if "dst" in case.arguments else None
    made = None if tile is None else effects.value(tile.id)
    if made is None or made not in outer.body or fill not in outer.body:
        return None
    if not isinstance(made.value, ast.Call) or case.path(made.value.func) != _ALLOCATION:
        return None
    allocates, fills = effects.of(made), effects.of(fill)
    others = [effects.of(s) for s in outer.body if s not in (made, fill)]
    alone = (
        allocates
        and fills
        and all(
            o and not (allocates.names | fills.names) & o.binds and not fills.touched & o.written
            for o in others
        )
    )
    variable = ast.unparse(outer.target)
    if not alone or not effects.is_unconditional(fill) or variable in names_in(made, fill):
        return None
    body = [line for statement in (made, fill) for line in case.tree.lines(statement)]
    removals = [removed(case.tree, statement) for statement in (made, fill)]
    return variable, [before(case.tree, outer, body), *removals]


# -- loads that repeat those of an earlier statement -----------------------------------------------


def _reused(found: Found, load: Load, first: Load | None) -> list[Edit]:
    """Return the edits that use the tiles of another load; none if it is not certain."""
    if first is None or first.effects is not load.effects:
        return []
    shared = [loop for loop in load.loops if loop in first.loops]
    own, earlier = ([n for n in x.loops if n not in shared] for x in (load, first))
    if (earlier and len(own) != len(earlier)) or first.statement.lineno > load.statement.lineno:
        return []
    new = {ast.unparse(b.target): ast.unparse(a.target) for a, b in zip(earlier, own, strict=False)}
    mine, theirs = [load.source], [first.source]
    if earlier:
        mine += [bound for loop in own for bound in _bounds(loop)]
        theirs += [bound for loop in earlier for bound in _bounds(loop)]
    if not _same(mine, theirs, load, first, new):
        return []
    tree, name = load.tree, first.name
    edits = [] if load.allocation is None else [removed(tree, load.allocation)]
    if not earlier:
        return [*edits, replaced(tree, load.statement, [f"{load.name} = {name}"])]
    allocation = first.allocation
    index = load.effects.iteration(own, own[0])
    if index is None or (allocation is not None and not first.is_within(allocation, earlier[-1])):
        return []
    kept = found.fresh(f"kept_{name}")
    return [
        *edits,
        before(tree, earlier[0], [f"{kept} = []"]),
        after(tree, first.statement, [f"{kept}.append({name})"]),
        replaced(tree, load.statement, [f"{load.name} = {kept}[{index}]"]),
    ]


def _bounds(loop: ast.For) -> list[ast.expr]:
    return loop.iter.args if isinstance(loop.iter, ast.Call) else [loop.iter]


def _same(
    a: Sequence[ast.expr], b: Sequence[ast.expr], load: Load, first: Load, new: dict[str, str]
) -> bool:
    """Return whether expressions at two loads are equal once loop variables have one name."""
    mine = [ast.dump(_named(node, load, new)) for node in a]
    return mine == [ast.dump(_named(node, first, {})) for node in b]


def _named(node: ast.expr, load: Load, new: dict[str, str]) -> ast.expr:
    """Return an expression with the values of assigned names, and other names of loop variables."""
    values = {ast.unparse(h.targets[0]): h.value for h in load.helpers or ()}

    def change(part: ast.expr) -> ast.expr | None:
        if not isinstance(part, ast.Name):
            return None
        if part.id in values:
            return _named(values[part.id], load, new)
        return ast.Name(new.get(part.id, part.id), part.ctx)

    return rewritten(node, change)


@dataclass(frozen=True)
class Load:
    """A load of a whole tile.

    Attributes:
        case: Its statement.
        effects: The effects in its function.
        name: The variable of the tile.
        source: The expression that it reads from HBM.
        allocation: The statement that allocates the tile; None if the load itself does.
    """

    case: Statement
    effects: Effects
    name: str
    source: ast.expr
    allocation: ast.Assign | None

    @property
    def tree(self) -> File:
        """The file."""
        return self.case.tree

    @property
    def statement(self) -> ast.stmt:
        """The statement of the load."""
        return self.case.statement

    @cached_property
    def loops(self) -> list[ast.For]:
        """The loops around it, outermost first."""
        return self.case.loops()

    def is_within(self, node: ast.AST, outer: ast.AST) -> bool:
        """Return whether a node is inside another one."""
        return outer in self.tree.ancestors(node)

    @property
    def _names(self) -> set[str]:
        """The names in the load and in the allocation."""
        allocation = () if self.allocation is None else (self.allocation.value,)
        return names_in(self.source, *allocation)

    @cached_property
    def helpers(self) -> list[ast.Assign] | None:
        """The assignments in loops whose values the load uses, in the order of the text.

        None if a value cannot be computed elsewhere: it has several assignments, or calls a
        function with effects.
        """
        found: dict[str, ast.Assign] = {}
        waiting = self._names
        while waiting:
            name = waiting.pop()
            made = self.effects.bound_at(name)
            if name in found or not made or self._is_loop_variable(name, made):
                continue
            if len(made) > 1:
                return None
            if not self.loops or not self.is_within(made[0], self.loops[0]):
                continue
            value = self.effects.value(name)
            if value is None or value.lineno > self.statement.lineno:
                return None
            if not self.effects.is_pure(value) or not self.effects.is_unconditional(value):
                return None
            found[name] = value
            waiting |= names_in(value.value)
        return sorted(found.values(), key=lambda node: node.lineno)

    def _is_loop_variable(self, name: str, made: list[ast.AST]) -> bool:
        """Return whether a name has the value of a loop around the load."""
        for loop in reversed(self.loops):
            if isinstance(loop.target, ast.Name) and loop.target.id == name:
                return not any(self.is_within(n, loop) for n in made if n is not loop.target)
        return False

    @cached_property
    def variables(self) -> set[str]:
        """The loop variables that the load depends on."""
        targets = {loop.target.id for loop in self.loops if isinstance(loop.target, ast.Name)}
        return targets & (self._names | names_in(*(h.value for h in self.helpers or ())))

    def is_only_loaded(self) -> bool:
        """Return whether nothing else writes the tile, and nothing writes what is loaded."""
        read = base_name(self.source)
        calls = self.tree.within(self.effects.function.body, ast.Call)
        written = {
            base.id
            for call in calls
            if call is not self.case.call
            for operand in written_operands(call, self.case.path(call.func))
            if (base := base_name(operand)) is not None
        }
        return read is not None and not written & {self.name, read.id}


def load_at(found: Found, line: Line) -> Load | None:
    """Return the load at a line, None where it is not certain which tile it fills."""
    case = found.statement(line)
    effects = None if case is None else found.effects(case)
    if case is None or case.call is None or effects is None:
        return None
    source, name = case.arguments.get("src"), case.target or case.text("dst")
    made = effects.value(name)
    if source is None or made is None or case.tree.parent(case.call) is not case.statement:
        return None
    if not effects.is_unconditional(made) or not effects.is_unconditional(case.statement):
        return None
    if (case.function == "load") != (made is case.statement):
        return None
    load = Load(case, effects, name, source, None if made is case.statement else made)
    return load if load.helpers is not None and load.is_only_loaded() else None
