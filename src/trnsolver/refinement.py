"""Solutions with a target error: mixed-precision iterative refinement with measured errors.

The first of these methods that reaches the target is used:

1. a factorization in float32, corrected by residuals in float64;
2. GMRES in float64 with that factor as preconditioner (GMRES-IR, Carson and Higham 2018);
3. a factorization in float64, or on kernels at the level doublefloat, corrected by residuals in
   float64, or in twice float64 for large condition numbers.

The certified error bound: with R an approximate inverse and ``norm(I - R A) <= rho < 1`` in the
maximum norm, rounding of that product included, ``norm(X - exact) <= norm(R r) / (1 - rho)`` with r
the residual, its own rounding included (Rump 2010). Complex systems are real ones of twice the
order, with bounds for each part; the reported ones are of moduli.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from trnsci.core.errors import AccuracyError, AccuracyWarning, FlagError
from trnsci.core.iterations import OnFailure, checked_action, report_failure
from trnsci.core.krylov.gmres import flexible_gmres
from trnsci.core.krylov.implicit import differentiated
from trnsci.core.krylov.runs import Watch
from trnsci.core.numbers.values import STEPS, concrete, finite, untraced
from trnsolver._factors.bounds import (
    UNIT,
    RealSystem,
    Residual,
    error_bound,
    estimated_bound,
    inverse_norm,
)
from trnsolver._factors.forms import columns as real_columns
from trnsolver._factors.forms import joined_columns, of_columns
from trnsolver._library import LIBRARY, kernels_wanted
from trnsolver._paths.arguments import batch_of, batch_shape, restored, singular
from trnsolver.factor import LU

__all__ = ["AccurateSolution", "SolveInfo", "accurate_solution"]

Solve: TypeAlias = Callable[..., Any]
"""``(right, transposed) -> A^-1 right``, or of the transpose; a tensor for a tensor."""

_SINGLE = torch.finfo(torch.float32).eps / 2
_MOST_STEPS = 40
# Up to this order a float64 factorization is cheaper than GMRES with a float32 factor.
_SMALL = 512
# If the condition number times the precision exceeds this, a correction gains less than two digits.
_CONTRACTING = 0.02


@dataclass(frozen=True)
class SolveInfo:
    """Accuracy of a solution.

    Attributes:
        converged: Whether the bound is at most the target.
        target: The requested error.
        forward_error: Bound on ``max |X - exact| / max |exact|``, the largest of all columns;
            infinite if there is no bound.
        certified: Whether that bound is proven, or estimated.
        backward_error: ``norm(r) / (norm(A) norm(X) + norm(B))`` in the maximum norm.
        condition: Estimated condition number, in the maximum norm if certified, else in the 1-norm.
        iterations: Number of corrections.
        precision: Precision of each stage, in order.
        errors: Norm of each correction relative to X; it decreases while the iteration converges.
    """

    converged: bool
    target: float
    forward_error: float
    certified: bool
    backward_error: float
    condition: float
    iterations: int
    precision: tuple[str, ...]
    errors: tuple[float, ...]

    def __str__(self) -> str:
        kind = "proven" if self.certified else "estimated"
        reached = "reached" if self.converged else "NOT reached"
        lines = [
            f"target        {self.target:.3g}, {reached}",
            f"forward error {self.forward_error:.3g} at most, {kind}",
            f"backward      {self.backward_error:.3g}",
            f"condition     {self.condition:.3g}",
            f"corrections   {self.iterations}",
            *(f"              {stage}" for stage in self.precision),
        ]
        return "\n".join(lines)


class AccurateSolution(NamedTuple):
    """A solution, and its accuracy."""

    x: Tensor
    info: SolveInfo


@dataclass
class _Attempt:
    """The result of one method, for one matrix."""

    x: Tensor
    bound: float
    backward: float
    condition: float
    steps: int
    precision: list[str]
    errors: list[float]


@untraced(STEPS, name="solve with target_forward_error")
def accurate_solution(
    a: Tensor,
    b: Tensor,
    vectors: bool,
    target: float,
    on_failure: OnFailure,
    certify: bool,
    dtype: torch.dtype,
) -> AccurateSolution:
    """Return ``solve`` with a target, for validated arguments.

    Complex systems are solved as real ones of twice the order.
    """
    checked_action("solve", on_failure)
    if not (isinstance(target, int | float) and 0 < target < 1):
        raise FlagError(f"solve: target_forward_error must be between 0 and 1, got {target!r}")
    if not concrete(a, b):
        raise FlagError(
            "solve: target_forward_error needs concrete values, but A or B is traced or transformed"
        )
    finite("solve", "A", a)
    finite("solve", "B", b)
    columns = b.unsqueeze(-1) if vectors else b
    batch = batch_shape(a, columns)
    with torch.no_grad():
        complex_ = a.is_complex()
        wide_a = of_columns(a.detach()) if complex_ else a.detach()
        wide_b = real_columns(columns) if complex_ else columns
        matrices, sides = (
            batch_of(x.expand(*batch, *x.shape[-2:])) for x in (wide_a, wide_b.detach())
        )
        # The result is rounded once more if the precision of A suffices for the target.
        unit = torch.finfo(dtype).eps / 2
        narrow = unit if unit > UNIT and target >= 4 * unit else 0.0
        kept = dtype.to_real() if narrow else torch.float64
        found = [
            _scaled(RealSystem(m.double(), s.double(), complex_), target - narrow, certify, kept)
            for m, s in zip(matrices, sides, strict=True)
        ]
        x = torch.stack([attempt.x for attempt in found]).reshape(*batch, -1, columns.shape[-1])
    info = _summary(found, target, certify)
    if not info.converged:
        message = (
            f"solve: the forward error is at most {info.forward_error:.3g}, not {target:.3g}, at "
            f"condition number {info.condition:.3g}"
        )
        report_failure(message, on_failure, AccuracyError, AccuracyWarning)
    if complex_:
        x = joined_columns(x)
    if narrow:
        x = restored(x.to(a.dtype), dtype)
    if differentiated(a, b):
        # Linear in the operands of the residual: gives the derivatives of the exact solution.
        residual = columns.to(x.dtype) - a.to(x.dtype) @ x
        x = x + torch.linalg.solve(a.to(x.dtype), residual - residual.detach())
    return AccurateSolution(x.squeeze(-1) if vectors else x, info)


def _scaled(given: RealSystem, target: float, certify: bool, dtype: torch.dtype) -> _Attempt:
    """Return the solution rounded to a dtype, with a bound that includes the rounding.

    A and the columns of B are scaled to magnitude 1 by powers of two, which is exact: only the
    result itself can overflow or underflow.
    """
    a, b, _ = given
    if not a.shape[-1] or not b.shape[-1]:
        return _Attempt(b.clone(), 0.0, 0.0, 1.0, 0, [], [])
    of_a, of_b = torch.frexp(a.abs().max()).exponent, torch.frexp(b.abs().amax(0)).exponent
    system = given._replace(a=_times_power(a, -of_a), b=_times_power(b, -of_b))
    found = _ladder(system, target, certify)
    x = _times_power(found.x, of_b - of_a).to(dtype).double()
    change = system.moduli(_times_power(x, of_a - of_b) - found.x).amax(0)
    rounding = float((change / _positive(system.moduli(found.x).amax(0))).max()) * (1 + 8 * UNIT)
    bound = (
        (found.bound + rounding * (1 + found.bound)) * (1 + 4 * UNIT) if rounding else found.bound
    )
    return replace(found, x=x, bound=bound if bound == bound else math.inf)


def _times_power(value: Tensor, exponent: Tensor) -> Tensor:
    """Return ``value * 2 ** exponent``, in two factors that are representable."""
    half = exponent // 2
    return value * torch.exp2(half.double()) * torch.exp2((exponent - half).double())


def _ladder(system: RealSystem, target: float, certify: bool) -> _Attempt:
    """Return the first attempt that reaches the target, or the best one."""
    a = system.a
    n = a.shape[-1]
    # Scaled to a largest entry of one, any matrix fits float32.
    scale = float(a.abs().max())
    if scale == 0:
        raise singular("solve", "A", "every entry is zero")
    tried: list[str] = []
    best: _Attempt | None = None
    low = _factor((a / scale).float())
    if low is not None:
        condition = inverse_norm(_solver(low, 1.0), n, a) * _one_norm(a) / scale
        rungs = []
        # Rounding errors grow with the entries of U, which is rare.
        growth = max(1.0, float(low.packed.abs().max()) / n)
        if condition * growth * _SINGLE < _CONTRACTING:
            rungs.append("float32")
        elif n > _SMALL:
            rungs.append("gmres")
        for rung in rungs:
            attempt = _attempt(system, target, certify, low, scale, rung, condition)
            tried += attempt.precision
            if attempt.bound <= target:
                return replace(attempt, precision=tried)
            best = attempt
    high = _factor(a / scale)
    if high is None:
        raise singular("solve", "A", "a pivot is zero")
    condition = inverse_norm(_solver(high, 1.0), n, a) * _one_norm(a) / scale
    attempt = _attempt(system, target, certify, high, scale, "float64", condition)
    if best is not None and best.bound < attempt.bound:
        attempt = best
    else:
        tried += attempt.precision
    return replace(attempt, precision=tried)


class _Factor(NamedTuple):
    """LU factors: L and U in the matrix ``packed``, and the permutation in ``pivots``.

    ``pivots`` has LAPACK's integer pivots, or the permutation matrix P if a kernel factorized.
    """

    packed: Tensor
    pivots: Tensor

    def solve(self, right: Tensor, transposed: bool) -> Tensor:
        """Return the solution of a system, or of its transpose."""
        if not self.pivots.is_floating_point():
            return torch.linalg.lu_solve(self.packed, self.pivots, right, adjoint=transposed)
        if transposed:
            y = torch.linalg.solve_triangular(self.packed.mT, right, upper=False)
            unit = self.packed.mT
            return self.pivots @ torch.linalg.solve_triangular(
                unit, y, upper=True, unitriangular=True
            )
        y = torch.linalg.solve_triangular(
            self.packed, self.pivots.mT @ right, upper=False, unitriangular=True
        )
        return torch.linalg.solve_triangular(self.packed, y, upper=True)


def _factor(a: Tensor) -> _Factor | None:
    """Return an LU factor, or None if a pivot is zero or NaN."""
    if kernels_wanted():
        # The first factor is meant to be cheap, at doublefloat too.
        level = "float32" if a.dtype is torch.float32 else LIBRARY.level()
        with LIBRARY.precision(level):
            p, lower, upper = LU.of(a)
        if not bool(torch.isfinite(upper).all()) or bool((upper.diagonal() == 0).any()):
            return None
        return _Factor(lower.tril(-1) + upper, p)
    packed, pivots, failed = torch.linalg.lu_factor_ex(a)
    if int(failed) or not bool(torch.isfinite(packed).all()):
        return None
    return _Factor(packed, pivots)


def _solver(factor: _Factor, scale: float) -> Solve:
    """Return ``(right, transposed) -> A^-1 right`` with float64 arguments and results."""

    def solve(right: Tensor, transposed: bool = False) -> Tensor:
        size = float(right.abs().max())
        if size == 0:
            return right
        given = (right / size).to(factor.packed.dtype)
        return factor.solve(given, transposed).double() * (size / scale)

    return solve


def _attempt(
    system: RealSystem,
    target: float,
    certify: bool,
    factor: _Factor,
    scale: float,
    rung: str,
    condition: float,
) -> _Attempt:
    """Return the solution by one factor, refined until it meets the target or stagnates."""
    a, b, _ = system
    n = a.shape[-1]
    solve = _solver(factor, scale)
    # Rounding of a float64 residual is amplified by the condition number in the solution.
    double = 10 * n * condition * UNIT > target
    residual = Residual(system, doubled=double)
    name = "float32" if factor.packed.dtype is torch.float32 else "float64"
    stages = [
        f"{name} LU" + (", GMRES in float64" if rung == "gmres" else ""),
        f"residual in {'double-float64' if double else 'float64'}, solution in float64",
    ]
    correct = _gmres_correction(a, solve) if rung == "gmres" else solve
    x = correct(b)
    errors: list[float] = []
    attempt = None
    for step in range(_MOST_STEPS):
        change = correct(residual(x)[0])
        size = float((change.abs().amax(0) / _positive(x.abs().amax(0))).max())
        if errors and not size < 0.5 * errors[-1]:
            break
        errors.append(size)
        x = x + change
        if size <= 0.1 * target or size <= 4 * UNIT:
            attempt = _judged(system, x, residual, solve, certify, condition)
            attempt.steps = step + 1
            if attempt.bound <= target or size <= UNIT:
                break
    if attempt is None or attempt.bound > target:
        last = _judged(system, x, residual, solve, certify, condition)
        if attempt is None or last.bound < attempt.bound:
            attempt = last
        attempt.steps = len(errors)
    attempt.precision, attempt.errors = stages, errors
    return attempt


def _judged(
    system: RealSystem,
    x: Tensor,
    residual: Residual,
    solve: Solve,
    certify: bool,
    condition: float,
) -> _Attempt:
    r, rounding = residual(x)
    if certify:
        bound, condition = error_bound(system, x, r, rounding, solve, condition)
    else:
        bound = estimated_bound(system, x, r, rounding, solve)
    a, b, _ = system
    step = 2 if system.paired else 1  # the columns between have the same moduli
    a_norm = float(system.moduli(a[:, ::step]).sum(-1).max())
    sizes, right, rest = (system.moduli(v).amax(0) for v in (x, b, r))
    backward = float((rest / _positive(a_norm * sizes + right)).max())
    return _Attempt(x, bound, backward, condition, 0, [], [])


def _gmres_correction(a: Tensor, solve: Solve) -> Callable[[Tensor], Tensor]:
    """Return ``r -> A^-1 r`` by GMRES with a factor as preconditioner, column by column."""

    def correct(right: Tensor) -> Tensor:
        found = []
        for column in right.mT:
            size = float(torch.linalg.vector_norm(column))
            watch = Watch(1e-4 * size, 3, size or 1.0)
            run = flexible_gmres(
                a.mv,
                column,
                torch.zeros_like(column),
                lambda v: solve(v.unsqueeze(-1)).squeeze(-1),
                watch,
                min(50, a.shape[-1]),
            )
            found.append(run.x)
        return torch.stack(found, -1)

    return correct


def _positive(sizes: Tensor) -> Tensor:
    """Return magnitudes with zeros replaced by 1."""
    return torch.where(sizes > 0, sizes, 1.0)


def _one_norm(a: Tensor) -> float:
    return float(a.abs().sum(-2).max())


def _summary(found: list[_Attempt], target: float, certify: bool) -> SolveInfo:
    if not found:
        return SolveInfo(True, target, 0.0, certify, 0.0, 1.0, 0, (), ())
    worst = max(found, key=lambda attempt: attempt.bound)
    return SolveInfo(
        worst.bound <= target,
        target,
        worst.bound,
        certify,
        max(attempt.backward for attempt in found),
        max(attempt.condition for attempt in found),
        max(attempt.steps for attempt in found),
        tuple(worst.precision),
        tuple(worst.errors),
    )
