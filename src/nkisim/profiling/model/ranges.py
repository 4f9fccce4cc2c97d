"""Ranges of predicted times, and of the difference of two."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

DIFFERENCE_ERROR = 0.13
"""Error of the difference of two settings of a kernel, relative to the longer time.

It is enough for 85 % of the published pairs of settings of an operator.
"""

_ROUNDING = 1e-9
"""Changes of a difference up to this share of a time are rounding errors."""

Alternatives = Mapping[tuple[str, object], float]
"""The predicted time with another value of one assumption, in us, by its name and that value."""


class _Doubt(Protocol):
    """An assumption with the times that its alternatives would give."""

    @property
    def name(self) -> str: ...

    @property
    def alternatives(self) -> Mapping[object, float]: ...


def alternatives_of(doubts: Iterable[_Doubt]) -> dict[tuple[str, object], float]:
    """Return the times with the alternatives of some assumptions."""
    return {(doubt.name, value): us for doubt in doubts for value, us in doubt.alternatives.items()}


def spanned(us: float, others: Iterable[float], error: float) -> tuple[float, float]:
    """Return the range of a predicted time.

    On each side it is the root of the sum of two squares: the distance to the farthest alternative,
    and the error of the model.

    Args:
        us: The prediction.
        others: The predictions with the alternatives of its assumptions, one at a time.
        error: Relative error of the model.
    """
    others = (us, *others)
    below, above = us - min(others), max(others) - us
    return us - math.hypot(below, error * us), us + math.hypot(above, error * us)


class Difference(NamedTuple):
    """The range of the difference of two predictions.

    Attributes:
        low, high: Its ends, in us.
        widest: The assumption whose alternatives move the difference most; "" if none does.
    """

    low: float
    high: float
    widest: str = ""

    @property
    def separable(self) -> bool:
        """Whether every difference in the range has one sign."""
        return self.low > 0 or self.high < 0

    @property
    def doubt(self) -> str:
        """Why the two are not separable; "" if they are."""
        if self.separable:
            return ""
        most = f", most by {self.widest}" if self.widest else ""
        return f"the range of the difference contains 0{most}"


def difference(
    us: float,
    others: Alternatives,
    base_us: float,
    base_others: Alternatives,
    error: float = DIFFERENCE_ERROR,
) -> Difference:
    """Return the range of the difference of two predictions.

    Both are taken under the same assumptions, so that what they share does not widen the range.

    Args:
        us: A prediction.
        others: Its alternatives.
        base_us: The prediction that is subtracted.
        base_others: Its alternatives.
        error: Error of a difference, relative to the longer time.
    """
    found, rest = us - base_us, error * max(us, base_us)
    moved = {
        key: others.get(key, us) - base_others.get(key, base_us) - found
        for key in (*others, *base_others)
    }
    changes = (0.0, *moved.values())
    below, above = -min(changes), max(changes)
    low, high = found - math.hypot(below, rest), found + math.hypot(above, rest)
    moves = max(below, above) > _ROUNDING * max(us, base_us)
    widest = max(moved, key=lambda key: abs(moved[key]))[0] if moves else ""
    return Difference(low, high, widest)
