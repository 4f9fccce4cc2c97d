"""Type inference for values in a kernel: tensor, register, list or text.

A name has a kind only when all values assigned to it have that kind. Results of helper functions,
elements of containers and optional parameters have none. A parameter is a tensor when an
instruction takes it as one.
"""

from __future__ import annotations

import ast
from functools import cache, cached_property
from typing import Literal, TypeAlias

from nkisim import language
from nkisim.checks.langcheck.unit import Unit
from nkisim.spec import INSTRUCTIONS
from nkisim.spec.signatures import parameters_of

__all__ = ["RUNTIME", "Kind", "Kinds", "instruction_operands", "is_dynamic_loop", "operand_name"]

Kind: TypeAlias = Literal[
    "tensor", "register", "index", "counter", "list", "dict", "text", "enum", "rank"
]
"""An index is that of ``nl.dynamic_range``, a counter that of ``nl.fori_loop``."""

RUNTIME = {"register": "register", "index": "loop index", "counter": "loop index"}
"""Kinds whose value is known only on the device, with their names in messages."""

# Functions of nki.language that give no tensor.
_NO_TENSOR = {
    "affine_range",
    "device_print",
    "ds",
    "dynamic_range",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "missing_name",
    "no_reorder",
    "num_programs",
    "program_id",
    "program_ndim",
    "random_seed",
    "sequential_range",
    "static_range",
    "store",
}
_TENSOR_METHODS = {
    "ap",
    "broadcast",
    "expand_dim",
    "flatten_dims",
    "indirect",
    "permute",
    "rearrange",
    "reinterpret_cast",
    "reshape",
    "reshape_dim",
    "select",
    "slice",
    "squeeze_dim",
    "vector_select",
    "view",
}
# Operands that cannot be numbers.
_OPERANDS = {"data", "data1", "data2", "dst", "moving", "src", "stationary"}
_SELF = object()
# Placeholders for the value that a parameter or a loop assigns to a name.
_A_TENSOR, _AN_INDEX, _A_COUNTER, _A_CONDITION = (ast.Pass() for _ in range(4))
_GIVEN = {_A_TENSOR: "tensor", _AN_INDEX: "index", _A_COUNTER: "counter", _A_CONDITION: "register"}
_OF_LOOPS = {"fori_loop": _A_COUNTER, "while_loop": _A_CONDITION}


def is_dynamic_loop(unit: Unit, loop: ast.AST) -> bool:
    """Return whether a loop runs over ``nl.dynamic_range``."""
    return (
        isinstance(loop, ast.For)
        and isinstance(loop.iter, ast.Call)
        and unit.meaning(loop.iter.func).path == "nki.language.dynamic_range"
    )


