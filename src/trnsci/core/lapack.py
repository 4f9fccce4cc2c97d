"""Cholesky factors that are known to exist, whatever LAPACK makes of NaN.

MKL reports a factor with a NaN on its diagonal as one that does not exist. OpenBLAS, which torch
has on ARM processors, and cuSOLVER's routines for batches report diagonals that are not above zero
by asking whether they are at or below it, and NaN is neither.
"""

from __future__ import annotations

from cmath import isnan, nan
from functools import cache

import torch
from torch import Tensor

__all__ = ["lower_factor", "misses_nan"]


@cache
def misses_nan() -> bool:
    """Return whether the LAPACK that torch has reports no failure for a matrix with a NaN."""
    one = torch.full((1, 1), nan, dtype=torch.float64, device="cpu")
    return not torch.linalg.cholesky_ex(one).info.item()


def lower_factor(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return Cholesky factors of eager matrices, and integers, not zero where there is none.

    There is none of a matrix with a NaN in the lower triangle, which is the one that is read.
    """
    factor, failed = torch.linalg.cholesky_ex(a)
    if misses_nan() if a.is_cpu else a.ndim > 2:
        # A NaN in a row of the factor is in its diagonal as well, which subtracts its square.
        if a.ndim == 2 and not isnan(factor.trace().item()):
            return factor, failed
        failed = failed | factor.diagonal(dim1=-2, dim2=-1).isnan().any(-1)
    return factor, failed
