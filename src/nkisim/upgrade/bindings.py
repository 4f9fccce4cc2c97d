"""The assignment that gives a name its value at one place, where the text shows it."""

from __future__ import annotations

import ast

from nkisim.source import is_simple
from nkisim.upgrade.source import Source


def binding(source: Source, name: ast.Name, at: ast.AST | None = None) -> ast.AST | None:
    """Return the node that binds a name when ``at`` is evaluated, or None if it is not certain.

    ``at`` is the name itself unless given. Of several assignments it is the last one before
    ``at``, if it is always executed before ``at`` and no loop brings another value back.
    """
    place = name if at is None else at
    nodes = [assignment.node for assignment in source.scope(name).assignments[name.id]]
    if len(nodes) <= 1:
        return nodes[0] if nodes else None
    start = source.span(source.statement_of(place))[0]
    earlier = [node for node in nodes if _ready(source, node) <= start]
    if not earlier:
        return None
    last = max(earlier, key=lambda node: source.span(node)[0])
    above, around = set(source.ancestors(place)), set(source.ancestors(last))
    owner = source.statement_of(last)
    block = (owner, "body") if isinstance(owner, ast.For) else source.block(owner)
    conditional = block is not None and not isinstance(block[0], ast.Module)
    if conditional and block not in [source.block(a) for a in (place, *above)]:
        return None
    for loop in (a for a in above if isinstance(a, ast.For | ast.While)):
        if loop not in around and any(loop in source.ancestors(node) for node in nodes):
            return None
    return last


def _ready(source: Source, node: ast.AST) -> int:
    """Return the first byte at which a name that ``node`` binds has its value."""
    statement = source.statement_of(node)
    return source.span(statement if is_simple(statement) else node)[1]


def assigned_value(source: Source, name: ast.Name) -> tuple[ast.expr, int | None] | None:
    """Return the value that a name has, and the place of its part if a tuple is unpacked."""
    node = binding(source, name)
    above = None if node is None else source.parent(node)
    place = None
    if isinstance(above, ast.Tuple | ast.List) and isinstance(node, ast.expr):
        place, above = above.elts.index(node), source.parent(above)
    if isinstance(above, ast.Assign):
        return above.value, place
    if isinstance(above, ast.AnnAssign) and above.value is not None and place is None:
        return above.value, None
    return None


def whole_value(source: Source, name: ast.Name) -> ast.expr | None:
    """Return the value that a name has and that means the same where the name is used."""
    value, place = assigned_value(source, name) or (None, None)
    known = value is not None and place is None and same_values(source, value, name)
    return value if known else None


def same_values(source: Source, node: ast.AST, at: ast.AST) -> bool:
    """Return whether an expression has at ``at`` the value that it has where it is written."""
    for name in source.within(node, ast.Name):
        if len(source.scope(name).assignments[name.id]) < 2:
            continue
        here = binding(source, name)
        if here is None or here is not binding(source, name, at):
            return False
    return True
