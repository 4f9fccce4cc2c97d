"""Facts about tensors that can be read off the text: buffer, dtype, shape."""

from __future__ import annotations

import libcst as cst

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


def rank_of(source: Source, name: cst.CSTNode, seen: frozenset[str] = frozenset()) -> int | None:
    """Return the number of dimensions of a tensor, if the text shows it.

    It does for a tensor that is allocated with a tuple, loaded as a whole from another one, or
    whose shape is unpacked, as in ``rows, columns = x.shape``.
    """
    if not isinstance(name, cst.Name) or name.value in seen:
        return None
    seen |= {name.value}
    ranks = {_rank_of_value(source, value, seen) for value in source.values(name) or ()}
    if ranks <= {None}:
        ranks = {
            len(target.elements)
            for statement in source.within(source.function_of(name) or source.module, cst.Assign)
            if isinstance(target := statement.targets[0].target, cst.Tuple)
            and source.code(statement.value) == f"{name.value}.shape"
            and not any(isinstance(e, cst.StarredElement) for e in target.elements)
        }
    return ranks.pop() if len(ranks) == 1 else None


def _rank_of_value(source: Source, value: cst.CSTNode, seen: frozenset[str]) -> int | None:
    if not isinstance(value, cst.Call):
        return None
    function = source.nki_name(value.func, "nki.language")
    if function == "load" and value.args:
        rank = rank_of(source, value.args[0].value, seen)
        return None if rank is None or rank < 2 else rank
    shape = (source.arguments(value, ALLOCATIONS.get(function or "", ())) or {}).get("shape")
    if function in ALLOCATIONS and isinstance(shape, cst.Tuple | cst.List):
        return len(shape.elements)
    if function in ALLOCATIONS and isinstance(shape, cst.Attribute) and shape.attr.value == "shape":
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
    cst.Add,
    cst.Subtract,
    cst.Multiply,
    cst.Divide,
    cst.Power,
    cst.BitAnd,
    cst.BitOr,
    cst.BitXor,
)


