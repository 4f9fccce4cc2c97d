"""Iterative methods on matrices of any format.

Each returns three values that unpack, ``(x, iterations, residual)``, with ``info`` beside them.
The names that end in ``_bsr`` are the same functions, for matrices in blocks and any others.
"""

from __future__ import annotations

from math import acosh, ceil, inf

import torch
from torch import Tensor

from trnsci.core.arguments import whole
from trnsci.core.errors import FlagError, OperandError
from trnsci.core.iterations import Eigenpair, IterationInfo, Solution
from trnsparse._krylov import conjugate_gradients, finished, minimal_residuals
from trnsparse._library import LIBRARY
from trnsparse._vectors import Operator, dots, norms, operator_of, preconditioner_of, start
from trnsparse.formats import BSRMatrix, SparseMatrix

__all__ = [
    "cg",
    "cg_bsr",
    "chebyshev",
    "chebyshev_bsr",
    "chebyshev_coeffs",
    "chebyshev_steps",
    "minres",
    "power_iteration",
    "power_iteration_bsr",
    "richardson",
    "richardson_bsr",
]

_TINY_NORM = 1e-15
_TINY_PRODUCT = 1e-30

Matrix = SparseMatrix | Tensor | Operator


def cg(
    A: Matrix,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Matrix | None = None,
) -> Solution:
    """Solve ``A x = b`` for a symmetric positive definite A by conjugate gradients.

    Args:
        A: A sparse matrix of any format, a dense one, or a function of vectors.
        b: Right-hand side (n,), or several as columns (n, k), which share each product with A.
        x0: Where to begin; None begins at zero.
        tol: Norm of the residual over that of b, of the worst column, at which to stop.
        max_iter: Iterations after which to stop.
        M: Preconditioner: a function that applies an approximate inverse, or that inverse.

    Returns:
        ``(x, iterations, residual)`` with ``info``. Not to converge is no error; the residual is
        that of x itself, not of the recurrence, which is started anew where the two part.

    Example:
        >>> x, iterations, residual = cg(eye_sparse(3), torch.ones(3))
        >>> iterations
        1
    """
    apply, limit = operator_of("cg", A, b), _limit("cg", "max_iter", max_iter)
    tol = _tolerance("cg", tol)
    with torch.no_grad():
        x = start("cg", b, x0)
        if M is None and isinstance(A, BSRMatrix) and LIBRARY.kernels_wanted():
            from trnsparse._resident import resident_cg

            if A.blocks.ndim == 3 and b.is_floating_point():
                return resident_cg(A.detach(), b.detach(), x, tol, limit)
        inverse = preconditioner_of("cg", M)
        return conjugate_gradients(apply, b.detach(), x, x0 is not None, tol, limit, inverse)


def minres(
    A: Matrix,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Matrix | None = None,
) -> Solution:
    """Solve ``A x = b`` for a symmetric A, definite or not, by minimal residuals.

    Arguments and result are those of ``cg``, for one right-hand side; a preconditioner must be
    positive definite.
    """
    if isinstance(b, Tensor) and b.ndim == 2:
        raise OperandError(f"minres: b must be a vector, got shape {tuple(b.shape)}")
    apply, limit = operator_of("minres", A, b), _limit("minres", "max_iter", max_iter)
    tol = _tolerance("minres", tol)
    with torch.no_grad():
        x = start("minres", b, x0)
        inverse = preconditioner_of("minres", M)
        return minimal_residuals(apply, b.detach(), x, x0 is not None, tol, limit, inverse)


