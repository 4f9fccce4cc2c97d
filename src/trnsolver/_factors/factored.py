"""Solution of systems with a given Cholesky factor."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import broadcast
from trnsolver._blas import trsm
from trnsolver._library import LIBRARY

_STEPS = 5


def with_factor(factor: Tensor, columns: Tensor) -> Tensor:
    """Return the solution for a lower Cholesky factor."""
    if not LIBRARY.kernels_wanted():
        # In LAPACK's layout the factor is not copied here; ``cholesky_solve`` copies it.
        forward = torch.linalg.solve_triangular(factor, columns, upper=False)
        return torch.linalg.solve_triangular(factor.mH, forward, upper=True)
    batch = broadcast(factor.shape[:-2], columns.shape[:-2])
    assert batch is not None, "batches that do not broadcast were not refused"
    columns = columns.expand(*batch, *columns.shape[-2:])
    forward = trsm(1.0, factor, columns, uplo="lower")
    return trsm(1.0, factor, forward, uplo="lower", trans="C")


def refined(a: Tensor, factor: Tensor, columns: Tensor, found: Tensor) -> Tensor:
    """Return a solution after corrections by residuals in float64."""
    wide_dtype = torch.complex128 if a.is_complex() else torch.float64
    wide_a, wide_b, x = a.to(wide_dtype), columns.to(wide_dtype), found.to(wide_dtype)
    wide_a = wide_a.tril() + wide_a.tril(-1).mH
    for _ in range(_STEPS):
        x = x + with_factor(factor, (wide_b - wide_a @ x).to(a.dtype)).to(wide_dtype)
    return x.to(a.dtype)
