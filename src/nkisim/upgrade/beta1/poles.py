"""Functions that are not finite at zero, and the tiles that reach them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nkisim.source import base_name
from nkisim.upgrade.source import Source

_ISA, _LANGUAGE = "nki.isa", "nki.language"
_POLES = ("log", "reciprocal", "rsqrt")


# Functions that combine or move rows.
_ACROSS_ROWS = ("matmul", "transpose", "partition_reduce", "all_reduce", "shuffle")


def pole_of(source: Source, tile: ast.Name) -> str:
    """Return a function that is not finite at zero and that a tile reaches, or "".

    What is computed from the tile is followed by name, in the function of the tile.
    """
    derived = _derived(source, tile)
    for name, operand in _arguments(source, tile):
        if derived & source.words(operand):
            return name
    return ""


def rows_apart(source: Source, tile: ast.Name) -> bool:
    """Return whether no row of a tile takes part in the results of other rows."""
    derived = _derived(source, tile)
    calls = source.within(source.function_of(tile) or source.module, ast.Call)
    return not any(
        (source.name(call.func) or "").endswith(_ACROSS_ROWS) and derived & source.words(call)
        for call in calls
    )


def _arguments(source: Source, tile: ast.Name) -> Iterator[tuple[str, ast.expr]]:
    """Yield the functions with a pole at zero that are called, and their argument."""
    whole = source.function_of(tile) or source.module
    for call in source.within(whole, ast.Call):
        name = source.nki_name(call.func, _LANGUAGE)
        given = [argument.value for argument in source.given(call)]
        if name in _POLES and given:
            yield f"nl.{name}", given[0]
        elif name == "divide" and len(given) > 1:
            yield "nl.divide", given[1]
        elif (name := source.nki_name(call.func, _ISA)) is not None:
            data, op = source.keyword(call, "data"), source.keyword(call, "op")
            function = None if op is None else (source.name(op.value) or "").rpartition(".")[2]
            if name == "reciprocal" and given:
                yield "nisa.reciprocal", given[0] if data is None else data.value
            elif function in _POLES and data is not None:
                yield f"nl.{function}", data.value
    for quotient in source.within(whole, ast.BinOp):
        if isinstance(quotient.op, ast.Div):
            yield "the quotient", quotient.right


def _derived(source: Source, tile: ast.Name) -> set[str]:
    """Return the names of a tile and of what is computed from it."""
    whole = source.function_of(tile) or source.module
    steps: list[tuple[set[str], set[str]]] = []
    for statement in source.within(whole, ast.Assign):
        bases = {base.id for t in statement.targets if (base := base_name(t)) is not None}
        steps.append((source.words(statement.value), bases))
    for call in source.within(whole, ast.Call):
        dst = source.keyword(call, "dst")
        base = None if dst is None else base_name(dst.value)
        if base is not None:
            steps.append((source.words(call), {base.id}))
    found = {tile.id}
    while grown := {n for words, names in steps if words & found for n in names} - found:
        found |= grown
    return found
