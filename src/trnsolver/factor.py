"""Factorizations: Cholesky, LU, QR and Schur form; singular values are in ``singular_values``.

float16 and bfloat16 are computed in float32 and rounded back; float32, float64 and complex dtypes
are unchanged. All but ``schur`` take any leading batch dimensions.
"""

from __future__ import annotations

from cmath import isnan
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnblas import gemm, trsm
from trnsci.core.errors import ConvergenceError, DerivativeError, ShapeError
from trnsci.core.errors.matrices import TorchLinAlgError
from trnsci.core.examples import Case
from trnsci.core.numbers.conversions import array_of, widest
from trnsci.core.numbers.planes import embedded, parts, real_length
from trnsci.core.numbers.values import concrete, finite, inert, only_finite, power_below, untraced
from trnsci.core.testing import random_tensor
from trnsolver._factors.forms import by_form, joined_blocks, with_real_diagonal
from trnsolver._library import kernels_wanted, no_kernel
from trnsolver._paths import batches
from trnsolver._paths import derivatives as rules
from trnsolver._paths.arguments import (
    any_matrix,
    batch_of,
    chosen,
    finite_below,
    in_full_precision,
    not_positive_definite,
    restored,
    restored_parts,
    square_matrix,
)
from trnsolver._paths.cuda.batched import batched_qr
from trnsolver._paths.cuda.launch import pays
from trnsolver.singular_values import SVDFactors, svd, svdvals

