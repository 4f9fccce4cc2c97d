"""Matrix functions: inverse square roots, exponentials, polar factors and matrix signs."""

from __future__ import annotations

import warnings
from cmath import isfinite
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci.core.arguments import also_spelled, not_negative, whole
from trnsci.core.backend.fallback import callers_level
from trnsci.core.backend.launch import Launcher, on_both_cores
from trnsci.core.errors import AccuracyWarning, FlagError, NotPositiveDefiniteError, ShapeError
from trnsci.core.examples import Case
from trnsci.core.iterations import (
    IterationInfo,
    OnFailure,
    Reason,
    Solution,
    checked_action,
    report_iteration,
)
from trnsci.core.krylov.implicit import differentiated
from trnsci.core.numbers.values import STEPS, concrete, finite, only_finite, untraced
from trnsolver._factors.forms import by_form, symmetric_part
from trnsolver._library import kernels_wanted, no_kernel
from trnsolver._matrix_functions.polar import qdwh
from trnsolver._matrix_functions.sylvester import inverse_root, unitary_factor
from trnsolver._paths import batches
from trnsolver._paths.arguments import (
    any_matrix,
    batch_of,
    chosen,
    in_full_precision,
    restored,
    square_matrix,
)
from trnsolver.eigen import exact_pairs
from trnsolver.signs import msign, orthogonalize, peak
from trnsolver.singular_values import run_svd

__all__ = [
    "Polar",
    "expm",
    "inv_sqrt_spd",
    "inv_sqrt_spd_ns",
    "msign",
    "orthogonalize",
    "polar",
]

_EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64)}


class Polar(NamedTuple):
    """``A = U @ P``, or ``A = P @ U`` from the left: U orthonormal, P positive semidefinite."""

    U: Tensor
    P: Tensor


@in_full_precision
def inv_sqrt_spd(A: Tensor) -> Tensor:
    """Return ``A ** -0.5`` of symmetric (Hermitian) positive definite matrices.

    Eigenvalues below ``eps * n`` times the largest are rounding errors, and are raised to that,
    with an ``AccuracyWarning``. At the level ``doublefloat`` eps is that of float64.

    Args:
        A: Positive definite matrices, of which the lower triangle is read.

    Raises:
        NotPositiveDefiniteError: An eigenvalue is negative, by more than rounding.
        NotFiniteError: A has a NaN or an infinity.
        ShapeError: A is not square.
    """
    work = square_matrix("inv_sqrt_spd", "A", A)
    if work.numel() == 0:
        return A.clone()
    tracked = differentiated(work)
    w, v = exact_pairs("inv_sqrt_spd", work.detach() if tracked else work)
    x = (v * _inverse_roots(w).unsqueeze(-2)) @ v.mH
    if tracked:
        x = inverse_root(work, x)
    return restored(x, A.dtype)


