"""Matrix functions: inverse square roots, exponentials, polar factors and matrix signs."""

from __future__ import annotations

from cmath import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci.core.arguments import also_spelled, whole
from trnsci.core.errors import FlagError, NotPositiveDefiniteError, ShapeError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.iterations import (
    IterationInfo,
    OnFailure,
    Reason,
    Solution,
    checked_action,
    report_failure,
    report_iteration,
)
from trnsci.core.krylov.implicit import differentiated
from trnsci.core.numbers.products import matmul
from trnsci.core.numbers.values import STEPS, concrete, finite, only_finite, untraced
from trnsolver._factors.symmetric import symmetric_part
from trnsolver._library import no_kernel
from trnsolver._matrix_functions.polar import qdwh
from trnsolver._matrix_functions.sylvester import inverse_root, unitary_factor
from trnsolver._paths import torch_path
from trnsolver._paths.arguments import (
    any_matrix,
    batch_of,
    chosen,
    finite_below,
    in_full_precision,
    restored,
    spectral_error,
    square_matrix,
    working,
)
from trnsolver._paths.dispatch import kernels_wanted, run_eigh, run_msign, run_svd

__all__ = [
    "Polar",
    "expm",
    "inv_sqrt_spd",
    "inv_sqrt_spd_ns",
    "msign",
    "orthogonalize",
    "polar",
]

_NEWTON_SCHULZ = (1.875, -1.25, 0.375)
"""The quintic step that converges to singular values of one, with third order."""

_EPS = {dtype: torch.finfo(dtype).eps for dtype in (torch.float32, torch.float64)}

# From this aspect ratio on, steps on the Gram matrix are cheaper than on the whole matrix.
_GRAM = 2


class Polar(NamedTuple):
    """``A = U @ P``, or ``A = P @ U`` from the left: U orthonormal, P positive semidefinite."""

    U: Tensor
    P: Tensor


@in_full_precision
def inv_sqrt_spd(A: Tensor) -> Tensor:
    """Return ``A ** -0.5`` of symmetric (Hermitian) positive definite matrices.

    Eigenvalues below ``eps * n`` times the largest are rounding errors, and are raised to that.

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
    # LAPACK may return finite eigenvalues of a matrix with a NaN: A itself is checked.
    finite_below("inv_sqrt_spd", "A", work)
    try:
        w, v = run_eigh("inv_sqrt_spd", work.detach() if tracked else work)
    except TorchLinAlgError as error:
        raise spectral_error("inv_sqrt_spd", work, error) from None
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
        FlagError: ``max_iter`` is negative, or ``tol`` is NaN.
        ShapeError: A is not square.
    """
    work = square_matrix("inv_sqrt_spd_ns", "A", A)
    checked_action("inv_sqrt_spd_ns", on_failure)
    whole("inv_sqrt_spd_ns", "max_iter", max_iter, 0, error=FlagError)
    tol = max(1e-7, 4 * torch.finfo(work.dtype).eps) if tol is None else tol
    if tol != tol:
        raise FlagError("inv_sqrt_spd_ns: tol must be a number, got nan")
    flat = batch_of(work)
    # A power of four: scaling the matrix and its root is exact.
    root = torch.exp2((torch.log2(_peak(flat)) / 2).floor())
    flat = flat / root / root
    if kernels_wanted():
        from trnsolver._paths.operations import INV_SQRT_SPD_NS

        x, steps, residual = INV_SQRT_SPD_NS(flat, max_iter, tol)
    else:
        early = concrete(work)
        x, steps, residual = torch_path.inv_sqrt_steps(flat, max_iter, tol, early)
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
    return torch.maximum(w, smallest.unsqueeze(-1)).rsqrt()


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


@untraced("polar by qdwh", STEPS)
def _by_qdwh(a: Tensor) -> Tensor:
    if a.ndim != 2:
        raise ShapeError(f"polar: A must be 2-D for qdwh, got shape {tuple(a.shape)}")
    if not concrete(a):
        raise FlagError("polar: qdwh needs concrete values, but A is traced or transformed")
    wide = a.shape[-2] < a.shape[-1]
    unitary = qdwh(a.mH if wide else a)[0]
    return unitary.mH.resolve_conj() if wide else unitary


