"""Choice of the path of an operation: torch, or its ``Operation`` on a kernel.

Arguments are already validated. Without kernels the functions call ``torch.linalg``, or ``cuda``
for batches of small matrices on a CUDA device. Otherwise batch dimensions are flattened into one,
as operations require.
"""

from __future__ import annotations

from cmath import isnan

import torch
from torch import Tensor

from trnsci.core.errors import ConvergenceError
from trnsci.core.numbers.values import concrete, finite, only_finite
from trnsolver._blas import trsm
from trnsolver._library import LIBRARY
from trnsolver._paths.arguments import batch_of, finite_below, not_positive_definite, singular
from trnsolver._paths.cuda.batched import batched_eigh, batched_qr, batched_svd
from trnsolver._paths.cuda.launch import pays

kernels_wanted = LIBRARY.kernels_wanted

SWEEPS = 12
"""Largest number of Jacobi sweeps on a kernel: twice the number for order 256."""


def run_cholesky(function: str, a: Tensor, name: str = "A") -> Tensor:
    """Return lower factors; the lower triangle is read."""
    if not kernels_wanted():
        factor = torch.linalg.cholesky(a)
        if not concrete(a) or not _has_nan(factor):
            return factor
    else:
        from trnsolver._paths.operations import CHOLESKY

        factor = CHOLESKY(batch_of(a)).reshape(a.shape)
        if only_finite(factor.diagonal(dim1=-2, dim2=-1)):
            return factor
        finite_below(function, name, a)
    raise not_positive_definite(function, name, "the factor has no real diagonal")


def _has_nan(factor: Tensor) -> bool:
    """Return whether a Cholesky factor has a NaN, by its diagonal.

    OpenBLAS, and cuSOLVER's batched routines, report only diagonal entries at or below zero, not
    NaN.
    """
    if factor.ndim == 2:
        return isnan(factor.trace().item())
    return isnan(factor.diagonal(dim1=-2, dim2=-1).sum().item())


def run_eigh(function: str, a: Tensor, max_sweeps: int | None = None) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, ascending, and eigenvectors; the lower triangle is read."""
    if not kernels_wanted():
        return (pays("eigh", a) and batched_eigh(a)) or tuple(torch.linalg.eigh(a))
    from trnsolver._paths.operations import EIGH

    w, v = EIGH(batch_of(a), SWEEPS if max_sweeps is None else max_sweeps)
    if not only_finite(w):
        finite_below(function, "A", a)
        raise ConvergenceError(f"{function}: the rotations did not converge")
    return w.reshape(a.shape[:-1]), v.reshape(a.shape)


def run_lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U with ``a = P @ L @ U``."""
    if not kernels_wanted():
        return tuple(torch.linalg.lu(a))
    from trnsolver._paths.operations import LU

    p, lower, upper = LU(batch_of(a))
    batch = a.shape[:-2]
    return (
        p.reshape(*batch, *p.shape[1:]),
        lower.reshape(*batch, *lower.shape[1:]),
        upper.reshape(*batch, *upper.shape[1:]),
    )


def run_lu_solve(function: str, a: Tensor, columns: Tensor) -> Tensor:
    """Return the solution of square systems on kernels: LU, and two triangular solutions.

    Rows and columns are scaled by powers of two to largest entries around 1, so that the pivots of
    a graded matrix are not zero in float32.
    """
    if not a.numel():
        return torch.linalg.solve(a, columns)  # which has gradients by both
    rows = _powers(a.detach().abs().amax(-1, keepdim=True))
    balanced = a / rows
    scales = _powers(balanced.detach().abs().amax(-2, keepdim=True))
    p, lower, upper = run_lu(balanced / scales)
    forward = trsm(1.0, lower, p.mT @ (columns / rows), uplo="lower", diag="unit")
    found = trsm(1.0, upper, forward, uplo="upper") / scales.mT
    if not only_finite(found) and only_finite(a) and only_finite(columns):
        pivots = upper.detach().diagonal(dim1=-2, dim2=-1)
        if bool((pivots == 0).any()) or not only_finite(pivots):
            raise singular(function, "A", "a pivot is zero")
    return found


def _powers(sizes: Tensor) -> Tensor:
    """Return the powers of two near numbers, 1 for those not positive and finite."""
    usual = (sizes > 0) & (sizes < torch.inf)
    # A reciprocal of the largest power is not a normal number.
    exponents = torch.log2(torch.where(usual, sizes, 1.0)).floor().clamp(max=125)
    return torch.exp2(exponents)


def run_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reduced factors of matrices of any shape."""
    if not kernels_wanted():
        return (pays("qr", a) and batched_qr(a)) or tuple(torch.linalg.qr(a))
    from trnsolver._paths.operations import QR

    q, r = QR(batch_of(a))
    batch = a.shape[:-2]
    return q.reshape(*batch, *q.shape[1:]), r.reshape(*batch, *r.shape[1:])


def run_svd(
    function: str, a: Tensor, full_matrices: bool = False, max_sweeps: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, s and Vh of matrices of any shape; kernels compute thin factors."""
    if kernels_wanted():
        from trnsolver._paths.operations import SVD

        if not full_matrices:
            wide = a.shape[-2] < a.shape[-1]
            flat = batch_of(a.mT if wide else a)
            u, s, vh = SVD(flat, SWEEPS if max_sweeps is None else max_sweeps)
            if not only_finite(s):
                finite(function, "A", a)
                raise ConvergenceError(f"{function}: the rotations did not converge")
            if wide:
                u, vh = vh.mT, u.mT
            batch = a.shape[:-2]
            return (
                u.reshape(*batch, *u.shape[1:]),
                s.reshape(*batch, *s.shape[1:]),
                vh.reshape(*batch, *vh.shape[1:]),
            )
        SVD.refuse("the kernel computes thin factors")
    elif not full_matrices and pays("svd", a) and (found := batched_svd(a)) is not None:
        return found
    u, s, vh = torch.linalg.svd(a, full_matrices=full_matrices)
    return u, s, vh


def run_pinv(function: str, a: Tensor, rcond: float) -> tuple[Tensor, Tensor]:
    """Return pseudo-inverses, and singular values without derivatives.

    Singular values up to ``rcond`` times the largest count as zero.
    """
    from trnsolver._paths.operations import PINV

    wide = a.shape[-2] < a.shape[-1]
    p, s = PINV(batch_of(a.mT if wide else a), rcond, SWEEPS)
    if not only_finite(s):
        raise ConvergenceError(f"{function}: the rotations did not converge")
    p = p.mT if wide else p
    batch = a.shape[:-2]
    return p.reshape(*batch, *p.shape[1:]), s.detach().reshape(*batch, *s.shape[1:])


def run_msign(x: Tensor, steps: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Return the result of quintic steps on matrices with singular values of at most 1."""
    from trnsolver._paths.operations import MSIGN

    return MSIGN(batch_of(x), steps, *coefficients).reshape(x.shape)
