"""Loads as the source has them: their tile, their source, the loops and names that they depend on.

The conditions hold for all arguments: they follow from names, not from one run.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from nkisim.profiling.advice.candidate import Found, Line
from nkisim.source import Effects, File, Statement, base_name, names_in, written_operands


@dataclass(frozen=True)
class Load:
    """A load of a whole tile.

    Attributes:
        case: Its statement.
        effects: The effects in its function.
        name: The variable of the tile.
        source: The expression that it reads from HBM.
        allocation: The statement that allocates the tile; None if the load itself does.
    """

    case: Statement
    effects: Effects
    name: str
    source: ast.expr
    allocation: ast.Assign | None

    @property
    def tree(self) -> File:
        """The file."""
        return self.case.tree

    @property
    def statement(self) -> ast.stmt:
        """The statement of the load."""
        return self.case.statement

    @cached_property
    def loops(self) -> list[ast.For]:
        """The loops around it, outermost first."""
        return self.case.loops()

    def is_within(self, node: ast.AST, outer: ast.AST) -> bool:
        """Return whether a node is inside another one."""
        return outer in self.tree.ancestors(node)

    @property
    def _names(self) -> set[str]:
        """The names in the load and in the allocation."""
        allocation = () if self.allocation is None else (self.allocation.value,)
        return names_in(self.source, *allocation)

    @cached_property
    def helpers(self) -> list[ast.Assign] | None:
        """The assignments in loops whose values the load uses, in the order of the text.

        None if a value cannot be computed elsewhere: it has several assignments, or calls a
        function with effects.
        """
        found: dict[str, ast.Assign] = {}
        waiting = self._names
        while waiting:
            name = waiting.pop()
            made = self.effects.bound_at(name)
            if name in found or not made or self._is_loop_variable(name, made):
                continue
            if len(made) > 1:
                return None
            if not self.loops or not self.is_within(made[0], self.loops[0]):
                continue
            value = self.effects.value(name)
            if value is None or value.lineno > self.statement.lineno:
                return None
            if not self.effects.is_pure(value) or not self.effects.is_unconditional(value):
                return None
            found[name] = value
            waiting |= names_in(value.value)
        return sorted(found.values(), key=lambda node: node.lineno)

    def _is_loop_variable(self, name: str, made: list[ast.AST]) -> bool:
        """Return whether a name has the value of a loop around the load."""
        for loop in reversed(self.loops):
            if isinstance(loop.target, ast.Name) and loop.target.id == name:
                return not any(self.is_within(n, loop) for n in made if n is not loop.target)
        return False

    @cached_property
    def variables(self) -> set[str]:
        """The loop variables that the load depends on."""
        targets = {loop.target.id for loop in self.loops if isinstance(loop.target, ast.Name)}
        return targets & (self._names | names_in(*(h.value for h in self.helpers or ())))

    def is_only_loaded(self) -> bool:
        """Return whether nothing else writes the tile, and nothing writes what is loaded."""
        read = base_name(self.source)
        calls = self.tree.within(self.effects.function.body, ast.Call)
        written = {
            base.id
            for call in calls
            if call is not self.case.call
            for operand in written_operands(call, self.case.path(call.func))
            if (base := base_name(operand)) is not None
        }
        return read is not None and not written & {self.name, read.id}


def load_at(found: Found, line: Line) -> Load | None:
    """Return the load at a line, None where it is not certain which tile it fills."""
    case = found.statement(line)
    effects = None if case is None else found.effects(case)
    if case is None or case.call is None or effects is None:
        return None
    source, name = case.arguments.get("src"), case.target or case.text("dst")
    made = effects.value(name)
    if source is None or made is None or case.tree.parent(case.call) is not case.statement:
        return None
    if not effects.is_unconditional(made) or not effects.is_unconditional(case.statement):
        return None
    if (case.function == "load") != (made is case.statement):
        return None
    load = Load(case, effects, name, source, None if made is case.statement else made)
    return load if load.helpers is not None and load.is_only_loaded() else None
