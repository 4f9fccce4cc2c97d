"""A run of an iterative method: its stopping rule, its progress, and how it ended."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from torch import Tensor

from trnsci.core.iterations import Reason
from trnsci.core.krylov.vectors import ONE, Number, Vectors

Product: TypeAlias = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Progress:
    """Argument of a callback after each iteration.

    Attributes:
        iteration: Iterations done.
        residual: Norm of the residual over that of b, from the recurrence.
        x: The current iterate, or None if the method has none between restarts.
    """

    iteration: int
    residual: float
    x: Tensor | None


Callback: TypeAlias = Callable[[Progress], object]


@dataclass(frozen=True)
class Watch:
    """The stopping rule of a run, and its callback.

    Attributes:
        goal: Norm of the residual at which to stop, one for each vector.
        limit: Iterations after which to stop.
        scale: Norm of the right side, relative to which residuals are reported.
        callback: Called after each iteration.
        space: Arithmetic of the vectors.
    """

    goal: Number
    limit: int
    scale: Number
    callback: Callback | None = None
    space: Vectors = ONE

    def relative(self, norms: Number) -> float:
        """Return the largest residual relative to its right side."""
        return self.space.worst(norms / self.scale)


@dataclass
class Run:
    """The result of a run: the solution, relative residuals, and the reason why it stopped."""

    x: Tensor
    residuals: list[float]
    iterations: int
    matvecs: int
    reason: Reason
    details: dict[str, Any] = field(default_factory=dict)


def begun(product: Product, b: Tensor, x: Tensor, space: Vectors = ONE) -> tuple[Tensor, int]:
    """Return the initial residual, and the number of products: none for x = 0."""
    if space.zero(x):
        return b.clone(), 0
    return b - product(x), 1


def report(watch: Watch, run: Run, norms: Number, x: Tensor | None) -> None:
    """Record the residual after an iteration, and call the callback with a copy of x."""
    run.iterations += 1
    run.residuals.append(watch.space.worst(norms / watch.scale))
    if watch.callback is not None:
        copy = None if x is None else x.clone()
        watch.callback(Progress(run.iterations, run.residuals[-1], copy))


def ended(run: Run, watch: Watch, norms: Number) -> Run:
    """Record the true residual norms of x, correct the stopping reason, and return the run."""
    run.residuals[-1] = watch.relative(norms)
    if not math.isfinite(run.residuals[-1]):
        run.reason = "diverged"
    elif not watch.space.some(norms > watch.goal):
        run.reason = "converged"
    elif run.reason == "converged":
        run.reason = "stagnated"
    return run
