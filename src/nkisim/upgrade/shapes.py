"""Shapes of tiles as texts, where the source shows them."""

from __future__ import annotations

import ast

from nkisim.upgrade.bindings import assigned_value, whole_value
from nkisim.upgrade.source import NL, Source
from nkisim.upgrade.tiles import ALLOCATIONS, allocated

_KEEP = ("copy", "exp", "negative", "rsqrt", "sqrt", "square", "tanh", "reciprocal", "sigmoid")


def tile_shape(source: Source, node: ast.AST, depth: int = 0) -> list[str] | None:
    """Return the sizes of a tile, or None if they are not visible."""
    if depth > 8:
        return None
    if isinstance(node, ast.Name):
        value = whole_value(source, node)
        return None if value is None else tile_shape(source, value, depth + 1)
    if isinstance(node, ast.Subscript):
        return _part(source, node)
    if not isinstance(node, ast.Call):
        return None
    name = source.nki_name(node.func, "nki.language")
    given = source.given(node)
    if (name == "load" or name in _KEEP) and given:
        return tile_shape(source, given[0].value, depth + 1)
    shape = allocated(source, node).get("shape")
    return [source.code(e) for e in shape.elts] if isinstance(shape, ast.Tuple | ast.List) else None


def _part(source: Source, node: ast.Subscript) -> list[str] | None:
    """Return the sizes of ``t[0:128, k * 64:k * 64 + 64]`` if all of them have bounds."""
    sizes = []
    for part in source.indices(node):
        if not isinstance(part, ast.Slice) or part.upper is None or part.step is not None:
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


def tile_dtype(source: Source, node: ast.AST, depth: int = 0) -> str | None:
    """Return the dtype of a tile as a text: ``"NL.float32"``, ``"x.dtype"``; None if unknown."""
    if depth > 8:
        return None
    if isinstance(node, ast.Subscript):
        return tile_dtype(source, node.value, depth)
    if isinstance(node, ast.Name):
        found = assigned_value(source, node)
        if found is None or found[1] is not None:
            return f"{node.id}.dtype" if found is None else None
        return tile_dtype(source, found[0], depth + 1)
    if not isinstance(node, ast.Call):
        return None
    name = source.nki_name(node.func, "nki.language") or ""
    if name != "load" and name not in ALLOCATIONS:
        return None
    arguments = source.arguments(node, ALLOCATIONS.get(name, ("src",)))
    given = arguments.get("dtype")
    if given is None:
        src = arguments.get("src")
        return None if src is None else tile_dtype(source, src, depth + 1)
    if isinstance(given, ast.Attribute) and given.attr == "dtype":
        return tile_dtype(source, given.value, depth + 1)
    full = source.name(given) or ""
    return (
        f"{NL}.{full.rpartition('.')[2]}" if full.startswith(("nki.language.", "numpy.")) else None
    )


def is_number(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is known to be a Python number, not a tile.

    Literals, sizes of tensors, indices of loops and what is computed from them are numbers.
    """
    return source.kinds.of(node) == "number"


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
