"""Unitary polar factors by dynamically weighted Halley iteration (QDWH).

Nakatsukasa, Bai and Gygi 2010. The singular values of X are between a lower bound l and 1. The step
``X (a I + b X^H X) (I + c X^H X)^-1`` with optimal weights, computed by QR or Cholesky and products
only, moves l towards 1; six steps suffice for condition numbers up to 1e16.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.numbers.values import power_below

_MOST_STEPS = 20
# Up to this weight the Cholesky step is as stable as the QR step, and cheaper.
_CHOLESKY = 100.0


def qdwh(a: Tensor) -> tuple[Tensor, int]:
    """Return the unitary polar factor of one matrix (m, n) with m >= n, and the number of steps."""
    eps = torch.finfo(a.dtype).eps
    n = a.shape[-1]
    if not bool(a.any()):
        return torch.eye(a.shape[-2], n, dtype=a.dtype, device=a.device), 0
    x = a / power_below(a)  # squares of other magnitudes may overflow
    x = x / torch.linalg.matrix_norm(x)
    low = max(_smallest(x), eps)
    eye = torch.eye(n, dtype=a.dtype, device=a.device)
    for step in range(1, _MOST_STEPS + 1):
        first, second, third = _weights(low)
        before = x
        if third > _CHOLESKY:
            stacked = torch.cat([third**0.5 * x, eye], -2)
            q = torch.linalg.qr(stacked).Q
            top, bottom = q[: a.shape[-2]], q[a.shape[-2] :]
            x = (second / third) * x + ((first - second / third) / third**0.5) * (top @ bottom.mH)
        else:
            factor = torch.linalg.cholesky(eye + third * (x.mH @ x))
            solved = torch.cholesky_solve(x.mH, factor).mH
            x = (second / third) * x + (first - second / third) * solved
        low = min(low * (first + second * low * low) / (1 + third * low * low), 1.0)
        change = float(torch.linalg.matrix_norm(x - before))
        if abs(1 - low) < 10 * eps and change <= (10 * eps) ** (1 / 3):
            return x, step
    return x, _MOST_STEPS


def _smallest(x: Tensor) -> float:
    """Return an approximate lower bound of the singular values, from the triangle of a QR."""
    r = torch.linalg.qr(x, mode="r").R
    diagonal = r.diagonal().abs()
    if float(diagonal.min()) == 0:
        return 0.0
    inverse = torch.linalg.solve_triangular(
        r, torch.eye(r.shape[-1], dtype=r.dtype, device=r.device), upper=True
    )
    return 1.0 / float(torch.linalg.matrix_norm(inverse))


def _weights(low: float) -> tuple[float, float, float]:
    """Return the optimal weights for singular values between ``low`` and 1."""
    squared = low * low
    d = (4 * (1 - squared) / (squared * squared)) ** (1 / 3) if low < 1 else 0.0
    root = (1 + d) ** 0.5
    first = root + 0.5 * max(8 - 4 * d + 8 * (2 - squared) / (squared * root), 0.0) ** 0.5
    second = (first - 1) ** 2 / 4
    return first, second, first + second - 1
