"""P009: data that is loaded again from HBM, although SBUF could keep it.

A load whose source does not change with a loop moves in front of it. A load that repeats that of
an earlier loop uses its tiles.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence

from nkisim.diagnostics import declare
from nkisim.memory.region import is_sbuf
from nkisim.profiling.advice.candidate import Candidate, Found, Line, line_of
from nkisim.profiling.advice.edits import after, before, removed, replaced
from nkisim.profiling.advice.loads import Load, load_at
from nkisim.profiling.model.program import Operation, Program, Tile
from nkisim.rewriting import Edit
from nkisim.source import rewritten

LOADED_AGAIN = declare(
    "P009",
    "loaded-again",
    "A load reads data from HBM that an earlier one has read, and SBUF has room to keep it.",
    "the same bytes pass the DMA engines again",
    severity="note",
    advice=True,
)


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
