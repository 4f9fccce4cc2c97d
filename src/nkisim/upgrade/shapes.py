"""Shapes of tiles as texts, where the source shows them."""

from __future__ import annotations

import libcst as cst

from nkisim.upgrade.bindings import assigned_value, same_values
from nkisim.upgrade.source import Source
from nkisim.upgrade.tiles import ALLOCATIONS

__all__ = ["broadcast", "tile_shape"]

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