@also_spelled("max_iter", "max_iters")
@in_full_precision
def inv_sqrt_spd_ns(
    A: Tensor, *, max_iter: int = 20, tol: float | None = None, on_failure: OnFailure = "warn"
) -> Solution:
    """Return ``A ** -0.5`` by coupled Newton-Schulz steps, which are products only.

    The iteration ends when the residual ``norm(Z Y - I) / norm(I)`` of the scaled roots is below
    ``tol``, or no longer decreases because of rounding. 20 steps suffice for condition numbers up
    to about 1e6 in float64.

    Args:
        A: Positive definite matrices.
        max_iter: Limit of steps; ``max_iters`` is accepted too.
        tol: Tolerance of the residual; None for 1e-7, or ``4 * eps`` where that is larger.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the steps do not converge.

    Returns:
        ``(X, steps, residual)`` with ``info``; for a batch the largest steps and residual. If
        values cannot be read, as inside ``torch.compile``, steps and residuals are tensors, in a
        plain tuple.

    Raises:
        ConvergenceError: The steps did not converge, and ``on_failure`` is ``"raise"``.
        FlagError: ``max_iter`` or ``tol`` is negative, or ``tol`` is NaN.
        ShapeError: A is not square.
    """
    work = square_matrix("inv_sqrt_spd_ns", "A", A)
    checked_action("inv_sqrt_spd_ns", on_failure)
    whole("inv_sqrt_spd_ns", "max_iter", max_iter, 0, error=FlagError)
    not_negative("inv_sqrt_spd_ns", tol=tol)
    tol = max(1e-7, 4 * torch.finfo(work.dtype).eps) if tol is None else tol
    flat = batch_of(work)
    # A power of four: scaling the matrix and its root is exact.
    root = torch.exp2((torch.log2(peak(flat)) / 2).floor())
    flat = flat / root / root
    if kernels_wanted():
        x, steps, residual = INV_SQRT_SPD_NS.of(flat, max_iter, tol)
    else:
        x, steps, residual = inverse_root_steps(
            torch.matmul, flat, max_iter, tol, early=concrete(work)
        )
    x = x / root
    x = restored(x.reshape(work.shape), A.dtype)
    if not concrete(work):
        return x, steps, residual  # type: ignore[return-value]
    if not work.numel():
        return Solution(x, 0, 0.0, IterationInfo(True, "converged"))
    taken, left = int(steps.detach().max()), float(residual.detach().max())
    reason: Reason = "converged" if left < tol else "limit" if taken >= max_iter else "stagnated"
    if not (isfinite(left) and only_finite(x)):
        reason = "diverged"
    converged = reason == "converged"
    info = IterationInfo(converged, reason, (left,), details={"steps": steps.detach()})
    report_iteration("inv_sqrt_spd_ns", info, taken, on_failure, "residual")
    return Solution(x, taken, left, info)


def _inverse_roots(w: Tensor) -> Tensor:
    """Return ``w ** -0.5`` of ascending eigenvalues; rounding errors are raised to the limit."""
    rounding = _EPS[w.dtype] * w.shape[-1]
    if w.ndim == 1 and concrete(w):
        values = w.tolist()
        if values[0] > rounding * abs(values[-1]):
            return w.rsqrt()
    smallest = w.select(-1, -1).abs() * rounding
    if concrete(w) and not float((w.select(-1, 0) + smallest).min()) > 0:
        raise NotPositiveDefiniteError(
            f"inv_sqrt_spd: A must be positive definite, got eigenvalue {float(w.min()):.3g}"
        )
    if concrete(w) and bool((w.select(-1, 0) < smallest).any()):
        warnings.warn(
            f"inv_sqrt_spd: eigenvalues below {rounding:.3g} of the largest are raised to that; "
            f"the result is not accurate along their eigenvectors",
            AccuracyWarning,
            stacklevel=callers_level(),
        )
    return torch.maximum(w, smallest.unsqueeze(-1)).rsqrt()


