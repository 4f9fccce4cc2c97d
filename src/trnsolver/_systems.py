"""The systems of a batch, one after the other, and what all of them together are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite, nan, prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.finite import power_below
from trnsci.core.iterations import IterationInfo, Solution
from trnsolver import _krylov
from trnsolver._krylov import Progress, Run, Watch
from trnsolver.operators import LinearOperator, as_operator, as_preconditioner

__all__ = ["Callback", "Method", "each_run", "gathered", "solution"]

Callback: TypeAlias = Callable[[Progress], object]
Method: TypeAlias = Callable[[LinearOperator, Tensor, Tensor, Any, Watch], Run]

_USUAL = (1e-9, 1e9)
"""Norms of right sides whose squares, and products with them, float32 can hold."""


def each_run(
    function: str,
    method: Method,
    A: Any,
    right: Tensor,
    start: Tensor,
    M: Any,
    limits: tuple[float, float, int, Callback | None],
) -> list[Run]:
    """Return how a method went for each system of a batch."""
    tol, atol, maxiter, callback = limits
    n = right.shape[-1]
    batch = right.shape[:-1]
    if batch:
        as_operator(function, A, right)
    systems = prod(batch)
    sides, starts = right.reshape(systems, n), start.reshape(systems, n)
    matrices = None
    if isinstance(A, Tensor) and A.ndim > 2:
        matrices = A.to(right.dtype).expand(*batch, n, n).reshape(systems, n, n)
    runs = []
    for place in range(systems):
        side, begin = sides[place], starts[place]
        op = as_operator(function, A if matrices is None else matrices[place], side)
        m = as_preconditioner(function, M, side)
        size = _krylov.norm(side)
        if _USUAL[0] < size < _USUAL[1]:
            watch = Watch(max(tol * size, atol), maxiter, size, callback)
            runs.append(_run(method, op, side, begin, m, watch))
        else:
            runs.append(_scaled_run(method, op, side, begin, m, (tol, atol, maxiter, callback)))
    return runs


def _run(
    method: Method, op: LinearOperator, side: Tensor, start: Tensor, m: Any, watch: Watch
) -> Run:
    run = method(op, side, start, m, watch)
    run.scale = watch.scale
    return run


def _scaled_run(
    method: Method,
    op: LinearOperator,
    side: Tensor,
    start: Tensor,
    m: Any,
    limits: tuple[float, float, int, Callback | None],
) -> Run:
    """Return how a method went for a right side whose squares may not be numbers any more.

    It is brought to the size of 1 by a power of two, which rounds nothing.
    """
    tol, atol, maxiter, callback = limits
    peak = float(side.abs().max()) if side.numel() else 0.0
    if peak == 0:
        return Run(torch.zeros_like(side), [0.0], 0, 0, "converged")
    if not isfinite(peak):
        return Run(start, [nan], 0, 0, "diverged")
    unit = power_below(side)

    def tell(progress: Progress) -> None:
        assert callback is not None
        x = None if progress.x is None else progress.x * unit
        callback(replace(progress, x=x))

    side, start = side / unit, start / unit
    size = _krylov.norm(side)
    watch = Watch(max(tol * size, atol / unit), maxiter, size, None if callback is None else tell)
    run = _run(method, op, side, start, m, watch)
    run.x = run.x * unit
    return run


def gathered(runs: list[Run], right: Tensor) -> Tensor:
    """Return the solutions of a batch."""
    return torch.stack([run.x for run in runs]).reshape(right.shape) if runs else right.clone()


def solution(x: Tensor, runs: list[Run]) -> Solution:
    """Return the result of a batch: of the system that went worst, with all of them in it."""
    infos = [
        IterationInfo(
            run.reason == "converged",
            run.reason,
            tuple([norm / run.scale for norm in run.norms]),
            run.matvecs,
            run.details,
        )
        for run in runs
    ]
    if not infos:
        return Solution(x, 0, 0.0, IterationInfo(True, "converged"))
    worst = max(range(len(infos)), key=lambda i: (not infos[i].converged, infos[i].residuals[-1]))
    info = infos[worst]
    if len(infos) > 1:
        info = IterationInfo(
            info.converged,
            info.reason,
            info.residuals,
            sum(each.matvecs for each in infos),
            {**info.details, "systems": tuple(infos)},
        )
    most = max(run.iterations for run in runs)
    return Solution(x, most, info.residuals[-1], info)
