"""Effects of statements: the names that they read and write, to decide which may be reordered.

Names that may be views of one tensor count as one variable. The effect of a statement that cannot
be determined is None, and such a statement is never moved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from nkisim.source.expressions import base_name, expression, names_in
from nkisim.source.meaning import FileGlobals
from nkisim.source.names import RANGES, keeps_state, range_of, tensor_functions, written_operands
from nkisim.source.scopes import Function

_JUMPS = (ast.Break, ast.Continue, ast.Return)
_OPAQUE = (*_JUMPS, Function, ast.With, ast.Try, ast.While, ast.Yield, ast.Await, ast.NamedExpr)
_PURE = ("int", "len", "max", "min", "nki.language.ds", "range", "slice")
"""Functions of a value that can be computed again elsewhere."""

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
        source: The names of the file.
        function: The function.
    """

    def __init__(self, source: FileGlobals, function: Function) -> None:
        self._source = source
        self._tree = source.tree
        self.function = function

    def _path(self, node: ast.AST) -> str:
        return self._source.of(node).path

    def bound_at(self, name: str) -> list[ast.AST]:
        """Return the nodes of the function that bind a name."""
        return [one.node for one in self._tree.body(self.function).assignments[name]]

    def is_inside(self, name: str, loop: ast.For) -> bool:
        """Return whether a loop binds a name, and nothing outside of it."""
        bound = self.bound_at(name)
        return bool(bound) and all(loop in self._tree.ancestors(node) for node in bound)

    def is_new(self, variable: str, loop: ast.For) -> bool:
        """Return whether every iteration of a loop makes a variable anew."""
        names = [name for name in self._variables if self._variable(name) == variable]
        return all(self.is_inside(name, loop) for name in (variable, *names))

    def value(self, name: str) -> ast.Assign | None:
        """Return the assignment of a name, if nothing else binds it."""
        made = self.bound_at(name)
        statement = self._tree.parent(made[0]) if len(made) == 1 else None
        known = isinstance(statement, ast.Assign) and statement.targets == made
        return statement if known else None  # type: ignore[return-value]

    def is_pure(self, value: ast.Assign) -> bool:
        """Return whether a value can be computed again elsewhere."""
        calls = self._tree.within(value.value, ast.Call)
        return all(self._path(call.func) in _PURE for call in calls)

    def is_unconditional(self, statement: ast.stmt) -> bool:
        """Return whether only loops that run to their end are around a statement."""
        for above in self._tree.ancestors(statement):
            if isinstance(above, Function):
                return True
            if not isinstance(above, ast.For) or above.orelse:
                return False
            if any(isinstance(node, _JUMPS) for node in ast.walk(above)):
                return False
        return False

    def iteration(self, loops: Iterable[ast.For], outer: ast.For) -> str | None:
        """Return the number of an iteration of nested loops, counted from 0, as an expression.

        None if a loop is no range of numbers, or its bounds change in ``outer``.
        """
        text = ""
        for loop in loops:
            bounds = range_of(loop, self._path)
            used = names_in(loop.iter)
            if bounds is None or any(outer in self._around(name) for name in used):
                return None
            (start, stop, step), number = bounds, ast.unparse(loop.target)
            length = stop if start == "0" else f"{stop} - ({start})"
            number = number if start == "0" else f"({number} - ({start}))"
            if step != "1":
                rest = str(int(step) - 1) if step.isdigit() else f"({step}) - 1"
                number, length = f"{number} // ({step})", f"({length} + {rest}) // ({step})"
            text = number if not text else f"({text}) * ({length}) + {number}"
        return ast.unparse(expression(text))  # without superfluous parentheses

    def _around(self, name: str) -> list[ast.AST]:
        """Return the nodes around the bindings of a name."""
        return [above for node in self.bound_at(name) for above in self._tree.ancestors(node)]

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

    def written(self, but: ast.Call | None = None) -> set[str]:
        """Return the names of the operands that calls of NKI write, without one of the calls."""
        calls = [c for c in self._tree.within(self.function.body, ast.Call) if c is not but]
        operands = [node for c in calls for node in written_operands(c, self._path(c.func))]
        bases = map(base_name, operands)
        return {base.id for base in bases if base is not None}

    def _is_counter(self, name: str) -> bool:
        """Return whether a name is the variable of loops, and used only in them."""
        tree = self._tree

        def loops(node: ast.AST) -> bool:
            above = (a for a in tree.ancestors(node) if isinstance(a, ast.For))
            return any(ast.unparse(loop.target) == name for loop in above)

        uses = [n for n in tree.within(self.function.body, ast.Name) if n.id == name]
        return bool(self.bound_at(name)) and all(
            loops(node) for node in (*uses, *self.bound_at(name))
        )

    def _written_by(self, call: ast.Call) -> set[str] | None:
        """Return the names whose tensors a call may write; None for effects on other state."""
        path = self._path(call.func)
        module, _, name = path.rpartition(".")
        outputs = written_operands(call, path)
        if keeps_state(call, path):
            return None
        if outputs:
            return {name for operand in outputs for name in self._origins(operand)}
        if path in (*_PURE, *RANGES) or (module == "nki.language" and name in tensor_functions()):
            return set()
        local = isinstance(call.func, ast.Name) and bool(self.bound_at(call.func.id))
        if module.startswith("nki") or local:  # a local function may write what it closes over
            return None
        return self._passed(call)

    def _passed(self, call: ast.Call) -> set[str]:
        """Return the names that a call passes to a function of the user, ``self`` included."""
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

        for node in ast.walk(self.function):
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
            return set() if path in (*_PURE, *RANGES, *_NEW) else self._passed(value)
        return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}


def _root(found: dict[str, str], name: str) -> str:
    while name in found:
        name = found[name]
    return name
