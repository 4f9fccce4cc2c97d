"""Symmetric parts, and real forms of complex matrices."""

from __future__ import annotations

import torch
from torch import Tensor


def symmetric_part(x: Tensor) -> Tensor:
    """Return ``(X + X.mH) / 2`` of matrices, halved first so that sums cannot overflow."""
    half = 0.5 * x
    return half + half.mH


def real_form(a: Tensor) -> Tensor:
    """Return ``[[Re, -Im], [Im, Re]]`` of complex matrices, which multiplies ``[Re, Im]``."""
    above = torch.cat([a.real, -a.imag], -1)
    return torch.cat([above, torch.cat([a.imag, a.real], -1)], -2)
