"""Where an operation runs: on torch, or through its ``Operation`` on a kernel.

The functions take arguments that were checked. While no kernel is wanted, which one question to the
library tells, ``torch.linalg`` is called and nothing else happens. Else the batch is brought into
the one dimension that operations have.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas import trsm
from trnsci.core.eager import readable, unchecked
from trnsci.core.errors import ConvergenceError
from trnsci.core.finite import only_finite
from trnsolver._arguments import batch_of, not_positive_definite
from trnsolver._batched_jacobi import batched_eigh, batched_svd
from trnsolver._batched_qr import batched_qr
from trnsolver._cholesky import lower_factor
from trnsolver._library import LIBRARY

__all__ = [
    "BY_COLUMNS",
    "eigh_by_columns",
    "kernels_wanted",
    "run_cholesky",
    "run_eigh",
    "run_lu",
    "run_lu_solve",
    "run_msign",
    "run_qr",
    "run_solve",
    "run_svd",
    "small_factors",
    "small_pairs",
]

kernels_wanted = LIBRARY.kernels_wanted

# On an H200 our kernels take less time than torch's for matrices up to these orders, with the look
# that torch's need. Of larger ones it takes one after the other, and four of them longer than our
# kernels all. Of QR it has no batches at any order: columns of Q are made one matrix after the
# other.
_EIGH_ORDERS = {torch.float32: 64, torch.float64: 32}
_SVD_ORDER = 64
_MANY = 4
SWEEPS = 12
"""Sweeps of Jacobi rotations that a kernel does at most: twice what order 256 needs."""

BY_COLUMNS = 192**2
"""Numbers of a matrix from which on MKL is faster with an upper triangle, and then needs no turned
copy of ours: by a twenty-fifth in float32 at order 256, by a tenth at 512."""


def eigh_by_columns(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return eigenvalues and eigenvectors of a matrix of ``BY_COLUMNS`` numbers or more."""
    if a.is_complex() or not a.is_contiguous() or not readable(a):
        return torch.linalg.eigh(a)
    # LAPACK has matrices by columns, where the lower triangle of ours is the upper one.
    return torch.linalg.eigh(a.mT, UPLO="U")


def run_cholesky(function: str, a: Tensor, name: str = "A") -> Tensor:
    """Return lower factors; the lower triangle is read."""
    if not kernels_wanted():
        if unchecked(a):
            return torch.linalg.cholesky(a)
        if (found := lower_factor(a)) is not None:
            return found
        torch.linalg.cholesky(a)  # which has the words, but perhaps none for NaN
    else:
        from trnsolver._operations import CHOLESKY

        factor = CHOLESKY(batch_of(a)).reshape(a.shape)
        if only_finite(factor.diagonal(dim1=-2, dim2=-1)):
            return factor
    raise not_positive_definite(function, name, "the factor has no real diagonal")


def small_pairs(a: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return finite eigenpairs of small matrices on a CUDA device, or None."""
    if kernels_wanted() or not a.is_cuda or not _is_ours(a, _EIGH_ORDERS.get(a.dtype, 0)):
        return None
    return batched_eigh(a)


def small_factors(a: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return finite thin factors of small matrices on a CUDA device, or None."""
    if kernels_wanted() or not a.is_cuda or not _is_ours(a, _SVD_ORDER):
        return None
    return batched_svd(a)


def run_eigh(function: str, a: Tensor, max_sweeps: int | None = None) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, ascending, and eigenvectors; the lower triangle is read."""
    if not kernels_wanted():
        found = small_pairs(a)
        if found is None:
            w, v = torch.linalg.eigh(a)
            found = w, v
        return found
    from trnsolver._operations import EIGH

    w, v = EIGH(batch_of(a), SWEEPS if max_sweeps is None else max_sweeps)
    if not only_finite(w):
        raise ConvergenceError(f"{function}: the rotations did not converge")
    return w.reshape(a.shape[:-1]), v.reshape(a.shape)


def run_lu(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return P, L and U with ``a = P @ L @ U``."""
    if not kernels_wanted():
        p, lower, upper = torch.linalg.lu(a)
        return p, lower, upper
    from trnsolver._operations import LU

    p, lower, upper = LU(batch_of(a))
    batch = a.shape[:-2]
    return (
        p.reshape(*batch, *p.shape[1:]),
        lower.reshape(*batch, *lower.shape[1:]),
        upper.reshape(*batch, *upper.shape[1:]),
    )


def run_solve(a: Tensor, right: Tensor) -> Tensor:
    """Return the solution of square systems by torch, with the errors that it raises."""
    if unchecked(a) or unchecked(right):
        return torch.linalg.solve(a, right)
    found, failed = torch.linalg.solve_ex(a, right)
    return torch.linalg.solve(a, right) if _any(failed) else found


def run_lu_solve(a: Tensor, columns: Tensor) -> Tensor:
    """Return the solution of square systems on kernels: LU, and two triangular solutions."""
    p, lower, upper = run_lu(a)
    forward = trsm(1.0, lower, p.mT @ columns, uplo="lower", diag="unit")
    return trsm(1.0, upper, forward, uplo="upper")


def run_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the reduced factors of matrices of any shape."""
    if not kernels_wanted():
        if a.is_cuda and a.ndim > 2 and a.numel() >= _MANY * a.shape[-1] * a.shape[-2]:
            found = batched_qr(a)
            if found is not None:
                return found
        q, r = torch.linalg.qr(a)
        return q, r
    from trnsolver._operations import QR

    q, r = QR(batch_of(a))
    batch = a.shape[:-2]
    return q.reshape(*batch, *q.shape[1:]), r.reshape(*batch, *r.shape[1:])


def run_svd(
    function: str, a: Tensor, full_matrices: bool = False, max_sweeps: int | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, s and Vh of matrices of any shape; kernels compute thin factors."""
    if kernels_wanted():
        from trnsolver._operations import SVD

        if not full_matrices:
            wide = a.shape[-2] < a.shape[-1]
            flat = batch_of(a.mT if wide else a)
            u, s, vh = SVD(flat, SWEEPS if max_sweeps is None else max_sweeps)
            if not only_finite(s):
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
    elif not full_matrices:
        found = small_factors(a)
        if found is not None:
            return found
    u, s, vh = torch.linalg.svd(a, full_matrices=full_matrices)
    return u, s, vh


def _any(failed: Tensor) -> bool:
    """Return whether a factorization of a batch, or the only one, has failed."""
    return bool(failed.item() if failed.ndim == 0 else failed.any())


def _is_ours(a: Tensor, order: int) -> bool:
    """Return whether torch would take longer for matrices on a CUDA device: small ones, or many."""
    m, n = a.shape[-2:]
    return max(m, n) <= order or a.numel() >= _MANY * m * n


def run_msign(x: Tensor, steps: int, coefficients: tuple[float, float, float]) -> Tensor:
    """Return what quintic steps make of matrices whose largest singular value is at most 1."""
    from trnsolver._operations import MSIGN

    return MSIGN(batch_of(x), steps, *coefficients).reshape(x.shape)
