"""Facts about tensors that can be read off the text: buffer, dtype, shape."""

from __future__ import annotations

import ast

from nkisim.source import Function, string
from nkisim.upgrade.signatures import writes_tile
from nkisim.upgrade.source import Source

__all__ = [
    "ALLOCATIONS",
    "TILE_FUNCTIONS",
    "allocation",
    "base_name",
    "buffer_of",
    "dtype_of",
    "dtype_text",
    "in_psum",
    "is_column",
    "is_tile",
    "rank_of",
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


def base_name(node: ast.AST) -> ast.Name | None:
    """Return the name at the start of ``t``, ``t[...]`` or ``t[...][...]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def allocation(source: Source, node: ast.AST) -> list[dict[str, ast.expr]] | None:
    """Return the arguments of each allocation of a name, None if it has other values too."""
    name = base_name(node)
    values = None if name is None else source.values(name)
    if values is None:
        return None
    found = []
    for value in values:
        function = (
            source.nki_name(value.func, "nki.language") if isinstance(value, ast.Call) else ""
        )
        if not isinstance(value, ast.Call) or function not in ALLOCATIONS:
            return None
        arguments = source.arguments(value, ALLOCATIONS[function])
        if arguments is None:
            return None
        found.append(arguments)
    return found


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
    function = source.nki_name(value.func, "nki.language")
    if function == "load" and (given := source.given(value)):
        rank = rank_of(source, given[0].value, seen)
        return None if rank is None or rank < 2 else rank
    shape = (source.arguments(value, ALLOCATIONS.get(function or "", ())) or {}).get("shape")
    if function in ALLOCATIONS and isinstance(shape, ast.Tuple | ast.List):
        return len(shape.elts)
    if function in ALLOCATIONS and isinstance(shape, ast.Attribute) and shape.attr == "shape":
        return rank_of(source, shape.value, seen)
    return None


# Functions of nki.language that return a tile.
# fmt: off
TILE_FUNCTIONS = frozenset(
    (
        "abs", "add", "arctan", "bitwise_and", "bitwise_or", "bitwise_xor", "broadcast_to",
        "ceil", "copy", "cos", "divide", "dropout", "equal", "erf", "erf_dx", "exp",
        "expand_dims", "floor", "fmod", "gather_flattened", "gelu", "gelu_apprx_sigmoid",
        "gelu_apprx_sigmoid_dx", "gelu_apprx_tanh", "gelu_dx", "greater", "greater_equal",
        "invert", "left_shift", "less", "less_equal", "load", "load_transpose2d", "log",
        "logical_and", "logical_not", "logical_or", "logical_xor", "matmul", "max", "maximum",
        "mean", "min", "minimum", "mish", "mod", "multiply", "negative", "not_equal", "power",
        "prod", "reciprocal", "relu", "right_shift", "rms_norm", "rsqrt", "sigmoid", "sign",
        "silu", "silu_dx", "sin", "softmax", "softplus", "sqrt", "square", "subtract", "sum",
        "tan", "tanh", "transpose", "trunc", "var", "where",
    )
)
# fmt: on
_VIEWS = ("ap", "broadcast_to", "reshape", "view")
_IN_PSUM = {"nki.language.matmul", "nki.language.transpose", "nki.isa.nc_matmul"}
_ARITHMETIC = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
    *(ast.BitAnd, ast.BitOr, ast.BitXor),
)


def is_tile(source: Source, node: ast.AST, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression is known to be a tensor that the kernel made itself."""
    if isinstance(node, ast.Subscript):
        return is_tile(source, node.value, seen) or _is_listed(source, node, seen)
    if isinstance(node, ast.Call):
        name = source.nki_name(node.func, "nki.language")
        if name in ALLOCATIONS or name in TILE_FUNCTIONS:
            return True
        if isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS:
            return is_tile(source, node.func.value, seen)
        if isinstance(node.func, ast.Name) and source.name(node.func) is None:
            return _returns_tile(source, node.func, seen)
        isa = source.nki_name(node.func, "nki.isa") or ""
        return writes_tile(isa) and source.keyword(node, "dst") is None
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        return is_tile(source, node.left, seen) or is_tile(source, node.right, seen)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return is_tile(source, node.operand, seen)
    if not isinstance(node, ast.Name) or node.id in seen:
        return False
    scope = source.scope(node)
    bound = [] if scope is None else scope.lookup(node.id)
    if len(bound) == 1 and isinstance(bound[0].node, ast.arg):
        return _takes_tile(source, bound[0].node, seen)
    if len(bound) == 1 and isinstance(source.parent(bound[0].node), ast.Tuple):
        return _is_unpacked(source, bound[0].node, seen | {node.id})
    values = source.values(node)
    within = seen | {node.id}
    # A value that mentions the name itself, as in ``t = t + x``, adds nothing to the others.
    known = [is_tile(source, v, within) or _mentions(source, v, within) for v in values or ()]
    return bool(known) and all(known) and any(is_tile(source, v, within) for v in values or ())


def _is_unpacked(source: Source, node: ast.AST, seen: frozenset[str]) -> bool:
    """Return whether a name in ``a, b = ...`` is known to be a tile."""
    group = source.parent(node)
    statement = None if group is None else source.parent(group)
    if not isinstance(group, ast.Tuple) or not isinstance(statement, ast.Assign):
        return False
    place, value = [e is node for e in group.elts].index(True), statement.value
    if isinstance(value, ast.Tuple) and len(value.elts) == len(group.elts):
        return is_tile(source, value.elts[place], seen)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return _returns_tile(source, value.func, seen, place)
    return False


def _is_listed(source: Source, node: ast.Subscript, seen: frozenset[str]) -> bool:
    """Return whether an expression is an element of a list that holds tiles only."""
    name, indices = node.value, source.indices(node)
    single = len(indices) == 1 and not isinstance(indices[0], ast.Slice)
    if not isinstance(name, ast.Name) or not single or name.id in seen:
        return False
    values = source.values(name) or []
    if not values or not all(isinstance(value, ast.List) for value in values):
        return False
    parts = [e for value in values if isinstance(value, ast.List) for e in value.elts]
    scope = source.scope(name)
    uses = [use for one in scope.lookup(name.id) for use in one.references] if scope else []
    for use in uses:
        method = source.parent(use)
        if isinstance(method, ast.Attribute):
            call = source.parent(method)
            if not isinstance(call, ast.Call) or method.attr != "append":
                return False
            parts += [argument.value for argument in source.given(call)]
    within = seen | {name.id}
    return bool(parts) and all(is_tile(source, part, within) for part in parts)


def _returns_tile(
    source: Source, name: ast.Name, seen: frozenset[str], place: int | None = None
) -> bool:
    """Return whether a function of the file is known to return a tile, alone or in a tuple."""
    key, scope = f"{name.id}()", source.scope(name)
    bound = [] if scope is None else scope.lookup(name.id)
    function = bound[0].node if len(bound) == 1 else None
    if not isinstance(function, Function) or key in seen or function in source.kernels():
        return False
    values: list[ast.expr | None] = [r.value for r in source.within(function.body, ast.Return)]
    if place is not None:
        values = [
            v.elts[place] if isinstance(v, ast.Tuple) and place < len(v.elts) else None
            for v in values
        ]
    within = frozenset((key,))
    return bool(values) and all(v is not None and is_tile(source, v, within) for v in values)


def _takes_tile(source: Source, parameter: ast.arg, seen: frozenset[str]) -> bool:
    """Return whether every call of a helper function passes a tile for a parameter."""
    function = source.function_of(parameter)
    if function is None or function in source.kernels():
        return False
    key, scope = f"{function.name}({parameter.arg})", source.scope(function)
    if key in seen or scope is None or len(scope.assignments[function.name]) != 1:
        return False
    names = source.parameters(function)
    uses = scope.assignments[function.name][0].references
    given = []
    for use in uses:
        call = source.parent(use)
        if not isinstance(call, ast.Call) or call.func is not use:
            return False
        given.append((source.arguments(call, names) or {}).get(parameter.arg))
    within = seen | {key}
    return bool(given) and all(v is not None and is_tile(source, v, within) for v in given)


def _mentions(source: Source, node: ast.AST, names: frozenset[str]) -> bool:
    return not names.isdisjoint(source.words(node))


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
            axis = (source.arguments(node, ("x", "axis")) or {}).get("axis")
            if isinstance(axis, ast.Tuple | ast.List) and len(axis.elts) == 1:
                axis = axis.elts[0]
            return axis is not None and source.code(axis) in ("1", "-1")
        if name in ALLOCATIONS:
            shape = (source.arguments(node, ALLOCATIONS[name]) or {}).get("shape")
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
