"""Inference of what the values of a source are: tile, tensor, number, register, list or text.

A name has a kind only when all values assigned to it have that kind. What is not certain has none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Literal, TypeAlias

from nkisim.source.expressions import number
from nkisim.source.names import (
    RANGES,
    Names,
    arguments_of,
    nki_arguments,
    tensor_functions,
    writes_tile,
)
from nkisim.source.scopes import Assignment, Function
from nkisim.versions import since

# fmt: off
Kind: TypeAlias = Literal[
    "tile", "tensor", "number", "register", "index", "counter",
    "list", "dict", "text", "enum", "rank", "grid",
]
# fmt: on
"""A tile is a tensor that the kernel allocates; a tensor may also be an argument.

An index is the loop variable of ``nl.dynamic_range``, a counter the one of ``nl.fori_loop``. A grid
is a view of a tensor as tiles or blocks.
"""

_Kind: TypeAlias = Kind | Literal["open"] | None
"""A kind during the search; "open" is the kind of a name whose value refers to the name itself."""

LOOPS = {
    "nki.language.fori_loop": ("fori_loop", 2),
    "nki.language.while_loop": ("while_loop", 1),
}
"""Loops with body functions by path: the name, and the position of the body."""

# Beta 1 has broadcast_to.
_TENSOR_METHODS = {
    *("ap", "broadcast", "broadcast_to", "expand_dim", "flatten_dims", "indirect", "permute"),
    *("rearrange", "reinterpret_cast", "reshape", "reshape_dim", "select", "slice", "squeeze_dim"),
    *("vector_select", "view"),
}
# Operands that cannot be numbers.
_OPERANDS = {"data", "data1", "data2", "dst", "moving", "src", "stationary"}
_OF_PATHS: dict[str, Kind] = {
    "dict": "dict",
    "float": "number",
    "int": "number",
    "len": "number",
    "list": "list",
    "nki.collectives.rank_id": "rank",
    "nki.isa.get_nc_version": "enum",
    "nki.isa.register_alloc": "register",
    "nki.language.alloc_blocks": "grid",
    "nki.language.alloc_tiles": "grid",
    "nki.language.blocks": "grid",
    "nki.language.tiles": "grid",
    "str": "text",
}
"""Kinds of the results of functions."""
_OF_NODES: dict[type[ast.AST], Kind] = {
    ast.Dict: "dict",
    ast.DictComp: "dict",
    ast.JoinedStr: "text",
    ast.List: "list",
    ast.ListComp: "list",
}
_OF_LOOPS: dict[str, Kind] = {
    "nki.language.dynamic_range": "index",
    **dict.fromkeys(RANGES, "number"),
}
"""Kinds of the indices of loops."""
_TENSORS = ("tile", "tensor", "open")
_ARITHMETIC = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow),
    *(ast.BitAnd, ast.BitOr, ast.BitXor, ast.USub),
)


class Kinds:
    """The kinds of the expressions of a module.

    Args:
        module: The module.
        path: The full name of a dotted name, or that of a builtin; as ``Names.path``.
        beta1: Whether the file is one program that may be of Beta 1: operators on tiles and
            instructions without ``dst`` give tiles, and functions of the file, their results and
            lists are followed. Otherwise each function is read for itself, by the language of
            0.3.0: a global value may change, and other files may call the function. Tiles are
            tensors then.
    """

    def __init__(self, module: Names, path: Callable[[ast.AST], str], *, beta1: bool) -> None:
        self._module = module
        self._path = path
        self._beta1 = beta1
        self._known: dict[object, _Kind] = {}
        self._order: list[object] = []
        self._open: dict[object, bool] = {}

    def of(self, node: ast.AST | None) -> Kind | None:
        """Return the kind of an expression, None where it is not certain."""
        kind = self._kind(node)
        if kind == "tile" and not self._beta1:
            return "tensor"
        return None if kind == "open" else kind

    def _kind(self, node: ast.AST | None) -> _Kind:
        if isinstance(node, ast.Name):
            return self._of_name(node)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Subscript):
            return self._of_part(node)
        if isinstance(node, ast.Constant):
            is_number = number(node) is not None
            return "text" if isinstance(node.value, str) else "number" if is_number else None
        if isinstance(node, ast.IfExp):
            return _joined({self._kind(node.body), self._kind(node.orelse)})
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            return self._of_operator(node) if self._beta1 else None
        if isinstance(node, ast.Attribute):
            return self._of_attribute(node)
        return None if node is None else _OF_NODES.get(type(node))

    def _of_operator(self, node: ast.BinOp | ast.UnaryOp) -> _Kind:
        sides = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        kinds = set(map(self._kind, sides))
        if isinstance(node.op, _ARITHMETIC) and kinds & {"tile", "open"}:
            return "tile" if "tile" in kinds else "open"
        return "number" if kinds == {"number"} else None

    def _of_part(self, node: ast.Subscript) -> _Kind:
        kind = self._kind(node.value)
        if kind in (*_TENSORS, "grid"):
            return kind
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return None if isinstance(node.slice, ast.Slice) else "number"
        return self._of_element(node) if self._beta1 and kind == "list" else None

    def _of_attribute(self, node: ast.Attribute) -> _Kind:
        if node.attr == "data" and self._kind(node.value) == "grid":
            return "tile"
        return "enum" if self._path(node).startswith("nki.isa.nc_version.") else None

    def _of_call(self, call: ast.Call) -> _Kind:
        path = self._path(call.func)
        space, _, name = path.rpartition(".")
        if path in _OF_PATHS:
            return _OF_PATHS[path]
        if path == "nki.language.empty_like" and since("0.7.0"):
            like = self._kind(nki_arguments(call, path).get("x"))
            return like if like == "grid" else "tile" if like in _TENSORS else None
        if space == "nki.language":
            return "tile" if name in tensor_functions() else None
        if space == "nki.isa":
            gives = self._beta1 and writes_tile(name)
            return "tile" if gives and self._module.keyword(call, "dst") is None else None
        if isinstance(call.func, ast.Attribute) and call.func.attr in _TENSOR_METHODS:
            kind = self._kind(call.func.value)
            return kind if kind in _TENSORS else None
        return self._of_result(call.func) if self._beta1 else None

    # -- names -------------------------------------------------------------------------------------

    def _of_name(self, name: ast.Name) -> _Kind:
        bound = self._module.bound(name)
        if not bound or (bound[0].scope.parent is None and not self._beta1):
            return None
        key = (bound[0].scope, name.id)
        return self._agreed(key, lambda: {self._given(one, key) for one in bound})

    def _agreed(self, key: object, values: Callable[[], set[_Kind]]) -> _Kind:
        """Return the kind that all values have, None if they differ.

        Values that depend on the result, as in ``t = t + x``, must have the kind of the others when
        the result has it.
        """
        if key in self._known:
            if key in self._open:
                self._open[key] = True
            return self._known[key]
        start = len(self._order)
        self._open[key] = False
        self._assume(key, "open", start)
        kinds = values()
        if not self._open[key]:
            self._known[key] = _joined(kinds)
        else:
            kind = _joined(kinds - {None})
            self._assume(key, None if kind == "open" else kind, start)
            if kind is not None and values() != {kind}:
                self._assume(key, None, start)
        del self._open[key]
        return self._known[key]

    def _assume(self, key: object, kind: _Kind, start: int) -> None:
        """Set a kind and forget the ones that were found with another one."""
        for found in self._order[start:]:
            self._known.pop(found, None)
        self._order[start:] = [key]
        self._known[key] = kind

    def _given(self, bound: Assignment, key: object) -> _Kind:
        """Return the kind of what a binding gives to its name."""
        node, above = bound.node, self._module.parent(bound.node)
        if isinstance(node, ast.arg):
            return self._of_parameter(node, bound)
        if isinstance(above, ast.Assign | ast.AnnAssign):
            return self._kind(above.value)
        if isinstance(above, ast.AugAssign):  # a tensor stays one, or it fails
            kind = self._agreed(key, set)
            return kind if kind != "number" or self._kind(above.value) == "number" else None
        if isinstance(above, ast.For):
            loop = above.iter if above.target is node else None
            return _OF_LOOPS.get(self._path(loop.func)) if isinstance(loop, ast.Call) else None
        return self._of_unpacked(node)

    def _of_unpacked(self, node: ast.AST) -> _Kind:
        """Return the kind of a name in ``a, b = ...``."""
        places, group = [], self._module.parent(node)
        while isinstance(group, ast.Tuple | ast.List):
            if any(isinstance(element, ast.Starred) for element in group.elts):
                return None
            places.append((group.elts.index(node), len(group.elts)))  # type: ignore[arg-type]
            node, group = group, self._module.parent(group)
        value: ast.expr | None = group.value if isinstance(group, ast.Assign) else None
        while places and isinstance(value, ast.Tuple | ast.List):
            place, count = places.pop()
            value = value.elts[place] if len(value.elts) == count else None
        if not places or value is None:
            return self._kind(value)
        if isinstance(value, ast.Attribute) and value.attr == "shape":
            return "number"
        if not self._beta1 or not isinstance(value, ast.Call) or len(places) != 1:
            return None
        return self._of_result(value.func, places[0][0])

    def _of_parameter(self, node: ast.arg, bound: Assignment) -> _Kind:
        function = bound.scope.node
        if not isinstance(function, Function):
            return None
        if loop := self.loop_of(function):
            return "counter" if loop == "fori_loop" else "register"
        if self._beta1 and function not in self._module.kernels():
            passed = self._agreed(node, lambda: self._passed(function, node.arg))
            if passed is not None:
                return passed
        given = self._module.parameters(function)
        required = given[: len(given) - len(function.args.defaults)]
        taken = node.arg in required and any(map(self._is_operand, bound.references))
        return "tensor" if taken else None

    def _uses(self, function: Function) -> tuple[list[ast.Name], bool]:
        """Return the names that stand for a function, and whether they may stand for others."""
        made = self._module.scope(function).lookup(function.name)
        return (made[0].references if made else []), len(made) != 1

    def loop_of(self, function: Function) -> str:
        """Return ``"fori_loop"`` or ``"while_loop"`` for the body of such a loop, else ""."""
        for use in self._uses(function)[0]:
            call = self._module.call_of(use)
            loop, place = ("", 0) if call is None else LOOPS.get(self._path(call.func), ("", 0))
            if call is not None and loop:
                given = [k.value for k in call.keywords if k.arg == "body_fun"]
                if use in (*given, *call.args[place : place + 1]):
                    return loop
        return ""

    def _passed(self, function: Function, parameter: str) -> set[_Kind]:
        """Return the kinds of what the calls in the file pass for a parameter."""
        names = self._module.parameters(function)
        uses, others = self._uses(function)
        found: set[_Kind] = {None} if others else set()
        for use in uses:
            call, given = self._module.parent(use), None
            if isinstance(call, ast.Call) and call.func is use:
                given = arguments_of(call, names).get(parameter)
            found.add(self._kind(given))
        return found

    def _is_operand(self, use: ast.Name) -> bool:
        """Return whether an instruction takes a name, itself or sliced, as an operand."""
        node: ast.expr = use
        above = self._module.parent(use)
        if isinstance(above, ast.Subscript) and above.value is use:
            if not any(isinstance(part, ast.Slice) for part in self._module.indices(above)):
                return False  # an element may be that of a list
            node = above
        call = self._module.call_of(node)
        if call is None:
            return False
        path = self._path(call.func)
        given = {} if path.startswith("nki.isa.register_") else nki_arguments(call, path)
        return any(value is node and name in _OPERANDS for name, value in given.items())

    # -- functions and lists of the file -----------------------------------------------------------

    def _of_result(self, called: ast.expr, place: int | None = None) -> _Kind:
        """Return the kind of the results of a function of the file, alone or in a tuple."""
        bound = self._module.bound(called) if isinstance(called, ast.Name) else []
        function = bound[0].node if len(bound) == 1 else None
        if not isinstance(function, Function) or function in self._module.kernels():
            return None
        values = [
            one.value
            for one in self._module.within(function.body, ast.Return)
            if self._module.function_of(one) is function
        ]
        if place is not None:
            values = [
                v.elts[place] if isinstance(v, ast.Tuple) and place < len(v.elts) else None
                for v in values
            ]
        return self._agreed((function, place), lambda: {self._kind(v) for v in values})

    def _of_element(self, node: ast.Subscript) -> _Kind:
        """Return the kind of an element of a list, if all of its elements have it."""
        name, indices = node.value, self._module.indices(node)
        if not isinstance(name, ast.Name) or len(indices) != 1 or isinstance(indices[0], ast.Slice):
            return None
        values = self._module.values(name) or []
        parts = [e for value in values if isinstance(value, ast.List) for e in value.elts]
        if not all(isinstance(value, ast.List) for value in values):
            return None
        bound = self._module.bound(name)
        for use in (use for one in bound for use in one.references):
            method = self._module.parent(use)
            if isinstance(method, ast.Attribute):
                call = self._module.parent(method)
                if not isinstance(call, ast.Call) or method.attr != "append":
                    return None
                parts += [argument.value for argument in self._module.given(call)]
        key = (bound[0].scope, name.id, "elements")
        return self._agreed(key, lambda: {self._kind(part) for part in parts})


def _joined(kinds: set[_Kind]) -> _Kind:
    """Return the kind that values have in common."""
    known = kinds - {"open"} or kinds
    return known.pop() if len(known) == 1 else None
