"""Acceptance of gamma proposals, defined once for tensors and for compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SQUEEZE = 0.0331
"""A uniform below 1 - SQUEEZE z**4 is accepted for every shape, without a logarithm."""

LEAST = 2.0**-53 - 1
"""Least x for which log(1 + x) is computed; smaller x are replaced by it and rejected."""

_THIRD, _SIXTH, _SEVENTH = 1 / 3, 1 / 6, 1 / 7


def defined_bound(
    where: Callable[..., Any], compiled: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Callable[..., Any]:
    """Return the log acceptance probability as a function of x, log(1 + x) and d.

    The proposal is d (1 + x)**3, where 3 x sqrt(d) is normal and x is above -1. The logarithm is
    z**2 / 2 + d - d v + d log(v) with z = 3 x sqrt(d) and v = (1 + x)**3, in which the powers of x
    below the fourth cancel.

    Args:
        where: Selection of one of two values by a condition.
        compiled: Decorator of the function, such as ``numba.njit``.
    """

    @compiled
    def bound(x: Any, log_root: Any, d: Any) -> Any:
        whole = 3.0 * d * (log_root - x * (1.0 - x * (0.5 - x * _THIRD)))
        # For d from 1e4 on, |x| is at most 9.5 / 3 sqrt(d), below 0.032: the next term is below
        # 1e-8 of the first, which is below 0.01. The remainder of the difference above falls as
        # 1 / d.
        square = x * x
        terms = 0.25 - x * (0.2 - x * (_SIXTH - x * (_SEVENTH - x * 0.125)))
        return where(d < 1e4, whole, -3.0 * d * (square * square) * terms)

    return bound
