"""Facts about tensors that can be read off the text: buffer, dtype, shape."""

from __future__ import annotations

import libcst as cst

from nkisim.upgrade.source import Source

__all__ = [
    "ALLOCATIONS",
    "allocation",
    "base_name",
    "buffer_of",
    "dtype_of",
    "dtype_text",
    "shape_of",
]

# Functions of nki.language that make a tensor, with their parameters.
ALLOCATIONS: dict[str, tuple[str, ...]] = {
    "ndarray": ("shape", "dtype", "buffer", "name", "address"),
    "zeros": ("shape", "dtype", "buffer", "name"),
    "ones": ("shape", "dtype", "buffer", "name"),
    "full": ("shape", "fill_value", "dtype", "buffer", "name"),
    "rand": ("shape", "dtype", "buffer", "name"),
    "empty_like": ("x", "dtype", "buffer", "name"),
    "zeros_like": ("x", "dtype", "buffer", "name"),
}


def base_name(node: cst.CSTNode) -> cst.Name | None:
    """Return the name at the start of ``t``, ``t[...]`` or ``t[...][...]``."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def allocation(source: Source, node: cst.CSTNode) -> list[dict[str, cst.BaseExpression]] | None:
    """Return the arguments of every allocation that a name stands for, or None if of others."""
    name = base_name(node)
    values = None if name is None else source.values(name)
    if values is None:
        return None
    found = []
    for value in values:
        function = (
            source.nki_name(value.func, "nki.language") if isinstance(value, cst.Call) else ""
        )
        if not isinstance(value, cst.Call) or function not in ALLOCATIONS:
            return None
        arguments = source.arguments(value, ALLOCATIONS[function])
        if arguments is None:
            return None
        found.append(arguments)
    return found


def _agreed(source: Source, node: cst.CSTNode, key: str) -> cst.BaseExpression | None:
    made = allocation(source, node)
    if not made or any(key not in arguments for arguments in made):
        return None
    texts = {source.code(arguments[key]) for arguments in made}
    return made[0][key] if len(texts) == 1 else None


def buffer_of(source: Source, node: cst.CSTNode) -> str | None:
    """Return ``"psum"``, ``"sbuf"``, ... for a tensor whose allocation is visible, else None."""
    made = allocation(source, node)
    if not made:
        return None
    kinds = set()
    for arguments in made:
        given = arguments.get("buffer")
        if given is None:
            kinds.add("sbuf" if "shape" in arguments else None)
        elif isinstance(given, cst.SimpleString):
            kinds.add(str(given.evaluated_value))
        else:
            kinds.add(source.nki_name(given, "nki.language"))
    return kinds.pop() if len(kinds) == 1 else None


def dtype_of(source: Source, node: cst.CSTNode) -> str | None:
    """Return ``"int32"``, ... for a tensor whose allocation names a dtype, else None."""
    given = _agreed(source, node, "dtype")
    if given is None:
        return None
    if isinstance(given, cst.SimpleString):
        return str(given.evaluated_value)
    full = source.name(given) or ""
    module, _, name = full.rpartition(".")
    return name if module in ("nki.language", "numpy") else None


def dtype_text(source: Source, node: cst.CSTNode) -> str | None:
    """Return the text of the dtype of a tensor's allocation, if it is visible."""
    given = _agreed(source, node, "dtype")
    return None if given is None else source.code(given)


def shape_of(source: Source, node: cst.CSTNode) -> list[str] | None:
    """Return the texts of the sizes of a tensor that is allocated with a literal shape."""
    given = _agreed(source, node, "shape")
    if not isinstance(node, cst.Name) or not isinstance(given, cst.Tuple | cst.List):
        return None
    if any(not isinstance(element, cst.Element) for element in given.elements):
        return None
    return [source.code(element.value) for element in given.elements]
