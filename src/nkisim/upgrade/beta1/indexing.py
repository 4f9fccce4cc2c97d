"""Index tensors of Beta 1, ``nl.arange`` and ``nl.mgrid``, become slices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import is_tile

__all__ = ["sliced", "terms"]

_AXES = {"p": 0, "x": 1, "y": 2, "z": 3}
_ADVICE = "index with slices, or with t.ap(pattern=[[step, count], ...])"


@dataclass(frozen=True)
class _Range:
    """An index tensor: the integers from ``start`` to ``stop`` along one axis of ``rank`` axes."""

    start: str
    stop: str
    axis: int
    rank: int
    dense: bool


def _arange(source: Source, node: cst.CSTNode) -> _Range | None:
    """Return the range of ``nl.arange(...)[None, :]``."""
    if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Call):
        return None
    call = node.value
    if source.name(call.func) != "nki.language.arange" or not 1 <= len(call.args) <= 2:
        return None
    if any(a.keyword is not None or a.star for a in call.args):
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
    return _Range("0" if len(bounds) == 1 else bounds[0], bounds[-1], axis, len(node.slice), False)


def _mgrid(source: Source, node: cst.CSTNode) -> list[_Range] | None:
    """Return the ranges of ``nl.mgrid[0:128, 0:512]``."""
    if not isinstance(node, cst.Subscript) or source.name(node.value) != "nki.language.mgrid":
        return None
    found = []
    for axis, element in enumerate(node.slice):
        part = element.slice
        if not isinstance(part, cst.Slice) or part.upper is None or part.step is not None:
            return None
        start = "0" if part.lower is None else source.code(part.lower)
        found.append(_Range(start, source.code(part.upper), axis, len(node.slice), True))
    return found


def _value(source: Source, name: cst.Name) -> tuple[cst.BaseExpression, int | None] | None:
    """Return the one value that a name is assigned, and its place if a tuple is unpacked."""
    scope = source.scope(name)
    while scope is not None and not scope.assignments[name.value]:
        return None
    if scope is None:
        return None
    found = list(scope.assignments[name.value])
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


def _range_of(
    source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()
) -> _Range | None:
    """Return the range that an expression stands for, if it is an index tensor."""
    if isinstance(node, cst.Subscript):
        return _arange(source, node)
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        found = _value(source, node.value)
        grid = None if found is None or found[1] is not None else _mgrid(source, found[0])
        axis = _AXES.get(node.attr.value)
        return grid[axis] if grid is not None and axis is not None and axis < len(grid) else None
    if isinstance(node, cst.Name) and node.value not in seen:
        found = _value(source, node)
        if found is None:
            return None
        value, place = found
        if place is None:
            return _moved(source, value, seen | {node.value})
        grid = _mgrid(source, value)
        return grid[place] if grid is not None and place < len(grid) else None
    return None


def _moved(source: Source, node: cst.BaseExpression, seen: frozenset[str]) -> _Range | None:
    """Return the range of ``offset + nl.arange(...)[:, None]``.

    The offset is repeated where the index is used: its names must have one value only.
    """
    ranges, offsets = [], []
    for addend in _addends(node):
        found = _range_of(source, addend, seen)
        if found is not None:
            ranges.append(found)
        elif derived(source, addend):
            return None
        else:
            offsets.append(addend)
    if len(ranges) != 1:
        return None
    for offset in offsets:
        for name in source.within(offset, cst.Name):
            scope = source.scope(name)
            if scope is not None and len(list(scope.assignments[name.value])) > 1:
                return None
    moved = [source.code(offset) for offset in offsets]
    where = ranges[0]
    start, stop = _summed(*moved, where.start), _summed(*moved, where.stop)
    return _Range(start or "0", stop, where.axis, where.rank, where.dense)


def derived(source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression depends on an index tensor or on a tile."""
    if is_tile(source, node) or re.search(r"\b(arange|mgrid)\b", source.code(node)):
        return True
    for name in source.within(node, cst.Name):
        scope = source.scope(name)
        if scope is None or name.value in seen:
            continue
        for assignment in scope.assignments[name.value]:
            for above in source.ancestors(assignment.node):
                if isinstance(above, cst.BaseSmallStatement):
                    value = getattr(above, "value", None)
                    within = seen | {name.value}
                    if value is not None and derived(source, value, within):
                        return True
                if isinstance(above, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                    break
    return False


def _has_range(source: Source, node: cst.CSTNode) -> bool:
    kinds: tuple[type[cst.CSTNode], ...] = (cst.Name, cst.Attribute, cst.Subscript)
    return any(
        _range_of(source, n) is not None for kind in kinds for n in source.within(node, kind)
    )


def _addends(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        return [*_addends(node.left), *_addends(node.right)]
    return [node]


def _factor(source: Source, node: cst.BaseExpression) -> tuple[_Range, str] | None:
    """Return the range and the factor of ``i``, ``2 * i`` or ``i * 2``."""
    direct = _range_of(source, node)
    if direct is not None:
        return direct, "1"
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        for one, other in ((node.left, node.right), (node.right, node.left)):
            found = _range_of(source, one)
            if found is not None and not _has_range(source, other):
                return found, _wrapped(source.code(other))
    return None


def _wrapped(text: str) -> str:
    return text if re.fullmatch(r"[\w.]+|\(.*\)|[\w.]+\[[\w.]+\]", text) else f"({text})"


def _summed(*parts: str) -> str:
    """Return the sum of expressions, without zeros; of integer literals, their value."""
    kept = [part for part in parts if part != "0"]
    if all(part.isdecimal() for part in kept):
        return str(sum(map(int, kept)))
    safe = [p if re.fullmatch(r"[\w.\[\]()*/+ ,-]+", p) else f"({p})" for p in kept]
    return " + ".join(safe)


def _slice(source: Source, node: cst.BaseExpression) -> tuple[_Range, str] | None:
    """Return the range in an index expression, and the slice that selects the same elements."""
    ranges, offsets = [], []
    for addend in _addends(node):
        found = _factor(source, addend)
        if found is not None:
            ranges.append(found)
        elif _has_range(source, addend):
            return None
        else:
            offsets.append(source.code(addend))
    if len(ranges) != 1:
        return None
    (where, step), offset = ranges[0], _summed(*offsets)
    if step == "1":
        return where, f"{_summed(offset, where.start)}:{_summed(offset, where.stop)}"
    if where.start != "0":
        return None
    last = f"({where.stop} - 1) * {step} + 1"
    return where, f"{_summed(offset, '0')}:{_summed(offset, last)}:{step}"


def terms(source: Source, node: cst.BaseExpression) -> frozenset[str] | None:
    """Return the addends of an index expression with one index tensor, or None of another one."""
    if _slice(source, node) is None:
        return None
    return frozenset(source.code(addend).replace(" ", "") for addend in _addends(node))


def sliced(
    source: Source, node: cst.Subscript, bounds: Mapping[frozenset[str], str] | None = None
) -> str | None:
    """Return the text of a subscript with slices in place of the index tensors.

    ``bounds`` gives the upper bound of index expressions, by their addends; each must occur.
    """
    left = dict(bounds or {})
    parts: list[tuple[_Range | None, str]] = []
    for element in node.slice:
        index = element.slice
        if not isinstance(index, cst.Index) or index.star:
            return None
        if _has_range(source, index.value):
            found = _slice(source, index.value)
            if found is None:
                return None
            bound = left.pop(terms(source, index.value) or frozenset(), None)
            if bound is not None:
                start, stop, *step = found[1].split(":")
                if step:
                    return None
                found = found[0], f"{start}:min({stop}, {bound})"
            parts.append(found)
        elif derived(source, index.value):
            return None  # a dynamic index, or one that is not understood
        else:
            parts.append((None, source.code(index.value)))
    if left:
        return None
    ranges = [where for where, _ in parts if where is not None]
    ranks = {where.rank for where in ranges}
    axes = [where.axis for where in ranges]
    if len(ranks) != 1 or axes != sorted(set(axes)):
        return None
    rank = ranks.pop()
    if len(axes) < rank:
        # A tensor along one axis only keeps the others with size 1, as a slice of one element does.
        if any(where.dense for where in ranges) or len(parts) != rank:
            return None
        if [i for i, (where, _) in enumerate(parts) if where is not None] != axes:
            return None
        if any("..." in text or text == "None" for _, text in parts):
            return None
        parts = [(w, t if w is not None else f"{t}:{_summed(t, '1')}") for w, t in parts]
    elif any("..." in text or text == "None" for where, text in parts if where is None):
        return None
    inner = ", ".join(text if text[0] != ":" else f"0{text}" for _, text in parts)
    return f"{source.code(node.value)}[{inner}]"


@rule(
    "MG-105",
    "index tensors",
    since="beta1",
    kind="partial",
    before="i_p = nl.arange(128)[:, None]\ni_f = nl.arange(512)[None, :]\n"
    "t = nl.load(x[k * 128 + i_p, i_f])",
    after="t = nl.load(x[k * 128:k * 128 + 128, 0:512])",
)
def _indices(source: Source) -> Iterator[Match]:
    if not any(
        source.name(a) in ("nki.language.arange", "nki.language.mgrid")
        for a in (*source.all(cst.Attribute), *source.all(cst.Name))
    ):
        return
    inside: list[tuple[int, int]] = []
    for node in source.all(cst.Subscript):
        start, stop = source.span(node)
        if any(a <= start and stop <= b for a, b in inside):
            continue
        if not any(_has_range(source, element) for element in node.slice):
            continue
        if _has_range(source, node.value):
            continue
        inside.append((start, stop))
        text = sliced(source, node)
        if text is None:
            yield Match(node, _ADVICE)
        else:
            yield Match(node, "slices select the same elements", (source.replaced(node, text),))
    yield from _definitions(source)


def _definitions(source: Source) -> Iterator[Match]:
    """Remove the index tensors that nothing uses any more; report the others."""
    seen: set[cst.CSTNode] = set()
    for node in (*source.all(cst.Attribute), *source.all(cst.Name)):
        if source.name(node) not in ("nki.language.arange", "nki.language.mgrid"):
            continue
        line = source.statement(node)
        if line is None or isinstance(line.body[0], cst.ImportFrom) or line in seen:
            if line is None:
                yield Match(node, f"index tensors were removed: {_ADVICE}")
            continue
        seen.add(line)
        statement = line.body[0]
        if isinstance(statement, cst.Assign) and _is_unused_index(source, statement):
            yield Match(statement, "the index tensor is not used any more", (source.emptied(line),))
        elif not isinstance(source.parent(node), cst.ImportAlias):
            yield Match(statement, f"index tensors were removed: {_ADVICE}")
    for statement in source.all(cst.Assign):
        line = source.statement(statement)
        named = not re.search(r"\b(arange|mgrid)\b", source.code(statement.value))
        if not named or line is None or not _has_range(source, statement.value):
            continue
        if _is_unused_index(source, statement):
            edit = source.emptied(line)
            yield Match(statement, "the index tensor is not used any more", (edit,))


def _is_unused_index(source: Source, statement: cst.Assign) -> bool:
    value = statement.value
    if _moved(source, value, frozenset()) is None and _mgrid(source, value) is None:
        return False
    for name in source.within(statement.targets[0], cst.Name):
        scope = source.scope(name)
        for assignment in scope.assignments[name.value] if scope is not None else ():
            if len(assignment.references):
                return False
    return len(statement.targets) == 1
