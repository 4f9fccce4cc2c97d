"""Cholesky factors of eager matrices, with a check that does not depend on the LAPACK in use.

OpenBLAS, and cuSOLVER's routines for batches, report a diagonal entry that is at or below zero; NaN
is neither, so that they return a factor with NaN for a matrix that has one.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["lower_factor"]


def lower_factor(a: Tensor) -> Tensor | None:
    """Return Cholesky factors of matrices, or None if one of them has none.

    A matrix with a NaN in the lower triangle, which is the one that is read, has none: the NaN
    reaches the diagonal of the factor.
    """
    factor, failed = torch.linalg.cholesky_ex(a)
    not_a_number = factor.detach().diagonal(dim1=-2, dim2=-1).isnan()
    return None if bool(failed.any() | not_a_number.any()) else factor
