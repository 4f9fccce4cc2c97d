"""Iterative solvers for matrices of any format.

The result unpacks as ``(x, iterations, residual)`` and has ``info``. At the level ``doublefloat``
vectors are float64 and products are those of the level, where A is a dense or a sparse matrix.

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

from trnblas import gemm
from trnsci.core.arguments import also_spelled, whole
from trnsci.core.backend.explanation import recording
from trnsci.core.errors import FlagError, OperandError
from trnsci.core.interop import with_forward_mode
from trnsci.core.iterations import Eigenpair, OnFailure, Solution, checked_action, report_iteration
from trnsci.core.krylov.fixed_steps import chebyshev as chebyshev_steps_of
from trnsci.core.krylov.fixed_steps import coefficients, needed_steps
from trnsci.core.krylov.fixed_steps import richardson as richardson_steps_of
from trnsci.core.krylov.front import (
    NARROW,
    Operands,
    check_matrix,
    check_right_side,
    is_matrix,
    solved,
)
from trnsci.core.krylov.operators import as_operator
from trnsci.core.krylov.power_iteration import power_iteration as dominant_pair
from trnsci.core.krylov.runs import Callback, Product
from trnsci.core.krylov.short_recurrences import conjugate_gradients
from trnsci.core.krylov.short_recurrences import minres as minres_method
from trnsci.core.krylov.solve import Method, Stopping, stopping
from trnsci.core.krylov.threads import few_threads
from trnsci.core.numbers.values import STEPS, untraced
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


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
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
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Solve ``A x = b`` for a symmetric positive definite A by conjugate gradients.

    Args:
        A: A sparse matrix of any format, a dense one, or a function of vectors.
        b: Right-hand side (n,), or several as columns (n, k), which share each product with A.
        x0: Initial guess; None for zero.
        tol: Relative tolerance: norm of the residual over that of b, for the worst column.
        max_iter: Limit of iterations; ``maxiter`` is accepted too.
        M: Preconditioner: a function that applies an approximate inverse, or that inverse.
        rtol: SciPy's name for ``tol``; takes precedence over it.
        atol: Absolute tolerance of the norm of the residual.
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
    if LIBRARY.kernels_wanted() and not LIBRARY.widening():
        from trnsparse._resident_cg import resident_cg as method
    rule = stopping("cg", tol, rtol, atol, max_iter, callback)
    return _solved("cg", method, Operands(A, b, x0, M), rule, on_failure, hermitian=True)


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
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
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Solve ``A x = b`` for a symmetric A, definite or not, by minimal residuals.

    Arguments and result are those of ``cg``, for one right-hand side; a preconditioner must be
    positive definite.
    """
    if isinstance(b, Tensor) and b.ndim == 2:
        raise OperandError(f"minres: b must be a vector, got shape {tuple(b.shape)}")
    rule = stopping("minres", tol, rtol, atol, max_iter, callback)
    return _solved("minres", minres_method, Operands(A, b, x0, M), rule, on_failure, hermitian=True)


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


@untraced(STEPS)
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

    return _solved("chebyshev", method, Operands(A, b, x0), rule, on_failure, hermitian=True)


@untraced(STEPS)
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

    return _solved("richardson", method, Operands(A, b, x0), rule, on_failure)


@untraced(STEPS)
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
    rule = stopping("power_iteration", tol, None, 0.0, max_iter, None)
    if v0 is None:
        if not isinstance(A, (SparseMatrix, Tensor)):
            raise FlagError("power_iteration: v0 must be given where A is a function")
        seeded = torch.Generator().manual_seed(0)
        v0 = torch.randn(A.shape[0], generator=seeded, dtype=torch.float64).to(A.device, A.dtype)
    check_right_side("power_iteration", v0, columns=False, name="v0")
    check_matrix("power_iteration", A, v0, "v0")
    with torch.no_grad(), with_forward_mode(False):
        start = v0.detach()
        product = as_operator("power_iteration", A, start)
        with few_threads(product, start):
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
    operands: Operands,
    rule: Stopping,
    on_failure: OnFailure,
    hermitian: bool = False,
) -> Solution:
    """Return the solution of a method.

    If A or M is a function, it is called with vectors in the dtype of b. The method itself computes
    in a wider dtype if b is float16 or bfloat16, and with a matrix A at the level doublefloat.
    """
    A, b, x0, M = operands
    if isinstance(b, Tensor) and b.dtype in NARROW:
        A, M = _of_narrow(A, b.dtype), _of_narrow(M, b.dtype)
    operands = Operands(A, b, x0, M)
    product = _dense_product if LIBRARY.widening() and is_matrix(A) else None
    return solved(
        function,
        method,
        operands,
        rule,
        on_failure,
        hermitian=hermitian,
        columns=True,
        dense_product=product,
    )


def _dense_product(A: Tensor, v: Tensor) -> Tensor:
    found = gemm(1.0, A, v.reshape(len(v), -1), precision="doublefloat")
    return found.reshape(v.shape)


def _of_narrow(matrix: Any, dtype: torch.dtype) -> Any:
    if callable(matrix) and not isinstance(matrix, Tensor):
        return lambda v: matrix(v.to(dtype))
    return matrix


def _limit(function: str, name: str, value: int) -> int:
    return whole(function, name, value, least=0, error=FlagError)


def _spectrum(function: str, lam_min: float, lam_max: float) -> None:
    if not 0 < lam_min <= lam_max < math.inf:
        raise FlagError(
            f"{function}: takes finite 0 < lam_min <= lam_max, got {lam_min} and {lam_max}"
        )
