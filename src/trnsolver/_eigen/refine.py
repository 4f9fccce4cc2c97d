"""One step of Ogita and Aishima's refinement of eigenvectors, 2018."""

from __future__ import annotations

import torch
from torch import Tensor


def pair_correction(projected: Tensor, gram: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, and E of the refined eigenvectors ``X + X @ E``.

    If two eigenvalues are so close that the step would be too long, their vectors are only made
    orthogonal.

    Args:
        projected: X^T A X, (..., n, n).
        gram: X^T X.
        most: Longest step; the remaining error is its square.
    """
    eye = torch.eye(projected.shape[-1], dtype=projected.dtype, device=projected.device)
    rest = eye - gram
    values = projected.diagonal(dim1=-2, dim2=-1) / (1 - rest.diagonal(dim1=-2, dim2=-1))
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    step = (projected + values.unsqueeze(-2) * rest) / gaps
    half = 0.5 * rest
    # The vectors of a pair stay orthogonal only if both are corrected.
    short = step.abs() <= most
    step = torch.where(short & short.mT, step, half)
    return values, torch.where(eye.bool(), half, step)
