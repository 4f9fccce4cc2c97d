"""Cholesky factors, with a check for NaN that does not depend on the LAPACK in use.

OpenBLAS, and cuSOLVER's routines for batches, report a diagonal entry that is at or below zero; NaN
is neither, so that they return a factor with NaN for a matrix that has one.
"""

from __future__ import annotations

from cmath import isnan

import torch
from torch import Tensor

from trnsolver._arguments import TorchLinAlgError

__all__ = ["has_nan", "lower_factor"]


def lower_factor(a: Tensor) -> Tensor | None:
    """Return Cholesky factors of eager matrices, or None if one of them has none.

    A matrix with a NaN in the lower triangle, which is the one that is read, has none.
    """
    try:
        factor = torch.linalg.cholesky(a)
    except TorchLinAlgError:
        return None
    return None if has_nan(factor) else factor


def has_nan(factor: Tensor) -> bool:
    """Return whether a factor has a NaN, which then is on the diagonal too."""
    if factor.ndim == 2:
        return isnan(factor.trace().item())
    return isnan(factor.diagonal(dim1=-2, dim2=-1).sum().item())