__all__ = [
    "LUFactors",
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

_FEW = 1 << 14
"""Number of elements up to which reflections are faster on a CPU than seven small products."""

_USUAL = (1e-8, 1e8)
"""Magnitudes of entries whose squares can be summed in float32."""

_NEARLY = 0.5
"""``cholqr2`` fails if a diagonal element of its second Cholesky factor differs from 1 by more. The
difference is at most 5/64 for condition numbers below ``eps ** -0.5 / 8`` (Yamamoto, Nakatsukasa,
Yanagisawa and Fukaya 2015)."""


class LUFactors(NamedTuple):
    """``A = P @ L @ U``: a permutation matrix, unit lower and upper triangular factors."""

    P: Tensor
    L: Tensor
    U: Tensor


class QRFactors(NamedTuple):
    """``A = Q @ R``: orthonormal columns and an upper triangle."""

    Q: Tensor
    R: Tensor


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
    return LUFactors(*restored_parts(run_lu(work), A))


def qr(A: Tensor) -> QRFactors:
    """Return the reduced Q (m, k) and R (k, n) with ``A = Q @ R`` and ``k = min(m, n)``.

    The signs of the diagonal of R are not normalized.

    Args:
        A: Matrices (m, n).
    """
    work = any_matrix("qr", "A", A)
    return QRFactors(*restored_parts(run_qr(work), A))


@in_full_precision
def cholqr2(A: Tensor) -> QRFactors:
    """Return Q and R by two Cholesky factorizations of Gram matrices (CholeskyQR2).

    R has a positive diagonal. Q is orthonormal to rounding for condition numbers of A below about
    ``eps ** -0.5``: 3e3 in float32, 6e7 in float64. For tall matrices it is several times faster
    than ``qr``, on a GPU many times. For small matrices on a CPU, where it would not be faster, the
    same factors are computed by reflections.

    Args:
        A: Matrices (m, n) with m >= n.

    Raises:
        NotPositiveDefiniteError: The Gram matrix is not positive definite in this precision: A is
            too ill-conditioned; use ``qr``.
        ShapeError: A has more columns than rows.
    """
    work = any_matrix("cholqr2", "A", A)
    m, n = work.shape[-2:]
    if m < n:
        raise ShapeError(
            f"cholqr2: A must have at least as many rows as columns, got shape {tuple(A.shape)}"
        )
    if kernels_wanted():
        return QRFactors(*restored_parts(_with_positive_diagonal(*run_qr(work)), A))
    if work.is_cpu and m * n <= _FEW:
        q, r = _with_positive_diagonal(*torch.linalg.qr(work))
        _independent(r)
        return QRFactors(*restored_parts((q, r), A))
    # Squares of extreme values overflow or underflow; scaling by a power of two is exact.
    unit = power_below(work)
    unit = 1.0 if _USUAL[0] < unit < _USUAL[1] else unit
    once, first, failed = _cholqr(work if unit == 1 else work / unit)
    q, second, again = _cholqr(once)
    if failed is not None and again is not None and second.numel():
        # If the columns of ``once`` are not nearly orthonormal, the first pass has failed.
        # Read one value only: each read waits for the device.
        off = torch.linalg.vector_norm(second.detach().diagonal(dim1=-2, dim2=-1) - 1, inf)
        failed = failed + again
        if not float(off + (failed.max() if failed.ndim else failed)) <= _NEARLY:
            reason = "columns are dependent, to rounding"
            raise not_positive_definite("cholqr2", "the Gram matrix of A", reason)
    r = second @ first
    return QRFactors(*restored_parts((q, r if unit == 1 else r * unit), A))


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
        ShapeError: A is not square.
        NotFiniteError: A has a NaN or an infinity.
        ConvergenceError: The algorithm did not converge.
        DerivativeError: A is being differentiated.
    """
    no_kernel("schur")
    work = square_matrix("schur", "A", A)
    chosen("schur", "output", output, ("real", "complex"))
    if not inert(work):
        raise DerivativeError("schur: A must not be differentiated or traced")
    finite("schur", "A", work)
    dtype = work.dtype.to_complex() if output == "complex" else work.dtype
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


def _with_positive_diagonal(q: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R with a positive diagonal of R, which only the kernel guarantees."""
    diagonal = r.detach().diagonal(dim1=-2, dim2=-1).real
    signs = torch.copysign(torch.ones_like(diagonal), diagonal)
    return q * signs.unsqueeze(-2), r * signs.unsqueeze(-1)


def _independent(r: Tensor) -> None:
    """Raise if the Gram matrix of the columns is not positive definite to rounding."""
    if not concrete(r) or not r.numel():
        return
    sizes = r.detach().diagonal(dim1=-2, dim2=-1).real
    least = float((sizes.amin(-1) / sizes.amax(-1)).min()) ** 2
    if not least > torch.finfo(r.dtype).eps:  # NaN is not
        reason = f"the squared diagonal of R falls to {least:.1g} of its largest"
        raise not_positive_definite("cholqr2", "the Gram matrix of A", reason)


def _cholqr(a: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return Q, R, and a mask of failed factorizations if values can be read."""
    gram, failed = a.mH @ a, None
    if not concrete(a):
        lower = torch.linalg.cholesky(gram)  # checks when there are values
    else:
        lower, failed = torch.linalg.cholesky_ex(gram)
    return torch.linalg.solve_triangular(lower.mH, a, upper=True, left=False), lower.mH, failed


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
    return torch.linalg.solve_triangular(factor.mH if adjoint else factor, right, upper=adjoint)


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


def _cholesky_product(a: Tensor) -> Tensor:
    factor = cholesky(a).double()
    return factor @ factor.mT


CHOLESKY = batches.Batched(
    "cholesky",
    reference=_cholesky,
    backward=rules.cholesky_backward,
    jvp=rules.cholesky_jvp,
    from_result=True,
    by_parts=_cholesky_by_parts,
    flops=batches.cubes(1 / 3),
    unsuited=batches.up_to("CHOLESKY_ORDER"),
    examples={
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


def run_lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U with ``a = P @ L @ U``."""
    p, lower, upper = LU.of(a) if kernels_wanted() else torch.linalg.lu(a)
    return p, lower, upper


def _lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p, lower, upper = torch.linalg.lu(a)
    return p, lower, upper


def _lu_by_parts(real: Callable[..., Any], a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p, lower, upper = real(parts(a), True)
    return p.to(a.dtype), joined_blocks(lower), joined_blocks(upper)


def _lu_products(*matrices: Tensor) -> tuple[Tensor, ...]:
    return tuple(p @ lower @ upper for p, lower, upper in (map(widest, lu(a)) for a in matrices))


LU = batches.Batched(
    "lu",
    reference=_lu,
    backward=rules.lu_backward,
    jvp=rules.lu_jvp,
    from_result=True,
    by_parts=_lu_by_parts,
    flops=batches.cubes(2 / 3),
    unsuited=batches.up_to("LU_ORDER"),
    examples={
        "inv": batches.definite_example,
        "lu": batches.definite_example,
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


def run_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reduced factors of matrices of any shape."""
    if not kernels_wanted():
        return (pays("qr", a) and batched_qr(a)) or tuple(torch.linalg.qr(a))
    rows, columns = a.shape[-2:]
    q, r = QR.of(a[..., : min(rows, columns)])
    if rows < columns:
        r = torch.cat([r, gemm(1.0, q, a[..., rows:], transA="C")], -1)
    return q, r


def _qr(a: Tensor) -> tuple[Tensor, Tensor]:
    q, r = torch.linalg.qr(a)
    return q, r


def _qr_unsuited(a: Tensor) -> str:
    from trnsolver._kernels.limits import qr_bytes

    return batches.too_large(qr_bytes(*(real_length(a, side) for side in a.shape[-2:])))


def _qr_by_parts(real: Callable[..., Any], a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factors with a positive diagonal of R, which are unique for full rank.

    For dependent columns they are not; the kernel keeps pairs of columns of the real form equal to
    one complex column.
    """
    q, r = real(embedded(a), True)
    return joined_blocks(q), with_real_diagonal(joined_blocks(r))


def _qr_products(a: Tensor) -> tuple[Tensor, Tensor]:
    q, r = (x.double() for x in qr(a))
    return q @ r, q.mT @ q


QR = batches.Batched(
    "qr",
    reference=_qr,
    backward=rules.qr_backward,
    jvp=rules.qr_jvp,
    from_result=True,
    by_parts=_qr_by_parts,
    flops=batches.cubes(4.0),
    unsuited=_qr_unsuited,
    examples={
        "cholqr2": batches.definite_example,
        "hutch_plus_plus": lambda: batches.definite_example(6),
        "qr": batches.definite_example,
    },
    evidence=(
        Case(
            "cholesky_qr",
            "QR",
            lambda: (random_tensor(140, 30),),
            _qr_products,
            batches.with_identity,
            "the matrix itself",
            batches.rows_bound,
        ),
    ),
)
