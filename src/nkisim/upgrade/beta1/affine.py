"""Index tensors of Beta 1 (``nl.arange``, ``nl.mgrid``) as affine expressions."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace

from nkisim.source import is_none, is_simple, literal_integer
from nkisim.upgrade.bindings import assigned_value, same_values, whole_value
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import is_tile

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
        stop: The text of the end of a range that is not written as its start and its count.
        counts: The sizes of a tensor of ``nl.mgrid``, which has its full size along all axes.
        parts: The nodes whose texts it repeats.
    """

    offsets: tuple[str, ...] = ()
    axes: tuple[Axis, ...] = ()
    rank: int = 0
    stop: str = ""
    counts: tuple[str, ...] = ()
    parts: tuple[ast.AST, ...] = field(default=(), compare=False)

    @property
    def dense(self) -> bool:
        """Whether the tensor has its full size along all axes."""
        return bool(self.counts)

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
    if all(map(_is_integer, kept)):
        return str(sum(map(int, kept)))
    safe = [p if re.fullmatch(r"[\w.\[\]()*/+ ,-]+", p) else f"({p})" for p in kept]
    return " + ".join(safe).replace("+ -", "- ")


def _is_integer(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None


def product(*parts: str) -> str:
    """Return the product of expressions, without ones; of integer literals, their value."""
    kept = [part for part in parts if part != "1"]
    if "0" in kept:
        return "0"
    value = 1
    for part in filter(_is_integer, kept):
        value *= int(part)
    others = [part for part in kept if not _is_integer(part)]
    if not others:
        return str(value)
    if value == -1:
        return f"-{product(*map(wrapped, others))}"
    return " * ".join(map(wrapped, kept)) if len(kept) > 1 else kept[0]


def _difference(stop: str, start: str) -> str:
    if stop.isdecimal() and start.isdecimal():
        return str(int(stop) - int(start))
    return stop if start == "0" else f"{stop} - {wrapped(start)}"


def _range(
    start: str, stop: str, axis: int, rank: int, node: ast.AST, counts: tuple[str, ...] = ()
) -> Index:
    axes = (Axis(axis, _difference(stop, start)),)
    offsets = () if start == "0" else (start,)
    return Index(offsets, axes, rank, stop if offsets else "", counts, (node,))


def _arange(source: Source, node: ast.Subscript) -> Index | None:
    """Return the range of ``nl.arange(...)[None, :]``."""
    call = node.value
    if not isinstance(call, ast.Call) or source.name(call.func) != "nki.language.arange":
        return None
    given, indices = source.given(call), source.indices(node)
    if not 1 <= len(given) <= 2 or any(a.keyword is not None or a.star for a in given):
        return None
    axis = None
    for position, part in enumerate(indices):
        if isinstance(part, ast.Slice):
            if axis is not None or part.lower or part.upper or part.step:
                return None
            axis = position
        elif not is_none(part):
            return None
    if axis is None:
        return None
    bounds = [source.code(a.value) for a in given]
    return _range("0" if len(bounds) == 1 else bounds[0], bounds[-1], axis, len(indices), node)


def grid(source: Source, node: ast.AST) -> list[Index] | None:
    """Return the ranges of ``nl.mgrid[0:128, 0:512]``, or of a name that stands for it."""
    if isinstance(node, ast.Name):
        value = whole_value(source, node)
        return None if value is None or isinstance(value, ast.Name) else grid(source, value)
    if not isinstance(node, ast.Subscript) or source.name(node.value) != "nki.language.mgrid":
        return None
    bounds = []
    for part in source.indices(node):
        if not isinstance(part, ast.Slice) or part.upper is None or part.step is not None:
            return None
        start = "0" if part.lower is None else source.code(part.lower)
        bounds.append((start, source.code(part.upper)))
    counts = tuple(_difference(stop, start) for start, stop in bounds)
    rank = len(bounds)
    return [_range(*pair, axis, rank, node, counts) for axis, pair in enumerate(bounds)]


def affine(source: Source, node: ast.AST, seen: frozenset[str] = frozenset()) -> Index | None:
    """Return an index expression as an affine one, or None if it is none or depends on tiles."""
    direct = _direct(source, node, seen)
    if direct is not None:
        return direct
    if not depends(source, node):
        if derived(source, node) or source.code(node) == "...":
            return None
        return Index((source.code(node),), parts=(node,))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = affine(source, node.operand, seen)
        return None if inner is None else _scaled(inner, "-1")
    if not isinstance(node, ast.BinOp):
        return None
    left, right = affine(source, node.left, seen), affine(source, node.right, seen)
    if left is None or right is None:
        return None
    if isinstance(node.op, ast.Add):
        return _sum(left, right)
    if isinstance(node.op, ast.Sub):
        return difference(left, right)
    if isinstance(node.op, ast.Mult) and not (left.axes and right.axes):
        tensor, factor = (left, right) if left.axes else (right, left)
        return replace(_scaled(tensor, factor.offset), parts=left.parts + right.parts)
    return None


def difference(left: Index, right: Index) -> Index | None:
    """Return one index expression minus another one."""
    return _sum(left, _scaled(right, "-1"))


def _direct(source: Source, node: ast.AST, seen: frozenset[str]) -> Index | None:
    """Return the range of an index tensor, of a name for one, or of a part of a grid."""
    if isinstance(node, ast.Subscript):
        return _arange(source, node) or _component(source, node)
    if isinstance(node, ast.Attribute):
        return _component(source, node)
    if not isinstance(node, ast.Name) or node.id in seen:
        return None
    value, place = assigned_value(source, node) or (None, None)
    index: Index | None = None
    if value is None:
        return None
    if place is not None:
        ranges = grid(source, value) if isinstance(value, ast.Subscript) else None
        index = ranges[place] if ranges is not None and place < len(ranges) else None
    elif depends(source, value):
        index = affine(source, value, seen | {node.id})
    # Its texts are repeated where the name is used: they must have the same value there.
    same = index is not None and all(same_values(source, part, node) for part in index.parts)
    return index if same else None


def _component(source: Source, node: ast.Attribute | ast.Subscript) -> Index | None:
    """Return the range of ``ix.p`` or ``ix[0]`` of a grid."""
    place: int | None = None
    if isinstance(node, ast.Attribute):
        place = _AXES.get(node.attr)
    elif len(indices := source.indices(node)) == 1:
        place = literal_integer(indices[0])
    ranges = None if place is None else grid(source, node.value)
    if ranges is None or place is None or not 0 <= place < len(ranges):
        return None
    return ranges[place]


def _sum(left: Index, right: Index) -> Index | None:
    if not left.axes:
        left, right = right, left
    if not right.axes:
        stop = total(*right.offsets, left.stop) if left.stop else ""
        offsets = (*right.offsets, *left.offsets)
        return replace(left, offsets=offsets, stop=stop, parts=left.parts + right.parts)
    if left.rank != right.rank or {a.axis for a in left.axes} & {a.axis for a in right.axes}:
        return None
    axes = tuple(sorted((*left.axes, *right.axes), key=lambda a: a.axis))
    offsets, parts = (*left.offsets, *right.offsets), left.parts + right.parts
    return Index(offsets, axes, left.rank, "", left.counts or right.counts, parts)


def _scaled(index: Index, factor: str) -> Index:
    axes = tuple(replace(a, step=product(a.step, factor)) for a in index.axes)
    offsets = tuple(product(part, factor) for part in index.offsets)
    return replace(index, offsets=offsets, axes=axes, stop="")


def depends(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is made from an index tensor."""
    return _made_from(source, node, False, frozenset())


def derived(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is made from an index tensor or from a tile."""
    return _made_from(source, node, True, frozenset())


def _made_from(source: Source, node: ast.AST, tiles: bool, seen: frozenset[str]) -> bool:
    if (tiles and is_tile(source, node)) or re.search(r"\b(arange|mgrid)\b", source.code(node)):
        return True
    for name in source.within(node, ast.Name):
        user = source.parent(name)
        if name.id in seen:
            continue
        if isinstance(user, ast.Attribute) and user.attr in ("shape", "dtype"):
            continue
        for assignment in source.bound(name):
            for above in source.ancestors(assignment.node):
                within = seen | {name.id}
                value = getattr(above, "value", None) if is_simple(above) else None
                if value is not None and _made_from(source, value, tiles, within):
                    return True
                if isinstance(above, ast.stmt):
                    break
    return False
