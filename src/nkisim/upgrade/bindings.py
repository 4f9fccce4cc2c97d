"""The assignment that gives a name its value at one place, where the text shows it."""

from __future__ import annotations

import libcst as cst

from nkisim.upgrade.source import Source

__all__ = ["assigned_value", "binding", "same_values"]


def binding(source: Source, name: cst.Name, at: cst.CSTNode | None = None) -> cst.CSTNode | None:
    """Return the node that binds a name when ``at`` is evaluated, or None if it is not certain.

    ``at`` is the name itself unless given. Of several assignments it is the last one before
    ``at``, if it is always executed before ``at`` and no loop brings another value back.
    """
    scope, place = source.scope(name), name if at is None else at
    if scope is None:
        return None
    nodes = [assignment.node for assignment in scope.assignments[name.value]]
    if len(nodes) <= 1:
        return nodes[0] if nodes else None
    start = source.span(_statement(source, place))[0]
    earlier = [node for node in nodes if _ready(source, node) <= start]
    if not earlier:
        return None
    last = max(earlier, key=lambda node: source.span(node)[0])
    above, around = set(source.ancestors(place)), set(source.ancestors(last))
    block: cst.CSTNode | None = next(
        (a for a in source.ancestors(last) if isinstance(a, _BLOCKS)), None
    )
    owner = _statement(source, last)
    if isinstance(owner, cst.For):
        block = owner.body
    if block is not None and block not in above and not isinstance(block, cst.Module):
        return None
    for loop in (a for a in above if isinstance(a, cst.For | cst.While)):
        if loop not in around and any(loop in source.ancestors(node) for node in nodes):
            return None
    return last


_BLOCKS = (cst.IndentedBlock, cst.SimpleStatementSuite, cst.Module)


def _statement(source: Source, node: cst.CSTNode) -> cst.CSTNode:
    """Return the simple statement around a node, or the compound one whose head contains it."""
    for above in (node, *source.ancestors(node)):
        if isinstance(above, cst.BaseSmallStatement | cst.BaseCompoundStatement):
            return above
    return node


def _ready(source: Source, node: cst.CSTNode) -> int:
    """Return the byte from which on a name that ``node`` binds has its value."""
    statement = _statement(source, node)
    return source.span(statement if isinstance(statement, cst.BaseSmallStatement) else node)[1]


def assigned_value(
    source: Source, name: cst.Name
) -> tuple[cst.BaseExpression, int | None, cst.CSTNode] | None:
    """Return the value that a name has, its place if a tuple is unpacked, and the statement."""
    node = binding(source, name)
    above = None if node is None else source.parent(node)
    place = None
    if isinstance(above, cst.Element):
        group = source.parent(above)
        if not isinstance(group, cst.Tuple | cst.List):
            return None
        place, above = list(group.elements).index(above), source.parent(group)
    statement = None if above is None else source.parent(above)
    assigned = isinstance(above, cst.AssignTarget) and isinstance(statement, cst.Assign)
    if isinstance(statement, cst.Assign) and assigned:
        return statement.value, place, statement
    if isinstance(above, cst.AnnAssign) and above.value is not None and place is None:
        return above.value, None, above
    return None


def same_values(source: Source, node: cst.CSTNode, at: cst.CSTNode) -> bool:
    """Return whether an expression has at ``at`` the value that it has where it is written."""
    for name in source.within(node, cst.Name):
        scope, above = source.scope(name), source.parent(name)
        if isinstance(above, cst.Attribute) and above.attr is name:
            continue
        if scope is None or len(list(scope.assignments[name.value])) < 2:
            continue
        here = binding(source, name)
        if here is None or here is not binding(source, name, at):
            return False
    return True
