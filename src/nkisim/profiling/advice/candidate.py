"""A possible piece of advice, and the program that follows it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from nkisim.profiling.program import Operation, Program
from nkisim.profiling.result import Advice, ProfileData
from nkisim.profiling.spills import SPILL

__all__ = ["Candidate", "Found", "Line", "with_operations"]

Line = tuple[str, int]
"""File and line."""


class Candidate(NamedTuple):
    """A possible piece of advice.

    Attributes:
        advice: Its text and its code, without the gain.
        changed: Returns the program that follows it; None if the change is not possible.
        lines: Lines whose operations it changes.
    """

    advice: Advice
    changed: Callable[[Program], Program | None]
    lines: frozenset[Line]


class Found:
    """A program with its profile, as the rules read it.

    Attributes:
        program: The program.
        profile: Its profile.
    """

    def __init__(self, program: Program, profile: ProfileData) -> None:
        self.program = program
        self.profile = profile

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
    def _critical(self) -> dict[Line, float]:
        return {(line.file, line.line): line.critical_us for line in self.profile.lines}

    def most_gain(self, lines: Iterable[Line]) -> float:
        """Return the largest time that a change of some lines can save, in us.

        Operations outside the critical path do not determine the end.
        """
        return sum(self._critical.get(line, 0.0) for line in lines)


def with_operations(
    changed: Mapping[int, Operation],
) -> Callable[[Program], Program]:
    """Return the change that replaces operations, by their numbers."""

    def change(program: Program) -> Program:
        operations = [changed.get(o.number, o) for o in program.operations]
        return replace(program, operations=operations)

    return change
