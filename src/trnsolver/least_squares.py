"""Pseudo-inverses and least squares; ``trnsolver.direct`` exports the same functions."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.linalg import solve_triangular, vector_norm

from trnblas import gemm
from trnsci.core.arguments import flag
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import ConvergenceError, FlagError, LinAlgError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.numbers.values import finite, inert, only_finite
from trnsolver._factors.forms import by_form
from trnsolver._library import LIBRARY, kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import (
    any_matrix,
    batch_shape,
    columns_of,
    in_full_precision,
    restored,
    right_side,
)
from trnsolver.singular_values import svd_launch, svd_unsuited

__all__ = ["LeastSquares", "lstsq", "pinv"]

_LEVEL = 2.0**-42
"""The error of singular values of kernels at doublefloat, relative to the largest."""


_Found = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""Solutions, squared norms of residuals, ranks, and singular values where they were computed."""


class LeastSquares(NamedTuple):
    """The result of ``lstsq``.

    Attributes:
        solution: X of least norm among the minimizers.
        residuals: Squared norms of the columns of ``A @ X - B``.
        rank: Numerical ranks, integers.
        singular_values: Singular values of A, descending; None if they are not asked for.
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor | None


@in_full_precision
def pinv(A: Tensor, rcond: float | None = None) -> Tensor:
    """Return pseudo-inverses, from singular values above ``rcond`` times the largest.

    Args:
        A: Matrices (m, n).
        rcond: None for ``eps * max(m, n)``.

    Raises:
        NotFiniteError: A has a NaN or an infinity.
        FlagError: rcond is negative.
    """
    work = any_matrix("pinv", "A", A)
    _cutoff("pinv", rcond)
    try:
        if kernels_wanted():
            finite("pinv", "A", work)
            found = _with_values("pinv", work, _or_usual(rcond, work))[0]
        else:
            found = _pseudo_inverse(work, _or_usual(rcond, work))
            if not only_finite(found):
                finite("pinv", "A", work)
        return restored(found, A.dtype)
    except TorchLinAlgError as error:
        if isinstance(error, LinAlgError):
            raise
        finite("pinv", "A", work)
        raise LinAlgError(f"pinv: {error}") from None


@in_full_precision
def lstsq(
    A: Tensor, B: Tensor, rcond: float | None = None, *, singular_values: bool = False
) -> LeastSquares:
    """Return X that minimizes the norm of ``A @ X - B``, of least norm if there are several.

    Matrices with at least as many rows as columns are factored by QR, if the triangle proves that
    all singular values are above the cutoff, and else by singular values.

    Args:
        A: Matrices (m, n), of any rank.
        B: Right-hand sides (m,), (m, k), or a batch of them.
        rcond: Singular values up to ``rcond`` times the largest count as zero; None for
            ``eps * max(m, n)``.
        singular_values: Whether to return the singular values of A. They take several times as long
            as the solution.

    Raises:
        NotFiniteError: A or B has a NaN or an infinity.
        FlagError: rcond is negative, or singular_values is not a bool.
        ShapeError: The shapes do not fit.

    Example:
        >>> found = lstsq(torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]]), torch.ones(3))
        >>> found.solution, int(found.rank)
        (tensor([1.0000, 0.5000]), 2)
    """
    work = any_matrix("lstsq", "A", A)
    _cutoff("lstsq", rcond)
    flag("lstsq", "singular_values", singular_values)
    right, vectors = right_side("lstsq", A, B)
    columns = columns_of(right, vectors)
    cutoff = _or_usual(rcond, work)
    finite("lstsq", "B", columns)
    found = None
    if not singular_values and inert(work, columns) and not kernels_wanted():
        found = _by_triangle(work, columns, cutoff)
    if found is None:
        finite("lstsq", "A", work)  # LAPACK reports NaN and infinity as wrong arguments
        found = _by_singular_values(work, columns, cutoff)
    solution, left_over, rank, s = found
    if vectors:
        solution, left_over = solution.squeeze(-1), left_over.squeeze(-1)
    return LeastSquares(
        restored(solution, A.dtype),
        restored(left_over, A.dtype),
        rank,
        restored(s, A.dtype) if singular_values and s is not None else None,
    )


def _by_triangle(a: Tensor, columns: Tensor, rcond: float) -> _Found | None:
    """Return the solution by QR for matrices that are proven to have full column rank, else None.

    The largest singular value is at most the norm of R, and the smallest is at least the inverse of
    the norm of the inverse of R, in the Frobenius norm. For a matrix with NaN they are NaN.
    """
    m, n = a.shape[-2:]
    if not a.is_cpu or m < n or not (a.numel() and columns.numel()):
        return None
    a, columns = _expanded(a, columns)
    reflections, tau = torch.geqrf(a)
    rotated = torch.ormqr(reflections, tau, columns, transpose=True)
    r = reflections[..., :n, :].triu()
    eye = torch.eye(n, dtype=a.dtype).expand_as(r)
    inverse = solve_triangular(r, eye, upper=True, left=False)  # from the right r is not copied
    condition = vector_norm(r, dim=(-2, -1)) * vector_norm(inverse, dim=(-2, -1))
    if not float(condition.max()) * rcond < 1:  # NaN is not
        return None
    solution = solve_triangular(r, rotated[..., :n, :], upper=True)
    left_over = vector_norm(rotated[..., n:, :], dim=-2).square()
    return solution, left_over, torch.full(a.shape[:-2], n), None


def _by_singular_values(a: Tensor, columns: Tensor, rcond: float) -> _Found:
    """Return the solution of least norm for matrices of any rank, and their singular values."""
    try:
        # A graph takes no results of LAPACK's least squares, whose shapes depend on values.
        if a.is_cpu and not kernels_wanted() and not torch.compiler.is_compiling():
            solution, _, rank, s = torch.linalg.lstsq(
                *_expanded(a, columns), rcond=rcond, driver="gelsd"
            )
        else:
            inverse, s = _with_values("lstsq", a, rcond)
            solution, rank = inverse @ columns, (s > rcond * s[..., :1]).sum(-1)
            if LIBRARY.widening():  # products with a large inverse lose digits
                image = gemm(1.0, a, solution, precision="doublefloat")
                more = gemm(1.0, inverse, columns - image, precision="doublefloat")
                solution = solution + more
    except TorchLinAlgError as error:
        if isinstance(error, LinAlgError):
            raise
        raise LinAlgError(f"lstsq: {error}") from None
    left_over = vector_norm(a @ solution - columns, dim=-2) ** 2
    return solution, left_over, rank, s


def _expanded(a: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return matrices and right-hand sides with the same batch dimensions."""
    batch = batch_shape(a, columns)
    return a.expand(*batch, *a.shape[-2:]), columns.expand(*batch, *columns.shape[-2:])


