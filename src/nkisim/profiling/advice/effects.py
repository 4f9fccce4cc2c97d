"""Effects of statements, by the names that they use: which may change places for all arguments.

Names that may be views of one tensor count as one variable. A statement whose effects are not
certain has none that can be used: it cannot be moved.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

from nkisim.profiling.advice.loads import JUMPS, PURE, RANGES
from nkisim.source import File, Function, nki_arguments, tensor_functions
from nkisim.spec import INSTRUCTIONS

_OPAQUE = (*JUMPS, Function, ast.With, ast.Try, ast.While, ast.Yield, ast.Await, ast.NamedExpr)
_NEW = tuple(f"nki.language.{x}" for x in ("ndarray", "zeros", "ones", "full", "load"))
"""Functions whose result is no view of an argument."""

_FACTS = ("dtype", "ndim", "shape", "size")
"""Attributes of a tensor that are no view of it."""


class Effect(NamedTuple):
    """What a statement accesses.

    Attributes:
        names, binds: The names that it reads, and those that it binds.
        touched, written: The variables whose contents it may access, and those that it writes.
    """

    names: frozenset[str]
    binds: frozenset[str]
    touched: frozenset[str]
    written: frozenset[str]

    def conflicts(self, other: Effect) -> frozenset[str]:
        """Return names and variables for which two statements must keep their order."""
        bound = (self.binds & (other.names | other.binds)) | (self.names & other.binds)
        return bound | (self.touched & other.written) | (self.written & other.touched)


class Effects:
    """The effects of the statements of a function.

    Args:
        tree: The file.
        function: The function.
        path: Returns the full name of a called function, empty if it is unknown.
    """

    def __init__(self, tree: File, function: Function, path: Callable[[ast.AST], str]) -> None:
        self._tree = tree
        self._function = function
        self._path = path

    def bound_at(self, name: str) -> list[ast.AST]:
        """Return the nodes of the function that bind a name."""
        return [one.node for one in self._tree.body(self._function).assignments[name]]

    def is_inside(self, name: str, loop: ast.For) -> bool:
        """Return whether a loop binds a name, and nothing outside of it."""
        bound = self.bound_at(name)
        return bool(bound) and all(loop in self._tree.ancestors(node) for node in bound)

    def is_new(self, variable: str, loop: ast.For) -> bool:
        """Return whether every iteration of a loop makes a variable anew."""
        names = [name for name in self._variables if self._variable(name) == variable]
        return all(self.is_inside(name, loop) for name in (variable, *names))

    def is_pure(self, node: ast.AST) -> bool:
        """Return whether a value can be computed again elsewhere."""
        calls = [part for part in ast.walk(node) if isinstance(part, ast.Call)]
        return all(self._path(call.func) in PURE for call in calls)

    def of(self, statement: ast.stmt) -> Effect | None:
        """Return the effects of a statement; None if they are not certain."""
        nodes = list(ast.walk(statement))
        if any(isinstance(node, _OPAQUE) for node in nodes):
            return None
        uses = [n for n in nodes if isinstance(n, ast.Name) and not self._is_counter(n.id)]
        names = frozenset(n.id for n in uses if isinstance(n.ctx, ast.Load))
        written: set[str] = set()
        for node in nodes:
            found: set[str] | None = set()
            if isinstance(node, ast.Call):
                found = self._written_by(node)
            elif isinstance(node, ast.AugAssign):
                found = self._origins(node.target)
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                found = self._origins(node)
            if found is None:
                return None
            written |= found
        return Effect(
            names,
            frozenset(n.id for n in uses if not isinstance(n.ctx, ast.Load)),
            frozenset(self._variable(name) for name in names),
            frozenset(self._variable(name) for name in written),
        )

    def _is_counter(self, name: str) -> bool:
        """Return whether a name is the variable of loops, and used only in them."""
        tree = self._tree

        def loops(node: ast.AST) -> bool:
            above = (a for a in tree.ancestors(node) if isinstance(a, ast.For))
            return any(ast.unparse(loop.target) == name for loop in above)

        uses = [n for n in tree.within(self._function.body, ast.Name) if n.id == name]
        return bool(self.bound_at(name)) and all(
            loops(node) for node in (*uses, *self.bound_at(name))
        )

    def _written_by(self, call: ast.Call) -> set[str] | None:
        """Return the names whose tensors a call may write; None for effects on other state."""
        path = self._path(call.func)
        module, _, name = path.rpartition(".")
        if path in (*PURE, *RANGES) or (module == "nki.language" and name in tensor_functions()):
            return set()
        given = nki_arguments(call, path)
        if path == "nki.language.store":
            return self._origins(given.get("dst"))
        if module == "nki.isa" and given and name in INSTRUCTIONS:
            instruction = INSTRUCTIONS[name]
            sums = ast.unparse(given["reduce_cmd"]) if "reduce_cmd" in given else "reset_reduce"
            # State of the core: sums of activations, random numbers. Products sum in dst.
            reset = "reduce_cmd" in instruction.signature.parameters
            reset = reset and sums.endswith("reset_reduce")
            if instruction.stateful and not reset and not name.startswith("nc_"):
                return None
            outputs = [p for p, o in instruction.operands.items() if o.role in ("out", "sum")]
            return {n for p in outputs if p in given for n in self._origins(given[p])}
        local = isinstance(call.func, ast.Name) and bool(self.bound_at(call.func.id))
        if module.startswith("nki") or local:  # a local function may write what it closes over
            return None
        return self._passed(call)

    def _passed(self, call: ast.Call) -> set[str]:
        """Return the names that a function of the user gets, with the object of a method."""
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        given += [call.func.value] if isinstance(call.func, ast.Attribute) else []
        return {name for node in given for name in self._origins(node) if self.bound_at(name)}

    # -- views -------------------------------------------------------------------------------------

    @cached_property
    def _variables(self) -> dict[str, str]:
        """By name, another name of the same variable."""
        found: dict[str, str] = {}

        def join(names: Sequence[str]) -> None:
            for name in names[1:]:
                a, b = (_root(found, n) for n in (names[0], name))
                if a != b:
                    found[a] = b

        for node in ast.walk(self._function):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For):
                value = node.iter if isinstance(node, ast.For) else node.value
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for name in {name for target in targets for name in self._origins(target)}:
                    join([name, *sorted(self._origins(value))])
            elif isinstance(node, ast.Call) and not self._path(node.func).startswith("nki"):
                join(sorted(self._passed(node)))
        return found

    def _variable(self, name: str) -> str:
        return _root(self._variables, name)

    def _origins(self, value: ast.AST | None) -> set[str]:
        """Return the names of which a value may be a view."""
        if value is None or isinstance(value, ast.Constant | ast.BinOp | ast.Compare | ast.Slice):
            return set()
        if isinstance(value, ast.Name):
            return {value.id}
        if isinstance(value, ast.Subscript):
            return self._origins(value.value)
        if isinstance(value, ast.Attribute):
            return set() if value.attr in _FACTS else self._origins(value.value)
        if isinstance(value, ast.Tuple | ast.List):
            return set().union(*(self._origins(one) for one in value.elts))
        if isinstance(value, ast.Call):
            path = self._path(value.func)
            return set() if path in (*PURE, *RANGES, *_NEW) else self._passed(value)
        return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}


def _root(found: dict[str, str], name: str) -> str:
    while name in found:
        name = found[name]
    return name
