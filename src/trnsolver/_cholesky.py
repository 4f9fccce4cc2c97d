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

from trnsolver._cuda_look import begun_look

__all__ = ["lower_factor", "misses_nan"]


@cache
def misses_nan() -> bool:
    """Return whether the LAPACK that torch has reports no failure for a matrix with a NaN."""
    one = torch.full((1, 1), nan, dtype=torch.float64, device="cpu")
    return not torch.linalg.cholesky_ex(one).info.item()


def lower_factor(a: Tensor) -> Tensor | None:
    """Return Cholesky factors of eager matrices, or None if one of them has none.

    There is none of a matrix with a NaN in the lower triangle, which is the one that is read.
    """
    look = begun_look(a) if a.ndim > 2 else None
    factor, failed = torch.linalg.cholesky_ex(a)
    # Asked here, which takes half of the time that torch needs to look.
    if failed.item() if failed.ndim == 0 else failed.any():
        return None
    if look is not None:
        certain = look.saw_only_numbers()
    else:
        certain = not misses_nan() if a.is_cpu else a.ndim == 2
    return factor if certain or not _has_nan(factor) else None


def _has_nan(factor: Tensor) -> bool:
    """Return whether a factor has a NaN, which is in the diagonal as well: it subtracts squares."""
    if factor.ndim == 2:
        return isnan(factor.trace().item())
    return bool(factor.diagonal(dim1=-2, dim2=-1).isnan().any())
