"""Iterative solvers for matrices of any format.

The result unpacks as ``(x, iterations, residual)`` and has ``info``.

Solutions have the derivatives of the exact solution by b and by the entries of A, computed by one
more system with the conjugate transpose of A, in every mode of autograd and ``torch.func``. If A is
a function, what it captures has first derivatives only. The backward of a solution that did not
converge warns (``ConvergenceWarning``).
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import torch
from torch import Tensor

from trnsci.core.arguments import agree, floating, whole
from trnsci.core.backend.explanation import recording
from trnsci.core.errors import FlagError, OperandError
from trnsci.core.failures import OnFailure, checked_action, report_iteration
from trnsci.core.interop import with_forward_mode
from trnsci.core.iterations import Eigenpair, Solution
from trnsci.core.krylov import Callback, Method, Product, Stopping, System, as_operator, solve
from trnsci.core.krylov import stopping as stopping_rule
from trnsci.core.krylov.cg import conjugate_gradients
from trnsci.core.krylov.chebyshev import chebyshev as chebyshev_steps_of
from trnsci.core.krylov.chebyshev import coefficients, needed_steps
from trnsci.core.krylov.minres import minres as minres_method
from trnsci.core.krylov.power_iteration import power_iteration as dominant_pair
from trnsci.core.krylov.richardson import richardson as richardson_steps_of
from trnsci.core.untraced import STEPS, untraced
from trnsparse._library import LIBRARY
from trnsparse.formats import SparseMatrix

__all__ = [
    "cg",
    "chebyshev",
    "chebyshev_coeffs",
    "chebyshev_steps",
    "minres",
    "power_iteration",
    "richardson",
]

Matrix: TypeAlias = SparseMatrix | Tensor | Product

_NARROW = (torch.float16, torch.bfloat16)


@untraced("cg", STEPS)
def cg(
    A: Matrix,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Matrix | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Solve ``A x = b`` for a symmetric positive definite A by conjugate gradients.

    Args:
        A: A sparse matrix of any format, a dense one, or a function of vectors.
        b: Right-hand side (n,), or several as columns (n, k), which share each product with A.
        x0: Initial guess; None for zero.
        tol: Relative tolerance: norm of the residual over that of b, for the worst column.
        max_iter: Limit of iterations.
        M: Preconditioner: a function that applies an approximate inverse, or that inverse.
        rtol: SciPy's name for ``tol``; takes precedence over it.
        atol: Absolute tolerance of the norm of the residual.
        maxiter: SciPy's name for ``max_iter``; takes precedence over it.
        callback: Called with a ``Progress`` after each iteration.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the method does not converge.

    Returns:
        ``(x, iterations, residual)`` with ``info``. The residual is that of x itself, not of the
        recurrence, which is restarted if the two differ. A direction in which A is not positive
        ends the method with ``info.reason == "breakdown"``.

    Raises:
        ConvergenceError: The method did not converge, and ``on_failure`` is ``"raise"``.

    Example:
        >>> x, iterations, residual = cg(eye_sparse(3), torch.ones(3))
        >>> iterations
        1
    """
    method: Method = conjugate_gradients
    if LIBRARY.kernels_wanted():
        from trnsparse._resident_cg import resident_cg as method
    rule = _rule("cg", tol, rtol, atol, max_iter, maxiter, callback)
    return _solved("cg", method, A, b, x0, M, rule, on_failure, hermitian=True)