def chebyshev_coeffs(
    lam_min: float, lam_max: float, K: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return the coefficients alpha and beta, each (K,), of Chebyshev's iteration.

    With them ``x + alpha[k] * r + beta[k] * (x - x_before)`` is the next iterate, and the error
    after K steps is the smallest that any polynomial of degree K can promise for a spectrum within
    ``[lam_min, lam_max]``: ``1 / T_K((lam_max + lam_min) / (lam_max - lam_min))``.

    Raises:
        FlagError: Not ``0 < lam_min <= lam_max``.
    """
    _spectrum("chebyshev_coeffs", lam_min, lam_max)
    alpha, beta = _coefficients(lam_min, lam_max, _limit("chebyshev_coeffs", "K", K))
    return torch.tensor(alpha, dtype=dtype), torch.tensor(beta, dtype=dtype)


def _coefficients(lam_min: float, lam_max: float, K: int) -> tuple[list[float], list[float]]:
    d, c = (lam_max + lam_min) / 2, (lam_max - lam_min) / 2
    alpha, beta = [1 / d], [0.0]
    for k in range(1, K):
        # Twice the usual term at the second step: T_1 = x lacks the factor of T_k = 2x T - T.
        t = (c * alpha[-1]) ** 2 / (2 if k == 1 else 4)
        before = alpha[-1]
        alpha.append(1 / (d - t / before))
        beta.append(alpha[-1] * t / before)
    return alpha[:K], beta[:K]


def chebyshev_steps(lam_min: float, lam_max: float, tol: float) -> int:
    """Return how many steps of Chebyshev's iteration reduce every error to ``tol`` of itself."""
    _spectrum("chebyshev_steps", lam_min, lam_max)
    if not 0 < tol < 1:
        raise FlagError(f"chebyshev_steps: tol must be between 0 and 1, got {tol}")
    if lam_min == lam_max:
        return 1
    return ceil(acosh(1 / tol) / acosh((lam_max + lam_min) / (lam_max - lam_min)))


def chebyshev(
    A: Matrix,
    b: Tensor,
    lam_min: float,
    lam_max: float,
    K: int = 50,
    x0: Tensor | None = None,
) -> Solution:
    """Do K steps of Chebyshev's iteration for a positive definite A with a known spectrum.

    No inner products are taken on the way, so nothing waits for a number from the device.

    Args:
        A: A sparse matrix of any format, a dense one, or a function of vectors.
        b: Right-hand side (n,), or several as columns.
        lam_min: A bound below all eigenvalues, above 0.
        lam_max: A bound above all eigenvalues.
        K: Steps; ``chebyshev_steps`` tells how many a tolerance needs.
        x0: Where to begin; None begins at zero.

    Raises:
        FlagError: Not ``0 < lam_min <= lam_max``, or K is negative.
    """
    _spectrum("chebyshev", lam_min, lam_max)
    apply, steps = operator_of("chebyshev", A, b), _limit("chebyshev", "K", K)
    with torch.no_grad():
        b, x = b.detach(), start("chebyshev", b, x0)
        before = x
        for alpha, beta in zip(*_coefficients(lam_min, lam_max, steps), strict=True):
            step = alpha * (b - apply(x)) + beta * (x - before)
            before, x = x, x + step
        return _stepped(apply, b, x, steps)


def richardson(
    A: Matrix, b: Tensor, omega: float, K: int = 100, x0: Tensor | None = None
) -> Solution:
    """Do K steps ``x + omega * (b - A x)``.

    Stable for ``0 < omega < 2 / lam_max``, fastest at ``omega = 2 / (lam_min + lam_max)``.

    Raises:
        FlagError: K is negative.
    """
    apply, steps = operator_of("richardson", A, b), _limit("richardson", "K", K)
    with torch.no_grad():
        b, x = b.detach(), start("richardson", b, x0)
        for _ in range(steps):
            x = x + omega * (b - apply(x))
        return _stepped(apply, b, x, steps)


def power_iteration(
    A: Matrix,
    v0: Tensor | None = None,
    max_iter: int = 100,
    tol: float = 1e-9,
) -> Eigenpair:
    """Return the eigenvalue of largest magnitude, with its sign, and its eigenvector.

    Args:
        A: A square sparse or dense matrix, or a function of vectors, which needs ``v0``.
        v0: Where to begin; None takes a random vector, the same in every call.
        max_iter: Iterations after which to stop.
        tol: Change of the Rayleigh quotient at which to stop.

    Returns:
        ``(value, vector, iterations)`` with ``info``, whose residuals are the changes.
    """
    limit = _limit("power_iteration", "max_iter", max_iter)
    tol = _tolerance("power_iteration", tol)
    if v0 is None:
        if not isinstance(A, (SparseMatrix, Tensor)):
            raise FlagError("power_iteration: v0 must be given where A is a function")
        seeded = torch.Generator().manual_seed(0)
        v0 = torch.randn(A.shape[0], generator=seeded, dtype=torch.float64).to(A.device, A.dtype)
    apply = operator_of("power_iteration", A, v0)
    with torch.no_grad():
        length = norms(v0.detach())
        if v0.numel() and not bool(length > 0):
            raise OperandError(f"power_iteration: v0 must have a length, got {float(length)}")
        v = v0.detach() / length.to(v0.real.dtype)
        value, changes = 0.0, []
        for iteration in range(1, limit + 1):
            w = apply(v)
            previous, value = value, float(dots(v, w))
            size = float(norms(w))
            changes.append(abs(value - previous) if iteration > 1 else inf)
            if size < _TINY_PRODUCT:
                info = IterationInfo(True, "converged", tuple(changes), iteration)
                return Eigenpair(0.0, v, iteration, info)
            v = w / size
            if changes[-1] < tol:
                info = IterationInfo(True, "converged", tuple(changes), iteration)
                return Eigenpair(value, v, iteration, info)
        if not limit:
            value = float(dots(v, apply(v)))
        info = IterationInfo(False, "limit", tuple(changes), max(limit, 1))
        return Eigenpair(value, v, limit, info)


cg_bsr = cg
chebyshev_bsr = chebyshev
richardson_bsr = richardson
power_iteration_bsr = power_iteration


def _stepped(apply: Operator, b: Tensor, x: Tensor, steps: int) -> Solution:
    """Return what a method of a fixed number of steps arrived at, with its true residual."""
    size = norms(b).clamp(min=_TINY_NORM)
    residual = float((norms(b - apply(x)) / size).max())
    finite = residual == residual and residual != inf
    reason = "limit" if finite else "diverged"
    return finished(x, steps, residual, -1.0, reason, [residual], steps + 1)  # type: ignore[arg-type]


def _tolerance(function: str, tol: float) -> float:
    if not tol >= 0:
        raise FlagError(f"{function}: tol must be at least 0, got {tol}")
    return tol


def _limit(function: str, name: str, value: int) -> int:
    return whole(function, name, value, least=0, error=FlagError)


def _spectrum(function: str, lam_min: float, lam_max: float) -> None:
    if not 0 < lam_min <= lam_max:
        raise FlagError(f"{function}: takes 0 < lam_min <= lam_max, got {lam_min} and {lam_max}")
