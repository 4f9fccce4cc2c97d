"""Index tensors of Beta 1, ``nl.arange`` and ``nl.mgrid``, become slices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from nkisim.upgrade.beta1.affine import Affine, Axis, affine, grid_of, lower, minus, plus, times
from nkisim.upgrade.bindings import binding
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import is_tile

__all__ = ["has_index", "is_read", "sliced"]

_ADVICE = "index with slices, or with t.ap(pattern=[[step, count], ...])"


def has_index(source: Source, node: cst.CSTNode) -> bool:
    """Return whether an expression contains an index tensor."""
    kinds: tuple[type[cst.CSTNode], ...] = (cst.Name, cst.Attribute, cst.Subscript)
    return any(
        ((found := affine(source, n)) is not None and bool(found.terms))
        or (kind is not cst.Attribute and grid_of(source, n) is not None)
        for kind in kinds
        for n in source.within(node, kind)
    )


def _slice(index: Affine) -> tuple[Axis, str, str, str] | None:
    """Return the axis, start, stop and step of the slice that selects the same elements."""
    if len(index.terms) != 1:
        return None
    ((axis, step),) = index.terms
    start = plus(index.offset, times(step, axis.start))
    if step == "1":
        return axis, start, plus(index.offset, axis.stop), ""
    if step.startswith("-"):
        return None
    last = plus(index.offset, times(step, plus(axis.stop, "-1")))
    return axis, start, plus(last, "1"), step


def _indices(source: Source, node: cst.Subscript) -> list[Affine | None] | None:
    """Return the index of each dimension, None for a plain one; None if one is not understood."""
    found: list[Affine | None] = []
    for element in node.slice:
        index = element.slice
        if not isinstance(index, cst.Index) or index.star:
            return None
        grid = grid_of(source, index.value)
        if grid is not None:  # x[nl.mgrid[0:128, 0:512]]
            if len(node.slice) != 1:
                return None
            return [Affine(((axis, "1"),), "0", ()) for axis in grid[0]]
        value = affine(source, index.value)
        if value is None or (not value.terms and has_index(source, index.value)):
            return None  # a dynamic index, or one that is not understood
        found.append(value)
    return found


def sliced(
    source: Source, node: cst.Subscript, bounds: Mapping[Axis, tuple[Affine, str]] | None = None
) -> str | None:
    """Return the text of a subscript with slices in place of the index tensors.

    ``bounds`` gives upper bounds: for an axis, an index expression of it and its bound. Each must
    belong to an index of the subscript.
    """
    indices = _indices(source, node)
    if indices is None:
        return None
    left = dict(bounds or {})
    parts: list[tuple[Axis | None, str]] = []
    for index in indices:
        if index is None or not index.terms:
            parts.append((None, index.offset if index is not None else ""))
            continue
        found = _slice(index)
        if found is None:
            return None
        axis, start, stop, step = found
        if axis in left:
            limited, bound = left.pop(axis)
            if step or limited.terms != index.terms:
                return None
            bound = plus(bound, _difference(index.offset, limited.offset))
            stop = lower(stop, bound)
        parts.append((axis, f"{start}:{stop}" + (f":{step}" if step else "")))
    if left:
        return None
    return _subscript(source, node, parts)


def _difference(a: str, b: str) -> str:
    """Return the text of a - b; 0 where both are sums of the same addends."""

    def addends(text: str) -> list[str]:
        return sorted(part.replace(" ", "") for part in text.split("+"))

    return "0" if addends(a) == addends(b) else minus(a, b)


def _subscript(
    source: Source, node: cst.Subscript, parts: list[tuple[Axis | None, str]]
) -> str | None:
    """Return the subscript with these indices, or None if its shape would be another one."""
    axes = [axis for axis, _ in parts if axis is not None]
    places = [axis.place for axis in axes]
    if len({axis.rank for axis in axes}) != 1 or places != sorted(set(places)):
        return None
    rank = axes[0].rank
    others = [text for axis, text in parts if axis is None]
    if any("..." in text or text == "None" for text in others):
        return None
    if len(parts) == 1 and rank == 2 and isinstance(node.value, cst.Name):
        return _vector(source, node.value, *parts[0])
    if len(axes) < rank:
        # A tensor along one axis only keeps the others with size 1, as a slice of one element does.
        if len(parts) != rank or any(not _single(axis, places) for axis in axes):
            return None
        if [i for i, (axis, _) in enumerate(parts) if axis is not None] != places:
            return None
        parts = [(a, t if a is not None else f"{t}:{plus(t, '1')}") for a, t in parts]
    inner = ", ".join(text for _, text in parts)
    return f"{source.code(node.value)}[{inner}]"


def _vector(source: Source, tensor: cst.Name, axis: Axis | None, text: str) -> str | None:
    """Return the row or column of a tensor with one dimension that an index tensor selects."""
    if axis is None or not _single(axis, [axis.place]) or is_tile(source, tensor):
        return None
    name, size = tensor.value, f"{tensor.value}.shape[0]"
    if axis.place == 0:
        return f"{name}.reshape(({size}, 1))[{text}, 0:1]"
    return f"{name}.reshape((1, {size}))[0:1, {text}]"


def _single(axis: Axis, places: list[int]) -> bool:
    """Return whether the axes of a grid that are not among ``places`` have one element."""
    return all(
        i in places or minus(stop, start) == "1" for i, (start, stop) in enumerate(axis.grid)
    )


@rule(
    "MG-105",
    "index tensors",
    since="beta1",
    kind="partial",
    before="i_p = nl.arange(128)[:, None]\ni_f = nl.arange(512)[None, :]\n"
    "t = nl.load(x[k * 128 + i_p, i_f])",
    after="t = nl.load(x[k * 128:k * 128 + 128, 0:512])",
)
def _index_tensors(source: Source) -> Iterator[Match]:
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
        if grid_of(source, node) is not None or (affine(source, node) or _NOTHING).terms:
            continue  # the index tensor itself
        if not any(has_index(source, element) for element in node.slice):
            continue
        if has_index(source, node.value):
            continue
        inside.append((start, stop))
        text = sliced(source, node)
        if text is None:
            yield Match(node, _ADVICE)
        else:
            yield Match(node, "slices select the same elements", (source.replaced(node, text),))
    yield from _definitions(source)


_NOTHING = Affine((), "0", ())


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
        if not named or line is None or not has_index(source, statement.value):
            continue
        if _is_unused_index(source, statement):
            edit = source.emptied(line)
            yield Match(statement, "the index tensor is not used any more", (edit,))


def _is_unused_index(source: Source, statement: cst.Assign) -> bool:
    value = affine(source, statement.value)
    if (value is None or not value.terms) and grid_of(source, statement.value) is None:
        return False
    return not any(
        is_read(source, name)
        for target in statement.targets
        for name in source.within(target, cst.Name)
    )


def is_read(source: Source, name: cst.Name) -> bool:
    """Return whether the value that a name is bound to here is read anywhere."""
    scope = source.scope(name)
    if scope is None:
        return True
    for assignment in scope.assignments[name.value]:
        for node in assignment.references:
            found = binding(source, node)
            if found is None or found is name:
                return True
    return False
