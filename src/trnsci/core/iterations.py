"""Result types of the iterative methods: 3-tuples with a convergence report.

``x, iterations, residual = cg(A, b)`` unpacks as three values; ``result.info`` has the convergence
flag, the stopping reason and the residual history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Eigenpair", "IterationInfo", "Reason", "Solution", "plot_residuals"]

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
    """``(x, iterations, residual)`` of a solver, with ``info``.

    Attributes:
        x: The solution, or the last iterate if the solver did not converge.
        iterations: Iterations done, as each solver counts them.
        residual: Norm of the residual over that of the right-hand side.
        info: Convergence report.
    """

    def __new__(cls, x: Tensor, iterations: int, residual: float, info: IterationInfo) -> Self:
        """Return the three values with what is known about them."""
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
    """``(value, vector, iterations)`` of an eigenvalue iteration, with ``info``."""

    def __new__(cls, value: float, vector: Tensor, iterations: int, info: IterationInfo) -> Self:
        """Return the three values with what is known about them."""
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
