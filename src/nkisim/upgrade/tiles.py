"""Facts about tensors that can be read off the text: buffer, dtype, shape, kind."""

from __future__ import annotations

import ast

from nkisim.source import base_name, string, tensor_functions
from nkisim.upgrade.bindings import assigned_value, whole_value
from nkisim.upgrade.source import NL, Source
from nkisim.versions import VERSIONS, parameter_names

ALLOCATIONS = {
    name: parameter_names(VERSIONS[0], "nki.language", name)
    for name in ("ndarray", "zeros", "ones", "full", "rand", "empty_like", "zeros_like")
}
"""Functions of nki.language that make a tensor, with their parameters."""

_WITHOUT_MASK = {"all", "shared_constant", "shared_identity_matrix"}
TILE_FUNCTIONS = tensor_functions() - {*ALLOCATIONS, *_WITHOUT_MASK}
"""Functions of nki.language that compute a tile, and take a mask in Beta 1."""


def allocated(source: Source, node: ast.AST) -> dict[str, ast.expr]:
    """Return the arguments of a call that allocates a tensor; none for another expression."""
    if not isinstance(node, ast.Call):
        return {}
    parameters = ALLOCATIONS.get(source.nki_name(node.func, "nki.language") or "")
    return {} if parameters is None else source.arguments(node, parameters)


def allocation(source: Source, node: ast.AST) -> list[dict[str, ast.expr]] | None:
    """Return the arguments of each allocation of a name, None if it has other values too."""
    name = base_name(node)
    values = None if name is None else source.values(name)
    found = [allocated(source, value) for value in values or ()]
    return found if found and all(found) else None


def _agreed(source: Source, node: ast.AST, key: str) -> ast.expr | None:
    made = allocation(source, node)
    if not made or any(key not in arguments for arguments in made):
        return None
    texts = {source.code(arguments[key]) for arguments in made}
    return made[0][key] if len(texts) == 1 else None


def buffer_of(source: Source, node: ast.AST) -> str | None:
    """Return ``"psum"``, ``"sbuf"``, ... for a tensor whose allocation is visible, else None."""
    made = allocation(source, node)
    if not made:
        return None
    kinds = set()
    for arguments in made:
        given = arguments.get("buffer")
        if given is None:
            kinds.add("sbuf" if "shape" in arguments else None)
        elif (text := string(given)) is not None:
            kinds.add(text)
        else:
            kinds.add(source.nki_name(given, "nki.language"))
    return kinds.pop() if len(kinds) == 1 else None


def dtype_of(source: Source, node: ast.AST) -> str | None:
    """Return ``"int32"``, ... for a tensor whose allocation names a dtype, else None."""
    given = _agreed(source, node, "dtype")
    if given is None:
        return None
    text = string(given)
    if text is not None:
        return text
    full = source.name(given) or ""
    module, _, name = full.rpartition(".")
    return name if module in ("nki.language", "numpy") else None


def dtype_text(source: Source, node: ast.AST) -> str | None:
    """Return the text of the dtype of a tensor's allocation, if it is visible."""
    given = _agreed(source, node, "dtype")
    return None if given is None else source.code(given)


def shape_of(source: Source, node: ast.AST) -> list[str] | None:
    """Return the texts of the sizes of a tensor that is allocated with a literal shape."""
    given = _agreed(source, node, "shape")
    if not isinstance(node, ast.Name) or not isinstance(given, ast.Tuple | ast.List):
        return None
    if any(isinstance(element, ast.Starred) for element in given.elts):
        return None
    return [source.code(element) for element in given.elts]


