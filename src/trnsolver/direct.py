"""Systems, inverses and determinants; ``factored`` and ``least_squares`` have other solutions.

A and B have one dtype. float16 and bfloat16 are solved in float32 and rounded back.
"""

from __future__ import annotations

from typing import NamedTuple, overload

import torch
from torch import Tensor

from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.iterations import OnFailure
from trnsci.core.numbers.values import inert
from trnsolver._doublefloat.operations import refined_determinant, refined_solution
from trnsolver._library import LIBRARY, kernels_wanted, no_kernel
from trnsolver._paths.arguments import (
    columns_of,
    in_full_precision,
    restored,
    right_side,
    singular,
    square_matrix,
)
from trnsolver.factor import run_cholesky
from trnsolver.factored import (
    CholeskyFactor,
    PivotedLU,
    cho_factor,
    cholesky_solve,
    lu_factor,
    lu_solve,
    run_cholesky_solve,
    run_lu_factor,
    run_lu_solve,
)
from trnsolver.least_squares import LeastSquares, lstsq, pinv
from trnsolver.refinement import AccurateSolution, accurate_solution

__all__ = [
    "CholeskyFactor",
    "LeastSquares",
    "PivotedLU",
    "SignLogDet",
    "cho_factor",
    "cholesky_solve",
    "det",
    "inv",
    "inv_spd",
    "lstsq",
    "lu_factor",
    "lu_solve",
    "pinv",
    "slogdet",
    "solve",
    "solve_spd",
]

_CORRECTIONS = 5


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
            solved = refined_solution if LIBRARY.widening() else _lu_solution
            found = solved("solve", work, columns_of(right, vectors))
            found = found.squeeze(-1) if vectors else found
        else:
            found = torch.linalg.solve(work, right)
    except TorchLinAlgError as error:
        raise singular("solve", "A", error) from None
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
    factor = run_cholesky("solve_spd", work)
    columns = columns_of(right, vectors)
    found = run_cholesky_solve(factor, columns)
    if iterative_refinement:
        found = _refined(work, factor, columns, found)
    return restored(found.squeeze(-1) if vectors else found, A.dtype)


@in_full_precision
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
            solved = refined_solution if LIBRARY.widening() else _lu_solution
            found = solved("inv", work, eye.expand_as(work))
        else:
            found = torch.linalg.inv(work)
    except TorchLinAlgError as error:
        raise singular("inv", "A", error) from None
    return restored(found, A.dtype)


@in_full_precision
def inv_spd(A: Tensor) -> Tensor:
    """Return the inverses of symmetric (Hermitian) positive definite matrices.

    Raises:
        NotPositiveDefiniteError: A matrix is not positive definite.
        ShapeError: A is not square.
    """
    work = square_matrix("inv_spd", "A", A)
    factor = run_cholesky("inv_spd", work)
    # torch's forward-mode derivative of ``cholesky_inverse`` is not that of the inverse.
    if inert(work) and not kernels_wanted():
        return restored(torch.cholesky_inverse(factor), A.dtype)
    eye = torch.eye(work.shape[-1], dtype=work.dtype, device=work.device)
    return restored(run_cholesky_solve(factor, eye.expand_as(work)), A.dtype)


def det(A: Tensor) -> Tensor:
    """Return the determinants of square matrices; 1 for a matrix without rows.

    A kernel computes them at the level ``doublefloat``.
    """
    work = square_matrix("det", "A", A)
    if LIBRARY.widening() and work.numel():
        return restored(refined_determinant(work, False)[0], A.dtype)
    no_kernel("det")
    if not work.numel():  # torch's has no gradient there
        return restored(1 + work.sum((-2, -1)), A.dtype)
    return restored(torch.linalg.det(work), A.dtype)


def slogdet(A: Tensor) -> SignLogDet:
    """Return the signs of determinants, and the logarithms of their magnitudes.

    A singular matrix has sign 0 and logarithm ``-inf``. A kernel computes them at the level
    ``doublefloat``.
    """
    work = square_matrix("slogdet", "A", A)
    if LIBRARY.widening() and work.numel():
        sign, logarithm = refined_determinant(work, True)
    else:
        no_kernel("slogdet")
        sign, logarithm = torch.linalg.slogdet(work)
    return SignLogDet(restored(sign, A.dtype), restored(logarithm, A.dtype))


def _refined(a: Tensor, factor: Tensor, columns: Tensor, found: Tensor) -> Tensor:
    """Return a solution after corrections by residuals in float64."""
    wide_dtype = torch.complex128 if a.is_complex() else torch.float64
    wide_a, wide_b, x = a.to(wide_dtype), columns.to(wide_dtype), found.to(wide_dtype)
    wide_a = wide_a.tril() + wide_a.tril(-1).mH
    for _ in range(_CORRECTIONS):
        x = x + run_cholesky_solve(factor, (wide_b - wide_a @ x).to(a.dtype)).to(wide_dtype)
    return x.to(a.dtype)


def _lu_solution(function: str, a: Tensor, columns: Tensor) -> Tensor:
    """Return the solution of square systems on kernels."""
    if not a.numel():
        return torch.linalg.solve(a, columns)  # which has gradients by both
    return run_lu_solve(run_lu_factor(function, a), columns)
