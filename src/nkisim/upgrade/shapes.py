"""Shapes of tiles as texts, where the source shows them."""

from __future__ import annotations

import libcst as cst

from nkisim.upgrade.bindings import assigned_value, same_values
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import ALLOCATIONS

__all__ = ["broadcast", "is_number", "tile_dtype", "tile_shape"]

_KEEP = ("copy", "exp", "negative", "rsqrt", "sqrt", "square", "tanh", "reciprocal", "sigmoid")


def tile_shape(source: Source, node: cst.CSTNode, depth: int = 0) -> list[str] | None:
    """Return the sizes of a tile, or None if they are not visible."""
    if depth > 8:
        return None
    if isinstance(node, cst.Name):
        found = assigned_value(source, node)
        if found is None or found[1] is not None or not same_values(source, found[0], node):
            return None
        return tile_shape(source, found[0], depth + 1)
    if isinstance(node, cst.Subscript):
        return _part(source, node)
    if not isinstance(node, cst.Call):
        return None
    name = source.nki_name(node.func, "nki.language")
    if (name == "load" or name in _KEEP) and node.args:
        return tile_shape(source, node.args[0].value, depth + 1)
    if name not in ALLOCATIONS:
        return None
    given = (source.arguments(node, ALLOCATIONS[name]) or {}).get("shape")
    if not isinstance(given, cst.Tuple | cst.List):
        return None
    return [source.code(element.value) for element in given.elements]


def _part(source: Source, node: cst.Subscript) -> list[str] | None:
    """Return the sizes of ``t[0:128, k * 64:k * 64 + 64]`` if all of them have bounds."""
    sizes = []
    for element in node.slice:
        part = element.slice
        if not isinstance(part, cst.Slice) or part.upper is None or part.step is not None:
            return None
        start = "0" if part.lower is None else source.code(part.lower)
        stop = source.code(part.upper)
        if start == "0":
            sizes.append(stop)
        elif start.isdecimal() and stop.isdecimal():
            sizes.append(str(int(stop) - int(start)))
        elif stop.startswith(f"{start} + "):
            sizes.append(stop.removeprefix(f"{start} + "))
        else:
            return None
    return sizes


def tile_dtype(source: Source, node: cst.CSTNode, depth: int = 0) -> str | None:
    """Return the dtype of a tile as a text: ``"nl.float32"``, ``"x.dtype"``; None if unknown."""
    if depth > 8:
        return None
    if isinstance(node, cst.Subscript):
        return tile_dtype(source, node.value, depth)
    if isinstance(node, cst.Name):
        found = assigned_value(source, node)
        if found is None or found[1] is not None:
            return f"{node.value}.dtype" if found is None else None
        return tile_dtype(source, found[0], depth + 1)
    if not isinstance(node, cst.Call):
        return None
    name = source.nki_name(node.func, "nki.language") or ""
    if name != "load" and name not in ALLOCATIONS:
        return None
    found_arguments = source.arguments(node, ALLOCATIONS.get(name, ("src",))) or {}
    given = found_arguments.get("dtype")
    if given is None:
        src = found_arguments.get("src")
        return None if src is None else tile_dtype(source, src, depth + 1)
    if isinstance(given, cst.Attribute) and given.attr.value == "dtype":
        return tile_dtype(source, given.value, depth + 1)
    full = source.name(given) or ""
    return f"nl.{full.rpartition('.')[2]}" if full.startswith(("nki.language.", "numpy.")) else None


def is_number(source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression is known to be a Python number, not a tile.

    Literals, sizes of tensors, indices of loops and what is computed from them are numbers.
    """
    if isinstance(node, cst.Integer | cst.Float):
        return True
    if isinstance(node, cst.UnaryOperation):
        return is_number(source, node.expression, seen)
    if isinstance(node, cst.BinaryOperation):
        return is_number(source, node.left, seen) and is_number(source, node.right, seen)
    if isinstance(node, cst.Subscript):
        return isinstance(node.value, cst.Attribute) and node.value.attr.value == "shape"
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        return node.func.value in ("float", "int", "len")
    scope = source.scope(node)
    if not isinstance(node, cst.Name) or scope is None or node.value in seen:
        return False
    within = seen | {node.value}
    bound = scope.lookup(node.value)
    return bool(bound) and all(_is_numeric(source, one.node, within) for one in bound)


def _is_numeric(source: Source, node: cst.CSTNode, seen: frozenset[str]) -> bool:
    """Return whether a binding gives a name a number: ``n = 4``, ``n, m = x.shape``, a loop."""
    above = source.parent(node)
    if isinstance(above, cst.For) and above.target is node and isinstance(above.iter, cst.Call):
        loop = source.nki_name(above.iter.func, "nki.language") or source.code(above.iter.func)
        return loop in ("affine_range", "range", "sequential_range", "static_range")
    if isinstance(above, cst.Element):
        group = source.parent(above)
        target = None if group is None else source.parent(group)
        statement = None if target is None else source.parent(target)
        value = statement.value if isinstance(statement, cst.Assign) else None
        return isinstance(value, cst.Attribute) and value.attr.value == "shape"
    statement = None if above is None else source.parent(above)
    if isinstance(above, cst.AssignTarget) and isinstance(statement, cst.Assign):
        return is_number(source, statement.value, seen)
    return False


def broadcast(a: list[str], b: list[str]) -> list[str] | None:
    """Return the shape of two tiles together, or None if they do not fit."""
    if len(a) != len(b):
        return None
    sizes = []
    for left, right in zip(a, b, strict=True):
        if left != right and "1" not in (left, right):
            return None
        sizes.append(right if left == "1" else left)
    return sizes
