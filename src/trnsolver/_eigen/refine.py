"""One step of Ogita and Aishima's refinement of eigenvectors, 2018."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["pair_correction"]


def pair_correction(turned: Tensor, gram: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Return eigenvalues, and E of the better eigenvectors ``X + X @ E``.

    Where two eigenvalues are so near to each other that a step would be long, their vectors are
    made orthogonal and stay in their plane.

    Args:
        turned: X^T A X, (..., n, n).
        gram: X^T X.
        most: Longest step; what is left of an error is its square.
    """
    eye = torch.eye(turned.shape[-1], dtype=turned.dtype, device=turned.device)
    rest = eye - gram
    values = turned.diagonal(dim1=-2, dim2=-1) / (1 - rest.diagonal(dim1=-2, dim2=-1))
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    step = (turned + values.unsqueeze(-2) * rest) / gaps
    half = 0.5 * rest
    # Only the steps of both vectors of a pair together leave them orthogonal.
    short = step.abs() <= most
    step = torch.where(short & short.mT, step, half)
    return values, torch.where(eye.bool(), half, step)
