"""Direct solvers: linear systems, inverses, least squares and determinants.

A and B have one dtype. float16 and bfloat16 are solved in float32 and rounded back.
"""

from __future__ import annotations

from typing import NamedTuple, overload

import torch
from torch import Tensor

from trnsci.core.errors import FlagError, LinAlgError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.iterations import OnFailure
from trnsci.core.numbers.values import finite, inert, only_finite
from trnsolver._factors.factored import refined, with_factor
from trnsolver._library import no_kernel
from trnsolver._paths.arguments import (
    any_matrix,
    batch_shape,
    columns_of,
    in_full_precision,
    not_positive_definite,
    restored,
    right_side,
    singular,
    square_matrix,
)
from trnsolver._paths.dispatch import kernels_wanted, run_cholesky, run_lu_solve, run_pinv
from trnsolver._paths.torch_path import pseudo_inverse
from trnsolver.refinement import AccurateSolution, accurate_solution

__all__ = [
    "LeastSquares",
    "SignLogDet",
    "det",
    "inv",
    "inv_spd",
    "lstsq",
    "pinv",
    "slogdet",
    "solve",
    "solve_spd",
]


class LeastSquares(NamedTuple):
    """The result of ``lstsq``.

    Attributes:
        solution: X of least norm among the minimizers.
        residuals: Squared norms of the columns of ``A @ X - B``.
        rank: Numerical ranks, integers.
        singular_values: Singular values of A, descending.
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class SignLogDet(NamedTuple):
    """``det = sign * exp(logabsdet)``."""

    sign: Tensor
    logabsdet: Tensor


@overload
def solve(
    A: Tensor,
    B: Tensor,
    *,
    target_forward_error: None = None,
    on_failure: OnFailure = "raise",
    certify: bool = True,
) -> Tensor: ...


@overload
def solve(
    A: Tensor,
    B: Tensor,
    *,
    target_forward_error: float,
    on_failure: OnFailure = "raise",
    certify: bool = True,
) -> AccurateSolution: ...


@in_full_precision
def solve(
    A: Tensor,
    B: Tensor,
    *,
    target_forward_error: float | None = None,
    on_failure: OnFailure = "raise",
    certify: bool = True,
) -> Tensor | AccurateSolution:
    """Return X with ``A @ X = B``.

    Without a target: LU with partial pivoting in the precision of A. With a target: the cheapest
    method that reaches it, chosen by the estimated condition number. Candidates are a float32
    factorization with refinement, GMRES preconditioned by that factor, and a float64 factorization
    with residuals in float64 or twice float64. The error reached is measured.

    Args:
        A: Square matrices.
        B: Right-hand sides (n,), (n, k), or a batch of them.
        target_forward_error: Limit of ``max |X - exact| / max |exact|`` of each column.
        on_failure: Action if the target is not reached: ``"raise"``, ``"warn"``, or ``"ignore"``,
            which only sets ``info``.
        certify: Whether the error bound is proven, which takes an approximate inverse, or estimated
            as in LAPACK.

    Returns:
        X like B; with a target ``(x, info)``, where x is in float64 if the target needs more than
        the precision of A.

    Raises:
        SingularMatrixError: A matrix is singular.
        NotFiniteError: A or B has a NaN or an infinity, and a target is given.
        AccuracyError: The target was not reached.
        ShapeError: The shapes do not fit.

    Example:
        >>> solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 8.0]))
        tensor([1., 2.])
    """
    work = square_matrix("solve", "A", A)
    right, vectors = right_side("solve", A, B)
    if target_forward_error is not None:
        return accurate_solution(
            work, right, vectors, target_forward_error, on_failure, certify, A.dtype
        )
    try:
        if kernels_wanted():
            found = run_lu_solve("solve", work, columns_of(right, vectors))
            found = found.squeeze(-1) if vectors else found
        else:
            found = torch.linalg.solve(work, right)
    except TorchLinAlgError as error:
        raise _inverse_error("solve", error) from None
    return restored(found, A.dtype)


@in_full_precision
def solve_spd(A: Tensor, B: Tensor, iterative_refinement: bool = False) -> Tensor:
    """Return X with ``A @ X = B`` for symmetric (Hermitian) positive definite A.

    Args:
        A: Positive definite matrices, of which the lower triangle is read.
        B: Right-hand sides (n,), (n, k), or a batch of them.
        iterative_refinement: Whether to correct X, held in float64, by residuals in float64 until
            it no longer improves: X then has the precision of A for condition numbers up to about
            1 / eps.

    Raises:
        NotPositiveDefiniteError: A matrix is not positive definite.
        ShapeError: The shapes do not fit.
    """
    work = square_matrix("solve_spd", "A", A)
    right, vectors = right_side("solve_spd", A, B)
    try:
        factor = run_cholesky("solve_spd", work)
    except TorchLinAlgError as error:
        raise _definite_error("solve_spd", error) from None
    columns = columns_of(right, vectors)
    found = with_factor(factor, columns)
    if iterative_refinement:
        found = refined(work, factor, columns, found)
    return restored(found.squeeze(-1) if vectors else found, A.dtype)


def inv(A: Tensor) -> Tensor:
    """Return the inverses of square matrices.

    Raises:
        SingularMatrixError: A matrix is singular.
        ShapeError: A is not square.
    """
    work = square_matrix("inv", "A", A)
    try:
        if kernels_wanted():
            eye = torch.eye(work.shape[-1], dtype=work.dtype, device=work.device)
            found = run_lu_solve("inv", work, eye.expand_as(work))
        else:
            found = torch.linalg.inv(work)
    except TorchLinAlgError as error:
        raise _inverse_error("inv", error) from None
    return restored(found, A.dtype)


@in_full_precision
def inv_spd(A: Tensor) -> Tensor:
    """Return the inverses of symmetric (Hermitian) positive definite matrices.

    Raises:
        NotPositiveDefiniteError: A matrix is not positive definite.
        ShapeError: A is not square.
    """
    work = square_matrix("inv_spd", "A", A)
    try:
        factor = run_cholesky("inv_spd", work)
    except TorchLinAlgError as error:
        raise _definite_error("inv_spd", error) from None
    # torch's forward-mode derivative of ``cholesky_inverse`` is not that of the inverse.
    if inert(work) and not kernels_wanted():
        return restored(torch.cholesky_inverse(factor), A.dtype)
    eye = torch.eye(work.shape[-1], dtype=work.dtype, device=work.device)
    return restored(with_factor(factor, eye.expand_as(work)), A.dtype)


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
            found = run_pinv("pinv", work, _or_usual(rcond, work))[0]
        else:
            found = pseudo_inverse(work, _or_usual(rcond, work))
            if not only_finite(found):
                finite("pinv", "A", work)
        return restored(found, A.dtype)
    except TorchLinAlgError as error:
        if isinstance(error, LinAlgError):
            raise
        finite("pinv", "A", work)
        raise LinAlgError(f"pinv: {error}") from None


@in_full_precision
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None) -> LeastSquares:
    """Return X that minimizes the norm of ``A @ X - B``, of least norm if there are several.

    Args:
        A: Matrices (m, n), of any rank.
        B: Right-hand sides (m,), (m, k), or a batch of them.
        rcond: Singular values up to ``rcond`` times the largest count as zero; None for
            ``eps * max(m, n)``.

    Raises:
        NotFiniteError: A or B has a NaN or an infinity.
        FlagError: rcond is negative.
        ShapeError: The shapes do not fit.
    """
    work = any_matrix("lstsq", "A", A)
    _cutoff("lstsq", rcond)
    right, vectors = right_side("lstsq", A, B)
    columns = columns_of(right, vectors)
    cutoff = _or_usual(rcond, work)
    # LAPACK reports NaN and infinity as wrong arguments.
    finite("lstsq", "A", work)
    finite("lstsq", "B", columns)
    try:
        # A graph takes no results of LAPACK's least squares, whose shapes depend on values.
        if work.is_cpu and not kernels_wanted() and not torch.compiler.is_compiling():
            solution, rank, s = _lapack_lstsq(work, columns, cutoff)
        else:
            inverse, s = run_pinv("lstsq", work, cutoff)
            solution, rank = inverse @ columns, (s > cutoff * s[..., :1]).sum(-1)
    except TorchLinAlgError as error:
        if isinstance(error, LinAlgError):
            raise
        raise LinAlgError(f"lstsq: {error}") from None
    left_over = torch.linalg.vector_norm(work @ solution - columns, dim=-2) ** 2
    if vectors:
        solution, left_over = solution.squeeze(-1), left_over.squeeze(-1)
    return LeastSquares(
        restored(solution, A.dtype),
        restored(left_over, A.dtype),
        rank,
        restored(s, A.dtype),
    )


def det(A: Tensor) -> Tensor:
    """Return the determinants of square matrices; 1 for a matrix without rows."""
    no_kernel("det")
    work = square_matrix("det", "A", A)
    if not work.numel():  # torch's has no gradient there
        return restored(1 + work.sum((-2, -1)), A.dtype)
    return restored(torch.linalg.det(work), A.dtype)


def slogdet(A: Tensor) -> SignLogDet:
    """Return the signs of determinants, and the logarithms of their magnitudes.

    A singular matrix has sign 0 and logarithm ``-inf``.
    """
    no_kernel("slogdet")
    sign, logarithm = torch.linalg.slogdet(square_matrix("slogdet", "A", A))
    return SignLogDet(restored(sign, A.dtype), restored(logarithm, A.dtype))


def _lapack_lstsq(a: Tensor, columns: Tensor, rcond: float) -> tuple[Tensor, Tensor, Tensor]:
    batch = batch_shape(a, columns)
    found = torch.linalg.lstsq(
        a.expand(*batch, *a.shape[-2:]),
        columns.expand(*batch, *columns.shape[-2:]),
        rcond=rcond,
        driver="gelsd",
    )
    return found.solution, found.rank, found.singular_values


def _or_usual(rcond: float | None, a: Tensor) -> float:
    """Return the cutoff of singular values; LAPACK's for None."""
    return torch.finfo(a.dtype).eps * max(a.shape[-2:]) if rcond is None else rcond


def _cutoff(function: str, rcond: float | None) -> None:
    if rcond is not None and not rcond >= 0:
        raise FlagError(f"{function}: rcond must not be negative, got {rcond}")


def _inverse_error(function: str, error: Exception) -> Exception:
    return error if isinstance(error, LinAlgError) else singular(function, "A", error)


def _definite_error(function: str, error: Exception) -> Exception:
    return error if isinstance(error, LinAlgError) else not_positive_definite(function, "A", error)