def rank_of(source: Source, name: ast.AST, seen: frozenset[str] = frozenset()) -> int | None:
    """Return the number of dimensions of a tensor, if the text shows it.

    It does for a tensor that is allocated with a tuple, loaded as a whole from another one, or
    whose shape is unpacked, as in ``rows, columns = x.shape``.
    """
    if not isinstance(name, ast.Name) or name.id in seen:
        return None
    seen |= {name.id}
    ranks = {_rank_of_value(source, value, seen) for value in source.values(name) or ()}
    if ranks <= {None}:
        ranks = {
            len(target.elts)
            for statement in source.within(source.function_of(name) or source.module, ast.Assign)
            if isinstance(target := statement.targets[0], ast.Tuple)
            and source.code(statement.value) == f"{name.id}.shape"
            and not any(isinstance(e, ast.Starred) for e in target.elts)
        }
    return ranks.pop() if len(ranks) == 1 else None


def _rank_of_value(source: Source, value: ast.AST, seen: frozenset[str]) -> int | None:
    if not isinstance(value, ast.Call):
        return None
    if source.name(value.func) == "nki.language.load" and (given := source.given(value)):
        rank = rank_of(source, given[0].value, seen)
        return None if rank is None or rank < 2 else rank
    shape = allocated(source, value).get("shape")
    if isinstance(shape, ast.Attribute) and shape.attr == "shape":
        return rank_of(source, shape.value, seen)
    return len(shape.elts) if isinstance(shape, ast.Tuple | ast.List) else None


_IN_PSUM = {"nki.language.matmul", "nki.language.transpose", "nki.isa.nc_matmul"}


def is_tile(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is known to be a tensor that the kernel made itself."""
    return source.kinds.of(node) == "tile"


def in_psum(source: Source, node: ast.AST) -> bool:
    """Return whether an expression is known to be a tensor in PSUM."""
    name = base_name(node)
    if name is not None:
        if buffer_of(source, name) == "psum":
            return True
        values = source.values(name)
        return bool(values) and all(
            isinstance(v, ast.Call) and source.name(v.func) in _IN_PSUM for v in values or ()
        )
    return isinstance(node, ast.Call) and source.name(node.func) in _IN_PSUM


_REDUCTIONS = ("max", "mean", "min", "prod", "sum", "var")


def is_column(source: Source, node: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression is known to be a tile of one column."""
    if isinstance(node, ast.Call):
        name = source.nki_name(node.func, "nki.language")
        if name in _REDUCTIONS:
            axis = source.arguments(node, ("x", "axis")).get("axis")
            if isinstance(axis, ast.Tuple | ast.List) and len(axis.elts) == 1:
                axis = axis.elts[0]
            return axis is not None and source.code(axis) in ("1", "-1")
        if name in ALLOCATIONS:
            shape = allocated(source, node).get("shape")
            if isinstance(shape, ast.Attribute) and shape.attr == "shape":
                return is_column(source, shape.value, seen)
            if not isinstance(shape, ast.Tuple | ast.List) or len(shape.elts) != 2:
                return False
            return source.code(shape.elts[1]) == "1"
        given = [argument.value for argument in source.given(node)]
        if name == "load" and given:
            return is_column(source, given[0], seen)
        tiles = [value for value in given if is_tile(source, value)]
        own = name in TILE_FUNCTIONS and name not in ("broadcast_to", "matmul", "transpose")
        return own and bool(tiles) and all(is_column(source, tile, seen) for tile in tiles)
    if isinstance(node, ast.Subscript):
        indices = source.indices(node)
        last = indices[-1]
        if isinstance(last, ast.Slice) and last.lower is not None and last.upper is not None:
            start, stop = source.code(last.lower), source.code(last.upper)
            unit = start.isdecimal() and stop.isdecimal() and int(stop) == int(start) + 1
            return len(indices) > 1 and (unit or stop == f"{start} + 1")
        return False
    if not isinstance(node, ast.Name) or node.id in seen:
        return False
    values = source.values(node)
    within = seen | {node.id}
    return bool(values) and all(is_column(source, value, within) for value in values or ())


# -- where a value is used: by the assignment that reaches the place -------------------------------

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
