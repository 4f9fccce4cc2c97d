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
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.tiles import Tile
from nkisim.rewriting import Edit, after, before, removed, replaced
from nkisim.source import Effects, Statement, base_name, names_in, rewritten

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
        simple = [loop for loop in load.loops if isinstance(loop.target, ast.Name)]
        unchanging = [loop for loop in simple if ast.unparse(loop.target) not in load.variables]
        edits = _hoisted(found, load, unchanging[0]) if unchanging else []
        if edits:
            variable = ast.unparse(unchanging[0].target)
            title = "a load that a loop does not change"
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


def _hoisted(found: Found, load: Load, outer: ast.For) -> list[Edit]:
    """Return the edits that put a load in front of a loop."""
    tree, statement = load.case.tree, load.case.statement
    inside = [n for n in load.loops if n is outer or load.is_within(n, outer)]
    varying = [n for n in inside if ast.unparse(n.target) in load.variables]
    helpers = [h for h in load.helpers or () if load.is_within(h, outer)]
    moved = [*(m for m in load.allocation if varying or load.is_within(m, outer)), statement]
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
    used = replaced(tree, statement, [f"{load.name} = {kept}[{index}]"])
    return [before(tree, outer, lines), used, *(removed(tree, one) for one in load.allocation)]


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
    if (
        earlier and len(own) != len(earlier)
    ) or first.case.statement.lineno > load.case.statement.lineno:
        return []
    new = {ast.unparse(b.target): ast.unparse(a.target) for a, b in zip(earlier, own, strict=False)}
    mine = [load.source, *(_bounds(own) if earlier else ())]
    theirs = [first.source, *_bounds(earlier)]
    # Both are equal once loop variables have one name.
    texts = [ast.dump(_named(node, first, {})) for node in theirs]
    if [ast.dump(_named(node, load, new)) for node in mine] != texts:
        return []
    tree, name = load.case.tree, first.name
    edits = [removed(tree, made) for made in load.allocation]
    if not earlier:
        return [*edits, replaced(tree, load.case.statement, [f"{load.name} = {name}"])]
    index = load.effects.iteration(own, own[0])
    if index is None or not all(first.is_within(made, earlier[-1]) for made in first.allocation):
        return []
    kept = found.fresh(f"kept_{name}")
    return [
        *edits,
        before(tree, earlier[0], [f"{kept} = []"]),
        after(tree, first.case.statement, [f"{kept}.append({name})"]),
        replaced(tree, load.case.statement, [f"{load.name} = {kept}[{index}]"]),
    ]


def _bounds(loops: Sequence[ast.For]) -> list[ast.expr]:
    ranges = [loop.iter for loop in loops]
    return [node for r in ranges for node in (r.args if isinstance(r, ast.Call) else [r])]


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
        loops: The loops around it, outermost first.
        effects: The effects in its function.
        name: The variable of the tile.
        source: The expression that it reads from HBM.
        allocation: The statement that allocates the tile; none if the load itself does.
    """

    case: Statement
    loops: list[ast.For]
    effects: Effects
    name: str
    source: ast.expr
    allocation: tuple[ast.Assign, ...]

    def is_within(self, node: ast.AST, outer: ast.AST) -> bool:
        """Return whether a node is inside another one."""
        return outer in self.case.tree.ancestors(node)

    @property
    def _names(self) -> set[str]:
        """The names in the load and in the allocation."""
        return names_in(self.source, *(made.value for made in self.allocation))

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
            if value is None or value.lineno > self.case.statement.lineno:
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
        read, call = base_name(self.source), self.case.call
        names = set() if read is None else {self.name, read.id}
        return bool(names) and not names & self.effects.written(but=call)


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
    allocation = () if made is case.statement else (made,)
    load = Load(case, case.loops(), effects, name, source, allocation)
    return load if load.helpers is not None and load.is_only_loaded() else None