@in_full_precision
def msign(A: Tensor, steps: int = 10, polish: int = 4, *, on_failure: OnFailure = "warn") -> Tensor:
    """Return ``U @ Vh`` of the singular value decomposition, by products only.

    ``steps`` quintic steps with a large slope raise singular values from about ``3.4 ** -steps`` of
    the largest to near 1; ``polish`` steps of third order then converge to 1 to rounding. With the
    defaults this holds for all above 1e-4 of the norm; smaller ones stay below 1.

    Args:
        A: Matrices (m, n).
        steps: Number of steps with a large slope.
        polish: Number of steps that converge.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if a singular value of the result is not
            1, because it is too small in A: ``polar`` takes matrices of any condition number. It is
            not checked where values cannot be read, and for matrices of zeros.

    Raises:
        ConvergenceError: A singular value is not 1, and ``on_failure`` is ``"raise"``.
        FlagError: A number of steps is negative.

    Example:
        >>> msign(torch.tensor([[3.0, 0.0], [0.0, -0.5]]))
        tensor([[ 1.,  0.],
                [ 0., -1.]])
    """
    work = any_matrix("msign", "A", A)
    checked_action("msign", on_failure)
    x = _scaled(work)
    for count, name, weights in (
        (steps, "steps", torch_path.MUON),
        (polish, "polish", _NEWTON_SCHULZ),
    ):
        whole("msign", name, count, 0, error=FlagError)
        x = _quintic(x, count, weights)
    if on_failure != "ignore" and concrete(x):
        _report_signs(x.detach(), on_failure)
    return restored(x, A.dtype)


def _report_signs(x: Tensor, on_failure: OnFailure) -> None:
    """Report matrices, other than zero, whose singular values are not all 1."""
    flat = batch_of(x.mH if x.shape[-2] > x.shape[-1] else x)
    if not flat.numel():
        return
    gram = flat @ flat.mH
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    zero = flat.abs().amax((-2, -1)) == 0
    far = torch.where(zero, 0.0, torch.linalg.matrix_norm(gram - eye)).max()
    if not float(far) <= _EPS[far.dtype] ** 0.5:
        report_failure(
            f"msign: not converged: norm(X X^H - I) is {float(far):.3g}; the steps raise singular "
            f"values above about 1e-4 of the norm of A to 1, take more steps or polar",
            on_failure,
        )


@in_full_precision
def orthogonalize(
    A: Tensor,
    steps: int = 5,
    *,
    dtype: torch.dtype | None = None,
    coefficients: tuple[float, float, float] = torch_path.MUON,
) -> Tensor:
    """Return A with all singular values replaced by about 1, as in the Muon optimizer.

    Five quintic Newton-Schulz steps bring singular values above 1 / 100 of the norm to between 0.7
    and 1.2, which is close enough for an optimizer. If one side is at least twice the other, the
    steps run on the Gram matrix of the shorter side, in float32, and the large matrix is read
    twice.

    Args:
        A: Matrices (m, n).
        steps: Number of steps.
        dtype: Dtype of the products in torch, such as bfloat16; None for the dtype of A. Kernels
            compute in float32.
        coefficients: Coefficients of a step, the odd polynomial ``a x + b x^3 + c x^5``.

    Raises:
        FlagError: The number of steps is negative.
    """
    any_matrix("orthogonalize", "A", A)
    whole("orthogonalize", "steps", steps, 0, error=FlagError)
    x = _scaled(working(A))
    if kernels_wanted():
        return _quintic(x, steps, coefficients).to(A.dtype)
    sides = sorted(x.shape[-2:])
    if sides[1] < _GRAM * sides[0]:
        x = x if dtype is None else x.to(dtype)
        return _quintic(x, steps, coefficients).to(A.dtype)
    return _in_gram_form(x, steps, coefficients, dtype).to(A.dtype)


def _scaled(a: Tensor) -> Tensor:
    """Return matrices scaled to singular values of at most 1; zero matrices are unchanged."""
    a = a / _peak(a)
    size = torch.linalg.matrix_norm(a, keepdim=True)
    return a / torch.where(size > 0, size, 1.0)


def _peak(a: Tensor) -> Tensor:
    """Return the largest magnitude of each matrix, 1 for zeros, to avoid overflow of squares."""
    if not a.numel():
        return a.new_ones(()).real
    peak = a.detach().abs().amax((-2, -1), keepdim=True)
    return torch.where(peak > 0, peak, 1.0)


def _quintic(x: Tensor, steps: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Return the result of quintic steps."""
    if kernels_wanted():
        return run_msign(x, steps, coefficients)
    first, third, fifth = coefficients
    tall = x.shape[-2] > x.shape[-1]
    x = x.mH if tall else x
    for _ in range(steps):
        gram = matmul(x, x.mH)
        x = first * x + matmul(third * gram + fifth * matmul(gram, gram), x)
    return x.mH if tall else x


def _in_gram_form(
    x: Tensor, steps: int, coefficients: tuple[float, float, float], dtype: torch.dtype | None
) -> Tensor:
    """Return the same by steps on the Gram matrix, G <- P G P with P the polynomial of a step."""
    first, third, fifth = coefficients
    tall = x.shape[-2] > x.shape[-1]
    x = x.mH if tall else x
    given = x if dtype is None else x.to(dtype)
    # In bfloat16 a Gram matrix could have negative eigenvalues, which the steps amplify.
    exact = working(given)
    gram = exact @ exact.mH
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    product = eye.expand_as(gram)
    for _ in range(steps):
        step = first * eye + third * gram + fifth * (gram @ gram)
        product = step @ product
        gram = step @ gram @ step
    x = matmul(product.to(given.dtype), given)
    return x.mH if tall else x