def is_tile(source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression is known to be a tensor that the kernel made itself."""
    if isinstance(node, cst.Subscript):
        return is_tile(source, node.value, seen) or _is_listed(source, node, seen)
    if isinstance(node, cst.Call):
        name = source.nki_name(node.func, "nki.language")
        if name in ALLOCATIONS or name in TILE_FUNCTIONS:
            return True
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
            return is_tile(source, node.func.value, seen)
        if isinstance(node.func, cst.Name) and source.name(node.func) is None:
            return _returns_tile(source, node.func, seen)
        return source.nki_name(node.func, "nki.isa") is not None and not any(
            a.keyword is not None and a.keyword.value == "dst" for a in node.args
        )
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _ARITHMETIC):
        return is_tile(source, node.left, seen) or is_tile(source, node.right, seen)
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        return is_tile(source, node.expression, seen)
    if not isinstance(node, cst.Name) or node.value in seen:
        return False
    scope = source.scope(node)
    bound = [] if scope is None else scope.lookup(node.value)
    if len(bound) == 1 and isinstance(bound[0].node, cst.Param):
        return _takes_tile(source, bound[0].node, seen)
    if len(bound) == 1 and isinstance(source.parent(bound[0].node), cst.Element):
        return _is_unpacked(source, bound[0].node, seen | {node.value})
    values = source.values(node)
    within = seen | {node.value}
    # A value that mentions the name itself, as in ``t = t + x``, adds nothing to the others.
    known = [is_tile(source, v, within) or _mentions(source, v, within) for v in values or ()]
    return bool(known) and all(known) and any(is_tile(source, v, within) for v in values or ())


def _is_unpacked(source: Source, node: cst.CSTNode, seen: frozenset[str]) -> bool:
    """Return whether a name in ``a, b = ...`` is known to be a tile."""
    element = source.parent(node)
    group = None if element is None else source.parent(element)
    target = None if group is None else source.parent(group)
    statement = None if target is None else source.parent(target)
    if not isinstance(group, cst.Tuple) or not isinstance(statement, cst.Assign):
        return False
    place, value = [e is element for e in group.elements].index(True), statement.value
    if isinstance(value, cst.Tuple) and len(value.elements) == len(group.elements):
        return is_tile(source, value.elements[place].value, seen)
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Name):
        return _returns_tile(source, value.func, seen, place)
    return False


def _is_listed(source: Source, node: cst.Subscript, seen: frozenset[str]) -> bool:
    """Return whether an expression is an element of a list that holds tiles only."""
    name = node.value
    single = len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)
    if not isinstance(name, cst.Name) or not single or name.value in seen:
        return False
    values = source.values(name) or []
    if not values or not all(isinstance(value, cst.List) for value in values):
        return False
    parts = [e.value for value in values if isinstance(value, cst.List) for e in value.elements]
    scope = source.scope(name)
    uses = [use for one in scope.lookup(name.value) for use in one.references] if scope else []
    for use in uses:
        method = source.parent(use)
        if isinstance(method, cst.Attribute):
            call = source.parent(method)
            if not isinstance(call, cst.Call) or method.attr.value != "append":
                return False
            parts += [argument.value for argument in call.args]
    within = seen | {name.value}
    return bool(parts) and all(is_tile(source, part, within) for part in parts)


def _returns_tile(
    source: Source, name: cst.Name, seen: frozenset[str], place: int | None = None
) -> bool:
    """Return whether a function of the file is known to return a tile, alone or in a tuple."""
    key, scope = f"{name.value}()", source.scope(name)
    bound = [] if scope is None else scope.lookup(name.value)
    function = bound[0].node if len(bound) == 1 else None
    if not isinstance(function, cst.FunctionDef) or key in seen or function in source.kernels():
        return False
    values: list[cst.BaseExpression | None] = [
        r.value for r in source.within(function.body, cst.Return)
    ]
    if place is not None:
        values = [
            v.elements[place].value
            if isinstance(v, cst.Tuple) and place < len(v.elements)
            else None
            for v in values
        ]
    within = frozenset((key,))
    return bool(values) and all(v is not None and is_tile(source, v, within) for v in values)


def _takes_tile(source: Source, parameter: cst.Param, seen: frozenset[str]) -> bool:
    """Return whether every call of a helper function passes a tile for a parameter."""
    function = source.function_of(parameter)
    if function is None or function in source.kernels():
        return False
    key, scope = f"{function.name.value}({parameter.name.value})", source.scope(function)
    if key in seen or scope is None or len(scope.assignments[function.name.value]) != 1:
        return False
    names = [p.name.value for p in function.params.params]
    uses = scope.assignments[function.name.value][0].references
    given = []
    for use in uses:
        call = source.parent(use)
        if not isinstance(call, cst.Call) or call.func is not use:
            return False
        given.append((source.arguments(call, names) or {}).get(parameter.name.value))
    within = seen | {key}
    return bool(given) and all(v is not None and is_tile(source, v, within) for v in given)


def _mentions(source: Source, node: cst.CSTNode, names: frozenset[str]) -> bool:
    return any(name.value in names for name in source.within(node, cst.Name))


def in_psum(source: Source, node: cst.CSTNode) -> bool:
    """Return whether an expression is known to be a tensor in PSUM."""
    name = base_name(node)
    if name is not None:
        if buffer_of(source, name) == "psum":
            return True
        values = source.values(name)
        return bool(values) and all(
            isinstance(v, cst.Call) and source.name(v.func) in _IN_PSUM for v in values or ()
        )
    return isinstance(node, cst.Call) and source.name(node.func) in _IN_PSUM


_REDUCTIONS = ("max", "mean", "min", "prod", "sum", "var")


def is_column(source: Source, node: cst.CSTNode, seen: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression is known to be a tile of one column."""
    if isinstance(node, cst.Call):
        name = source.nki_name(node.func, "nki.language")
        if name in _REDUCTIONS:
            axis = (source.arguments(node, ("x", "axis")) or {}).get("axis")
            if isinstance(axis, cst.Tuple | cst.List) and len(axis.elements) == 1:
                axis = axis.elements[0].value
            return axis is not None and source.code(axis) in ("1", "-1")
        if name in ALLOCATIONS:
            shape = (source.arguments(node, ALLOCATIONS[name]) or {}).get("shape")
            if isinstance(shape, cst.Attribute) and shape.attr.value == "shape":
                return is_column(source, shape.value, seen)
            if not isinstance(shape, cst.Tuple | cst.List) or len(shape.elements) != 2:
                return False
            return source.code(shape.elements[1].value) == "1"
        if name == "load" and node.args:
            return is_column(source, node.args[0].value, seen)
        tiles = [a.value for a in node.args if is_tile(source, a.value)]
        own = name in TILE_FUNCTIONS and name not in ("broadcast_to", "matmul", "transpose")
        return own and bool(tiles) and all(is_column(source, tile, seen) for tile in tiles)
    if isinstance(node, cst.Subscript):
        last = node.slice[-1].slice
        if isinstance(last, cst.Slice) and last.lower is not None and last.upper is not None:
            start, stop = source.code(last.lower), source.code(last.upper)
            unit = start.isdecimal() and stop.isdecimal() and int(stop) == int(start) + 1
            return len(node.slice) > 1 and (unit or stop == f"{start} + 1")
        return False
    if not isinstance(node, cst.Name) or node.value in seen:
        return False
    values = source.values(node)
    within = seen | {node.value}
    return bool(values) and all(is_column(source, value, within) for value in values or ())
