"""Tolerances, thresholds and numbers of steps of any public function: none of them is negative."""

from __future__ import annotations

import inspect
import math

import pytest

from public_calls import CALLS, function_of
from trnsci.core.errors import TrnsciError

TOLERANCES = ("tol", "rtol", "atol", "eps", "rcond", "threshold", "target_forward_error")
COUNTS = ("max_iter", "max_sweeps", "steps", "restart", "keep", "sweeps", "oversampling")
LIMITS = {
    **dict.fromkeys(TOLERANCES, (-1.0, -math.inf, math.nan)),
    **dict.fromkeys((*COUNTS, "power_iterations", "max_rank"), (-1,)),
}


def limited():
    """Yield each public function with the call of its example and a limit that it has."""
    for name, call in CALLS.items():
        function = function_of(name)
        for limit in inspect.signature(function).parameters.keys() & LIMITS.keys():
            yield name, function, call, limit


@pytest.mark.filterwarnings("ignore::trnsci.core.errors.ConvergenceWarning")
def test_negative_limits_are_refused_by_name():
    accepted = {}
    for name, function, call, limit in limited():
        for value in LIMITS[limit]:
            bound = inspect.signature(function).bind(*call.args, **call.options)
            bound.arguments[limit] = value
            try:
                function(*bound.args, **bound.kwargs)
            except TrnsciError as error:
                if limit not in str(error):
                    accepted[name, limit, value] = str(error)
            else:
                accepted[name, limit, value] = "accepted"
    assert not accepted


def test_most_limits_are_found():
    """The names above are those of the signatures: a renamed argument would go unseen."""
    assert {limit for *_, limit in limited()} == LIMITS.keys()
