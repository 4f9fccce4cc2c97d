"""Convergence report of an iteration: error per sweep, stopping reason, plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnsci.core.iterations import OnFailure, report_failure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ConvergenceReport"]


@dataclass(frozen=True)
class ConvergenceReport:
    """Convergence history of a decomposition.

    Attributes:
        errors: Relative error after every sweep: norm of the residual over norm of the tensor.
        converged: Whether the tolerance was reached before the maximum number of sweeps.
        reason: Why the iteration stopped.
    """

    errors: tuple[float, ...]
    converged: bool
    reason: str

    @property
    def error(self) -> float:
        """The final relative error."""
        return self.errors[-1] if self.errors else float("nan")

    @property
    def sweeps(self) -> int:
        """The number of sweeps."""
        return len(self.errors)

    def __str__(self) -> str:
        return f"error {self.error:.3e} after {self.sweeps} sweeps: {self.reason}"

    def plot(self, axes: Axes | None = None) -> Axes:
        """Plot the error of every sweep on a logarithmic scale; return the axes.

        Args:
            axes: Matplotlib axes to draw on; None creates a figure.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(layout="constrained").add_subplot()
        axes.semilogy(range(1, self.sweeps + 1), self.errors, marker=".")
        axes.set_xlabel("sweep")
        axes.set_ylabel("relative error")
        axes.set_title(self.reason)
        return axes


def report_sweeps(function: str, report: ConvergenceReport, on_failure: OnFailure) -> None:
    """Report sweeps that did not converge."""
    if not report.converged:
        message = f"{function}: not converged: {report} (on_failure='ignore' accepts the result)"
        report_failure(message, on_failure)


class Sweeps:
    """Stopping criterion, evaluated after every sweep.

    Args:
        tol: Tolerance of the error, and of its relative change.
        resolution: Rounding error of the squared errors.
    """

    def __init__(self, tol: float, resolution: float = 0.0) -> None:
        self.tol, self.resolution = tol, resolution
        self.errors: list[float] = []
        self.reason = "max_iter"

    def ended(self, error: float) -> bool:
        """Record the error of a sweep; return whether to stop."""
        last = self.errors[-1] if self.errors else None
        self.errors.append(error)
        if error <= self.tol:
            self.reason = f"the error is below tol = {self.tol:g}"
            return True
        if last is not None and abs(last - error) <= self.tol * error:
            self.reason = f"the error changes by less than tol = {self.tol:g} of it"
            return True
        if last is not None and abs(last**2 - error**2) <= self.resolution:
            self.reason = "the error changes by rounding only"
            return True
        return False

    def report(self) -> ConvergenceReport:
        """Return the report of all sweeps."""
        converged = self.reason != "max_iter"
        reason = self.reason if converged else f"max_iter = {len(self.errors)} sweeps are done"
        return ConvergenceReport(tuple(self.errors), converged, reason)
