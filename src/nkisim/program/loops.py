"""One body for all iterations of a loop of the device.

The loop is recorded for at most ``TURNS`` iterations. Their operations must be equal, but for
integers that are affine in the loop's index, such as the bounds of a slice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nkisim.program.operations import FIELDS
from nkisim.program.values import AFFINE, REFERENCE, ProgramError

TURNS = 3
"""Iterations that are recorded: two determine an affine integer, one more confirms it."""


def turns_of(indices: range, *, counted: bool) -> list[int]:
    """Return the indices for which a loop is recorded.

    Args:
        indices: Its indices in the run without values.
        counted: Whether its bounds come from memory, so that there may be more or fewer.
    """
    if counted:
        return [indices.start + turn * indices.step for turn in range(TURNS)]
    return [*indices] if len(indices) <= TURNS else [indices[0], indices[1], indices[-1]]


def folded(
    bodies: list[Any], places: Sequence[Any], loop: int, indices: Sequence[int] | None
) -> Any:
    """Return the body of all iterations; None for a loop that had none.

    Args:
        bodies: The body of each iteration.
        places: The table of positions.
        loop: The number of the loop.
        indices: The index of each iteration if the kernel's code has it as an integer, else None.

    Raises:
        ProgramError: The iterations differ.
    """
    try:
        return _Fold(places, loop, indices).body(bodies) if bodies else None
    except ValueError as error:  # of zip, too
        raise ProgramError("a loop of the device whose iterations differ") from error


class _Fold:
    """The comparison of the iterations of one loop; each method takes a part of all of them."""

    def __init__(self, places: Sequence[Any], loop: int, indices: Sequence[int] | None) -> None:
        self._places, self._loop, self._indices = places, loop, indices

    def body(self, bodies: list[Any]) -> Any:
        if any(body is None for body in bodies):
            return self._exact(bodies)
        numbers, operations, results = zip(*bodies, strict=True)
        if len({tuple(op[0] for op in ops) for ops in operations}) > 1:
            # A cache may hold a tile for an iteration longer; the next one replaces it anyway.
            operations = tuple([op for op in ops if op[0] != "free"] for ops in operations)
        ops = [self._operation(turns) for turns in zip(*operations, strict=True)]
        return [self._exact(numbers), ops, self._value(results)]

    def _operation(self, turns: Sequence[Any]) -> Any:
        kinds, positions, *fields = zip(*turns, strict=True)
        found = [self._exact(kinds), self._position(positions)]
        for kind, parts in zip(FIELDS[kinds[0]], fields, strict=True):
            if kind == "exact":
                found.append(self._exact(parts))
            elif kind == "body":
                found.append(self.body(list(parts)))
            else:
                found.append(self._value(parts))
        return found

    def _position(self, turns: Sequence[Any]) -> Any:
        if all(turn == turns[0] for turn in turns):
            return turns[0]
        rows = [self._places[turn] if type(turn) is int else turn for turn in turns]
        *heads, around = zip(*rows, strict=True)
        loops = [
            [*map(self._exact, zip(*(loop[:3] for loop in same), strict=True)),
             self._value([loop[3] for loop in same])]
            for same in zip(*around, strict=True)
        ]  # fmt: skip
        return [*map(self._exact, heads), loops]

    def _exact(self, turns: Sequence[Any]) -> Any:
        first, *others = turns
        if any(repr(turn) != repr(first) for turn in others):  # 1 is not True, 0.0 not -0.0
            raise ValueError
        return first

    def _value(self, turns: Sequence[Any]) -> Any:
        first = turns[0]
        if type(first) is list and first and first[0] == REFERENCE:
            return self._exact(turns)
        if all(type(turn) is list for turn in turns):
            return [self._value(parts) for parts in zip(*turns, strict=True)]
        if type(first) is dict and all(turn.keys() == first.keys() for turn in turns):
            return {key: self._value([turn[key] for turn in turns]) for key in first}
        if self._indices is None or any(type(turn) is not int for turn in turns):
            return self._exact(turns)
        if first == turns[-1]:
            return self._exact(turns)
        start, *_ = self._indices
        step = (turns[1] - first) // (self._indices[1] - start)
        if any(first + step * (i - start) != t for i, t in zip(self._indices, turns, strict=True)):
            raise ValueError
        return [AFFINE, self._loop, first - step * start, step]
