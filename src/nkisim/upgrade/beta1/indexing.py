"""Index tensors of Beta 1, ``nl.arange`` and ``nl.mgrid``, become slices and access patterns."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from nkisim.source import is_none, literal_integer
from nkisim.upgrade.beta1.affine import Index, affine, depends, grid, product, total
from nkisim.upgrade.bindings import binding
from nkisim.upgrade.rules import Match, rule
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import buffer_of, is_tile, rank_of

_ADVICE = "index with slices, or with t.ap(pattern=[[step, count], ...])"


@dataclass(frozen=True)
class Part:
    """The selection along one dimension of a tensor.

    Attributes:
        text: The slice or the integer.
        count: The number of elements; empty for an integer, whose dimension disappears.
        valid: The number of elements inside the bounds of a mask; the count without one.
        axis: The axis of the index tensor; -1 for an integer.
    """

    text: str
    count: str = ""
    valid: str = ""
    axis: int = -1


Limits = Mapping[int, tuple[Index, str]]


def valid_count(index: Index, bound: str) -> str:
    """Return the number of elements of a range that are below an upper bound."""
    start = total(*index.offsets)
    room = bound if start == "0" else f"{bound} - ({start})"
    return f"min({index.axes[0].count}, {room})"


def _part(index: Index, limits: Limits) -> Part | None:
    """Return the selection of an index expression along at most one axis."""
    if not index.axes:
        return Part(index.offset)
    if len(index.axes) > 1:
        return None
    where, offset = index.axes[0], index.offset
    count = valid = where.count
    limit = limits.get(where.axis)
    if limit is not None:
        valid = valid_count(*limit)
    if where.step != "1":
        last = f"({valid} - 1) * {where.step} + 1"
        return Part(f"{offset}:{total(offset, last)}:{where.step}", count, valid, where.axis)
    stop = index.stop or total(offset, where.count)
    if limit is not None:
        stop = f"min({stop}, {limit[1]})" if limit[0].key == index.key else total(offset, valid)
    return Part(f"{offset}:{stop}", count, valid, where.axis)


def _indices(source: Source, node: ast.Subscript) -> list[Index] | None:
    """Return the index expressions of a subscript, or None if one is not understood."""
    found, parts = [], source.indices(node)
    for part in parts:
        if isinstance(part, ast.Slice | ast.Starred) or is_none(part):
            return None
        whole = grid(source, part)
        if whole is not None:  # x[nl.mgrid[0:128, 0:512]]
            return whole if len(parts) == 1 else None
        index = affine(source, part)
        if index is None:
            return None
        found.append(index)
    shapes = {(index.rank, index.counts) for index in found if index.axes}
    return found if len(shapes) == 1 else None


def selected(
    source: Source, node: ast.Subscript, limits: Limits | None = None
) -> list[Part] | None:
    """Return the selection along each dimension that index tensors stand for, or None.

    ``limits`` gives the index expression and its upper bound for axes with a mask.
    """
    indices = _indices(source, node)
    if indices is None:
        return None
    rank = max(index.rank for index in indices)
    counts = next((index.counts for index in indices if index.dense), ("1",) * rank)
    parts: list[Part] = []
    free: list[int] = []  # integers whose dimension can stand for an axis of one element
    need = 0
    for index in indices:
        part = _part(index, limits or {})
        if part is None or (part.axis >= 0 and part.axis < need):
            return None
        parts.append(part)
        if part.axis < 0:
            free.append(len(parts) - 1)
            continue
        if not _fill(parts, free, counts[need : part.axis]):
            return None
        need, free = part.axis + 1, []
    if not _fill(parts, free, counts[need:rank]):
        return None
    if not set(limits or {}) <= {part.axis for part in parts}:
        return None
    return parts


def _fill(parts: list[Part], free: list[int], counts: Sequence[str]) -> bool:
    """Turn the last integers into slices of one element, one for each axis that is missing.

    ``counts`` are the sizes of the missing axes: all must be 1.
    """
    missing = len(counts)
    if missing > len(free) or any(count != "1" for count in counts):
        return False
    for place in free[len(free) - missing :] if missing else ():
        text = parts[place].text
        parts[place] = Part(f"{text}:{total(text, '1')}", "1", "1")
    return True


def sliced(source: Source, node: ast.Subscript, limits: Limits | None = None) -> str | None:
    """Return the text of a subscript with slices in place of the index tensors."""
    parts = selected(source, node, limits)
    if parts is None:
        return None if limits else _vector(source, node)
    return f"{source.code(node.value)}[{', '.join(part.text for part in parts)}]"


def _vector(source: Source, node: ast.Subscript) -> str | None:
    """Return the row or column of a tensor with one dimension that an index tensor selects."""
    indices, tensor = _indices(source, node), node.value
    if indices is None or len(source.indices(node)) != 1 or len(indices) != 1:
        return None
    if indices[0].rank != 2:
        return None
    part = _part(indices[0], {})
    if part is None or not isinstance(tensor, ast.Name) or is_tile(source, tensor):
        return None
    if any(n != "1" for place, n in enumerate(indices[0].counts) if place != part.axis):
        return None
    name, size = tensor.id, f"{tensor.id}.shape[0]"
    if part.axis == 0:
        return f"{name}.reshape(({size}, 1))[{part.text}, 0:1]"
    return f"{name}.reshape((1, {size}))[0:1, {part.text}]"


def patterned(source: Source, node: ast.Subscript, last: tuple[int, ...] = ()) -> str | None:
    """Return the access pattern that selects the same elements as index tensors.

    ``last`` are axes that become the last ones.

    The tensor must be whole, with as many dimensions as there are index expressions. On chip, the
    first axis must be the partition, and no other index may move along it.
    """
    indices, name = _indices(source, node), node.value
    if indices is None or not isinstance(name, ast.Name):
        return None
    if rank_of(source, name) != len(indices):
        return None
    if is_tile(source, name) and "hbm" not in (buffer_of(source, name) or ""):
        if {a.axis for a in indices[0].axes} != {0}:
            return None
        if any(a.axis == 0 for index in indices[1:] for a in index.axes):
            return None
    rank = max(index.rank for index in indices)
    sizes = [f"{name.id}.shape[{place}]" for place in range(len(indices))]
    steps: list[list[str]] = [[] for _ in range(rank)]
    counts = ["1"] * rank
    offsets = []
    for place, index in enumerate(indices):
        stride = product("1", *sizes[place + 1 :]) if place + 1 < len(indices) else "1"
        offsets.append(product(index.offset, stride))
        for along in index.axes:
            steps[along.axis].append(product(along.step, stride))
            counts[along.axis] = along.count
    if any(index.dense for index in indices) and not all(steps):
        return None
    pairs = [
        f"[{total(*step) if step else '1'}, {n}]" for step, n in zip(steps, counts, strict=True)
    ]
    order = [axis for axis in range(rank) if axis not in last] + list(last)
    pairs = [pairs[axis] for axis in order]
    offset = total(*offsets)
    tail = "" if offset == "0" else f", offset={offset}"
    return f"{name.id}.ap(pattern=[{', '.join(pairs)}]{tail})"


def target_text(source: Source, target: ast.expr) -> str:
    """Return the text of a tile that is written to, as an access pattern where slices fail."""
    if isinstance(target, ast.Subscript) and any(
        depends(source, index) for index in source.indices(target)
    ):
        pattern = None if sliced(source, target) else patterned(source, target)
        if pattern is not None:
            return pattern
    return source.code(target)


@rule("MG-105", "index tensors", "partial")
def _index_tensors(source: Source) -> Iterator[Match]:
    if not any(
        source.name(a) in ("nki.language.arange", "nki.language.mgrid")
        for a in (*source.all(ast.Attribute), *source.all(ast.Name))
    ):
        return
    inside: list[tuple[int, int]] = []
    for node in source.all(ast.Subscript):
        start, stop = source.span(node)
        if any(a <= start and stop <= b for a, b in inside):
            continue
        if not any(depends(source, index) for index in source.indices(node)):
            continue
        if depends(source, node.value) or grid(source, node) is not None:
            continue
        if _is_masked(source, node):
            continue  # MG-103
        inside.append((start, stop))
        text, message = sliced(source, node), "slices select the same elements"
        if text is None:
            if isinstance(node.ctx, ast.Store):
                if patterned(source, node) is None:
                    yield Match(node, _ADVICE)
                continue  # MG-102 and MG-124 write through the access pattern
            axes = _reduced_axes(source, node)
            last = () if axes is None else axes[1]
            text = patterned(source, node, last)
            message = "an access pattern selects the same elements"
            if text is not None and axes is not None:
                rank = text.count("], [") + 1
                moved = ", ".join(map(str, range(rank - len(last), rank)))
                edits = (source.replaced(node, text), source.replaced(axes[0], f"[{moved}]"))
                yield Match(node, message, edits)
                continue
        if text is None:
            yield Match(node, _ADVICE)
        else:
            yield Match(node, message, (source.replaced(node, text),))
    yield from _definitions(source)


def _reduced_axes(source: Source, node: ast.AST) -> tuple[ast.expr, tuple[int, ...]] | None:
    """Return ``axis=[2, 4]`` of a reduction of the tensor that ``node`` selects: it takes the last.

    None if the axes are not written as numbers, or follow each other already.
    """
    call = source.call_of(node)
    if call is None or source.keyword(call, "keepdims") is not None:
        return None
    if source.nki_name(call.func, "nki.language") not in ("max", "mean", "min", "prod", "sum"):
        return None
    axis = source.arguments(call, ("x", "axis")).get("axis")
    if not isinstance(axis, ast.List | ast.Tuple):
        return None
    axes = tuple(literal_integer(element) or 0 for element in axis.elts)
    steps = {b - a for a, b in itertools.pairwise(axes)}
    return (axis, axes) if axes and min(axes) > 0 and steps - {1} else None


def _is_masked(source: Source, node: ast.Subscript) -> bool:
    """Return whether a subscript is an operand, or the target, of a call with a mask."""
    above = source.parent(node)
    call = above.value if isinstance(above, ast.Assign | ast.AugAssign) else source.call_of(node)
    if not isinstance(call, ast.Call) or not (source.name(call.func) or "").startswith("nki."):
        return False
    mask = source.keyword(call, "mask")
    return mask is not None and mask.value is not node


def _definitions(source: Source) -> Iterator[Match]:
    """Remove the index tensors that nothing uses any more; report the others."""
    seen: set[ast.AST] = set()
    for node in (*source.all(ast.Attribute), *source.all(ast.Name)):
        if source.name(node) not in ("nki.language.arange", "nki.language.mgrid"):
            continue
        line = source.statement(node)
        if line is None:
            yield Match(node, f"index tensors were removed: {_ADVICE}")
        if line is None or line in seen:
            continue
        seen.add(line)
        if isinstance(line, ast.Assign) and _is_unused_index(source, line):
            yield Match(line, "the index tensor is not used any more", (source.emptied(line),))
        else:
            yield Match(line, f"index tensors were removed: {_ADVICE}")
    for statement in source.all(ast.Assign):
        line = source.statement(statement)
        named = not re.search(r"\b(arange|mgrid)\b", source.code(statement.value))
        if not named or line is None or not depends(source, statement.value):
            continue
        if _is_unused_index(source, statement):
            edit = source.emptied(line)
            yield Match(statement, "the index tensor is not used any more", (edit,))


def _is_unused_index(source: Source, statement: ast.Assign) -> bool:
    value = statement.value
    if affine(source, value) is None and grid(source, value) is None:
        return False
    return not any(
        is_read(source, name)
        for target in statement.targets
        for name in source.within(target, ast.Name)
    )


def is_read(source: Source, name: ast.Name) -> bool:
    """Return whether the value that a name is bound to here is read anywhere."""
    made = source.scope(name).assignments[name.id]
    return any(binding(source, use) in (None, name) for one in made for use in one.references)
