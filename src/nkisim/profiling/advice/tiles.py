"""P005: loads that wait until the tile they overwrite was read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.diagnostics import declare
from nkisim.profiling.advice.candidate import Candidate, Found
from nkisim.profiling.advice.edits import before, lines_of, removed
from nkisim.profiling.advice.loads import Load, load_at
from nkisim.profiling.program import Operation
from nkisim.rewriting import Edit

__all__ = ["buffer_advice"]

ONE_BUFFER = declare(
    "P005",
    "one-buffer",
    "note",
    "Loads in a loop overwrite one tile and wait until it was read.",
    "transfers and computation take turns, although they could overlap",
    advice=True,
)


def buffer_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on loads whose tile could be allocated in each iteration."""
    for line, operations in found.by_line.items():
        waiting = [
            o
            for o in operations
            if o.work.transfer is not None and not o.work.transfer.stores and o.reuses
        ]
        if len(waiting) < 2:
            continue
        load = load_at(found, ONE_BUFFER, line)
        name = waiting[0].tiles[0].name if waiting[0].tiles else "tile"
        edits = [] if load is None or _carries(found, waiting) else _moved(load)
        if edits or found.file is None:
            yield Candidate(
                rule=ONE_BUFFER,
                title="one buffer",
                cause=f"{len(waiting)} loads overwrite `{name}` and wait until it was read",
                action="allocate the tile inside the loop",
                line=line,
                lines=frozenset({line}),
                edits=tuple(edits),
                values={"transfers": len(waiting), "tile": name},
            )


def _carries(found: Found, waiting: list[Operation]) -> bool:
    """Return whether a tile is read in another iteration than that of the load that filled it."""
    operations = found.program.operations
    loads = {o.number: o for o in waiting}
    tiles = {tile for o in waiting for tile in o.writes}
    for o in operations:
        needed = set(o.needs) - set(o.reuses)
        for number in needed & loads.keys():
            here, there = o.place.loops, loads[number].place.loops
            if tiles & set(o.tiles) and here[: len(there)] != there:
                return True
    return False


def _moved(load: Load) -> list[Edit]:
    """Return the edits that allocate a tile in the loop around its load."""
    allocation, tree = load.allocation, load.tree
    if allocation is None or not load.loops:
        return []
    loop = load.loops[-1]
    names = [n for n in tree.within(load.function.body, ast.Name) if n.id == load.name]  # type: ignore[union-attr]
    used = {n.id for n in ast.walk(allocation.value) if isinstance(n, ast.Name)}
    changes = any(load.is_within(node, loop) for name in used for node in load.assigned(name))
    outside = [n for n in names if not load.is_within(n, loop) and n is not allocation.targets[0]]
    if changes or outside or load.is_within(allocation, loop):
        return []
    if len(tree.siblings(allocation)) == 1:
        return []
    return [removed(tree, allocation), before(tree, loop.body[0], lines_of(tree, allocation))]