@untraced("minres", STEPS)
def minres(
    A: Matrix,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Matrix | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Solve ``A x = b`` for a symmetric A, definite or not, by minimal residuals.

    Arguments and result are those of ``cg``, for one right-hand side; a preconditioner must be
    positive definite.
    """
    if isinstance(b, Tensor) and b.ndim == 2:
        raise OperandError(f"minres: b must be a vector, got shape {tuple(b.shape)}")
    rule = _rule("minres", tol, rtol, atol, max_iter, maxiter, callback)
    return _solved("minres", minres_method, A, b, x0, M, rule, on_failure, hermitian=True)


def chebyshev_coeffs(
    lam_min: float, lam_max: float, K: int, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor]:
    """Return the coefficients alpha and beta, each (K,), of Chebyshev's iteration.

    The next iterate is ``x + alpha[k] * r + beta[k] * (x - x_before)``. The error after K steps is
    at most ``1 / T_K((lam_max + lam_min) / (lam_max - lam_min))``, the smallest bound of any
    polynomial of degree K for a spectrum within ``[lam_min, lam_max]``.

    Raises:
        FlagError: Not ``0 < lam_min <= lam_max``.
    """
    _spectrum("chebyshev_coeffs", lam_min, lam_max)
    alpha, beta = coefficients(lam_min, lam_max, _limit("chebyshev_coeffs", "K", K))
    return torch.tensor(alpha, dtype=dtype), torch.tensor(beta, dtype=dtype)


def chebyshev_steps(lam_min: float, lam_max: float, tol: float) -> int:
    """Return the number of Chebyshev steps that reduce any error to ``tol`` times its size."""
    _spectrum("chebyshev_steps", lam_min, lam_max)
    return needed_steps("chebyshev_steps", lam_min, lam_max, tol)


@untraced("chebyshev", STEPS)
def chebyshev(
    A: Matrix,
    b: Tensor,
    lam_min: float,
    lam_max: float,
    K: int = 50,
    x0: Tensor | None = None,
    *,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Do K steps of Chebyshev's iteration for a positive definite A with a known spectrum.

    It has no inner products between the first step and the last, so it does not wait for values
    from the device.

    Args:
        A: A sparse matrix of any format, a dense one, or a function of vectors.
        b: Right-hand side (n,), or several as columns.
        lam_min: A bound below all eigenvalues, above 0.
        lam_max: A bound above all eigenvalues.
        K: Number of steps; ``chebyshev_steps`` returns that for a tolerance.
        x0: Initial guess; None for zero.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the steps diverge: the residual is
            larger than at the start, for example because an eigenvalue is outside of the bounds.

    Raises:
        FlagError: Not ``0 < lam_min <= lam_max``, or K is negative.
        ConvergenceError: The steps diverged, and ``on_failure`` is ``"raise"``.
    """
    _spectrum("chebyshev", lam_min, lam_max)
    rule = Stopping(0.0, 0.0, _limit("chebyshev", "K", K), fixed=True)

    def method(op: Any, b: Tensor, x: Tensor, M: Any, watch: Any) -> Any:
        return chebyshev_steps_of(op, b, x, watch, lam_min, lam_max)

    return _solved("chebyshev", method, A, b, x0, None, rule, on_failure, hermitian=True)


@untraced("richardson", STEPS)
def richardson(
    A: Matrix,
    b: Tensor,
    omega: float,
    K: int = 100,
    x0: Tensor | None = None,
    *,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Do K steps ``x + omega * (b - A x)``.

    Stable for ``0 < omega < 2 / lam_max``, fastest at ``omega = 2 / (lam_min + lam_max)``.
    ``on_failure`` is that of ``chebyshev``.

    Raises:
        FlagError: K is negative.
        ConvergenceError: The steps diverged, and ``on_failure`` is ``"raise"``.
    """
    rule = Stopping(0.0, 0.0, _limit("richardson", "K", K), fixed=True)

    def method(op: Any, b: Tensor, x: Tensor, M: Any, watch: Any) -> Any:
        return richardson_steps_of(op, b, x, watch, omega)

    return _solved("richardson", method, A, b, x0, None, rule, on_failure)


@untraced("power_iteration", STEPS)
def power_iteration(
    A: Matrix,
    v0: Tensor | None = None,
    max_iter: int = 100,
    tol: float = 1e-9,
    *,
    on_failure: OnFailure = "warn",
) -> Eigenpair:
    """Return the eigenvalue of largest magnitude, with its sign, and its eigenvector.

    Args:
        A: A square sparse or dense matrix, or a function of vectors, which needs ``v0``.
        v0: Initial vector; None for a random vector, the same in every call.
        max_iter: Limit of iterations.
        tol: Relative change of the Rayleigh quotient at which to stop, if also
            ``norm(A v - value v)`` is at most ``sqrt(tol)`` of ``norm(A v)``.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the iteration does not converge.

    Returns:
        ``(value, vector, iterations)`` with ``info``, whose residuals are the relative changes.
        Results have no derivatives.

    Raises:
        ConvergenceError: The iteration did not converge, and ``on_failure`` is ``"raise"``.
    """
    checked_action("power_iteration", on_failure)
    rule = _rule("power_iteration", tol, None, 0.0, max_iter, None, None)
    if v0 is None:
        if not isinstance(A, (SparseMatrix, Tensor)):
            raise FlagError("power_iteration: v0 must be given where A is a function")
        seeded = torch.Generator().manual_seed(0)
        v0 = torch.randn(A.shape[0], generator=seeded, dtype=torch.float64).to(A.device, A.dtype)
    _check("power_iteration", A, v0)
    with torch.no_grad(), with_forward_mode(False):
        start = v0.detach()
        product = as_operator("power_iteration", A, start)
        found = dominant_pair("power_iteration", product, start, rule.tol, rule.limit)
    if not recording():
        quantity = "relative change of the eigenvalue"
        report_iteration("power_iteration", found.info, found.iterations, on_failure, quantity)
    return found


# Names of published releases; see ``trnsparse.published``.
cg_bsr = cg
chebyshev_bsr = chebyshev
richardson_bsr = richardson
power_iteration_bsr = power_iteration


def _solved(
    function: str,
    method: Method,
    A: Matrix,
    b: Tensor,
    x0: Tensor | None,
    M: Matrix | None,
    rule: Stopping,
    on_failure: OnFailure,
    hermitian: bool = False,
) -> Solution:
    """Return the solution by a method; float16 and bfloat16 are computed in float32."""
    _check(function, A, b)
    if x0 is not None:
        agree(function, "b", b, "x0", x0)
        if x0.shape != b.shape:
            raise OperandError(
                f"{function}: x0 must have the shape of b, "
                f"got {tuple(x0.shape)} and {tuple(b.shape)}"
            )
    dtype = b.dtype
    if dtype in _NARROW:
        A, M = _widened(A, dtype), _widened(M, dtype)
        b, x0 = b.float(), None if x0 is None else x0.float()
    system = System(
        function,
        method,
        rule,
        M,
        hermitian,
        columns=True,
        on_failure=on_failure,
        dtype=dtype if dtype in _NARROW else None,
    )
    found = solve(system, A, b, x0)
    return Solution(found.x.to(dtype), found.iterations, found.residual, found.info)


def _check(function: str, A: Matrix, b: Tensor) -> None:
    """Raise unless b is a vector or a matrix of columns that fits A."""
    if not isinstance(b, Tensor) or b.ndim not in (1, 2):
        kind = f"shape {tuple(b.shape)}" if isinstance(b, Tensor) else type(b).__name__
        raise OperandError(f"{function}: b must be a vector or a matrix of columns, got {kind}")
    floating(function, "b", b)
    if isinstance(A, (SparseMatrix, Tensor)):
        if A.shape[0] != A.shape[1] or A.shape[1] != b.shape[0]:
            raise OperandError(
                f"{function}: A must be square and fit b, got {tuple(A.shape)} and {tuple(b.shape)}"
            )
        agree(function, "A", A._data if isinstance(A, SparseMatrix) else A, "b", b)


def _widened(matrix: Any, dtype: torch.dtype) -> Any:
    """Return a matrix or a function for vectors of float32; functions get vectors of ``dtype``."""
    if matrix is None:
        return None
    if isinstance(matrix, (SparseMatrix, Tensor)):
        return matrix.to(torch.float32)
    return lambda v: matrix(v.to(dtype)).to(v.dtype)


def _rule(
    function: str,
    tol: float,
    rtol: float | None,
    atol: float,
    max_iter: int,
    maxiter: int | None,
    callback: Callback | None,
) -> Stopping:
    limit = ("max_iter", max_iter) if maxiter is None else ("maxiter", maxiter)
    return stopping_rule(function, tol, rtol, atol, limit, callback)


def _limit(function: str, name: str, value: int) -> int:
    return whole(function, name, value, least=0, error=FlagError)


def _spectrum(function: str, lam_min: float, lam_max: float) -> None:
    if not 0 < lam_min <= lam_max < math.inf:
        raise FlagError(
            f"{function}: takes finite 0 < lam_min <= lam_max, got {lam_min} and {lam_max}"
        )
