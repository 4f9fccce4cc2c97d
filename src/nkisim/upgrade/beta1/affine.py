"""Index tensors of Beta 1 (``nl.arange``, ``nl.mgrid``) as affine expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import libcst as cst

from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import is_tile

__all__ = ["Axis", "Index", "affine", "depends", "derived", "grid", "product", "total", "wrapped"]

_AXES = {"p": 0, "x": 1, "y": 2, "z": 3}


@dataclass(frozen=True)
class Axis:
    """The integers ``0, step, ..., (count - 1) * step`` along one axis of an index tensor."""

    axis: int
    count: str
    step: str = "1"


@dataclass(frozen=True)
class Index:
    """An index expression: the sum of integers and of ranges along axes.

    Attributes:
        offsets: The texts of the integers in the sum.
        axes: The ranges; none for an integer.
        rank: The number of axes of the index tensor; 0 for an integer.
        dense: Whether the tensor has its full size along all axes, as one of ``nl.mgrid`` has.
        stop: The text of the end of a range that is not written as its start and its count.
    """

    offsets: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    rank: int = 0
    dense: bool = False
    stop: str = ""

    @property
    def offset(self) -> str:
        """The sum of the integers."""
        return total(*self.offsets) or "0"

    @property
    def key(self) -> tuple[frozenset[str], tuple[Axis, ...]]:
        """Equal for expressions that differ in the order of their addends only."""
        return frozenset(part.replace(" ", "") for part in self.offsets), self.axes


def wrapped(text: str) -> str:
    """Return an expression in the parentheses that it needs as a factor."""
    return text if re.fullmatch(r"[\w.]+|\([^()]*\)|[\w.]+\[[\w.]+\]", text) else f"({text})"


def total(*parts: str) -> str:
    """Return the sum of expressions, without zeros; of integer literals, their value."""
    kept = [part for part in parts if part != "0"]
    if all(part.isdecimal() for part in kept):
        return str(sum(map(int, kept)))
    safe = [p if re.fullmatch(r"[\w.\[\]()*/+ ,-]+", p) else f"({p})" for p in kept]
    return " + ".join(safe)


def product(*parts: str) -> str:
    """Return the product of expressions, without ones; of integer literals, their value."""
    kept = [part for part in parts if part != "1"]
    if "0" in kept:
        return "0"
    if all(part.isdecimal() for part in kept):
        value = 1
        for part in kept:
            value *= int(part)
        return str(value)
    return " * ".join(map(wrapped, kept)) if len(kept) > 1 else kept[0]


def _difference(stop: str, start: str) -> str:
    if stop.isdecimal() and start.isdecimal():
        return str(int(stop) - int(start))
    return stop if start == "0" else f"{stop} - {wrapped(start)}"


def _range(start: str, stop: str, axis: int, rank: int, dense: bool) -> Index:
    axes = (Axis(axis, _difference(stop, start)),)
    offsets = () if start == "0" else (start,)
    return Index(offsets, axes, rank, dense, stop if offsets else "")


def _arange(source: Source, node: cst.Subscript) -> Index | None:
    """Return the range of ``nl.arange(...)[None, :]``."""
    call = node.value
    if not isinstance(call, cst.Call) or source.name(call.func) != "nki.language.arange":
        return None
    if not 1 <= len(call.args) <= 2 or any(a.keyword is not None or a.star for a in call.args):
        return None
    axis = None
    for position, element in enumerate(node.slice):
        part = element.slice
        if isinstance(part, cst.Slice):
            if axis is not None or part.lower or part.upper or part.step:
                return None
            axis = position
        elif source.code(part.value if isinstance(part, cst.Index) else part) != "None":
            return None
    if axis is None:
        return None
    bounds = [source.code(a.value) for a in call.args]
    return _range("0" if len(bounds) == 1 else bounds[0], bounds[-1], axis, len(node.slice), False)


def grid(source: Source, node: cst.CSTNode) -> list[Index] | None:
    """Return the ranges of ``nl.mgrid[0:128, 0:512]``."""
    if not isinstance(node, cst.Subscript) or source.name(node.value) != "nki.language.mgrid":
        return None
    found = []
    for axis, element in enumerate(node.slice):
        part = element.slice
        if not isinstance(part, cst.Slice) or part.upper is None or part.step is not None:
            return None
        start = "0" if part.lower is None else source.code(part.lower)
        found.append(_range(start, source.code(part.upper), axis, len(node.slice), True))
    return found


def _value(source: Source, name: cst.Name) -> tuple[cst.BaseExpression, int | None] | None:
    """Return the one value that a name is assigned, and its place if a tuple is unpacked."""
    scope = source.scope(name)
    found = [] if scope is None else scope.lookup(name.value)
    if len(found) != 1:
        return None
    above = source.parent(found[0].node)
    place = None
    if isinstance(above, cst.Element):
        group = source.parent(above)
        if not isinstance(group, cst.Tuple):
            return None
        place, above = list(group.elements).index(above), source.parent(group)
    statement = None if above is None else source.parent(above)
    if not isinstance(above, cst.AssignTarget) or not isinstance(statement, cst.Assign):
        return None
    return (statement.value, place) if len(statement.targets) == 1 else None


def affine(source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> Index | None:
    """Return an index expression as an affine one, or None if it is none or depends on tiles."""
    direct = _direct(source, node, seen)
    if direct is not None:
        return direct
    if not depends(source, node):
        if derived(source, node) or isinstance(node, cst.Ellipsis):
            return None
        return Index((source.code(node),))
    if not isinstance(node, cst.BinaryOperation):
        return None
    left, right = affine(source, node.left, seen), affine(source, node.right, seen)
    if left is None or right is None:
        return None
    if isinstance(node.operator, cst.Add):
        return _sum(left, right)
    if isinstance(node.operator, cst.Subtract) and not right.axes:
        minus = f"- {wrapped(right.offset)}"
        return _sum(left, Index((f"({minus.replace(' ', '')})",)))
    if isinstance(node.operator, cst.Multiply) and not (left.axes and right.axes):
        return _scaled(left, right.offset) if left.axes else _scaled(right, left.offset)
    return None


def _direct(source: Source, node: cst.CSTNode, seen: frozenset[str]) -> Index | None:
    """Return the range of an index tensor, of a name for one, or of a part of a grid."""
    if isinstance(node, cst.Subscript):
        return _arange(source, node)
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        found = _value(source, node.value)
        ranges = None if found is None or found[1] is not None else grid(source, found[0])
        axis = _AXES.get(node.attr.value)
        fits = ranges is not None and axis is not None and axis < len(ranges)
        return ranges[axis] if fits and ranges is not None and axis is not None else None
    if not isinstance(node, cst.Name) or node.value in seen:
        return None
    found = _value(source, node)
    if found is None:
        return None
    value, place = found
    if place is not None:
        ranges = grid(source, value)
        return ranges[place] if ranges is not None and place < len(ranges) else None
    if not depends(source, value):
        return None
    index = affine(source, value, seen | {node.value})
    # The offset is repeated where the index is used: its names must have one value only.
    return index if index is not None and _constant(source, value) else None


def _constant(source: Source, node: cst.CSTNode) -> bool:
    for name in source.within(node, cst.Name):
        scope = source.scope(name)
        if scope is not None and len(scope.lookup(name.value)) > 1:
            return False
    return True


def _sum(left: Index, right: Index) -> Index | None:
    if not left.axes:
        left, right = right, left
    if not right.axes:
        stop = total(*right.offsets, left.stop) if left.stop else ""
        offsets = (*right.offsets, *left.offsets)
        return replace(left, offsets=offsets, stop=stop)
    if left.rank != right.rank or {a.axis for a in left.axes} & {a.axis for a in right.axes}:
        return None
    axes = tuple(sorted((*left.axes, *right.axes), key=lambda a: a.axis))
    return Index((*left.offsets, *right.offsets), axes, left.rank, left.dense or right.dense)


def _scaled(index: Index, factor: str) -> Index:
    axes = tuple(replace(a, step=product(a.step, factor)) for a in index.axes)
    offsets = tuple(product(part, factor) for part in index.offsets)
    return replace(index, offsets=offsets, axes=axes, stop="")


def depends(source: Source, node: cst.CSTNode) -> bool:
    """Return whether an expression is made from an index tensor."""
    return _made_from(source, node, False, frozenset())


def derived(source: Source, node: cst.CSTNode) -> bool:
    """Return whether an expression is made from an index tensor or from a tile."""
    return _made_from(source, node, True, frozenset())


def _made_from(source: Source, node: cst.CSTNode, tiles: bool, seen: frozenset[str]) -> bool:
    if (tiles and is_tile(source, node)) or re.search(r"\b(arange|mgrid)\b", source.code(node)):
        return True
    for name in source.within(node, cst.Name):
        scope, user = source.scope(name), source.parent(name)
        if scope is None or name.value in seen:
            continue
        if isinstance(user, cst.Attribute) and user.attr.value in ("shape", "dtype"):
            continue
        for assignment in scope.lookup(name.value):
            for above in source.ancestors(assignment.node):
                value = getattr(above, "value", None)
                small = isinstance(above, cst.BaseSmallStatement)
                within = seen | {name.value}
                if small and value is not None and _made_from(source, value, tiles, within):
                    return True
                if small or isinstance(above, cst.BaseCompoundStatement):
                    break
    return False
