"""How an iteration went: its error after every sweep, why it ended, and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ConvergenceReport"]


@dataclass(frozen=True)
class ConvergenceReport:
    """What became of a decomposition.

    Attributes:
        errors: The norm of what is not reproduced, relative to that of the tensor, after every
            sweep.
        converged: Whether it ended by itself.
        reason: Why it ended.
    """

    errors: tuple[float, ...]
    converged: bool
    reason: str

    @property
    def error(self) -> float:
        """The error in the end."""
        return self.errors[-1] if self.errors else float("nan")

    @property
    def sweeps(self) -> int:
        """How many sweeps there were."""
        return len(self.errors)

    def __str__(self) -> str:
        return f"error {self.error:.3e} after {self.sweeps} sweeps: {self.reason}"

    def plot(self, axes: Axes | None = None) -> Axes:
        """Return axes with the error of every sweep, on a logarithmic scale.

        Args:
            axes: Where to draw; None makes a figure of its own.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(layout="constrained").add_subplot()
        axes.semilogy(range(1, self.sweeps + 1), self.errors, marker=".")
        axes.set_xlabel("sweep")
        axes.set_ylabel("relative error")
        axes.set_title(self.reason)
        return axes


class Sweeps:
    """Decides after every sweep whether another one is worth it."""

    def __init__(self, tol: float) -> None:
        self.tol = tol
        self.errors: list[float] = []
        self.reason = "max_iter"

    def ended(self, error: float) -> bool:
        """Note the error of a sweep; return whether it was the last."""
        last = self.errors[-1] if self.errors else None
        self.errors.append(error)
        if error <= self.tol:
            self.reason = f"the error is below tol = {self.tol:g}"
            return True
        if last is not None and abs(last - error) <= self.tol * error:
            self.reason = f"the error changes by less than tol = {self.tol:g} of it"
            return True
        return False

    def report(self) -> ConvergenceReport:
        """Return the report of all sweeps."""
        converged = self.reason != "max_iter"
        reason = self.reason if converged else f"max_iter = {len(self.errors)} sweeps are done"
        return ConvergenceReport(tuple(self.errors), converged, reason)
