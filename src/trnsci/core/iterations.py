"""Results of iterative methods, and the option ``on_failure`` for those that do not converge.

``x, iterations, residual = cg(A, b)`` unpacks as three values; ``result.info`` has the convergence
flag, the stopping reason and the residual history.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from torch import Tensor

from trnsci.core.backend.fallback import callers_level
from trnsci.core.errors import ConvergenceError, ConvergenceWarning, FlagError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Reason: TypeAlias = Literal["converged", "limit", "breakdown", "stagnated", "diverged"]
"""Stopping reason: the tolerance is met; the iteration limit is reached, which is the normal end of
methods with a fixed number of steps; the next step would divide by zero; nothing improves any more;
the residual is not finite or grew without bound."""


@dataclass(frozen=True)
class IterationInfo:
    """Convergence report of an iterative method.

    Attributes:
        converged: Whether the result meets the requested tolerance.
        reason: Why the method stopped.
        residuals: The monitored quantity before the first iteration and after each: for solvers
            the norm of the residual over that of the right-hand side, for eigenvalues the change
            of the value. Methods without monitoring have the last entry only.
        matvecs: Number of products with the matrix.
        details: Method-specific values by name.
    """

    converged: bool
    reason: Reason
    residuals: tuple[float, ...] = ()
    matvecs: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def plot(self, ax: Axes | None = None, label: str | None = None) -> Axes:
        """Draw the residuals on a logarithmic axis, and return the axes.

        Args:
            ax: Axes to draw on; None makes a figure without a window.
            label: Name of the curve.
        """
        return plot_residuals({label or "": self}, ax)


class _Iterated(tuple[Any, Any, Any]):
    """A 3-tuple of results with a convergence report ``info``."""

    info: IterationInfo

    def __getnewargs__(self) -> tuple[Any, ...]:  # copies and pickles
        return (*self, self.info)

    @property
    def converged(self) -> bool:
        """Whether the result meets the requested tolerance."""
        return self.info.converged


class Solution(_Iterated):
    """Result ``(x, iterations, residual)`` of a solver, with the attribute ``info``.

    Attributes:
        x: The solution, or the last iterate if the solver did not converge.
        iterations: Iterations done, as each solver counts them.
        residual: Norm of the residual over that of the right-hand side.
        info: Convergence report.
    """

    def __new__(cls, x: Tensor, iterations: int, residual: float, info: IterationInfo) -> Self:
        """Make the tuple of three values and set its attribute ``info``."""
        made = super().__new__(cls, (x, iterations, residual))
        made.info = info
        return made

    @property
    def x(self) -> Tensor:
        """The solution."""
        return self[0]

    @property
    def iterations(self) -> int:
        """Iterations done."""
        return self[1]

    @property
    def residual(self) -> float:
        """Relative residual of the solution."""
        return self[2]

    def __repr__(self) -> str:
        return (
            f"Solution(x of shape {tuple(self.x.shape)}, iterations={self.iterations}, "
            f"residual={self.residual:.3g}, {self.info.reason})"
        )


class Eigenpair(_Iterated):
    """Result ``(value, vector, iterations)`` of an eigenvalue iteration, with ``info``."""

    def __new__(cls, value: float, vector: Tensor, iterations: int, info: IterationInfo) -> Self:
        """Make the tuple of three values and set its attribute ``info``."""
        made = super().__new__(cls, (value, vector, iterations))
        made.info = info
        return made

    @property
    def value(self) -> float:
        """The eigenvalue, with its sign."""
        return self[0]

    @property
    def vector(self) -> Tensor:
        """The eigenvector, of norm 1."""
        return self[1]

    @property
    def iterations(self) -> int:
        """Iterations done."""
        return self[2]

    def __repr__(self) -> str:
        return (
            f"Eigenpair(value={self.value:.6g}, vector of shape {tuple(self.vector.shape)}, "
            f"iterations={self.iterations}, {self.info.reason})"
        )


def plot_residuals(runs: Mapping[str, IterationInfo], ax: Axes | None = None) -> Axes:
    """Draw the residuals of several runs on one logarithmic axis, and return the axes.

    Args:
        runs: Convergence reports by their names in the legend; the empty name has no entry.
        ax: Axes to draw on; None makes a figure without a window.
    """
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(layout="constrained").subplots()
    for name, info in runs.items():
        # A logarithmic axis cannot show zero.
        shown = [r if r > 0 else float("nan") for r in info.residuals]
        ax.semilogy(range(len(shown)), shown, label=name or None)
    ax.set_xlabel("iteration")
    ax.set_ylabel("relative residual")
    if any(runs):
        ax.legend()
    return ax


OnFailure: TypeAlias = Literal["warn", "raise", "ignore"]

_ACTIONS = ("warn", "raise", "ignore")
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
        warnings.warn(message, warning, stacklevel=callers_level())


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
