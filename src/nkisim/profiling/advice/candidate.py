"""A possible piece of advice, and what the rules read: the program, its profile, its source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from nkisim.diagnostics import Rule
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.spills import SPILL
from nkisim.profiling.result import ProfileData
from nkisim.rewriting import Edit
from nkisim.source import Effect, Effects, File, Statement, file_globals

Line = tuple[str, int]
"""File and line."""


class Candidate(NamedTuple):
    """A possible piece of advice.

    Attributes:
        rule: The rule.
        title: The condition in a few words.
        cause: What was found, with numbers.
        action: What to change.
        line: The line that it concerns.
        lines: Lines whose operations it changes; by default that one.
        edits: The change of the kernel's file; empty if the advice is a sentence only.
        rounding: The rounding that the change leaves out, in words; empty if the results stay the
            same bits.
        most_change: Largest change of an output by the missing rounding, relative to the largest
            element of its array.
        values: The names and numbers in ``cause`` and ``action``, by key, for code.
    """

    rule: Rule
    title: str
    cause: str
    action: str
    line: Line
    lines: Iterable[Line] = ()
    edits: Sequence[Edit] = ()
    rounding: str = ""
    most_change: float = 0.0
    values: Mapping[str, Any] = MappingProxyType({})


class Found:
    """A program with its profile and its source, as the rules read them.

    Attributes:
        program: The program.
        profile: Its profile.
        file: The file of the kernel; None without source.
    """

    def __init__(self, program: Program, profile: ProfileData, file: File | None) -> None:
        self.program = program
        self.profile = profile
        self.file = file
        self._names: set[str] = set()
        self._effects: dict[ast.AST, Effects] = {}

    @cached_property
    def by_line(self) -> Mapping[Line, list[Operation]]:
        """The operations of each line, in program order, without spills."""
        found: dict[Line, list[Operation]] = {}
        for operation in self.program.operations:
            if operation.name != SPILL:
                place = operation.place
                found.setdefault((place.file, place.line), []).append(operation)
        return found

    @cached_property
    def _times(self) -> dict[Line, float]:
        times = {(line.file, line.line): line.critical_us for line in self.profile.lines}
        if self.profile.bound_by == "dma":  # any transfer delays those on the critical path
            for line in self.profile.lines:
                key = (line.file, line.line)
                if self.by_line[key][0].work.transfer is not None:
                    times[key] = max(line.critical_us, line.busy_us)
        return times

    def most_gain(self, candidate: Candidate) -> float:
        """Return an estimate of what a candidate can save.

        It is the time of its lines on the critical path; of transfers that bind a kernel, their
        busy time.
        """
        lines = set(candidate.lines) or {candidate.line}
        return sum(self._times.get(line, 0.0) for line in lines)

    def statement(self, line: Line, instruction: str = "") -> Statement | None:
        """Return the statement at a line that calls an instruction.

        None if it is not in the file of the kernel, or shares its lines with another one.
        """
        source = None if self.file is None else file_globals(line[0])
        if source is None or source.tree is not self.file:
            return None
        node = source.tree.statement_at(line[1])
        if node is None or source.tree.statement(node) is not node:
            return None
        found = Statement(source, node, instruction)
        return None if instruction and not found.arguments else found

    def lines_in(self, node: ast.stmt) -> list[Line]:
        """Return the lines of operations inside of a statement of the kernel's file."""
        rows = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        file = "" if self.file is None else self.file.file
        return [(file, row) for row in rows if (file, row) in self.by_line]

    def effects(self, case: Statement) -> Effects | None:
        """Return the effects in the function of a statement; None outside of functions."""
        function = case.tree.function_of(case.statement)
        if function is not None and function not in self._effects:
            self._effects[function] = Effects(case.source, function)
        return None if function is None else self._effects[function]

    def of_block(self, case: Statement, block: Sequence[ast.stmt]) -> dict[ast.stmt, Effect | None]:
        """Return the effects of statements; none if they do not begin their lines."""
        effects = self.effects(case)
        if effects is None or not all(map(case.tree.begins_line, block)):
            return {}
        return {statement: effects.of(statement) for statement in block}

    def fresh(self, wish: str) -> str:
        """Return a name that the file does not use and no other piece of advice has got."""
        assert self.file is not None
        name = self.file.fresh(wish)
        while name in self._names:
            name = self.file.fresh(f"{name}_2")
        self._names.add(name)
        return name


def line_of(operation: Operation) -> Line:
    """Return the line of an operation."""
    return operation.place.file, operation.place.line
