"""Iterative solvers of ``A x = b`` by products with A.

All of them return ``(x, iterations, residual)`` with ``.info``: whether the goal was met, why the
method stopped, the residuals on the way. They stop as SciPy's do, when ``norm(b - A x) <=
max(rtol * norm(b), atol)``; the residual that counts at the end is that of x, computed anew. The
dtype of b governs: A and x0 are cast to it, and float16 and bfloat16 are computed in float32.

b is a vector, or a batch of vectors (..., n) in front of which A may have the same batch. For a
dense A a matrix (n, k) that is no such batch holds k right sides as columns. Systems of a batch are
solved one after the other.

Gradients are those of the solution: one more system with the conjugate transpose of A.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from trnsci.core.arguments import floating, tensor, whole
from trnsci.core.eager import unchecked
from trnsci.core.errors import DTypeError, FlagError, ShapeError
from trnsci.core.iterations import Solution, plot_residuals
from trnsolver import _krylov
from trnsolver._arguments import in_full_precision, restored, working
from trnsolver._dispatch import kernels_wanted
from trnsolver._gmres import flexible_gmres
from trnsolver._implicit import dense_solution, differentiated, operator_solution
from trnsolver._krylov import Progress, Run, Watch
from trnsolver._systems import Callback, Method, each_run, gathered, solution
from trnsolver.operators import LinearOperator, OperatorLike, as_operator

__all__ = [
    "Callback",
    "Progress",
    "Recycled",
    "bicgstab",
    "cg",
    "fgmres",
    "gmres",
    "minres",
    "plot_residuals",
]

Recycled: TypeAlias = tuple[Tensor, Tensor]


@in_full_precision
def cg(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    maxiter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Return the solution for a symmetric (Hermitian) positive definite A by conjugate gradients.

    Args:
        A: A tensor, an operator, a sparse matrix, or a function ``v -> A @ v``.
        b: Right side (n,).
        x0: Start; None for zero.
        tol: Goal for the residual, relative to b.
        maxiter: Most iterations.
        M: Approximate inverse of A: a function ``r -> M @ r``, a tensor or an operator.
        rtol: The name of ``tol`` in SciPy; it wins if both are given.
        atol: Goal for the norm of the residual.
        max_iter: Another name of ``maxiter``.
        callback: Called with a ``Progress`` after each iteration.

    Returns:
        ``(x, iterations, residual)``. Not converging is no error: ``info.converged`` tells. A
        direction in which A is not positive ends the method with ``info.reason == "breakdown"``.

    Raises:
        ShapeError: The shapes do not fit.
        FlagError: A tolerance is negative.

    Example:
        >>> x, iterations, residual = cg(torch.diag(torch.tensor([1.0, 2.0])), torch.ones(2))
        >>> x
        tensor([1.0000, 0.5000])
    """
    return _solved(
        "cg",
        _kernel_cg if kernels_wanted() else _krylov.conjugate_gradients,
        (A, b, x0, M),
        (tol, rtol, atol, maxiter, max_iter, callback),
        hermitian=True,
    )


