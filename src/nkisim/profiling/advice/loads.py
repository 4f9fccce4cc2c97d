"""Loads as the source has them: their tile, their source, the loops and names that they depend on.

The conditions hold for all arguments: they follow from names, not from one run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cached_property

from nkisim.diagnostics import Rule
from nkisim.profiling.advice.candidate import Found, Line
from nkisim.source import File, Function, base_name, nki_arguments
from nkisim.suggestions.statement import Case

PURE = {"int", "len", "max", "min", "nki.language.ds", "range", "slice"}
"""Functions that a copied assignment may call."""

RANGES = ("range", *(f"nki.language.{x}_range" for x in ("affine", "sequential", "static")))
JUMPS = (ast.Break, ast.Continue, ast.Return)


class Load:
    """A load of a whole tile.

    Attributes:
        case: Its statement.
        tree: The file.
        name: The variable of the tile.
        source: The expression that it reads from HBM.
        allocation: The statement that allocates the tile; None if the load itself does.
        loops: The loops around it, outermost first.
    """

    def __init__(
        self, case: Case, name: str, source: ast.expr, allocation: ast.Assign | None
    ) -> None:
        self.case = case
        self.tree: File = case.source.tree
        self.name = name
        self.source = source
        self.allocation = allocation
        self.loops = case.loops()

    @property
    def statement(self) -> ast.stmt:
        """The statement of the load."""
        return self.case.statement

    @property
    def function(self) -> Function | None:
        """The function that contains it."""
        return self.tree.function_of(self.statement)

    def assigned(self, name: str) -> list[ast.AST]:
        """Return the nodes of the function that bind a name."""
        scope = self.tree.scope(self.statement)
        return [] if scope is None else [one.node for one in scope.assignments[name]]

    def is_within(self, node: ast.AST, outer: ast.AST) -> bool:
        """Return whether a node is inside another one."""
        return outer in self.tree.ancestors(node)

    @property
    def _values(self) -> list[ast.expr]:
        """The expressions of the load and of the allocation."""
        return [self.source, *(() if self.allocation is None else (self.allocation.value,))]

    @cached_property
    def helpers(self) -> list[ast.Assign] | None:
        """The assignments in loops whose values the load uses, in the order of the text.

        None if a value cannot be computed elsewhere: it has several assignments, or calls a
        function with effects.
        """
        found: dict[str, ast.Assign] = {}
        waiting = list(self._values)
        while waiting:
            for name in _names(waiting.pop()):
                made = self.assigned(name)
                if name in found or not made or self._is_loop_variable(name, made):
                    continue
                if len(made) > 1:
                    return None
                if not any(self.is_within(made[0], loop) for loop in self.loops):
                    continue
                value = self._value(made[0])
                if value is None or value.lineno > self.statement.lineno:
                    return None
                found[name] = value
                waiting.append(value.value)
        return sorted(found.values(), key=lambda node: node.lineno)

    def _is_loop_variable(self, name: str, made: list[ast.AST]) -> bool:
        """Return whether a name has the value of a loop around the load."""
        for loop in reversed(self.loops):
            if isinstance(loop.target, ast.Name) and loop.target.id == name:
                return not any(self.is_within(n, loop) for n in made if n is not loop.target)
        return False

    def _value(self, name: ast.AST) -> ast.Assign | None:
        """Return the assignment of a name, if its value can be computed elsewhere."""
        statement = self.tree.parent(name)
        if not isinstance(statement, ast.Assign) or statement.targets != [name]:
            return None
        calls = (n for n in ast.walk(statement.value) if isinstance(n, ast.Call))
        pure = all(self.case.path(call.func) in PURE for call in calls)
        return statement if pure and self.is_unconditional(statement) else None

    def is_unconditional(self, statement: ast.stmt) -> bool:
        """Return whether only loops that run to their end are around a statement."""
        for above in self.tree.ancestors(statement):
            if isinstance(above, Function):
                return True
            if not isinstance(above, ast.For) or above.orelse:
                return False
            if any(isinstance(node, JUMPS) for node in ast.walk(above)):
                return False
        return False

    @cached_property
    def variables(self) -> set[str]:
        """The loop variables that the load depends on."""
        used = {name for node in (*self._values, *(self.helpers or ())) for name in _names(node)}
        targets = {loop.target.id for loop in self.loops if isinstance(loop.target, ast.Name)}
        return used & targets

    @cached_property
    def is_only_loaded(self) -> bool:
        """Whether nothing else writes the tile, and nothing writes what is loaded."""
        read, function = base_name(self.source), self.function
        if function is None or read is None:
            return False
        for call in self.tree.within(function.body, ast.Call):
            given = (
                nki_arguments(call, self.case.path(call.func)) if call is not self.case.call else {}
            )
            for operand in (given.get("dst"), given.get("reduce_res")):
                target = None if operand is None else base_name(operand)
                if target is not None and target.id in (self.name, read.id):
                    return False
        return True

    def positions(self, loops: Iterable[ast.For], outer: ast.For) -> str | None:
        """Return the number of an iteration of nested loops, counted from 0, as an expression.

        None if a loop is no range of numbers, or its bounds change in ``outer``.
        """
        text = ""
        for loop in loops:
            call = loop.iter
            if not isinstance(call, ast.Call) or self.case.path(call.func) not in RANGES:
                return None
            if call.keywords or not isinstance(loop.target, ast.Name):
                return None
            used = {name for argument in call.args for name in _names(argument)}
            if any(self.is_within(node, outer) for name in used for node in self.assigned(name)):
                return None
            bounds = [ast.unparse(argument) for argument in call.args]
            start = bounds[0] if len(bounds) > 1 else "0"
            stop, step = bounds[min(1, len(bounds) - 1)], bounds[2] if len(bounds) > 2 else "1"
            number = loop.target.id if start == "0" else f"({loop.target.id} - ({start}))"
            number = number if step == "1" else f"{number} // ({step})"
            length = stop if start == "0" else f"{stop} - ({start})"
            rest = str(int(step) - 1) if step.isdigit() else f"({step}) - 1"
            length = length if step == "1" else f"({length} + {rest}) // ({step})"
            text = number if not text else f"({text}) * ({length}) + {number}"
        return ast.unparse(ast.parse(text, mode="eval").body)  # without superfluous parentheses


def _names(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id


def load_at(found: Found, rule: Rule, line: Line) -> Load | None:
    """Return the load at a line, None where it is not certain which tile it fills."""
    case = found.statement(rule, line)
    if case is None or case.call is None or case.call is not getattr(case.statement, "value", None):
        return None
    source = case.arguments.get("src")
    if source is None:
        return None
    if case.function == "load" and isinstance(case.statement, ast.Assign):
        target, *more = case.statement.targets
    else:
        target, more = case.arguments.get("dst"), []  # type: ignore[assignment]
    if more or not isinstance(target, ast.Name):
        return None
    load = Load(case, target.id, source, None)
    made = load.assigned(target.id)
    if len(made) != 1 or not load.is_unconditional(case.statement):
        return None
    if case.function != "load":
        allocation = load.tree.parent(made[0])
        if not isinstance(allocation, ast.Assign) or not load.is_unconditional(allocation):
            return None
        load = Load(case, target.id, source, allocation)
    return load if load.helpers is not None and load.is_only_loaded else None
