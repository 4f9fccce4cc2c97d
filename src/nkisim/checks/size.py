"""Program size after loop unrolling, and the loop that contributes most.

The compiler unrolls every loop except device loops. So each issued instruction counts, and those of
a device loop count once. They are attributed to loops by sampling the call stack at every 61st
instruction: a prime, so that the samples do not synchronise with a loop.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from nkisim.checks.history import History
from nkisim.diagnostics import Place, declare, flag, loops_around
from nkisim.machine import Step
from nkisim.spec.enums import engine as Engine

TOO_LONG = declare(
    "L039",
    "long-program",
    "A kernel unrolls to more instructions per engine than compile in reasonable time.",
    "the back end takes hours and tens of gigabytes, or reaches its limit of instructions",
    severity="warning",
    detector="size",
)

_ONE_IN = 61
_HOPELESS = 20
"""Multiple of the limit above which the finding is an error."""


class _Loop(NamedTuple):
    """A ``for`` loop: file, line of its header, name of its variable."""

    file: str
    line: int
    name: str


class Size:
    """Counts instructions by engine, and samples the loops around them.

    Args:
        history: The history of the run, which records device loops.
        most: Largest number of instructions per engine without a finding.
    """

    def __init__(self, history: History, most: int) -> None:
        self._history = history
        self._most = most
        self._counts: Counter[Engine] = Counter()
        self._total = 0
        self._inside: Counter[_Loop] = Counter()
        self._values: dict[_Loop, set[int]] = {}
        self._samples = 0

    def count(self, step: Step) -> None:
        """Count an instruction."""
        if self._history.repeats(step.core):
            return
        self._counts[step.engine] += 1
        if self._total % _ONE_IN == 0:
            self._sample()
        self._total += 1

    def _sample(self) -> None:
        self._samples += 1
        for file, line, name, value in loops_around():
            loop = _Loop(file, line, name)
            self._inside[loop] += 1
            self._values.setdefault(loop, set()).add(value)

    def finish(self) -> None:
        """Flag a program that is too long."""
        if not self._counts:
            return
        engine, count = self._counts.most_common(1)[0]
        if count <= self._most:
            return
        shares = [
            f"{loop.file}:{loop.line}   for {loop.name}: {100 * n // self._samples} % of the "
            f"instructions, {len(self._values[loop])} values of {loop.name} seen"
            for loop, n in self._inside.most_common(5)
        ]
        worst = self._dominating()
        fix = "larger tiles, or work outside the loops"
        if worst is not None:
            fix = (
                f"make the loop over {worst.name} at line {worst.line} an nl.dynamic_range, which "
                "is one body on the device, or take larger tiles"
            )
        flag(
            TOO_LONG,
            f"{self._total} instructions once all loops are unrolled, {count} of them on the "
            f"{engine.name} engine",
            seen=f"{count} instructions on the {engine.name} engine",
            allowed=f"{self._most} per engine",
            fix=fix,
            notes=tuple(shares),
            place=None if worst is None else Place(worst.file, worst.line),
            severity="error" if count >= _HOPELESS * self._most else None,
        )
        self._counts.clear()

    def _dominating(self) -> _Loop | None:
        """Return the best candidate for a device loop: the longest of those with most samples."""
        most = [loop for loop, n in self._inside.items() if 2 * n >= self._samples]
        return max(most, key=lambda loop: len(self._values[loop]), default=None)
