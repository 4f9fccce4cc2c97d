"""Factorizations: Cholesky, LU and Schur form; QR is in ``orthogonal``, SVD in ``singular_values``.

float16 and bfloat16 are computed in float32 and rounded back; float32, float64 and complex dtypes
are unchanged. All but ``schur`` take any leading batch dimensions.
"""

from __future__ import annotations

from cmath import isnan
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.linalg import solve_triangular

from trnblas import trsm
from trnsci.core.arguments import not_negative
from trnsci.core.backend.derivatives import Gradients, Needed, Tangents
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import ConvergenceError, DerivativeError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.examples import Case
from trnsci.core.numbers.conversions import array_of, complex_dtype, widest
from trnsci.core.numbers.planes import embedded, parts
from trnsci.core.numbers.values import concrete, finite, inert, only_finite, untraced
from trnsci.core.testing import random_tensor
from trnsci.core.tiles.hardware import TILE
from trnsolver._factors.forms import by_form, joined_blocks, with_real_diagonal
from trnsolver._library import kernels_wanted, no_kernel
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import (
    any_matrix,
    batch_of,
    chosen,
    finite_below,
    not_positive_definite,
    restored,
    restored_parts,
    square_matrix,
)
from trnsolver.orthogonal import PivotedQR, QRFactors, cholqr2, qr
from trnsolver.singular_values import SVDFactors, svd, svdvals

__all__ = [
    "LUFactors",
    "PivotedQR",
    "QRFactors",
    "SVDFactors",
    "Schur",
    "cholesky",
    "cholqr2",
    "lu",
    "qr",
    "schur",
    "svd",
    "svdvals",
]


class LUFactors(NamedTuple):
    """``A = P @ L @ U``: a permutation matrix, unit lower and upper triangular factors."""

    P: Tensor
    L: Tensor
    U: Tensor


class Schur(NamedTuple):
    """``A = Q @ T_ @ Q.mH``: a (quasi-)triangle and a unitary matrix, in the order of SciPy."""

    T_: Tensor
    Q: Tensor


