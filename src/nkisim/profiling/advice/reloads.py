"""P009: data that is loaded again from HBM, although SBUF could keep it.

The changed program drops the repeated loads; their readers read the tile of the first load, which
stays in SBUF until then. It must fit without spills.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nkisim.diagnostics import declare
from nkisim.memory.region import is_sbuf
from nkisim.profiling.advice.candidate import Candidate, Found, Line
from nkisim.profiling.advice.code import Iterations, iterations_of, one_function, statement_of
from nkisim.profiling.program import Operation, Program, Tile
from nkisim.profiling.result import Advice
from nkisim.profiling.spills import DoesNotFitError, with_spills
from nkisim.suggestions.statement import Case

__all__ = ["reload_advice"]

LOADED_AGAIN = declare(
    "P009",
    "loaded-again",
    "note",
    "A load reads data from HBM that an earlier one has read, and SBUF has room to keep it.",
    "the same bytes pass the DMA engines again",
    advice=True,
)


def reload_advice(found: Found) -> Iterator[Candidate]:
    """Yield advice on lines that load what was loaded before."""
    first: dict[object, Operation] = {}
    again: dict[Line, dict[int, Operation]] = {}
    for o in found.program.operations:
        if o.work.transfer is None or o.source is None:
            continue
        kept = first.setdefault(o.source, o)
        if kept is not o:
            line = (o.place.file, o.place.line)
            again.setdefault(line, {})[o.number] = kept
    if not again:
        return
    loaded_only = _loaded_only(found.program)
    for line, repeats in again.items():
        operations = found.program.operations
        loads = [o for number, kept in repeats.items() for o in (operations[number], kept)]
        if all(t in loaded_only for o in loads for t in o.writes):
            yield from _candidate(found, line, repeats)


def _loaded_only(program: Program) -> set[Tile]:
    """Return the tiles in SBUF without an address that only whole loads write."""
    sizes: dict[Tile, tuple[Tile, ...] | None] = {}
    for o in program.operations:
        loads = o.work.transfer is not None and o.source is not None
        for tile in o.writes:
            whole = loads and sizes.get(tile, o.writes) == o.writes
            sizes[tile] = o.writes if whole else None
    return {t for t, w in sizes.items() if w is not None and is_sbuf(t.region) and not t.placed}


def _candidate(found: Found, line: Line, repeats: dict[int, Operation]) -> Iterator[Candidate]:
    operations = found.program.operations
    loads = [operations[number] for number in repeats]
    nbytes = sum(o.work.transfer.nbytes for o in loads if o.work.transfer is not None)
    places = {(o.place.file, o.place.line) for o in repeats.values()}
    loops = _unused_loops(loads, repeats) if places == {line} else []
    code, before = _code(found, line, loads, repeats, loops)
    if not code:
        return
    if loops:
        names = " and ".join(f"`{name}`" for name in loops)
        title = "a load that a loop does not change"
        cause = f"{len(loads)} loads repeat earlier ones: their source does not change with {names}"
        action = f"load before the loop over `{loops[0]}` and keep the tiles in SBUF"
    else:
        title = "data is loaded again"
        where = " and ".join(_shown(*place) for place in sorted(places))
        cause = f"{len(loads)} loads read what {where} has loaded"
        action = "keep the tiles of the first loads in SBUF and use them again"
    cause += f"; {nbytes / 1e6:.2f} MB move again"
    yield Candidate(
        Advice(
            LOADED_AGAIN.id,
            title,
            cause,
            action,
            None,
            *line,
            code,
            {"transfers": len(loads), "nbytes": nbytes, "loops": loops, "before": before},
        ),
        lambda program: _without(program, repeats),
        frozenset({line}),
    )


def _shown(file: str, line: int) -> str:
    """Return a line of a file, without the folder."""
    return f"{os.path.basename(file)}:{line}"


def _without(program: Program, repeats: dict[int, Operation]) -> Program | None:
    """Return the program without repeated loads, None if its tiles do not fit in SBUF."""
    keepers = {kept.number for kept in repeats.values()}
    separate = {t for number in (*keepers, *repeats) for t in program.operations[number].writes}
    result = replace(program, operations=[], tiles=[])
    current: dict[Tile, Tile] = {}
    kept: dict[int, tuple[Tile, ...]] = {}
    numbers: list[int] = []

    def copy(tile: Tile) -> Tile:
        made = replace(tile, uses=[])
        if tile.bank is tile:
            made.bank = made
        result.tiles.append(made)
        return made

    for o in program.operations:
        if o.number in repeats:
            number = repeats[o.number].number
            current |= dict(zip(o.writes, kept[number], strict=False))
            numbers.append(numbers[number])
            continue
        needs = o.needs
        if o.number in keepers or (o.writes and o.writes[0] in separate):
            # Every load has a tile of its own and overwrites nothing.
            current |= {tile: copy(tile) for tile in o.writes}
            kept[o.number] = tuple(current[tile] for tile in o.writes)
            needs = tuple(n for n in o.needs if n not in o.reuses)
        for tile in o.tiles:
            if tile not in current:
                current[tile] = copy(tile)
        tiles = tuple(dict.fromkeys(current[tile] for tile in o.tiles))
        number = len(result.operations)
        opens = tuple(tile for tile in tiles if not tile.uses)
        for tile in tiles:
            tile.uses.append(number)
        numbers.append(number)
        result.operations.append(
            replace(
                o,
                number=number,
                needs=tuple(dict.fromkeys(numbers[n] for n in needs)),
                reuses=(),
                tiles=tiles,
                opens=opens,
                writes=tuple(dict.fromkeys(current[tile] for tile in o.writes)),
                fed_by=-1,
            )
        )
    try:
        return None if with_spills(result).nbytes else result
    except DoesNotFitError:
        return None


# -- loops and code --------------------------------------------------------------------------------


def _unused_loops(loads: Sequence[Operation], repeats: dict[int, Operation]) -> list[str]:
    """Return the variables of loops that change from a load to its repetition, outermost first."""
    found: dict[str, None] = {}
    for o in loads:
        was, now = repeats[o.number].place.loops, o.place.loops
        found |= dict.fromkeys(name for (name, a), (_, b) in zip(was, now, strict=False) if a != b)
    return [name for name, _ in loads[0].place.loops if name in found]


def _code(
    found: Found,
    line: Line,
    loads: Sequence[Operation],
    repeats: dict[int, Operation],
    loops: list[str],
) -> tuple[str, int]:
    """Return the load at its new place, and the line of the loop before which it comes, or 0.

    The code is empty where the source does not show how.
    """
    case = statement_of(LOADED_AGAIN, line)
    if case is None:
        return "", 0
    name = loads[0].writes[0].name
    if not loops:
        return _reused(found, case, loads, repeats), 0
    around = {node.target.id: node for node in case.loops() if isinstance(node.target, ast.Name)}
    if loops[0] not in around:
        return "", 0
    outer = around[loops[0]]
    inside = [n for n in around if around[n].lineno > outer.lineno and n not in loops]
    load = _load(case, outer, loads[0].writes[0])
    lines = [f"# before the loop at {_shown(line[0], outer.lineno)}"]
    counts = _iterations(loads, inside)
    if counts is None:
        return "", 0
    if not inside:
        return "\n".join([*lines, *load]), outer.lineno
    kept = case.fresh("kept")
    lines.append(f"{kept} = []")
    for depth, n in enumerate(inside):
        lines.append("    " * depth + f"for {n} in {ast.unparse(around[n].iter)}:")
    lines += ["    " * len(inside) + text for text in (*load, f"{kept}.append({name})")]
    lines += ["# in place of the load", f"{name} = {kept}[{_index(counts)}]"]
    return "\n".join(lines), outer.lineno


def _load(case: Case, outer: ast.For, tile: Tile) -> list[str]:
    """Return the statements that allocate and load a tile, with what they use of a loop's body."""
    made = statement_of(LOADED_AGAIN, tile.line)
    wanted = [case.statement] if made is None else [made.statement, case.statement]
    assigned = [node for node in ast.walk(outer) if isinstance(node, ast.Assign)]
    found = {node.lineno: node for node in wanted}
    for node in wanted:
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - {tile.name}
        for other in assigned:
            names = {ast.unparse(target) for target in other.targets}
            if names & used and other.lineno < node.lineno and other.lineno not in found:
                found[other.lineno] = other
                wanted.append(other)
    return [text for _, node in sorted(found.items()) for text in ast.unparse(node).splitlines()]