def _or_usual(rcond: float | None, a: Tensor) -> float:
    """Return the cutoff of singular values; for None LAPACK's, or the error of doublefloat."""
    if rcond is not None:
        return rcond
    usual = torch.finfo(a.dtype).eps * max(a.shape[-2:])
    refined = LIBRARY.widening() and LIBRARY.path() != "pytorch"
    return max(usual, _LEVEL) if refined else usual


def _cutoff(function: str, rcond: float | None) -> None:
    if rcond is not None and not rcond >= 0:
        raise FlagError(f"{function}: rcond must not be negative, got {rcond}")


def _with_values(function: str, a: Tensor, rcond: float) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses, and singular values without derivatives.

    Singular values up to ``rcond`` times the largest count as zero.
    """
    wide = a.shape[-2] < a.shape[-1]
    p, s = PINV.of(a.mH if wide else a, rcond, batches.SWEEPS)
    if not only_finite(s):
        raise ConvergenceError(f"{function}: the rotations did not converge")
    return p.mH if wide else p, s.detach()


def _pinv(a: Tensor, rcond: float, max_sweeps: int) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses from singular values above ``rcond`` times the largest, and these.

    The singular values have no derivatives.
    """
    return _pseudo_inverse(a, rcond), torch.linalg.svdvals(a.detach())


def _pseudo_inverse(a: Tensor, rcond: float) -> Tensor:
    """Return pseudo-inverses from singular values above ``rcond`` times the largest."""
    if not (a.is_complex() and torch.compiler.is_compiling()):
        return torch.linalg.pinv(a, rtol=rcond)
    # torch.compile returns wrong pseudo-inverses of complex matrices (torch 2.13), but not of
    # the real matrices of twice the order that have the same singular values.
    found: Tensor = by_form(lambda x: torch.linalg.pinv(x, rtol=rcond), a)
    return found


def _pinv_backward(
    grads: Gradients, needed: Needed, a: Tensor, *options: float, result: Any
) -> Gradients:
    """Return the gradient by A of its pseudo-inverse P at constant rank (Golub and Pereyra 1973).

    It is ``-P^T G P^T + (I - A P) G^T P P^T + P^T P G^T (I - P A)``. The singular values, the
    second result, are returned to callers without derivatives.
    """
    p = result[0]
    grad = rules.or_zeros(grads[0], p)
    pt, gt = p.mH, grad.mH
    times = rules.product
    left, right = times(gt, times(p, pt)), times(times(pt, p), gt)
    outside = left - times(a, times(p, left)) + right - times(times(right, p), a)
    return outside - times(times(pt, grad), pt), None, None


def _pinv_jvp(tangents: Tangents, a: Tensor, *options: float, result: Any) -> tuple[Tensor, Tensor]:
    """Return ``-P T P + P P^T T^T (I - A P) + (I - P A) T^T P^T P``, and zeros."""
    p, s = result
    tangent = rules.given(tangents[0])
    pt, tt = p.mH, tangent.mH
    times = rules.product
    left, right = times(times(p, pt), tt), times(tt, times(pt, p))
    outside = left - times(times(left, a), p) + right - times(p, times(a, right))
    return outside - times(times(p, tangent), p), torch.zeros_like(s)


def _pinv_launch(
    launch: Launcher, a: Tensor, rcond: float, max_sweeps: int
) -> tuple[Tensor, Tensor]:
    """Return p (b, n, m) and s (b, n), descending, for m >= n."""
    u, s, vh = svd_launch(launch, a, max_sweeps)
    kept = s > rcond * s[..., :1]
    inverse = torch.where(kept, 1 / torch.where(kept, s, 1.0), 0.0)
    return (vh.mH * inverse.unsqueeze(-2)) @ u.mH, s


PINV = batches.Batched(
    "pinv",
    dtypes=("float32", "complex64"),
    reference=_pinv,
    launch=_pinv_launch,
    backward=_pinv_backward,
    jvp=_pinv_jvp,
    flops=batches.cubes(14.0),
    unsuited=svd_unsuited,
    refined="trnsolver._doublefloat.singular:pinv",
    examples={"lstsq": batches.definite_system, "pinv": batches.definite_example},
)
