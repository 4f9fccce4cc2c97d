"""Solution of linear systems by an iterative method: scaling, batches, reports, derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.arguments import not_negative, whole
from trnsci.core.backend.explanation import recording
from trnsci.core.errors import FlagError
from trnsci.core.interop import (
    forward_level,
    transform_level,
    values_are_traced,
    with_forward_mode,
)
from trnsci.core.iterations import (
    IterationInfo,
    OnFailure,
    Solution,
    checked_action,
    report_iteration,
)
from trnsci.core.krylov.implicit import (
    Rules,
    differentiated,
    matrix_solution,
    operator_run,
    operator_solution,
    values_of,
)
from trnsci.core.krylov.operators import LinearOperator, as_operator, as_preconditioner
from trnsci.core.krylov.runs import Callback, Product, Progress, Run, Watch, ended
from trnsci.core.krylov.threads import few_threads
from trnsci.core.krylov.vectors import ONE, Number, Several, Vectors
from trnsci.core.numbers.values import recorded

Method: TypeAlias = Callable[[LinearOperator, Tensor, Tensor, Product | None, Watch], Run]
"""``method(op, b, x, M, watch)`` returns a run that begins at x, which it may overwrite."""


@dataclass(frozen=True)
class Stopping:
    """Stopping rule: ``norm(b - A x) <= max(tol * norm(b), atol)``, or ``limit`` steps.

    ``fixed`` is for methods that make ``limit`` steps without a residual test, whose usual end is
    that limit.
    """

    tol: float
    atol: float
    limit: int
    callback: Callback | None = None
    fixed: bool = False


def stopping(
    function: str,
    tol: float,
    rtol: float | None,
    atol: float,
    max_iter: int,
    callback: Callback | None,
) -> Stopping:
    """Return a checked stopping rule; ``rtol`` overrides ``tol``.

    Raises:
        FlagError: A tolerance or the limit is negative, or the callback is no function.
    """
    limit = whole(function, "max_iter", max_iter, 0, error=FlagError)
    if callback is not None and not callable(callback):
        raise FlagError(f"{function}: callback must be a function, got {type(callback).__name__}")
    not_negative(function, rtol=rtol, atol=atol)
    if rtol is None:
        not_negative(function, tol=tol)
    return Stopping(tol if rtol is None else rtol, atol, limit, callback)


@dataclass(frozen=True)
class System:
    """A linear system, and the method that solves it.

    Attributes:
        function: The public function, for messages.
        method: The iterative method.
        stopping: The stopping rule.
        M: Approximate inverse of the matrix, of any type that ``as_operator`` accepts.
        hermitian: Whether the matrix is its own adjoint.
        columns: Whether vectors are the columns of a b of shape (n, k) and share products; if not,
            they lie along its last dimension.
        with_data: Returns the matrix with a given data tensor, for matrices that have one.
        on_failure: Action if the method does not converge.
        dtype: Dtype to which the caller rounds the solution; None is the dtype of b.
        total: Sums scalars over the ranks that hold parts of the vectors; None for one process.
    """

    function: str
    method: Method
    stopping: Stopping
    M: Any = None
    hermitian: bool = False
    columns: bool = False
    with_data: Callable[[Tensor], Any] | None = None
    on_failure: OnFailure = "warn"
    dtype: torch.dtype | None = None
    total: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self) -> None:
        checked_action(self.function, self.on_failure)


def solve(
    system: System, A: Any, b: Tensor, x0: Tensor | None = None, data: Tensor | None = None
) -> Solution:
    """Return the solution of ``A x = b``, with its derivatives.

    Args:
        system: The method and its options.
        A: The matrix: anything that ``as_operator`` accepts.
        b: Right sides, in the dtype to compute in.
        x0: Starting vectors, like b; None for zero.
        data: The data tensor of A for ``system.with_data``; a dense A is its own data.

    Raises:
        FlagError: Values cannot be read, as under ``vmap`` and with fake tensors.
        ConvergenceError: The method did not converge, and ``system.on_failure`` is ``"raise"``.
    """
    if torch.compiler.is_compiling():  # loops that depend on values run outside of the graph
        outside: Callable[..., Solution] = torch.compiler.disable(solve)  # type: ignore[no-untyped-call]
        return outside(system, A, b, x0, data)
    if isinstance(system.M, Tensor):
        each = "M must not be a tensor over which vmap runs; one M serves all systems"
        system = replace(system, M=values_of(system.function, system.M.detach(), each))
    runs: list[Run] = []

    def compute(matrix: Any, right: Tensor, start: Tensor | None) -> Tensor:
        right = values_of(system.function, right)
        if not recording() and (right.is_meta or values_are_traced() or recorded()):
            raise FlagError(
                f"{system.function}: the number of steps depends on values, which cannot be read "
                f"of fake tensors and while a call is traced"
            )
        with torch.no_grad(), with_forward_mode(False):
            made = _runs(system, matrix, right, start)
        runs.extend(made)  # one call for each entry of a batch of vmap
        if len(made) == 1:
            return made[0].x.reshape(right.shape)
        found = [run.x for run in made]
        return torch.stack(found).reshape(right.shape) if found else right.clone()

    def failure() -> str:
        return _failure(system, b.dtype, runs)

    start = None if x0 is None else x0.detach()
    if isinstance(A, Tensor) and A.layout is torch.strided:
        data, system = A.to(b.dtype), replace(system, with_data=_itself)
    elif data is None and hasattr(A, "with_entries"):
        data, system = A.entries.to(b.dtype), replace(system, with_data=A.with_entries)
    if data is not None and system.with_data is not None:
        x = _of_matrix(system, data, b, start, compute, failure)
    else:
        x = _of_operator(system, A, b, start, compute, failure)
    found = solution(x, runs)
    if not recording():
        report_iteration(
            system.function,
            found.info,
            found.iterations,
            system.on_failure,
            fixed=system.stopping.fixed,
        )
    return found


def run_system(
    method: Method,
    op: LinearOperator,
    b: Tensor,
    start: Tensor | None,
    M: Product | None,
    rule: Stopping,
    space: Vectors = ONE,
    dtype: torch.dtype | None = None,
) -> Run:
    """Return a run with b scaled to about 1 by a power of two, which is exact.

    The squares of its elements are then representable; those of one vector of usual size are so
    without. For b = 0 the result is x = 0. The residual is that of x at the scale of b and rounded
    to ``dtype``, which may overflow or underflow.
    """
    if recording():  # explain() only needs the path
        x = torch.zeros_like(b) if start is None else start
        return method(op, b, x, M, Watch(rule.tol, rule.limit, 1.0, rule.callback, space))
    peak = space.peak(b)
    if not math.isfinite(space.worst(peak)):
        x = torch.zeros_like(b) if start is None else start.clone()
        return Run(x, [math.nan], 0, 0, "diverged")
    if not space.some(peak > 0):
        return Run(torch.zeros_like(b), [0.0], 0, 0, "converged")
    usual = type(space) is Vectors and space.total is None and 1e-3 < peak < 1e3
    unit: Number = 1.0 if usual else _power_below(peak)
    factor = unit.to(b.real.dtype) if isinstance(unit, Tensor) else unit
    x = torch.zeros_like(b) if start is None else start / factor
    b = b if usual else b / factor
    size = space.norm(b)
    goal: Number
    scale: Number
    if isinstance(size, Tensor):
        goal = torch.maximum(rule.tol * size, rule.atol / unit)
        scale = torch.where(size > 0, size, math.inf)
        x = torch.where(size > 0, x, 0.0)
    else:
        goal, scale = max(rule.tol * size, rule.atol / unit), size
    callback = rule.callback

    def scaled(progress: Progress) -> None:
        assert callback is not None
        callback(replace(progress, x=None if progress.x is None else progress.x * factor))

    watch = Watch(goal, rule.limit, scale, None if callback is None else scaled, space)
    run = method(op, b, x, M, watch)
    if usual and dtype in (None, b.dtype):
        return run
    return _returned(run, op, b, watch, factor, dtype or b.dtype)


def _returned(
    run: Run, op: LinearOperator, b: Tensor, watch: Watch, factor: Any, dtype: torch.dtype
) -> Run:
    """Return the run with x at the scale of b, rounded to ``dtype``, and the residual of that x.

    Rounding to a narrower dtype does not undo convergence, unless x overflows or underflows.
    """
    space, exact = watch.space, run.x
    run.x = (exact * factor).to(dtype).to(exact.dtype)
    rounded = run.x / factor
    change = space.peak(rounded - exact)
    if space.worst(change) == 0:
        return run
    norms = space.norm(b - op(rounded))
    run.matvecs += 1
    usual = dtype is not exact.dtype and math.isfinite(space.worst(change))
    if usual and not space.some(change > torch.finfo(dtype).eps * space.peak(exact)):
        run.residuals[-1] = watch.relative(norms)
        return run
    if run.reason == "limit" and watch.relative(norms) > 2 * run.residuals[-1]:
        run.reason = "stagnated"  # more steps do not help
    return ended(run, watch, norms)


def solution(x: Tensor, runs: list[Run]) -> Solution:
    """Return the report of a batch: that of the system with the largest residual, and all others.

    Iterations are the maximum over the systems, products the sum.
    """
    infos = [
        IterationInfo(
            run.reason == "converged", run.reason, tuple(run.residuals), run.matvecs, run.details
        )
        for run in runs
    ]
    if not infos:
        return Solution(x, 0, 0.0, IterationInfo(True, "converged"))
    info = max(infos, key=lambda each: (not each.converged, each.residuals[-1]))
    if len(infos) > 1:
        matvecs = sum(each.matvecs for each in infos)
        details = {**info.details, "systems": tuple(infos)}
        info = replace(info, matvecs=matvecs, details=details)
    return Solution(x, max(run.iterations for run in runs), info.residuals[-1], info)


def _itself(data: Tensor) -> Tensor:
    return data


def _runs(system: System, A: Any, b: Tensor, start: Tensor | None) -> list[Run]:
    """Return a run for each system of a batch, or one for all columns."""
    if system.columns or b.ndim == 1:
        return [_run(system, A, b, start)]
    n, batch = b.shape[-1], b.shape[:-1]
    as_operator(system.function, A, b)  # checks
    systems = math.prod(batch)
    sides = b.reshape(systems, n)
    starts = [None] * systems if start is None else list(start.reshape(systems, n))
    matrices = [A] * systems
    if isinstance(A, Tensor) and A.ndim > 2:
        matrices = list(A.expand(*batch, n, n).reshape(systems, n, n))
    return [_run(system, *each) for each in zip(matrices, sides, starts, strict=True)]


def _run(system: System, A: Any, b: Tensor, start: Tensor | None) -> Run:
    op = as_operator(system.function, A, b, columns=system.columns)
    M = as_preconditioner(system.function, system.M, b, system.columns)
    if transform_level() is not None:  # functions may capture tensors that torch.func tracks
        op, M = _with_values(system.function, op), M and _with_values(system.function, M)
    space = Several(0, system.total) if b.ndim == 2 else Vectors(system.total)
    with few_threads(op, b):
        return run_system(system.method, op, b, start, M, system.stopping, space, system.dtype)


def _with_values(function: str, product: Product) -> LinearOperator:
    found = LinearOperator(lambda v: values_of(function, product(v)))
    found.matrix = getattr(product, "matrix", None)
    return found


def _failure(system: System, dtype: torch.dtype, runs: list[Run]) -> str:
    """Return how a solution was missed, or ""; a fixed number of steps gives half of the digits."""
    enough = torch.finfo(dtype).eps ** 0.5
    for run in runs:
        usual = system.stopping.fixed and run.reason == "limit" and run.residuals[-1] <= enough
        if run.reason != "converged" and not usual:
            return (
                f"{system.function}: the solution did not converge ({run.reason}, relative "
                f"residual {run.residuals[-1]:.3g})"
            )
    return ""


def _of_matrix(
    system: System,
    data: Tensor,
    b: Tensor,
    start: Tensor | None,
    compute: Callable[[Any, Tensor, Tensor | None], Tensor],
    failure: Callable[[], str],
) -> Tensor:
    """Return the solution with derivatives with respect to the matrix data and b."""
    assert system.with_data is not None
    made = system.with_data
    if not differentiated(data, b):
        return compute(made(data), b, start)

    def image(data: Tensor, x: Tensor) -> Tensor:
        return as_operator(system.function, made(data), x, columns=system.columns)(x)

    def solve_adjoint(data: Tensor, g: Tensor) -> Tensor:
        if made is _itself:
            return solve(system, data.mH, g).x
        if system.hermitian and not differentiated(data):
            return solve(system, None, g, data=data).x
        return solve(replace(system, with_data=lambda data: made(data).H), None, g, data=data).x

    rules = Rules(
        lambda data, b, start: compute(made(data), b, start),
        lambda data, b: solve(system, data if made is _itself else None, b, data=data).x,
        solve_adjoint,
        image,
        failure,
    )
    return matrix_solution(data, b, start, rules)


def _of_operator(
    system: System,
    A: Any,
    b: Tensor,
    start: Tensor | None,
    compute: Callable[[Any, Tensor, Tensor | None], Tensor],
    failure: Callable[[], str],
) -> Tensor:
    """Return the solution with derivatives with respect to b and the captures of A."""
    transformed = transform_level() is not None
    if not transformed:
        x = compute(A, b.detach(), start)
        if not (torch.is_grad_enabled() or forward_level() >= 0):
            return x
    op = as_operator(system.function, A, b, columns=system.columns)
    if transformed:
        right = b.detach()
        x = operator_run(system.function, right, start, op, lambda b, x0: compute(A, b, x0))
    image = op(x)
    if not (transformed or b.requires_grad or image.requires_grad) and forward_level() < 0:
        return x
    adjoint = op if system.hermitian and not transformed else op.adjoint()
    return operator_solution(
        system.function,
        x,
        b,
        image,
        lambda r: solve(system, op, r).x,
        lambda g: solve(system, adjoint, g).x,
        failure,
    )


def _power_below(peak: Number) -> Number:
    """Return the power of two at or below each element, 1 for 0."""
    if isinstance(peak, Tensor):
        return torch.where(peak > 0, peak / (2 * torch.frexp(peak).mantissa), 1.0)
    return 2.0 ** (math.frexp(peak)[1] - 1) if peak > 0 else 1.0
