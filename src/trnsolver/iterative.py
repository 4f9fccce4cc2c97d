"""Iterative solvers of ``A x = b``, which need only products with A.

All return ``(x, iterations, residual)`` with ``.info``: convergence, the reason for stopping and
the history of residuals. They stop, like SciPy's, when ``norm(b - A x) <= max(rtol * norm(b),
atol)``; the reported residual is recomputed from the returned x. A solution that overflows or
underflows in its dtype is not converged. A has the dtype of b, or is a dense real matrix for a
complex b; x0 is cast. float16 and bfloat16 are computed in float32, and converge there: the
reported residual includes the final rounding. So are all dtypes in float64 at the level
``doublefloat``, by products of that level, where A is a dense or a sparse matrix.

A method that does not converge warns (``ConvergenceWarning``), raises or does neither, as selected
by ``on_failure``.

b is a vector, or a batch of vectors (..., n); A may have the same batch dimensions. For a dense A,
a matrix b of shape (n, k) that is not such a batch has k right-hand sides as columns. Systems of a
batch are solved one at a time.

Derivatives are those of the exact solution, by one more system with the adjoint of A, in every
mode of autograd and ``torch.func``. Where A is a function, what it captures has first
derivatives only. The backward of a solution that did not converge warns (``ConvergenceWarning``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from trnblas import gemv
from trnsci.core.arguments import also_spelled, whole
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher, on_both_cores
from trnsci.core.errors import FlagError
from trnsci.core.examples import Case, Example, example
from trnsci.core.iterations import OnFailure, Solution, plot_residuals
from trnsci.core.krylov.front import Operands, is_matrix, solved
from trnsci.core.krylov.gmres import Recycled, flexible_gmres, projected
from trnsci.core.krylov.runs import Callback, Product, Progress, Run, Watch, ended
from trnsci.core.krylov.short_recurrences import bicgstab as bicgstab_method
from trnsci.core.krylov.short_recurrences import conjugate_gradients, kernel_reference
from trnsci.core.krylov.short_recurrences import minres as minres_method
from trnsci.core.krylov.solve import Method, Stopping, stopping
from trnsci.core.krylov.vectors import norm
from trnsci.core.numbers.planes import joined, parts
from trnsci.core.numbers.values import STEPS, inert, power_below, untraced
from trnsci.core.testing import random_tensor
from trnsolver._factors.forms import of_columns
from trnsolver._library import LIBRARY, kernels_wanted, no_kernel
from trnsolver._paths import batches
from trnsolver._paths.arguments import in_full_precision
from trnsolver.operators import LinearOperator, OperatorLike

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


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def cg(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Return the solution for a symmetric (Hermitian) positive definite A by conjugate gradients.

    Args:
        A: A tensor, an operator, a sparse matrix, or a function ``v -> A @ v``.
        b: Right-hand side (n,).
        x0: Initial guess; None for zero.
        tol: Tolerance of the residual relative to b.
        max_iter: Limit of iterations; ``maxiter`` is accepted too.
        M: Approximate inverse of A: a function ``r -> M @ r``, a tensor or an operator.
        rtol: SciPy's name for ``tol``; takes precedence over it.
        atol: Absolute tolerance of the norm of the residual.
        callback: Called with a ``Progress`` after each iteration.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the method does not converge.

    Returns:
        ``(x, iterations, residual)``. A direction in which A is not positive ends the method with
        ``info.reason == "breakdown"``.

    Raises:
        ConvergenceError: The method did not converge, and ``on_failure`` is ``"raise"``.
        ShapeError: The shapes do not fit.
        FlagError: A tolerance is negative.

    Example:
        >>> x, iterations, residual = cg(torch.diag(torch.tensor([1.0, 2.0])), torch.ones(2))
        >>> x
        tensor([1.0000, 0.5000])
    """
    kernel = kernels_wanted() and not _is_refined(A)
    return _solved(
        "cg",
        _kernel_cg if kernel else conjugate_gradients,
        Operands(A, b, x0, M),
        stopping("cg", tol, rtol, atol, max_iter, callback),
        on_failure,
        hermitian=True,
    )


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def minres(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Return the solution for a symmetric (Hermitian) A, definite or not.

    The arguments are those of ``cg``; M must be positive definite.
    """
    _report_no_kernel("minres", A)
    return _solved(
        "minres",
        minres_method,
        Operands(A, b, x0, M),
        stopping("minres", tol, rtol, atol, max_iter, callback),
        on_failure,
        hermitian=True,
    )


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def bicgstab(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
    M: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Return the solution for any A by stabilized biconjugate gradients, in constant memory.

    The arguments are those of ``cg``; an iteration takes two products with A.
    """
    _report_no_kernel("bicgstab", A)
    return _solved(
        "bicgstab",
        bicgstab_method,
        Operands(A, b, x0, M),
        stopping("bicgstab", tol, rtol, atol, max_iter, callback),
        on_failure,
    )


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def gmres(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    restart: int = 30,
    *,
    M: Any = None,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Return the solution for any A by GMRES, preconditioned from the right.

    Args:
        A: As in ``cg``.
        b: Right-hand side (n,).
        x0: Initial guess; None for zero.
        tol: Tolerance of the residual relative to b.
        max_iter: Limit of restarts; ``maxiter`` is accepted too.
        restart: Number of directions of a cycle before a restart; it ends early on convergence.
        M: Approximate inverse of A, as in ``cg``.
        rtol: SciPy's name for ``tol``; takes precedence over it.
        atol: Absolute tolerance of the norm of the residual.
        callback: Called with a ``Progress`` after each direction.
        on_failure: As in ``cg``.

    Returns:
        ``(x, products, residual)``, where products is the number of products with A.
    """
    _report_no_kernel("gmres", A)
    rule = stopping("gmres", tol, rtol, atol, max_iter, callback)
    return _gmres("gmres", Operands(A, b, x0, M), rule, on_failure, restart)


@untraced(STEPS)
@also_spelled("max_iter", "maxiter")
@in_full_precision
def fgmres(
    A: OperatorLike,
    b: Tensor,
    x0: Tensor | None = None,
    tol: float = 1e-6,
    max_iter: int = 100,
    restart: int = 30,
    *,
    M: Any = None,
    keep: int = 0,
    recycle: Recycled | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    callback: Callback | None = None,
    on_failure: OnFailure = "warn",
) -> Solution:
    """Return the solution for any A by flexible GMRES, which can recycle directions.

    M may change at every step, for example be an iterative method itself. Slowly converging
    directions are retained over restarts, and for the next system of a sequence::

        first = fgmres(A, b, keep=8)
        second = fgmres(A, c, keep=8, recycle=first.info.details["recycle"])

    Args:
        A: As in ``cg``.
        b: Right-hand side (n,).
        x0: Initial guess; None for zero.
        tol: Tolerance of the residual relative to b.
        max_iter: Limit of restarts; ``maxiter`` is accepted too.
        restart: Number of directions of a cycle.
        M: Approximate inverse of A, not necessarily linear.
        keep: Number of directions to retain; 0 for none.
        recycle: Directions retained by an earlier solution; A may have changed a little.
        rtol: SciPy's name for ``tol``; takes precedence over it.
        atol: Absolute tolerance of the norm of the residual.
        callback: Called with a ``Progress`` after each direction.
        on_failure: As in ``cg``.
    """
    _report_no_kernel("fgmres", A)
    whole("fgmres", "keep", keep, 0, error=FlagError)
    rule = stopping("fgmres", tol, rtol, atol, max_iter, callback)
    return _gmres("fgmres", Operands(A, b, x0, M), rule, on_failure, restart, keep, recycle)


def _kernel_cg(op: LinearOperator, b: Tensor, x: Tensor, M: Product | None, watch: Watch) -> Run:
    """Return a run of conjugate gradients on the device, if the kernel supports the system."""
    arguments: tuple[Any, ...] = ()
    if not isinstance(op.matrix, Tensor) or op.matrix.layout is not torch.strided:
        reason = "the kernel takes dense matrices, not operators"
    elif M is not None:
        reason = "the kernel has no preconditioner"
    elif watch.callback is not None:
        reason = "the kernel has no callback"
    else:
        # The kernel computes squares in float32, so the matrix is scaled to magnitude 1, as b is.
        unit = power_below(op.matrix)
        vectors = b.unsqueeze(0), (x * unit).unsqueeze(0)
        matrix = (op.matrix / unit).to(b.dtype).unsqueeze(0)
        arguments = matrix, *vectors, watch.goal / watch.scale, watch.limit
        reason = CG.refusal(*arguments)
    if reason:
        CG.refuse(reason)
        return conjugate_gradients(op, b, x, M, watch)
    found, history = CG(*arguments)
    residuals = history[0].tolist()
    # A system that has stopped repeats its last residual.
    steps = max(
        (i for i in range(1, len(residuals)) if residuals[i] != residuals[i - 1]), default=0
    )
    run = Run(found[0] / unit, residuals[: steps + 1], steps, steps + 1, "limit")
    actual = norm(b - op(run.x))
    if steps < watch.limit:
        met = residuals[steps] * watch.scale <= watch.goal
        run.reason = "stagnated" if met else "breakdown"
    return ended(run, watch, actual)


def _fixed_cg(a: Tensor, b: Tensor, x0: Tensor, tol: float, max_iter: int) -> tuple[Tensor, Tensor]:
    """Return solutions, and the relative residuals at the start and after each of the steps.

    A system whose residual is at most ``tol`` times the norm of its right-hand side, or whose
    curvature is not positive, is no longer updated; its last residual is repeated.
    """
    size = torch.linalg.vector_norm(b.detach(), dim=-1, keepdim=True)
    size = torch.where(size > 0, size, torch.ones_like(size))
    x, history, _ = kernel_reference(
        lambda v: (a @ v.unsqueeze(-1)).squeeze(-1),
        b,
        x0,
        tol * size,
        max_iter,
        dim=-1,
        recorded=not inert(a, b, x0),
    )
    return x, (torch.cat(history, -1) / size).to(size.dtype)


def _cg_shape(a: Tensor, b: Tensor, x0: Tensor, tol: float, max_iter: int) -> tuple[Tensor, Tensor]:
    """Return empty tensors like the results of ``_fixed_cg``."""
    return torch.empty_like(b), b.real.new_empty(b.shape[0], max_iter + 1)


def _cg_launch(
    launch: Launcher, a: Tensor, rhs: Tensor, x0: Tensor, tol: float, max_iter: int
) -> tuple[Tensor, Tensor]:
    """Return x (b, n) and residuals (b, max_iter + 1)."""
    from trnsolver._kernels.cg import conjugate_gradients
    from trnsolver._kernels.limits import cg_instructions

    kernel, length = on_both_cores(launch, conjugate_gradients), cg_instructions(a.shape[-1])
    x, residuals = batches.launched(launch, kernel, (a, rhs, x0), length, tol, max_iter)
    return x, residuals


def _cg_by_parts(
    real: Callable[..., Any], a: Tensor, b: Tensor, x0: Tensor, tol: float, max_iter: int
) -> tuple[Tensor, Tensor]:
    """Return the same steps for the real form: norms and products of vectors are the same."""
    x, residuals = real(of_columns(a), parts(b), parts(x0), tol, max_iter)
    return joined(x), residuals


def _cg_backward(
    grads: Gradients, needed: Needed, a: Tensor, b: Tensor, x0: Tensor, *rule: Any, result: Any
) -> Gradients:
    """Return -y x^H and y with A y = Gx: the derivatives of the solution, not of the steps to it.

    The initial solution and the residuals have no derivatives.
    """
    given = torch.zeros_like(result[0]) if grads[0] is None else grads[0]
    y, _ = CG(a, given, torch.zeros_like(x0), *rule)
    for_a = -y.unsqueeze(-1) * result[0].unsqueeze(-2).conj() if needed[0] else None
    return for_a, y if needed[1] else None, None, None, None


def _cg_jvp(
    tangents: Tangents, a: Tensor, b: Tensor, x0: Tensor, *rule: Any, result: Any
) -> tuple[Tensor, Tensor]:
    """Return the solution of A y = Tb - Ta x."""
    x, norms = result
    right = torch.zeros_like(b) if tangents[1] is None else tangents[1]
    if tangents[0] is not None:
        right = right - (tangents[0] @ x.unsqueeze(-1)).squeeze(-1)
    y, _ = CG(a, right, torch.zeros_like(x0), *rule)
    return y, torch.zeros_like(norms)


def _cg_example() -> Example:
    return example(torch.eye(2), random_tensor(4, seed=3)[:2], max_iter=1)


CG = batches.Batched(
    "cg",
    reference=_fixed_cg,
    launch=_cg_launch,
    fake=_cg_shape,
    backward=_cg_backward,
    jvp=_cg_jvp,
    by_parts=_cg_by_parts,
    flops=lambda a, b, x0, tol, max_iter: 2.0 * a.numel() * max_iter,
    unsuited=batches.up_to("CG_ORDER"),
    examples={"cg": _cg_example},
    evidence=(
        Case(
            "conjugate_gradients",
            "conjugate gradients",
            lambda: (batches.definite(40), random_tensor(40, seed=1)),
            lambda a, b: cg(a, b, tol=1e-6, max_iter=20)[0],
            lambda a, b: torch.linalg.solve(a.double(), b.double()),
            "torch in float64",
            lambda a, b: 1e-6 * float(torch.linalg.cond(a.double())) + batches.condition_bound(a),
        ),
    ),
)


def _gmres(
    function: str,
    operands: Operands,
    rule: Stopping,
    on_failure: OnFailure,
    restart: int,
    keep: int = 0,
    recycle: Recycled | None = None,
) -> Solution:
    whole(function, "restart", restart, 1, error=FlagError)

    def method(
        op: LinearOperator, right: Tensor, start: Tensor, m: Product | None, watch: Watch
    ) -> Run:
        space = None if recycle is None else projected(function, op, recycle[0], right)
        run = flexible_gmres(op, right, start, m, watch, restart, space, keep)
        run.iterations = run.matvecs
        return run

    return _solved(function, method, operands, rule, on_failure)


# -- products at doublefloat -----------------------------------------------------------------------


def _is_refined(A: OperatorLike) -> bool:
    """Return whether products with A are those of doublefloat: A is a dense or a sparse matrix."""
    return LIBRARY.widening() and is_matrix(A)


def _report_no_kernel(function: str, A: OperatorLike) -> None:
    if not _is_refined(A):
        no_kernel(function)


def _solved(
    function: str,
    method: Method,
    operands: Operands,
    rule: Stopping,
    on_failure: OnFailure,
    hermitian: bool = False,
) -> Solution:
    """Return ``solved``, for matrices with products at doublefloat if that is the level."""
    product = partial(gemv, 1.0, precision="doublefloat") if _is_refined(operands.A) else None
    return solved(
        function, method, operands, rule, on_failure, hermitian=hermitian, dense_product=product
    )
