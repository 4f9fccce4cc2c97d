"""QR factors of one small matrix on a CPU, with a positive diagonal.

A small factorization costs what its calls do. SciPy's BLAS and LAPACK are called on the memory of
the tensors, eight calls for two factorizations of Gram matrices, which is less than reflections
take. Columns that may be too near to dependent for that are reflected.

Torch stores rows and Fortran columns, so that BLAS sees the transpose: with ``A.mH A = L L.mH`` the
transpose of Q is ``L^-1 A.mH``, and R is ``L.mH``.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trnsci.core.arrays import array_of
from trnsolver._arguments import not_positive_definite

__all__ = ["CERTAIN", "SHORT", "independent", "small_qr"]

SHORT = 4
"""Rows for each column from which on Gram matrices are quicker than reflections."""

# On a CPU they are for few columns that are not very long.
_COLUMNS, _LONG = 32, 128

CERTAIN = 0.125
"""Of the Gram matrix, how large rounding may be beside the smallest eigenvalue. Then columns are
off by less than a quarter of 1 after the first time, and by rounding after the second."""


class _Routines(NamedTuple):
    """BLAS and LAPACK of one precision, its rounding, and sums of squares that are exact to it."""

    gemm: Any
    potrf: Any
    trtri: Any
    eps: float
    least: float


def small_qr(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R of a real matrix that is not empty.

    Raises:
        NotPositiveDefiniteError: Columns are dependent, to rounding.
    """
    m, n = a.shape
    if n <= _COLUMNS and SHORT * n <= m <= _LONG * n:
        routines = _routines(a.dtype)
        found = None if routines is None else _by_gram_matrices(array_of(a).T, routines)
        if found is not None:
            return found
    q, r = _reflected(a)
    independent(r.diagonal().tolist(), r.dtype)
    return q, r


def independent(sizes: list[float], dtype: torch.dtype) -> None:
    """Raise where R has a diagonal of these sizes, and a Gram matrix not definite to rounding."""
    least = (min(sizes) / max(sizes)) ** 2 if sum(sizes) > 0 else 0.0  # NaN is not above 0
    if not least > torch.finfo(dtype).eps:
        reason = f"the squared diagonal of R falls to {least:.1g} of its largest"
        raise not_positive_definite("cholqr2", "the Gram matrix of A", reason)


def _by_gram_matrices(rows: Any, routines: _Routines) -> tuple[Tensor, Tensor] | None:
    """Return Q and R of the matrix with this transpose, or None if columns may be dependent."""
    gemm, potrf, trtri, eps, least = routines
    n, m = rows.shape
    # A sum of m squares is off by m roundings at most. Arguments by place: names cost as much as
    # the call. They are the factor, both matrices, no sum to add to, and what is transposed.
    lower, failed = potrf(gemm(1.0, rows, rows, 0.0, None, 0, 1), 1, 1, 1)
    if failed:
        return None
    inverse = trtri(lower, 1)[0]
    flat, turned = lower.ravel("K"), inverse.ravel("K")
    size, of_inverse = float(flat.dot(flat)), float(turned.dot(turned))
    # The squared norms bound the square of the condition number. NaN is not below anything.
    if not (size > least and (m + n) * eps * size * of_inverse < CERTAIN):
        return None
    rows = gemm(1.0, inverse, rows)
    second = potrf(gemm(1.0, rows, rows, 0.0, None, 0, 1), 1, 1, 1)[0]
    q = gemm(1.0, trtri(second, 1)[0], rows)
    return torch.from_numpy(q.T), torch.from_numpy(lower.dot(second).T)


def _reflected(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return Q and R by Householder reflections."""
    q, r = torch.linalg.qr(a)
    signs = r.diagonal().sign()
    q.mul_(signs)
    r.mul_(signs.unsqueeze(-1))
    return q, r


@cache
def _routines(dtype: torch.dtype) -> _Routines | None:
    try:
        from scipy.linalg import blas, lapack
    except ImportError:
        return None
    kind = {torch.float32: "s", torch.float64: "d"}[dtype]
    info = torch.finfo(dtype)
    return _Routines(
        getattr(blas, f"{kind}gemm"),
        getattr(lapack, f"{kind}potrf"),
        getattr(lapack, f"{kind}trtri"),
        info.eps,
        info.tiny / info.eps**2,  # squares that are no normal numbers are rounding beside it
    )
