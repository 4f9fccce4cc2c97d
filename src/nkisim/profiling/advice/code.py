"""Code to paste: the kernel's own statements with what the advice changes in them."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from nkisim.arch import GENERATIONS
from nkisim.diagnostics import Finding, Place, Rule
from nkisim.profiling.advice.candidate import Line
from nkisim.profiling.program import Operation
from nkisim.suggestions.statement import Case, case_of

__all__ = [
    "Iterations",
    "Turns",
    "iterations_of",
    "one_function",
    "only_on",
    "statement_of",
    "turns_of",
    "with_arguments",
]


class Iterations(NamedTuple):
    """The iterations of a loop in which operations run.

    Attributes:
        variable: The loop variable.
        first, step, length: Its first value, the step to the next one, and the number of values.
    """

    variable: str
    first: int
    step: int
    length: int

    @property
    def text(self) -> str:
        """The number of an iteration from 0, as an expression of the loop variable."""
        text = f"({self.variable} - {self.first})" if self.first else self.variable
        return text if self.step == 1 else f"{text} // {self.step}"

    def number(self, operation: Operation) -> int:
        """Return the number of the iteration of an operation."""
        return (dict(operation.place.loops)[self.variable] - self.first) // self.step


def iterations_of(operations: Sequence[Operation], variable: str) -> Iterations | None:
    """Return the iterations of a loop around operations; None if its steps are uneven."""
    values = sorted({dict(o.place.loops)[variable] for o in operations})
    step = values[1] - values[0] if len(values) > 1 else 1
    if any(b - a != step for a, b in itertools.pairwise(values)):
        return None
    return Iterations(variable, values[0], step, len(values))


class Turns(NamedTuple):
    """Operations of a line that take turns, by the innermost loop.

    Attributes:
        loop: The loop.
        turns: The number of turns.
    """

    loop: Iterations
    turns: int

    @property
    def text(self) -> str:
        """The number of the turn, as an expression of the loop variable."""
        return f"{self.loop.text} % {self.turns}"

    def number(self, operation: Operation) -> int:
        """Return the number of the turn of an operation."""
        return self.loop.number(operation) % self.turns


def turns_of(operations: Sequence[Operation], count: int) -> Turns | None:
    """Return the turns of operations, None without a loop of that many iterations around them."""
    for name, _ in reversed(operations[0].place.loops):
        loop = iterations_of(operations, name)
        if loop is None or loop.length >= count:
            return None if loop is None else Turns(loop, count)
    return None


def statement_of(rule: Rule, line: Line, instruction: str = "") -> Case | None:
    """Return the statement at a line that calls an instruction, None if the source has none."""
    case = case_of(Finding(rule, "", Place(*line), instruction))
    found = case is not None and (not instruction or (case.call is not None and case.arguments))
    return case if found else None


def with_arguments(rule: Rule, line: Line, instruction: str, texts: Mapping[str, str]) -> str:
    """Return the statement of a line, which calls an instruction, with keyword arguments set."""
    case = statement_of(rule, line, instruction)
    assert case is not None
    assert case.call is not None
    kept = [ast.unparse(argument) for argument in case.call.args]
    kept += [
        f"{keyword.arg}={ast.unparse(keyword.value)}"
        for keyword in case.call.keywords
        if keyword.arg not in texts
    ]
    set_to = [f"{name}={text}" for name, text in texts.items()]
    return case.with_call(f"{ast.unparse(case.call.func)}({', '.join([*kept, *set_to])})")


def one_function(cases: Iterable[Case]) -> bool:
    """Return whether statements are in one function."""
    return len({id(next(case.blocks(), None)) for case in cases}) == 1


def only_on(generations: Collection[str], nisa: str = "nisa") -> str:
    """Return the condition that a kernel runs on one of some generations; empty for all.

    Generations are compared for equality: the enumeration has no order.
    """
    others = [g.name for g in GENERATIONS if g.name not in generations]
    if not others:
        return ""
    version = f"{nisa}.get_nc_version()"
    if len(others) == 1:
        return f"{version} != {nisa}.nc_version.{others[0]}"
    return " or ".join(f"{version} == {nisa}.nc_version.{name}" for name in generations)
