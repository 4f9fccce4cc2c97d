"""Index expressions of Beta 1 as affine functions of index tensors.

``2 * nl.arange(64)[:, None] + k`` is the function with the factor ``2`` for one axis of 64 elements
and the offset ``k``. Factors and offsets are texts of expressions.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import libcst as cst

from nkisim.upgrade.bindings import assigned_value, same_values
from nkisim.upgrade.source import Source, literal_integer
from nkisim.upgrade.tiles import is_tile

__all__ = ["Affine", "Axis", "affine", "derived", "grid_of", "lower", "minus", "plus", "times"]

_AXES = {"p": 0, "x": 1, "y": 2, "z": 3}


# -- texts of expressions ---------------------------------------------------------------------


def _kind(text: str) -> type[ast.AST]:
    body = ast.parse(text.strip().replace("\n", " "), mode="eval").body
    return type(body.op) if isinstance(body, ast.BinOp) else type(body)


_ATOMS = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)
_PRODUCTS = (ast.Mult,)
_SUMS = (ast.Add, ast.Sub)
_OTHERS = (ast.FloorDiv, ast.Mod, ast.Div, ast.Pow, ast.USub)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d+", text) else None


def _addend(text: str) -> str:
    good = issubclass(_kind(text), (*_ATOMS, *_PRODUCTS, *_SUMS, *_OTHERS))
    return text if good or _enclosed(text) else f"({text})"


def _enclosed(text: str) -> bool:
    """Return whether one pair of parentheses is around a whole text."""
    depth = 0
    for position, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return sign == ")" and position == len(text) - 1 and text[0] == "("
    return False


def plus(a: str, b: str) -> str:
    """Return the text of a sum, without zeros; of two integers, their sum."""
    left, right = _whole(a), _whole(b)
    if left is not None and right is not None:
        return str(left + right)
    if left == 0 or right == 0:
        return b if left == 0 else a
    if b.startswith("-") and not issubclass(_kind(b), _SUMS):
        return f"{_addend(a)} - {_addend(b[1:])}"
    return f"{_addend(a)} + {_addend(b)}"


def minus(a: str, b: str) -> str:
    """Return the text of a difference."""
    left, right = _whole(a), _whole(b)
    if left is not None and right is not None:
        return str(left - right)
    if right == 0:
        return a
    if left == 0:
        return times("-1", b)
    return f"{_addend(a)} - {b if issubclass(_kind(b), (*_ATOMS, *_PRODUCTS)) else f'({b})'}"


def times(a: str, b: str) -> str:
    """Return the text of a product, without ones."""
    left, right = _whole(a), _whole(b)
    if left is not None and right is not None:
        return str(left * right)
    if 0 in (left, right):
        return "0"
    if 1 in (left, right):
        return b if left == 1 else a
    if -1 in (left, right):
        return f"-{_factor(b if left == -1 else a)}"
    first = a if issubclass(_kind(a), _PRODUCTS) else _factor(a)
    return f"{first} * {_factor(b)}"


def lower(a: str, b: str) -> str:
    """Return the text of the smaller of two values."""
    left, right = _whole(a), _whole(b)
    if left is not None and right is not None:
        return str(min(left, right))
    return a if a == b else f"min({a}, {b})"


def _factor(text: str) -> str:
    return text if issubclass(_kind(text), _ATOMS) or _enclosed(text) else f"({text})"


# -- index tensors ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """One axis of an index tensor: the integers from ``start`` to ``stop``.

    Attributes:
        start: The first index.
        stop: The index behind the last one.
        place: The number of the axis.
        rank: The number of axes of the index tensor.
        grid: For ``nl.mgrid``, the bounds of all axes: the tensor has the size of all of them.
    """

    start: str
    stop: str
    place: int
    rank: int
    grid: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> str:
        """The number of elements."""
        return minus(self.stop, self.start)


@dataclass(frozen=True)
class Affine:
    """The sum of an offset and of axes times factors.

    ``parts`` are the nodes whose texts it repeats.
    """

    terms: tuple[tuple[Axis, str], ...]
    offset: str
    parts: tuple[cst.CSTNode, ...]

    def scaled(self, by: Affine) -> Affine:
        """Return the product with a constant."""
        terms = tuple((axis, times(own, by.offset)) for axis, own in self.terms)
        return Affine(terms, times(self.offset, by.offset), self.parts + by.parts)

    def added(self, other: Affine) -> Affine:
        """Return the sum with another function."""
        terms = dict(self.terms)
        for axis, factor in other.terms:
            terms[axis] = plus(terms[axis], factor) if axis in terms else factor
        parts = self.parts + other.parts
        return Affine(tuple(terms.items()), plus(self.offset, other.offset), parts)


_MINUS = Affine((), "-1", ())


def _arange(source: Source, node: cst.CSTNode) -> Axis | None:
    """Return the axis of ``nl.arange(...)[None, :]``."""
    if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Call):
        return None
    call = node.value
    if source.name(call.func) != "nki.language.arange" or not 1 <= len(call.args) <= 2:
        return None
    if any(a.keyword is not None or a.star for a in call.args):
        return None
    place = None
    for position, element in enumerate(node.slice):
        part = element.slice
        if isinstance(part, cst.Slice):
            if place is not None or part.lower or part.upper or part.step:
                return None
            place = position
        elif source.code(part.value if isinstance(part, cst.Index) else part) not in _NEW_AXIS:
            return None
    if place is None:
        return None
    bounds = [source.code(a.value) for a in call.args]
    return Axis("0" if len(bounds) == 1 else bounds[0], bounds[-1], place, len(node.slice))


_NEW_AXIS = ("None", "np.newaxis", "numpy.newaxis")


def _mgrid(source: Source, node: cst.CSTNode) -> list[Axis] | None:
    """Return the axes of ``nl.mgrid[0:128, 0:512]``."""
    if not isinstance(node, cst.Subscript) or source.name(node.value) != "nki.language.mgrid":
        return None
    bounds = []
    for element in node.slice:
        part = element.slice
        if not isinstance(part, cst.Slice) or part.upper is None:
            return None
        if part.step is not None and source.code(part.step) != "1":
            return None
        start = "0" if part.lower is None else source.code(part.lower)
        bounds.append((start, source.code(part.upper)))
    return [Axis(*pair, i, len(bounds), tuple(bounds)) for i, pair in enumerate(bounds)]


def grid_of(source: Source, node: cst.CSTNode) -> tuple[list[Axis], cst.CSTNode] | None:
    """Return the axes of ``nl.mgrid[...]`` or of a name that stands for it, and the value."""
    value = node
    if isinstance(node, cst.Name):
        found = assigned_value(source, node)
        if found is None or found[1] is not None or not same_values(source, found[0], node):
            return None
        value = found[0]
    axes = _mgrid(source, value)
    return None if axes is None else (axes, value)


def affine(
    source: Source, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> Affine | None:
    """Return an expression as an affine function of index tensors, or None if it is not one."""
    axis = _arange(source, node)
    if axis is not None:
        return Affine(((axis, "1"),), "0", (node,))
    component = _component(source, node)
    if component is not None:
        return component
    if isinstance(node, cst.Name):
        found = assigned_value(source, node)
        if found is not None and found[2] not in seen:
            value, place, statement = found
            grid = None if place is None else _mgrid(source, value)
            inner: Affine | None = None
            if grid is not None and place is not None and place < len(grid):
                inner = Affine(((grid[place], "1"),), "0", (value,))
            elif place is None:
                inner = affine(source, value, seen | {statement})
            if inner is not None and inner.terms:
                same = all(same_values(source, part, node) for part in inner.parts)
                return inner if same else None
    elif isinstance(node, cst.BinaryOperation):
        left, right = affine(source, node.left, seen), affine(source, node.right, seen)
        if left is not None and right is not None and (left.terms or right.terms):
            return _combined(node.operator, left, right)
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = affine(source, node.expression, seen)
        if inner is not None and inner.terms:
            return inner.scaled(_MINUS)
    if not isinstance(node, cst.BaseExpression) or derived(source, node):
        return None
    return Affine((), _constant(source, node), (node,))


def _constant(source: Source, node: cst.BaseExpression) -> str:
    number = literal_integer(node)
    return source.code(node) if number is None else str(number)


def _component(source: Source, node: cst.CSTNode) -> Affine | None:
    """Return the index tensor ``grid.p`` or ``grid[0]``."""
    if isinstance(node, cst.Attribute):
        grid, place = grid_of(source, node.value), _AXES.get(node.attr.value)
    elif isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        if not isinstance(index, cst.Index):
            return None
        grid, place = grid_of(source, node.value), literal_integer(index.value)
    else:
        return None
    if grid is None or place is None or not 0 <= place < len(grid[0]):
        return None
    return Affine(((grid[0][place], "1"),), "0", (grid[1],))


def _combined(operator: cst.BaseBinaryOp, left: Affine, right: Affine) -> Affine | None:
    if isinstance(operator, cst.Add):
        return left.added(right)
    if isinstance(operator, cst.Subtract):
        return left.added(right.scaled(_MINUS))
    if isinstance(operator, cst.Multiply) and not (left.terms and right.terms):
        return left.scaled(right) if left.terms else right.scaled(left)
    return None


def derived(source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression depends on an index tensor or on a tile."""
    if is_tile(source, node) or re.search(r"\b(arange|mgrid)\b", source.code(node)):
        return True
    for name in source.within(node, cst.Name):
        scope, above = source.scope(name), source.parent(name)
        if scope is None or name.value in seen:
            continue
        if isinstance(above, cst.Attribute) and above.attr.value in ("dtype", "ndim", "shape"):
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
