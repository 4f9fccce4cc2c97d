"""A possible piece of advice, and what the rules read: the program, its profile, its source."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from nkisim.diagnostics import Finding, Place, Rule
from nkisim.profiling.model.program import Operation, Program
from nkisim.profiling.model.spills import SPILL
from nkisim.profiling.result import ProfileData
from nkisim.rewriting import Edit
from nkisim.source import File
from nkisim.suggestions.statement import Case, case_of

Line = tuple[str, int]
"""File and line."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A possible piece of advice.

    Attributes:
        rule: The rule.
        title: The condition in a few words.
        cause: What was found, with numbers.
        action: What to change.
        line: The line that it concerns.
        lines: Lines whose operations it changes.
        edits: The change of the kernel's file; empty if the advice is a sentence only.
        rounding: The rounding that the change leaves out, in words; empty if the results stay the
            same bits.
        most_change: Largest change of an output by the missing rounding, relative to the largest
            element of its array.
        values: What the texts are made from.
    """

    rule: Rule
    title: str
    cause: str
    action: str
    line: Line
    lines: frozenset[Line]
    edits: tuple[Edit, ...] = ()
    rounding: str = ""
    most_change: float = 0.0
    values: Mapping[str, Any] = field(default_factory=dict)


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

    def most_gain(self, lines: Iterable[Line]) -> float:
        """Return an estimate of what a change of lines can save.

        It is their time on the critical path; of transfers that bind a kernel, their busy time.
        """
        return sum(self._times.get(line, 0.0) for line in lines)

    def statement(self, rule: Rule, line: Line, instruction: str = "") -> Case | None:
        """Return the statement at a line that calls an instruction.

        None if it is not in the file of the kernel, or shares its lines with another one.
        """
        if self.file is None or line[0] != self.file.file:
            return None
        case = case_of(Finding(rule, "", Place(*line), instruction))
        if case is None or case.source.tree is not self.file:
            return None
        if instruction and (case.call is None or not case.arguments):
            return None
        return case if self.file.statement(case.statement) is case.statement else None

    def fresh(self, wish: str) -> str:
        """Return a name that the file does not use and no other piece of advice has got."""
        assert self.file is not None
        name = self.file.fresh(wish)
        while name in self._names:
            name = self.file.fresh(f"{name}_2")
        self._names.add(name)
        return name


class Iterations(NamedTuple):
    """The iterations of a loop in which operations run.

    Attributes:
        variable: The loop variable.
        first, step: Its first value, and the step to the next one.
    """

    variable: str
    first: int
    step: int

    @property
    def text(self) -> str:
        """The number of an iteration from 0, as an expression of the loop variable."""
        text = f"({self.variable} - {self.first})" if self.first else self.variable
        return text if self.step == 1 else f"{text} // {self.step}"


def iterations_of(operations: Sequence[Operation], least: int) -> Iterations | None:
    """Return the innermost loop around operations with so many iterations at even steps."""
    for name, _ in reversed(operations[0].place.loops):
        values = sorted({dict(o.place.loops).get(name, 0) for o in operations})
        steps = {b - a for a, b in itertools.pairwise(values)}
        if len(values) >= max(least, 2):
            return Iterations(name, values[0], *steps) if len(steps) == 1 else None
    return None
