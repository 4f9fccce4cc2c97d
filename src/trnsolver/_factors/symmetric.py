"""Symmetrization of matrices that are symmetric up to rounding."""

from __future__ import annotations

from torch import Tensor


def symmetric_part(x: Tensor) -> Tensor:
    """Return ``(X + X.mH) / 2`` of matrices, halved first so that sums cannot overflow."""
    half = 0.5 * x
    return half + half.mH
