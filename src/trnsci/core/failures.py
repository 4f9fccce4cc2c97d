"""The option ``on_failure``: warn, raise or stay silent if a result misses what was requested."""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias

from trnsci.core.backend.fallback import callers_level
from trnsci.core.errors import ConvergenceError, ConvergenceWarning, FlagError
from trnsci.core.iterations import IterationInfo

__all__ = ["OnFailure", "checked_action", "report_failure", "report_iteration"]

OnFailure: TypeAlias = Literal["warn", "raise", "ignore"]

_ACTIONS = ("warn", "raise", "ignore")
_CALLED_BY = ("trnblas", "trnfft", "trnrand", "trnsolver", "trnsparse", "trntensor")
_ENDS = {
    "limit": "the limit of steps is reached",
    "breakdown": "a step would divide by zero, or A is not positive where it must be",
    "stagnated": "the steps bring no further improvement in this precision",
    "diverged": "the iterates grow, overflow or have NaN",
}


def checked_action(function: str, on_failure: str) -> None:
    """Raise unless the option has an accepted value.

    Raises:
        FlagError: The value is not accepted.
    """
    if on_failure not in _ACTIONS:
        raise FlagError(
            f"{function}: on_failure must be one of {', '.join(_ACTIONS)}, got {on_failure!r}"
        )


def report_failure(
    message: str,
    on_failure: OnFailure,
    error: type[Exception] = ConvergenceError,
    warning: type[Warning] = ConvergenceWarning,
) -> None:
    """Raise, warn at the line that called the library, or do nothing.

    Args:
        message: The function, the requested value and the value reached.
        on_failure: The action.
        error: Type of the exception for ``"raise"``.
        warning: Type of the warning for ``"warn"``.
    """
    if on_failure == "raise":
        raise error(message)
    if on_failure == "warn":
        warnings.warn(message, warning, stacklevel=callers_level(*_CALLED_BY))


def report_iteration(
    function: str,
    info: IterationInfo,
    steps: int,
    on_failure: OnFailure,
    quantity: str = "relative residual",
    fixed: bool = False,
) -> None:
    """Report an iteration that did not converge.

    Args:
        function: The public function, for messages.
        info: The convergence report.
        steps: Iterations done.
        on_failure: The action.
        quantity: The monitored quantity, for messages.
        fixed: Whether the method makes a fixed number of steps, for which the limit is the usual
            end.
    """
    if info.converged or (fixed and info.reason == "limit"):
        return
    reached = f": {quantity} {info.residuals[-1]:.3g}" if info.residuals else ""
    report_failure(
        f"{function}: not converged after {steps} iterations{reached}, {info.reason}: "
        f"{_ENDS[info.reason]} (on_failure='ignore' accepts the result)",
        on_failure,
    )