@in_full_precision
def minres(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    maxiter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Return the solution for a symmetric (Hermitian) A, definite or not.

    The arguments are those of ``cg``; M must be positive definite.
    """
    return _solved(
        "minres",
        _krylov.minres,
        (A, b, x0, M),
        (tol, rtol, atol, maxiter, max_iter, callback),
        hermitian=True,
    )


@in_full_precision
def bicgstab(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    maxiter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Return the solution for any A by stabilized biconjugate gradients, in constant memory.

    The arguments are those of ``cg``; an iteration takes two products with A.
    """
    return _solved(
        "bicgstab",
        _krylov.bicgstab,
        (A, b, x0, M),
        (tol, rtol, atol, maxiter, max_iter, callback),
    )


@in_full_precision
def gmres(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    maxiter: int = 100,
    restart: int = 30,
    *,
    M: Any = None,
    rtol: float | None = None,
    atol: float = 0.0,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Return the solution for any A by GMRES, preconditioned from the right.

    Args:
        A: As in ``cg``.
        b: Right side (n,).
        x0: Start; None for zero.
        tol: Goal for the residual, relative to b.
        maxiter: Most restarts.
        restart: Directions that a cycle collects before it starts anew; it ends as soon as the
            goal is met.
        M: Approximate inverse of A, as in ``cg``.
        rtol: The name of ``tol`` in SciPy; it wins if both are given.
        atol: Goal for the norm of the residual.
        max_iter: Another name of ``maxiter``.
        callback: Called with a ``Progress`` after each direction.

    Returns:
        ``(x, products, residual)``: products with A are counted.
    """
    return _gmres("gmres", A, b, x0, tol, maxiter, restart, M, rtol, atol, max_iter, callback)


@in_full_precision
def fgmres(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    maxiter: int = 100,
    restart: int = 30,
    *,
    M: Any = None,
    keep: int = 0,
    recycle: Recycled | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    max_iter: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Return the solution for any A by flexible GMRES, which can recycle directions.

    M may be another operator at every step: an iteration of its own, say. Directions that converge
    slowly are kept over restarts, and for the next system of a sequence::

        first = fgmres(A, b, keep=8)
        second = fgmres(A, c, keep=8, recycle=first.info.details["recycle"])

    Args:
        A: As in ``cg``.
        b: Right side (n,).
        x0: Start; None for zero.
        tol: Goal for the residual, relative to b.
        maxiter: Most restarts.
        restart: Directions that a cycle collects.
        M: Approximate inverse of A, not necessarily linear.
        keep: Directions to keep; 0 for none.
        recycle: Those that an earlier solution kept; A may have changed a little.
        rtol: The name of ``tol`` in SciPy; it wins if both are given.
        atol: Goal for the norm of the residual.
        max_iter: Another name of ``maxiter``.
        callback: Called with a ``Progress`` after each direction.
    """
    whole("fgmres", "keep", keep, 0, error=FlagError)
    return _gmres(
        "fgmres", A, b, x0, tol, maxiter, restart, M, rtol, atol, max_iter, callback, keep, recycle
    )


def _kernel_cg(op: LinearOperator, b: Tensor, x: Tensor, M: Any, watch: Watch) -> Run:
    """Return how conjugate gradients went on the device, where they can be there."""
    from trnsolver._operations import CG

    arguments: tuple[Any, ...] = ()
    if op.dense is None:
        reason = "the kernel takes dense matrices, not operators"
    elif M is not None:
        reason = "the kernel has no preconditioner"
    elif watch.callback is not None:
        reason = "the kernel calls nobody back"
    else:
        vectors = b.unsqueeze(0), x.unsqueeze(0)
        arguments = op.dense.unsqueeze(0), *vectors, watch.goal / watch.scale, watch.limit
        reason = CG.refusal(*arguments)
    if reason:
        CG.refuse(reason)
        return _krylov.conjugate_gradients(op, b, x, M, watch)
    found, history = CG(*arguments)
    norms = [float(value) * watch.scale for value in history[0]]
    # A system that has stopped repeats its last residual.
    steps = max((i for i in range(1, len(norms)) if norms[i] != norms[i - 1]), default=0)
    run = Run(found[0], norms[: steps + 1], steps, steps + 1, "limit")
    run.norms[-1] = _krylov.norm(b - op(run.x))
    if run.norms[-1] <= watch.goal:
        run.reason = "converged"
    elif steps < watch.limit:
        run.reason = "breakdown" if norms[steps] > watch.goal else "stagnated"
    return run


def _gmres(
    function: str,
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None,
    tol: float,
    maxiter: int,
    restart: int,
    M: Any,
    rtol: float | None,
    atol: float,
    max_iter: int | None,
    callback: Callback | None,
    keep: int = 0,
    recycle: Recycled | None = None,
) -> Solution:
    whole(function, "restart", restart, 1, error=FlagError)

    def method(op: LinearOperator, right: Tensor, start: Tensor, m: Any, watch: Watch) -> Run:
        space = None if recycle is None else _projected(function, op, recycle[0], right)
        run = flexible_gmres(op, right, start, m, watch, restart, space, keep)
        run.iterations = run.matvecs
        return run

    return _solved(function, method, (A, b, x0, M), (tol, rtol, atol, maxiter, max_iter, callback))


def _projected(function: str, op: LinearOperator, U: Tensor, b: Tensor) -> Recycled:
    """Return directions with orthonormal images, without those that depend on others."""
    if U.ndim != 2 or U.shape[0] != b.shape[0]:
        raise ShapeError(
            f"{function}: recycle must have directions (n, k) that fit b, got shapes "
            f"{tuple(U.shape)} and {tuple(b.shape)}"
        )
    U = U.to(b.dtype)
    if not U.shape[-1]:
        return U, U
    images = torch.stack([op(column) for column in U.mT], -1)
    c, s, vh = torch.linalg.svd(images, full_matrices=False)
    kept = s > 10 * max(images.shape) * torch.finfo(s.dtype).eps * s[:1]
    return U @ (vh[kept].mH / s[kept]), c[:, kept]


def _solved(
    function: str,
    method: Method,
    operands: tuple[Any, Tensor, Tensor | None, Any],
    limits: tuple[float, float | None, float, int, int | None, Callback | None],
    hermitian: bool = False,
) -> Solution:
    """Return what a method makes of checked arguments, with the derivatives of the solution."""
    A, b, x0, M = operands
    tensor(function, "b", b)
    floating(function, "b", b)
    tol, rtol, atol, maxiter, max_iter, callback = limits
    tol = tol if rtol is None else rtol
    limit = maxiter if max_iter is None else max_iter
    maxiter = whole(function, "maxiter", limit, 0, error=FlagError)
    if callback is not None and not callable(callback):
        raise FlagError(f"{function}: callback must be a function, got {type(callback).__name__}")
    if not (tol >= 0 and atol >= 0):
        raise FlagError(f"{function}: tolerances must not be negative, got {tol} and {atol}")
    if unchecked(b):
        raise FlagError(f"{function}: the number of steps depends on values, which are not there")
    if isinstance(A, Tensor) and A.is_complex() and not b.is_complex():
        raise DTypeError(f"{function}: A is complex, where b is real: {A.dtype} and {b.dtype}")
    right, columns = _vectors(function, A, working(b))
    matrix = A
    if columns and isinstance(A, Tensor):
        matrix = A.unsqueeze(-3)
    start = torch.zeros_like(right) if x0 is None else _start(function, x0, b, right, columns)
    with torch.no_grad(), forward_ad._set_fwd_grad_enabled(False):
        runs = each_run(function, method, matrix, right, start, M, (tol, atol, maxiter, callback))
        x = runs[0].x if right.ndim == 1 else gathered(runs, right)
    x = _with_derivatives(function, method, matrix, right, x, (A, b, M), limits, hermitian)
    return solution(restored(x.mT if columns else x, b.dtype), runs)


def _with_derivatives(
    function: str,
    method: Method,
    matrix: Any,
    right: Tensor,
    x: Tensor,
    operands: tuple[Any, Tensor, Any],
    limits: tuple[float, float | None, float, int, int | None, Callback | None],
    hermitian: bool,
) -> Tensor:
    """Return x with the derivatives of the solution, where any may be asked for."""
    A, b, M = operands

    def solve(of: Any, side: Tensor) -> Tensor:
        return _solved(function, method, (of, side, None, M), limits, hermitian).x

    if isinstance(A, Tensor):
        if not differentiated(A, b):
            return x
        return dense_solution(matrix.to(right.dtype), right, x, solve)
    if not (torch.is_grad_enabled() or forward_ad._current_level >= 0):
        return x
    op = as_operator(function, A, right)
    image = op(x)
    if not (right.requires_grad or image.requires_grad) and forward_ad._current_level < 0:
        return x
    turned = op if hermitian else op.adjoint()
    return operator_solution(
        function, x, right, image, lambda r: solve(op, r), lambda g: solve(turned, g)
    )


def _vectors(function: str, A: Any, b: Tensor) -> tuple[Tensor, bool]:
    """Return right sides (..., n), and whether they were columns."""
    if b.ndim == 0:
        raise ShapeError(f"{function}: b must be at least 1-D, got shape ()")
    if not isinstance(A, Tensor) or b.ndim == 1 or A.ndim < 2:
        return b, False
    if b.shape[-1] == A.shape[-1] and b.ndim == A.ndim - 1 and b.shape[:-1] == A.shape[:-2]:
        return b, False
    if b.shape[-2] == A.shape[-1]:
        return b.mT, True
    return b, False


def _start(function: str, x0: Tensor, b: Tensor, right: Tensor, columns: bool) -> Tensor:
    tensor(function, "x0", x0)
    if x0.shape != b.shape:
        raise ShapeError(
            f"{function}: x0 and b must have one shape, got {tuple(x0.shape)} and {tuple(b.shape)}"
        )
    if x0.is_complex() and not b.is_complex():
        raise DTypeError(f"{function}: x0 is complex, where b is real: {x0.dtype} and {b.dtype}")
    start = x0.detach().to(right.dtype)
    return start.mT if columns else start
