"""New statements in front of a line: a name for a nested expression, a copy of a tile in SBUF."""

from __future__ import annotations

import ast

from nkisim.rewriting import Edit, before
from nkisim.source import base_name
from nkisim.upgrade.rules import Match
from nkisim.upgrade.source import NISA, NL, Source


def copied(name: str, tile: str, dtype: str = "", *, engine: str = "") -> tuple[str, str]:
    """Return the statements that copy a tile to a new one in SBUF; without dtype, of its own."""
    made = (
        f"{name} = {NL}.ndarray({tile}.shape, dtype={dtype or tile + '.dtype'}, buffer={NL}.sbuf)"
    )
    tail = f", engine={engine}" if engine else ""
    return made, f"{NISA}.tensor_copy(dst={name}, src={tile}{tail})"


def staged(source: Source, operand: ast.expr, dtype: str = "") -> tuple[Edit, ...] | None:
    """Return the edits that copy an operand to SBUF in front of its statement and use the copy.

    None where the operand is no tile with a name, or its statement is not a line of its own.
    """
    tile, line = base_name(operand), source.statement(operand)
    if tile is None or line is None or not source.unconditional(operand):
        return None
    stage = source.fresh(f"{tile.id}_sbuf")
    rows = copied(stage, source.code(operand), dtype or f"{tile.id}.dtype")
    return before(source, line, rows), source.replaced(operand, stage)


def hoisted(source: Source, node: ast.AST, wish: str, message: str, otherwise: str = "") -> Match:
    """Return the change that gives an expression a name, in a statement in front of its line.

    ``otherwise`` is the advice where it is not always evaluated.
    """
    line = source.statement(node)
    if line is None or not source.unconditional(node):
        return Match(node, otherwise)
    name = source.fresh(wish)
    edits = (before(source, line, [f"{name} = {source.code(node)}"]), source.replaced(node, name))
    return Match(node, message, edits)
