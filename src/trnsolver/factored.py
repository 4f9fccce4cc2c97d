"""Factor a matrix once and solve systems with it often: ``lu_factor``, ``cho_factor``.

Factors are kept in the dtype of the matrix and on its device, so that a NeuronCore keeps those that
it computed. Solutions have derivatives by the factors, and through them by the matrix, and by B.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from trnblas import trsm
from trnsci.core.arguments import floating
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import DTypeError, ShapeError
from trnsci.core.examples import Example, example
from trnsci.core.numbers.planes import real_length
from trnsci.core.numbers.values import concrete, only_finite
from trnsci.core.testing import random_tensor
from trnsolver._library import LIBRARY, kernels_wanted
from trnsolver._paths import batches
from trnsolver._paths.arguments import (
    at_level,
    batch_of,
    batch_shape,
    chosen,
    columns_of,
    in_full_precision,
    restored,
    right_side,
    singular,
    square_matrix,
)
from trnsolver.factor import LU, run_cholesky

__all__ = [
    "CholeskyFactor",
    "PivotedLU",
    "cho_factor",
    "cholesky_solve",
    "lu_factor",
    "lu_solve",
]


class PivotedLU(NamedTuple):
    """``A[rows] = L @ U`` of square matrices, for ``lu_solve``.

    Attributes:
        LU: L below the diagonal, without its unit diagonal, and U on and above it.
        rows: The row of A that is each row of L @ U: integers (..., n).
        scales: On kernels, powers of two by which the rows (..., n, 1) and columns (..., 1, n) of A
            were divided before; else None.
    """

    LU: Tensor
    rows: Tensor
    scales: tuple[Tensor, Tensor] | None = None


class CholeskyFactor(NamedTuple):
    """``A = L @ L.mH``, for ``cholesky_solve``."""

    L: Tensor


@in_full_precision
def lu_factor(A: Tensor) -> PivotedLU:
    """Return the LU factors of square matrices by partial pivoting, for ``lu_solve``.

    ``lu`` returns the permutation and the triangles as matrices, also of other shapes.

    Args:
        A: Square matrices.

    Raises:
        SingularMatrixError: A matrix is singular.
        ShapeError: A is not square.

    Example:
        >>> factors = lu_factor(torch.tensor([[0.0, 2.0], [4.0, 4.0]]))
        >>> factors.rows, lu_solve(factors, torch.tensor([2.0, 8.0]))
        (tensor([1, 0]), tensor([1., 1.]))
    """
    work = square_matrix("lu_factor", "A", A)
    lu, rows, scales = run_lu_factor("lu_factor", work)
    return PivotedLU(restored(lu, A.dtype), rows, scales)


@in_full_precision
def lu_solve(factors: PivotedLU, B: Tensor, *, trans: str = "N") -> Tensor:
    """Return X with ``op(A) @ X = B``, from the factors of A.

    Args:
        factors: What ``lu_factor`` returned.
        B: Right-hand sides (n,), (n, k), or a batch of them, in the dtype of the factors.
        trans: ``"N"`` for A, ``"T"`` for its transpose, ``"C"`` for its adjoint.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: ``factors`` is something else, or B has another dtype.
        FlagError: ``trans`` is none of the three.
    """
    _kind("lu_solve", factors, PivotedLU, "lu_factor")
    floating("lu_solve", "factors", factors.LU)
    if factors.rows.shape != factors.LU.shape[:-1]:
        raise ShapeError(
            f"lu_solve: factors must be of matrices {tuple(factors.LU.shape)} and their rows, "
            f"got rows of shape {tuple(factors.rows.shape)}"
        )
    chosen("lu_solve", "trans", trans, ("N", "T", "C"))
    right, vectors = right_side("lu_solve", factors.LU, B)
    columns = columns_of(right, vectors)
    lu = at_level(factors.LU)
    columns = columns.conj() if trans == "T" else columns
    found = run_lu_solve(PivotedLU(lu, *factors[1:]), columns, trans != "N")
    found = found.conj().resolve_conj() if trans == "T" else found
    return restored(found.squeeze(-1) if vectors else found, B.dtype)


@in_full_precision
def cho_factor(A: Tensor) -> CholeskyFactor:
    """Return the Cholesky factors of positive definite matrices, for ``cholesky_solve``.

    Args:
        A: Symmetric (Hermitian) positive definite matrices, of which the lower triangle is read.

    Raises:
        NotPositiveDefiniteError: A matrix is not positive definite, or has a NaN there.
        ShapeError: A is not square.
    """
    work = square_matrix("cho_factor", "A", A)
    return CholeskyFactor(restored(run_cholesky("cho_factor", work), A.dtype))


@in_full_precision
def cholesky_solve(factor: CholeskyFactor, B: Tensor) -> Tensor:
    """Return X with ``A @ X = B``, from the Cholesky factor of A.

    Args:
        factor: What ``cho_factor`` returned; ``CholeskyFactor(cholesky(A))`` is the same.
        B: Right-hand sides (n,), (n, k), or a batch of them, in the dtype of the factor.

    Raises:
        ShapeError: The shapes do not fit.
        DTypeError: ``factor`` is something else, or B has another dtype.

    Example:
        >>> factor = cho_factor(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        >>> cholesky_solve(factor, torch.tensor([6.0, 7.0]))
        tensor([1., 1.])
    """
    _kind("cholesky_solve", factor, CholeskyFactor, "cho_factor")
    floating("cholesky_solve", "factor", factor.L)
    right, vectors = right_side("cholesky_solve", factor.L, B)
    found = run_cholesky_solve(at_level(factor.L), columns_of(right, vectors))
    return restored(found.squeeze(-1) if vectors else found, B.dtype)


def _kind(function: str, value: object, kind: type, maker: str) -> None:
    if not isinstance(value, kind):
        name = "factors" if kind is PivotedLU else "factor"
        raise DTypeError(
            f"{function}: {name} must be what {maker} returns, got {type(value).__name__}"
        )


# -- factors and solutions of validated matrices, on torch or on kernels ---------------------------


def run_lu_factor(function: str, a: Tensor) -> PivotedLU:
    """Return the factors of square matrices that are not singular.

    On kernels rows and columns are scaled by powers of two to largest entries around 1, so that the
    pivots of a graded matrix are not zero in float32.
    """
    scales = None
    choice = kernels_wanted()
    if choice is not None and choice.path != "pytorch" and a.numel():
        rows = _powers(a.detach().abs().amax(-1, keepdim=True))
        scales = rows, _powers((a.detach() / rows).abs().amax(-2, keepdim=True))
        p, lower, upper = LU.of(a / scales[0] / scales[1])
        lu = lower.tril(-1) + upper
    else:
        lu, pivots, _ = torch.linalg.lu_factor_ex(a)
        p = torch.lu_unpack(lu.detach(), pivots, unpack_data=False)[0]
    if concrete(lu) and lu.numel():
        diagonal = lu.detach().diagonal(dim1=-2, dim2=-1)
        failed = bool((diagonal == 0).any())
        if failed or (scales and not only_finite(diagonal) and only_finite(a)):
            raise singular(function, "A", "a pivot is zero")
    rows = p.real.argmax(-2) if p.numel() else p.new_zeros(p.shape[:-1], dtype=torch.long)
    return PivotedLU(lu, rows, scales)


def run_lu_solve(factors: PivotedLU, columns: Tensor, adjoint: bool = False) -> Tensor:
    """Return the solution for A, or for A^H."""
    lu, rows, scales = factors
    first, last = (1, 1) if scales is None else (scales[0], scales[1].mT)
    first, last = (last, first) if adjoint else (first, last)
    columns = columns if scales is None else columns / first
    if adjoint:
        found = _in_order(_solved(lu, columns, True, True), rows.argsort(-1))
    else:
        found = _solved(lu, _in_order(columns, rows), True, False)
    return found if scales is None else found / last


def run_cholesky_solve(factor: Tensor, columns: Tensor) -> Tensor:
    """Return the solution for a lower Cholesky factor."""
    return _solved(factor, columns, False, False)


def _in_order(columns: Tensor, rows: Tensor) -> Tensor:
    """Return rows of matrices in an order that each has of its own."""
    shape = batch_shape(columns, rows.unsqueeze(-1))
    columns = columns.expand(*shape, *columns.shape[-2:])
    return columns.gather(-2, rows.unsqueeze(-1).expand(columns.shape))


def _powers(sizes: Tensor) -> Tensor:
    """Return the powers of two near numbers, 1 for those not positive and finite."""
    usual = (sizes > 0) & (sizes < torch.inf)
    # A reciprocal of the largest power is not a normal number.
    exponents = torch.log2(torch.where(usual, sizes, 1.0)).floor().clamp(max=125)
    return torch.exp2(exponents)


def _solved(factor: Tensor, columns: Tensor, pivoted: bool, adjoint: bool) -> Tensor:
    """Return the solution for the triangles in ``factor``; see ``_by_triangles``."""
    if not kernels_wanted():
        return _by_triangles(factor, columns, pivoted, adjoint)
    batch = batch_shape(factor, columns)
    factor = factor.expand(*batch, *factor.shape[-2:])
    columns = columns.expand(*batch, *columns.shape[-2:])
    if LIBRARY.widening():
        return _by_levels(factor, columns, pivoted, adjoint)
    found: Tensor = TRIANGLES(batch_of(factor), batch_of(columns), pivoted, adjoint)
    return found.reshape(columns.shape)


def _by_triangles(factor: Tensor, columns: Tensor, pivoted: bool, adjoint: bool) -> Tensor:
    """Return the solution for M = L U if ``pivoted``, else for M = L L^H.

    Args:
        factor: L and U in one matrix, L with a unit diagonal; or L.
        columns: Right-hand sides.
        pivoted: Whether the factor has two triangles.
        adjoint: Whether M^H is meant, which for L L^H is the same.
    """
    if not pivoted:
        inner = solve_triangular(factor, columns, upper=False)
        return solve_triangular(factor.mH, inner, upper=True)
    if adjoint:
        inner = solve_triangular(factor.mH, columns, upper=False)
        return solve_triangular(factor.mH, inner, upper=True, unitriangular=True)
    inner = solve_triangular(factor, columns, upper=False, unitriangular=True)
    return solve_triangular(factor, inner, upper=True)


def _by_levels(factor: Tensor, columns: Tensor, pivoted: bool, adjoint: bool) -> Tensor:
    """Return what ``_by_triangles`` does, by two solutions of trnblas, which has the levels."""
    if not pivoted:
        inner = trsm(1.0, factor, columns, uplo="lower")
        return trsm(1.0, factor, inner, uplo="lower", trans="C")
    if adjoint:
        inner = trsm(1.0, factor, columns, uplo="upper", trans="C")
        return trsm(1.0, factor, inner, uplo="lower", trans="C", diag="unit")
    inner = trsm(1.0, factor, columns, uplo="lower", diag="unit")
    return trsm(1.0, factor, inner, uplo="upper")


def _split(factor: Tensor) -> tuple[Tensor, Tensor]:
    """Return L, with its unit diagonal, and U."""
    eye = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
    return factor.tril(-1) + eye, factor.triu()


def _backward(
    grad: Tensor,
    needed: Needed,
    factor: Tensor,
    columns: Tensor,
    pivoted: bool,
    adjoint: bool,
    *,
    result: Tensor,
) -> Gradients:
    """Return the gradients by the triangles and by B: Y = M^-H G, and -Y X^H by M."""
    pulled = TRIANGLES(factor, grad, pivoted, not adjoint)
    for_factor = None
    if needed[0]:
        outer = -(result @ pulled.mH if adjoint else pulled @ result.mH)
        if pivoted:
            lower, upper = _split(factor)
            for_factor = (outer @ upper.mH).tril(-1) + (lower.mH @ outer).triu()
        else:
            for_factor = ((outer + outer.mH) @ factor.tril()).tril()
    return for_factor, pulled if needed[1] else None, None, None


def _jvp(
    tangents: Tangents,
    factor: Tensor,
    columns: Tensor,
    pivoted: bool,
    adjoint: bool,
    *,
    result: Tensor,
) -> Tensor:
    """Return M^-1 (TB - TM X), with the tangent TM of the product of the triangles."""
    moved = torch.zeros_like(columns) if tangents[1] is None else tangents[1]
    if tangents[0] is not None:
        if pivoted:
            lower, upper = _split(factor)
            change = tangents[0].tril(-1) @ upper + lower @ tangents[0].triu()
        else:
            half = tangents[0].tril() @ factor.tril().mH
            change = half + half.mH
        moved = moved - (change.mH if adjoint else change) @ result
    found: Tensor = TRIANGLES(factor, moved, pivoted, adjoint)
    return found


def _launch(
    launch: Launcher, factor: Tensor, columns: Tensor, pivoted: bool, adjoint: bool
) -> Tensor:
    """Return solutions (b, n, k) by two launches."""
    from trnblas.nki.launches import triangular_solution as solved

    if not pivoted:
        inner = solved(launch, factor, columns, False, "N", False)
        return solved(launch, factor, inner, False, "C", False)
    if adjoint:
        inner = solved(launch, factor, columns, True, "C", False)
        return solved(launch, factor, inner, False, "C", True)
    inner = solved(launch, factor, columns, False, "N", True)
    return solved(launch, factor, inner, True, "N", False)


def _unsuited(factor: Tensor, *rest: Any) -> str:
    from trnblas.nki.launches import MAX_ORDER

    most = MAX_ORDER // real_length(factor, 1)
    return "" if factor.shape[-1] <= most else f"the kernel takes orders up to {most}"


def _factored_example(maker: Any) -> Example:
    matrix = batches.definite_example().args[0]
    return example(maker(matrix), random_tensor(4, seed=3))


def _system() -> tuple[Tensor, Tensor]:
    return batches.definite(130), random_tensor(130, 3, seed=2)


TRIANGLES = batches.Batched(
    "triangles",
    dtypes=("float32", "complex64"),
    reference=_by_triangles,
    launch=_launch,
    backward=_backward,
    jvp=_jvp,
    flops=lambda factor, columns, *flags: 2.0 * columns.numel() * factor.shape[-1],
    unsuited=_unsuited,
    examples={
        "cholesky_solve": lambda: _factored_example(cho_factor),
        "lu_solve": lambda: _factored_example(lu_factor),
    },
)
