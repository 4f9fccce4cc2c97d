"""A copy of a PSUM tile in SBUF, for functions that read no PSUM."""

from __future__ import annotations

import ast

from nkisim.rewriting import Edit
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import base_name


def staged(source: Source, operand: ast.expr) -> tuple[Edit, ...] | None:
    """Return the edits that copy an operand to SBUF in front of its statement and use the copy.

    None where the operand is no tile with a name, or its statement is not a line of its own.
    """
    tile, line = base_name(operand), source.statement(operand)
    language, isa = source.import_of("nki.language"), source.import_of("nki.isa")
    if tile is None or line is None or language is None or isa is None:
        return None
    if not source.unconditional(operand):
        return None
    stage, text = source.fresh(f"{tile.id}_sbuf"), source.code(operand)
    shape = f"{text}.shape, dtype={tile.id}.dtype, buffer={language[0]}.sbuf"
    lines = source.before(
        line,
        f"{stage} = {language[0]}.ndarray({shape})",
        f"{isa[0]}.tensor_copy(dst={stage}, src={text})",
    )
    return (*language[1], *isa[1], lines, source.replaced(operand, stage))