class Kinds:
    """The kinds of the expressions of a unit."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self._outer = None if unit.outer is None else Kinds(unit.outer)
        self._names: dict[str, object] = {}

    def of(self, node: ast.AST | None) -> Kind | None:
        """Return the kind of an expression, None where it is not certain."""
        found = self._kind(node)
        return None if found is _SELF else found  # type: ignore[return-value]

    def _kind(self, node: ast.AST | None) -> object:
        if isinstance(node, ast.Name):
            return self._of_name(node.id)
        if isinstance(node, ast.Call):
            return self._of_call(node)
        if isinstance(node, ast.Subscript):
            return "tensor" if self._kind(node.value) == "tensor" else None
        if isinstance(node, (ast.List, ast.ListComp)):
            return "list"
        if isinstance(node, (ast.Dict, ast.DictComp)):
            return "dict"
        if isinstance(node, ast.JoinedStr):
            return "text"
        if isinstance(node, ast.Constant):
            return "text" if isinstance(node.value, str) else None
        if isinstance(node, ast.IfExp):
            first, second = self._kind(node.body), self._kind(node.orelse)
            return first if first == second else None
        if node in _GIVEN:
            return _GIVEN[node]
        if isinstance(node, ast.Attribute):
            path = self.unit.meaning(node).path
            return "enum" if path.startswith("nki.isa.nc_version.") else None
        return None

    def _of_call(self, call: ast.Call) -> object:
        path = self.unit.meaning(call.func).path
        space, _, name = path.rpartition(".")
        if space == "nki.language":
            return "tensor" if name in _tensor_functions() else None
        if path == "nki.isa.register_alloc":
            return "register"
        if path == "nki.isa.get_nc_version":
            return "enum"
        if path == "nki.collectives.rank_id":
            return "rank"
        if path in ("list", "dict"):
            return path
        if path == "str":
            return "text"
        if isinstance(call.func, ast.Attribute) and call.func.attr in _TENSOR_METHODS:
            return "tensor" if self._kind(call.func.value) == "tensor" else None
        return None

    def _of_name(self, name: str) -> object:
        if self._outer is not None and name not in self.unit.own_names:
            return self._outer.of(ast.Name(name))
        if name not in self._names:
            self._names[name] = _SELF
            kinds = {self._kind(value) for value in self._bindings.get(name, [None])} - {_SELF}
            self._names[name] = kinds.pop() if len(kinds) == 1 else None
        return self._names[name]

    @cached_property
    def _bindings(self) -> dict[str, list[ast.AST | None]]:
        """The expressions assigned to each name; None for an unknown value."""
        unit = self.unit
        found: dict[str, list[ast.AST | None]] = {}
        plain: set[ast.AST] = set()
        for assign in unit.of(ast.Assign):
            for target in assign.targets:
                for name, value in _pairs(target, assign.value):
                    plain.add(name)
                    found.setdefault(name.id, []).append(value)
        for annotated in unit.of(ast.AnnAssign):
            if isinstance(annotated.target, ast.Name) and annotated.value is not None:
                plain.add(annotated.target)
                found.setdefault(annotated.target.id, []).append(annotated.value)
        for loop in unit.of(ast.For):
            if isinstance(loop.target, ast.Name) and is_dynamic_loop(unit, loop):
                plain.add(loop.target)
                found.setdefault(loop.target.id, []).append(_AN_INDEX)
        for node in unit.of(ast.Name):
            if isinstance(node.ctx, ast.Store) and node not in plain:
                parent = unit.parents.get(node)
                if not isinstance(parent, ast.AugAssign):  # a tensor stays one, or it fails
                    found.setdefault(node.id, []).append(None)
        for parameter in unit.parameters:
            given = _A_TENSOR if parameter.arg in self._tensor_parameters else None
            given = _OF_LOOPS.get(unit.loop, given)
            found.setdefault(parameter.arg, []).append(given)
        return found

    @cached_property
    def _tensor_parameters(self) -> set[str]:
        """The parameters without default that an instruction takes as a tensor."""
        node = self.unit.node
        if isinstance(node, ast.ClassDef):
            return set()
        given = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        required = set(given[: len(given) - len(node.args.defaults)])
        used: set[str] = set()
        for call, meaning in self.unit.calls():
            operands = instruction_operands(call, meaning.path)
            taken = [value for name, value in operands.items() if name in _OPERANDS]
            if meaning.path == "nki.language.load":
                taken = call.args[:1]
            used |= {found for value in taken if (found := operand_name(value)) is not None}
        return required & used


def instruction_operands(call: ast.Call, path: str) -> dict[str, ast.expr]:
    """Return the arguments of an instruction by name; none for other calls."""
    space, _, name = path.rpartition(".")
    if space != "nki.isa" or name not in INSTRUCTIONS:
        return {}
    given = dict(zip(parameters_of(name), call.args, strict=False))
    return given | {k.arg: k.value for k in call.keywords if k.arg is not None}


def operand_name(value: ast.AST) -> str | None:
    """Return the name of an operand, itself or sliced; an element may be that of a list."""
    if isinstance(value, ast.Subscript):
        parts = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
        if not any(isinstance(part, ast.Slice) for part in parts):
            return None
        value = value.value
    return value.id if isinstance(value, ast.Name) else None


@cache
def _tensor_functions() -> frozenset[str]:
    functions = (n for n, v in vars(language).items() if callable(v) and not isinstance(v, type))
    return frozenset(functions) - _NO_TENSOR


def _pairs(target: ast.AST, value: ast.AST) -> list[tuple[ast.Name, ast.AST]]:
    """Return the names of a target with their values, where both sides are written out."""
    if isinstance(target, ast.Name):
        return [(target, value)]
    if (
        isinstance(target, (ast.Tuple, ast.List))
        and isinstance(value, (ast.Tuple, ast.List))
        and len(target.elts) == len(value.elts)
    ):
        pairs = zip(target.elts, value.elts, strict=True)
        return [found for part, given in pairs for found in _pairs(part, given)]
    return []