def cholesky(A: Tensor, upper: bool = False) -> Tensor:
    """Return L with ``A = L @ L.mH``, or the upper U with ``A = U.mH @ U``.

    Args:
        A: Symmetric (Hermitian) positive definite matrices, of which the lower triangle is read.
        upper: Whether to return the upper factor.

    Raises:
        NotPositiveDefiniteError: A matrix is not positive definite, or has a NaN there.
        ShapeError: A is not square.

    Example:
        >>> cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    work = square_matrix("cholesky", "A", A)
    factor = restored(run_cholesky("cholesky", work), A.dtype)
    return factor.mH.resolve_conj() if upper else factor


def lu(A: Tensor) -> LUFactors:
    """Return P, L and U with ``A = P @ L @ U``, by partial pivoting.

    For a singular matrix U has a zero on its diagonal. NaN propagates to L and U. As
    in LAPACK, a pivot of a complex matrix has the largest ``|re| + |im|``. So entries of L are at
    most sqrt(2), and on kernels at most sqrt(2) times 1 + 2^-15.

    Args:
        A: Matrices (m, n); L is (m, k) and U (k, n) with ``k = min(m, n)``.

    Example:
        >>> P, L, U = lu(torch.tensor([[1.0, 2.0], [4.0, 4.0]]))
        >>> U
        tensor([[4., 4.],
                [0., 1.]])
    """
    work = any_matrix("lu", "A", A)
    p, lower, upper = LU.of(work)
    return LUFactors(*restored_parts((p.detach(), lower, upper), A))


@untraced()
def schur(A: Tensor, tol: float = 1e-10, *, output: str = "real") -> Schur:
    """Return T and Q with ``A = Q @ T @ Q.mH``, Q unitary.

    For a real A, T is real and upper triangular except for 2 x 2 blocks of complex pairs, or with
    ``output="complex"`` complex and upper triangular. It is computed by LAPACK on the host, to the
    precision of A, and has no derivatives.

    Args:
        A: A square matrix, or a batch, which is computed one matrix at a time.
        tol: Ignored, for compatibility with older releases.
        output: ``"real"`` or ``"complex"``.

    Raises:
        FlagError: tol is negative, or output is another one.
        ShapeError: A is not square.
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        DerivativeError: A is being differentiated.
    """
    no_kernel("schur")
    not_negative("schur", tol=tol)
    work = square_matrix("schur", "A", A)
    chosen("schur", "output", output, ("real", "complex"))
    if not inert(work):
        raise DerivativeError("schur: A must not be differentiated or traced")
    finite("schur", "A", work)
    dtype = complex_dtype(work.dtype) if output == "complex" else work.dtype
    host = work.cpu().to(dtype)
    if work.ndim == 2:
        t, q = _schur_form(array_of(host))
    else:
        t, q = torch.empty(2, *work.shape, dtype=dtype, device=work.device)
        matrices = array_of(batch_of(host))
        for place, (into_t, into_q) in enumerate(zip(batch_of(t), batch_of(q), strict=True)):
            form = _schur_form(matrices[place])
            into_t.copy_(form[0])
            into_q.copy_(form[1])
    if work.device != t.device:
        t, q = t.to(work.device), q.to(work.device)
    return Schur(t, q) if t.is_complex() else Schur(*restored_parts((t, q), A))


def _schur_form(matrix: Any) -> tuple[Tensor, Tensor]:
    """Return T and Q of a square finite array by SciPy; torch has no routine for them."""
    from scipy.linalg import LinAlgError, schur

    if not matrix.size:
        return torch.from_numpy(matrix.copy()), torch.from_numpy(matrix.copy())
    try:
        t, q = schur(matrix, check_finite=False)
    except LinAlgError as error:
        raise ConvergenceError(f"schur: {error}") from None
    return torch.from_numpy(t), torch.from_numpy(q)


# -- factorizations of validated matrices, on torch or on kernels ----------------------------------


def run_cholesky(function: str, a: Tensor, name: str = "A") -> Tensor:
    """Return lower factors; the lower triangle is read.

    Raises:
        NotPositiveDefiniteError: A matrix has no factor.
    """
    try:
        if kernels_wanted():
            factor = CHOLESKY.of(a)
            if only_finite(factor.diagonal(dim1=-2, dim2=-1)):
                return factor
        else:
            factor = torch.linalg.cholesky(a)
            if not concrete(a) or not _has_nan(factor):
                return factor
    except TorchLinAlgError as error:
        raise not_positive_definite(function, name, error) from None
    if kernels_wanted():
        finite_below(function, name, a)
    raise not_positive_definite(function, name, "the factor has no real diagonal")


def factor_solved(factor: Tensor, right: Tensor, adjoint: bool = False) -> Tensor:
    """Return the solution of a system with a lower factor L, or with L^H if ``adjoint``."""
    if kernels_wanted():
        return trsm(1.0, factor, right, uplo="lower", trans="C" if adjoint else "N")
    return solve_triangular(factor.mH if adjoint else factor, right, upper=adjoint)


def _has_nan(factor: Tensor) -> bool:
    """Return whether a Cholesky factor has a NaN, by its diagonal.

    OpenBLAS, and cuSOLVER's batched routines, report only diagonal entries at or below zero, not
    NaN.
    """
    if factor.ndim == 2:
        return isnan(factor.trace().item())
    return isnan(factor.diagonal(dim1=-2, dim2=-1).sum().item())


def _cholesky(a: Tensor) -> Tensor:
    return torch.linalg.cholesky(a)


def _cholesky_by_parts(real: Callable[..., Tensor], a: Tensor) -> Tensor:
    """Return the factor that is unique: the real form of L is lower, with a positive diagonal."""
    found: Tensor = by_form(real, with_real_diagonal(a))
    return found


def _cholesky_backward(grad: Tensor, needed: Needed, a: Tensor, *, result: Tensor) -> Gradients:
    """Return L^-H X L^-1, with X half of the lower triangle of L^H G and its mirror, as in torch.

    If the diagonal of L^H G is not real, that of X is not either, and the result is not Hermitian.
    """
    lower = rules.product(result.mH, grad).tril()
    inner = rules.solution(result.mH, 0.5 * (lower + lower.tril(-1).mH), upper=True)
    return (rules.solution(result, inner, upper=False, left=False),)


def _cholesky_jvp(tangents: Tangents, a: Tensor, *, result: Tensor) -> Tensor:
    """Return L X for the tangent T of A.

    X is the lower triangle of L^-1 T L^-H, with half its diagonal.
    """
    inner = rules.solution(result, rules.given(tangents[0]), upper=False)
    inner = rules.solution(result.mH, inner, upper=True, left=False)
    return rules.product(result, 0.5 * (inner.tril() + inner.tril(-1)))


def cholesky_launch(launch: Launcher, a: Tensor) -> Tensor:
    """Return lower factors (b, n, n), with NaN on the diagonal where there is none."""
    from trnsolver._kernels.cholesky import cholesky
    from trnsolver._kernels.limits import cholesky_instructions

    # Powers of two scale the diagonal to magnitude 1, so that no pivot of a graded matrix is small.
    diagonal = a.diagonal(dim1=-2, dim2=-1)
    root = batches.root_of_power(diagonal).unsqueeze(-1)
    a = a / root / root.mT
    batch, n = a.shape[0], a.shape[-1]
    copies = max(1, min(batch, TILE // n))
    length = -(-cholesky_instructions(n) // copies)
    found: Tensor = batches.launched(launch, cholesky, (a,), length, copies)
    return found * root


def _cholesky_product(a: Tensor) -> Tensor:
    factor = cholesky(a).double()
    return factor @ factor.mT


CHOLESKY = batches.Batched(
    "cholesky",
    reference=_cholesky,
    launch=cholesky_launch,
    backward=_cholesky_backward,
    jvp=_cholesky_jvp,
    by_parts=_cholesky_by_parts,
    flops=batches.cubes(1 / 3),
    unsuited=batches.up_to("CHOLESKY_ORDER"),
    refined="trnsolver._doublefloat.triangles:cholesky",
    examples={
        "cho_factor": batches.definite_example,
        "cholesky": batches.definite_example,
        "inv_spd": batches.definite_example,
        "solve_spd": batches.definite_system,
    },
    evidence=(
        Case(
            "cholesky",
            "Cholesky factor",
            lambda: (batches.definite(130),),
            _cholesky_product,
            lambda a: a,
            "the matrix itself",
            batches.rows_bound,
        ),
    ),
)


def _lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p, lower, upper = torch.linalg.lu(a)
    return p, lower, upper


def _lu_by_parts(real: Callable[..., Any], a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p, lower, upper = real(parts(a), True)
    return p.to(a.dtype), joined_blocks(lower), joined_blocks(upper)


def _lu_backward(grads: Gradients, needed: Needed, a: Tensor, *, result: Any) -> Gradients:
    """Return P L^-T (tril(L^T Gl, -1) + triu(Gu U^T)) U^-T, with the squares of L and U.

    Rows below them are ``L2 = A2 U^-1``, columns beside them ``U2 = L^-1 A2``.
    """
    p, lower, upper = result
    k = upper.shape[-2]
    for_lower, for_upper = rules.or_zeros(grads[1], lower), rules.or_zeros(grads[2], upper)
    square_l, square_u = lower[..., :k, :], upper[..., :k]
    below = rules.solution(square_u.mH, for_lower[..., k:, :], upper=False, left=False)
    beside = rules.solution(square_l.mH, for_upper[..., k:], upper=True)
    for_lower = for_lower[..., :k, :] - rules.product(beside, upper[..., k:].mH)
    for_upper = for_upper[..., :k] - rules.product(lower[..., k:, :].mH, below)
    inner = rules.product(square_l.mH, for_lower).tril(-1)
    inner = inner + rules.product(for_upper, square_u.mH).triu()
    inner = rules.solution(square_l.mH, inner, upper=True)
    inner = rules.solution(square_u.mH, inner, upper=False, left=False)
    inner = torch.cat([inner, below], -2)
    return (p @ torch.cat([inner, beside], -1) if a.shape[-1] > k else p @ inner,)


def _lu_jvp(tangents: Tangents, a: Tensor, *, result: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return L tril(X, -1) and triu(X) U with X = L^-1 P^T T U^-1; P does not move."""
    p, lower, upper = result
    k = upper.shape[-2]
    given, square_l, square_u = p.mH @ rules.given(tangents[0]), lower[..., :k, :], upper[..., :k]
    inner = rules.solution(square_l, given[..., :k, :k], upper=False)
    inner = rules.solution(square_u, inner, upper=True, left=False)
    of_lower, of_upper = (
        rules.product(square_l, inner.tril(-1)),
        rules.product(inner.triu(), square_u),
    )
    below = given[..., k:, :k] - rules.product(lower[..., k:, :], of_upper)
    beside = given[..., :k, k:] - rules.product(of_lower, upper[..., k:])
    below = rules.solution(square_u, below, upper=True, left=False)
    beside = rules.solution(square_l, beside, upper=False)
    return torch.zeros_like(p), torch.cat([of_lower, below], -2), torch.cat([of_upper, beside], -1)