def _fixed_inv_sqrt(a: Tensor, max_iter: int, tol: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the results of all of ``max_iter`` steps, without a branch on values."""
    return inverse_root_steps(torch.matmul, a, max_iter, tol, early=False)


def inverse_root_steps(
    multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, max_iter: int, tol: float, early: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return inverse square roots, the number of steps of each, and its last residual.

    Coupled Newton-Schulz on ``Y0 = A / s``, ``Z0 = I`` with s the Frobenius norm: ``T = (3 I - Z Y)
    / 2``, ``Y <- Y T``, ``Z <- T Z``. The product Z Y of the next step gives the residual of this
    one, so that a step takes three products. An entry stops when ``norm(Z Y - I) / sqrt(n)`` is
    below ``tol``, or no longer decreases, because of rounding. ``early`` ends the loop when all
    entries have stopped, which reads values.
    """
    n = a.shape[-1]
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    scale = torch.linalg.matrix_norm(a, keepdim=True)
    y, z = a / scale, eye.expand_as(a)
    product = y
    last = _distance(product, eye)
    steps = torch.zeros_like(last)
    going = last >= tol
    for _ in range(max_iter):
        if early and not bool(going.any()):
            break
        t = 1.5 * eye - 0.5 * product
        new_y, new_z = multiply(y, t), multiply(t, z)
        product = multiply(new_z, new_y)
        residual = _distance(product, eye)
        # The first residuals may grow for a step or two; later, growth is due to rounding.
        better = going & ((residual < last) | (last > 0.5))
        keep = better[..., None, None]
        y, z = torch.where(keep, new_y, y), torch.where(keep, new_z, z)
        steps = steps + going.to(steps.dtype)
        last = torch.where(better, residual, last)
        going = better & (residual >= tol)
    return z / scale.sqrt(), steps, last


def _distance(product: Tensor, eye: Tensor) -> Tensor:
    """Return the distance of matrices from the identity, relative to its norm."""
    return torch.linalg.matrix_norm(product - eye) / eye.shape[-1] ** 0.5


def _inv_sqrt_launch(
    launch: Launcher, a: Tensor, max_iter: int, tol: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return z (b, n, n), steps (b,) and residuals (b,)."""
    from trnsolver._kernels.limits import root_instructions
    from trnsolver._kernels.newton_schulz import inverse_root

    kernel, length = on_both_cores(launch, inverse_root), root_instructions(a.shape[-1])
    z, steps, residual = batches.launched(launch, kernel, (a,), length, max_iter, tol)
    return z, steps[:, 0], residual[:, 0]


def _exact_inverse_root(a: Tensor) -> Tensor:
    w, v = torch.linalg.eigh(a.double())
    return (v * w.rsqrt()) @ v.mT


INV_SQRT_SPD_NS = batches.Batched(
    "inv_sqrt_spd_ns",
    reference=_fixed_inv_sqrt,
    launch=_inv_sqrt_launch,
    by_parts=by_form,
    flops=batches.cubes_per_step(6.0),
    unsuited=batches.up_to("ROOT_ORDER"),
    refined="trnsolver._doublefloat.functions:inverse_root",
    examples={"inv_sqrt_spd_ns": batches.definite_example},
    evidence=(
        Case(
            "inverse_root",
            "inverse square root",
            lambda: (batches.definite(20),),
            lambda a: inv_sqrt_spd_ns(a)[0],
            _exact_inverse_root,
            "torch in float64",
            batches.condition_bound,
        ),
    ),
)


def expm(A: Tensor) -> Tensor:
    """Return the exponentials of square matrices.

    Raises:
        ShapeError: A is not square.
    """
    no_kernel("expm")
    return restored(torch.linalg.matrix_exp(square_matrix("expm", "A", A)), A.dtype)


@in_full_precision
def polar(A: Tensor, side: str = "right", *, method: str = "svd") -> Polar:
    """Return U with orthonormal columns or rows, and P, positive semidefinite, with ``A = U @ P``.

    Args:
        A: Matrices (m, n).
        side: ``"right"`` for ``A = U @ P``, ``"left"`` for ``A = P @ U``.
        method: ``"svd"``, or ``"qdwh"``, about six QR and Cholesky factorizations, for one matrix.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        FlagError: An option is not one of these.
    """
    work = any_matrix("polar", "A", A)
    right = chosen("polar", "side", side, ("right", "left")) == "right"
    finite("polar", "A", work)
    plain = work.detach()
    wide = work.shape[-2] < work.shape[-1]
    if chosen("polar", "method", method, ("svd", "qdwh")) == "qdwh":
        unitary = _by_qdwh(plain)
    else:
        u, _, vh = run_svd("polar", plain)
        unitary = u @ vh
    if differentiated(work):
        tall = unitary_factor(work.mH if wide else work, unitary.mH if wide else unitary)
        unitary = tall.mH if wide else tall
    positive = unitary.mH @ work if right else work @ unitary.mH
    positive = symmetric_part(positive)
    return Polar(restored(unitary, A.dtype), restored(positive, A.dtype))


@untraced(STEPS, name="polar by qdwh")
def _by_qdwh(a: Tensor) -> Tensor:
    if a.ndim != 2:
        raise ShapeError(f"polar: A must be 2-D for qdwh, got shape {tuple(a.shape)}")
    if not concrete(a):
        raise FlagError("polar: qdwh needs concrete values, but A is traced or transformed")
    wide = a.shape[-2] < a.shape[-1]
    unitary = qdwh(a.mH if wide else a)[0]
    return unitary.mH.resolve_conj() if wide else unitary