def _reused(
    found: Found, case: Case, loads: Sequence[Operation], repeats: dict[int, Operation]
) -> str:
    """Return the code that uses the tile of another line's load; empty if it is not in reach."""
    name = loads[0].writes[0].name
    earlier = {id(kept): kept for kept in repeats.values()}
    first = next(iter(earlier.values()))
    place, there = first.place, first.writes[0].name
    other = statement_of(LOADED_AGAIN, (place.file, place.line))
    apart = place.line == case.statement.lineno or len({o.place.line for o in earlier.values()}) > 1
    if apart or other is None or not one_function((case, other)):
        return ""
    if len(earlier) == 1:
        return f"{name} = {there}  # in place of this load"
    inside = [
        n for n, _ in loads[0].place.loops if len({dict(o.place.loops)[n] for o in loads}) > 1
    ]
    counts = _iterations(loads, inside)
    order = {o.number: i for i, o in enumerate(found.by_line[place.file, place.line])}
    if not counts or not other.loops():
        return ""
    if any(order.get(repeats[o.number].number) != _position(counts, o) for o in loads):
        return ""
    kept = case.fresh("kept")
    return (
        f"{kept} = []  # before the loop of {_shown(place.file, place.line)}\n"
        f"{kept}.append({there})  # after {_shown(place.file, place.line)}\n"
        f"{name} = {kept}[{_index(counts)}]  # in place of this load"
    )


def _iterations(loads: Sequence[Operation], names: list[str]) -> list[Iterations] | None:
    """Return the iterations of loops; None if they are uneven or depend on each other."""
    found = [iterations_of(loads, name) for name in names]
    known = [loop for loop in found if loop is not None]
    seen = {tuple(loop.number(o) for loop in known) for o in loads}
    even = len(known) == len(names) and len(seen) == math.prod(loop.length for loop in known)
    return known if even else None


def _position(loops: list[Iterations], operation: Operation) -> int:
    """Return the value of ``_index`` for an operation."""
    position = 0
    for loop in loops:
        position = position * loop.length + loop.number(operation)
    return position


def _index(loops: list[Iterations]) -> str:
    """Return the position of a tile in the list of those that were kept."""
    text = loops[0].text
    for loop in loops[1:]:
        text = f"{text if text.isidentifier() else f'({text})'} * {loop.length} + {loop.text}"
    return text