def _lu_launch(launch: Launcher, a: Tensor, paired: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return P (b, m, m), L (b, m, k) and U (b, k, n).

    If ``paired``, a is ``parts`` (b, m, 2 n) of complex matrices, and L and U are real forms. U of
    a singular matrix has zero, or nearly zero, on its diagonal.
    """
    from trnsolver._kernels.limits import lu_instructions
    from trnsolver._kernels.lu import lu

    step = 2 if paired else 1
    m, n = a.shape[-2], a.shape[-1] // step
    order, k = max(m, n), min(m, n)
    # Rows of zeros are no pivots before all others are, and columns of zeros change nothing.
    a, root = batches.scaled(torch.nn.functional.pad(a, (0, step * (order - n), 0, order - m)))
    length = step * lu_instructions(order)
    p, lower, upper = batches.launched(launch, lu, (a,), length, paired)
    upper = upper * root.unsqueeze(-1) * root.unsqueeze(-1)
    return (
        p[:, :m, : step * m : step],
        lower[:, : step * m, : step * k],
        upper[:, : step * k, : step * n],
    )


def _lu_products(*matrices: Tensor) -> tuple[Tensor, ...]:
    return tuple(p @ lower @ upper for p, lower, upper in (map(widest, lu(a)) for a in matrices))


LU = batches.Batched(
    "lu",
    reference=_lu,
    launch=_lu_launch,
    backward=_lu_backward,
    jvp=_lu_jvp,
    by_parts=_lu_by_parts,
    flops=batches.cubes(2 / 3),
    unsuited=batches.up_to("LU_ORDER"),
    refined="trnsolver._doublefloat.triangles:lu",
    examples={
        "inv": batches.definite_example,
        "lu": batches.definite_example,
        "lu_factor": batches.definite_example,
        "solve": batches.definite_system,
    },
    evidence=(
        Case(
            "lu",
            "LU with pivots",
            lambda: tuple(random_tensor(25, 25, dtype=d) for d in (torch.float32, torch.complex64)),
            _lu_products,
            lambda *matrices: matrices,
            "the matrix itself",
            lambda a, b: batches.rows_bound(embedded(b)),  # sums have twice as many terms
        ),
    ),
)
