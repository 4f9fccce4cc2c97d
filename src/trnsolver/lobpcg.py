"""LOBPCG: a few eigenpairs at one end of the spectrum, by products only (Knyazev 2001)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trnrand import Generator, normal
from trnsci.core.arguments import floating, not_negative, tensor, whole
from trnsci.core.errors import (
    DTypeError,
    FlagError,
    LinAlgError,
    NotPositiveDefiniteError,
    ShapeError,
)
from trnsci.core.iterations import (
    IterationInfo,
    OnFailure,
    Reason,
    checked_action,
    report_iteration,
)
from trnsci.core.numbers.values import STEPS, finite, only_finite, power_below, readable, untraced
from trnsolver._eigen.quality import InformedPairs
from trnsolver._factors.forms import symmetric_part
from trnsolver._paths.arguments import in_full_precision, order_and_dtype, working
from trnsolver.operators import OperatorLike, as_operator, as_preconditioner

__all__ = ["IteratedEigenpairs", "lobpcg"]

Block = Callable[[Tensor], Tensor]


class IteratedEigenpairs(InformedPairs[IterationInfo]):
    """``(eigenvalues, eigenvectors)`` with ``info`` on the iteration."""


@untraced(STEPS)
@in_full_precision
def lobpcg(
    A: OperatorLike,
    X: Tensor | int,
    B: OperatorLike | None = None,
    M: Any = None,
    *,
    n: int | None = None,
    tol: float | None = None,
    max_iter: int = 200,
    largest: bool = False,
    seed: int = 0,
    on_failure: OnFailure = "warn",
) -> IteratedEigenpairs:
    """Return eigenpairs ``A v = w B v`` at one end of the spectrum.

    Args:
        A: Symmetric (Hermitian): a tensor, an operator, a sparse matrix or a function.
        X: Initial vectors, (n, k), or k for random ones.
        B: Positive definite, of the same types; None for the identity.
        M: Approximate inverse of A, as in ``cg``.
        n: Order of A, if A is an operator without a shape and X is a number.
        tol: Tolerance of ``norm(A v - w B v)``, relative to the largest ``norm(A v)``; None for the
            square root of eps.
        max_iter: Limit of iterations.
        largest: Whether to compute the largest values, or the smallest.
        seed: Seed of random initial vectors.
        on_failure: ``"warn"``, ``"raise"`` or ``"ignore"`` if the iteration does not converge.

    Returns:
        k values, ascending, and vectors with ``V.mH @ B @ V = I``; ``info`` reports convergence.

    Raises:
        ConvergenceError: The iteration did not converge, and ``on_failure`` is ``"raise"``.
        NotFiniteError: X, or a product with B or M, has a NaN or an infinity.
        NotPositiveDefiniteError: B is not positive definite.
        ShapeError: The shapes do not fit, or 3 k is more than n.
        FlagError: tol or max_iter is negative.
    """
    checked_action("lobpcg", on_failure)
    readable("lobpcg", "A", *(value for value in (A, X, B, M) if isinstance(value, Tensor)))
    if isinstance(A, Tensor):
        tensor("lobpcg", "A", A)
        floating("lobpcg", "A", A)
    x = _start(A, X, n, seed)
    finite("lobpcg", "X", x)
    size, k = x.shape
    if 3 * k > size:
        raise ShapeError(f"lobpcg: X must have at most n / 3 columns, got shape {tuple(x.shape)}")
    whole("lobpcg", "max_iter", max_iter, 0, error=FlagError)
    not_negative("lobpcg", tol=tol)
    goal = torch.finfo(x.dtype).eps ** 0.5 if tol is None else tol
    product, b = _block("A", A, x), None if B is None else _block("B", B, x)
    precondition = as_preconditioner("lobpcg", M, x[:, 0])
    sign = -1.0 if largest else 1.0
    residuals: list[float] = []
    reason: Reason = "limit"
    x = _unit(x)
    if not x.shape[-1]:
        raise LinAlgError("lobpcg: X must have a column other than zero")
    x = _orthonormal(x, b)
    p = x[:, :0]
    ax, matvecs = product(x), k
    unit = power_below(ax)  # squares of scaled entries do not overflow

    def a(v: Tensor) -> Tensor:
        return product(v) / unit

    ax = ax / unit
    w = torch.empty(0, device="cpu")
    for _ in range(max_iter + 1):
        inner = x.mH @ ax
        w, rotation = torch.linalg.eigh(sign * symmetric_part(inner))
        x, ax = x @ rotation, ax @ rotation
        r = ax - (x if b is None else b(x)) * (sign * w)
        left, scale = (float(torch.linalg.vector_norm(v, dim=0).max()) for v in (r, ax))
        residuals.append(left / scale if scale else left)
        if residuals[-1] <= goal:
            reason = "converged"
            break
        if not math.isfinite(residuals[-1]):
            reason = "diverged"
            break
        if len(residuals) > max_iter:
            break
        if precondition is not None:
            r = torch.stack([precondition(column) for column in r.mT], -1)
        space = _orthonormal(torch.cat([x, _unit(r), _unit(p)], -1), b)
        image = a(space)
        matvecs += space.shape[-1]
        inner = space.mH @ image
        if not bool(torch.isfinite(inner).all()):
            reason = "diverged"
            break
        _, rotation = torch.linalg.eigh(sign * symmetric_part(inner))
        best = rotation[:, :k]
        fresh = space @ best
        # The next direction is the part of the step outside of the old vectors.
        p = fresh - x @ (x.mH @ (fresh if b is None else b(fresh)))
        x, ax = fresh, image @ best
    w = sign * w * unit
    if not only_finite(w):
        reason = "diverged"
    order = w.argsort()
    info = IterationInfo(reason == "converged", reason, tuple(residuals), matvecs)
    report_iteration("lobpcg", info, len(residuals) - 1, on_failure)
    return IteratedEigenpairs(w[order], x[:, order], info)


def _start(A: OperatorLike, X: Tensor | int, n: int | None, seed: int) -> Tensor:
    if isinstance(X, Tensor):
        floating("lobpcg", "X", X)
        if X.ndim != 2:
            raise ShapeError(f"lobpcg: X must be 2-D, got shape {tuple(X.shape)}")
        return working(X.detach())
    k = whole("lobpcg", "X", X, 1, error=FlagError)
    size, dtype = order_and_dtype("lobpcg", A, n)
    drawn = normal(size, k, dtype=torch.float64, generator=Generator(seed)).to(dtype)
    return working(drawn.to(A.device) if isinstance(A, Tensor) else drawn)


def _block(name: str, A: OperatorLike, x: Tensor) -> Block:
    """Return products with the columns of a matrix."""
    if isinstance(A, Tensor):
        if A.is_complex() and not x.is_complex():
            raise DTypeError(f"lobpcg: {name} is complex, where X is real: {A.dtype}, {x.dtype}")
        matrix = A.detach().to(x.dtype)
        if matrix.shape != (x.shape[0], x.shape[0]):
            raise ShapeError(
                f"lobpcg: {name} must be square and fit X, got shapes {tuple(A.shape)} and "
                f"{tuple(x.shape)}"
            )
        return lambda v: matrix @ v
    op = as_operator("lobpcg", A, x[:, 0], name)
    return lambda v: torch.stack([op(column) for column in v.mT], -1) if v.shape[-1] else v


def _unit(v: Tensor) -> Tensor:
    """Return columns of norm 1, without those of zeros."""
    peaks = v.abs().amax(0)
    kept = peaks != 0
    v = v[:, kept] / peaks[kept]  # squares of other magnitudes may overflow
    return v / torch.linalg.vector_norm(v, dim=0)


def _orthonormal(v: Tensor, b: Block | None) -> Tensor:
    """Return a B-orthonormal basis of the span of the columns, without rounding errors."""
    for _ in range(2):
        gram = v.mH @ (v if b is None else b(v))
        finite("lobpcg", "the product with B" if b else "the product with M", gram)
        values, rotation = torch.linalg.eigh(symmetric_part(gram))
        least, most = values[[0, -1]].tolist()
        if b is not None and not (most > 0 and least >= -1e-3 * most):
            raise NotPositiveDefiniteError("lobpcg: B must be positive definite")
        kept = values > 10 * values.shape[0] * torch.finfo(values.dtype).eps * values[-1]
        v = v @ (rotation[:, kept] * values[kept].rsqrt())
    return v
