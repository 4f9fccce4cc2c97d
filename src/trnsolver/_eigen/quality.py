"""Error measures of the eigenpairs of one matrix, of which the lower triangle is read.

The measure is ``norm(A v - w v) / norm(A)`` with the spectral norm of A, which is bounded from
below by the largest value found, so that the residual is never reported too small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["EighInfo", "frobenius_norm", "judged", "judged_again", "rounding_of"]


@dataclass(frozen=True)
class EighInfo:
    """Accuracy of eigenpairs.

    Attributes:
        converged: Whether every residual is at most the tolerance.
        tol: The tolerance.
        backward_error: Largest ``norm(A v - w v) / norm(A)``.
        forward_error: Bound on the distance of every value from an exact one: the largest
            ``norm(A v - w v)``, plus a bound on its rounding error.
        orthogonality: Largest entry of ``V^H V - I``.
        method: The method that computed the result.
        iterations: Number of its iterations.
        precision: Precision of each stage, in order.
    """

    converged: bool
    tol: float
    backward_error: float
    forward_error: float
    orthogonality: float
    method: str
    iterations: int
    precision: tuple[str, ...]


def judged_again(a: Tensor, w: Tensor, v: Tensor, info: EighInfo, size: float) -> EighInfo:
    """Return the accuracy of pairs after they were rounded."""
    return judged(a, w, v, info.tol, info.method, info.iterations, info.precision, size)


def judged(
    a: Tensor,
    w: Tensor,
    v: Tensor,
    tol: float,
    method: str,
    steps: int,
    stages: tuple[str, ...],
    size: float,
) -> EighInfo:
    """Return the accuracy of pairs.

    Args:
        a: The matrix.
        w: Values, ascending.
        v: Vectors, as columns.
        tol: Tolerance of the residual.
        method: The method that computed them.
        steps: Number of its iterations.
        stages: Precision of each stage.
        size: Frobenius norm of A, with both triangles as given.
    """
    n, k = v.shape
    complex_ = a.is_complex()
    if not k:
        largest = norm = off = 0.0
    else:
        # The pairs may have derivatives; their accuracy has none.
        largest, norm, off = _measured(a.detach(), w.detach(), v.detach())
    if (k < n or norm == 0) and not largest <= tol * norm:
        norm = max(norm, _longest_column(a.detach()))
    relative = largest / norm if norm > 0 else largest
    good = math.isfinite(relative) and relative <= tol and off <= max(tol, rounding_of(v))
    # Rounding of the residual: n + 4 operations on values of norm at most sqrt(2) * size, twice as
    # many for complex ones. The length of a vector is off by half of its orthogonality error.
    operations = (2 if complex_ else 1) * (n + 4)
    rounding = operations * torch.finfo(w.dtype).eps * 2**0.5 * size
    bound = (largest + rounding) / (1 - off) if off < 1 else math.inf
    return EighInfo(good, tol, relative, bound, off, method, steps, stages)


def rounding_of(a: Tensor) -> float:
    """Return the bound on the orthogonality error of computed vectors."""
    return 10 * a.shape[-2] * torch.finfo(a.dtype).eps


def frobenius_norm(a: Tensor) -> float:
    """Return the root of the sum of squares, which may overflow or have a NaN."""
    return float(torch.linalg.vector_norm(a.detach()))


def _measured(a: Tensor, w: Tensor, v: Tensor) -> tuple[float, float, float]:
    """Return the largest residual, value and entry of ``V^H V - I``."""
    lower = a.tril()
    # Both triangles include the diagonal, which is real.
    image = lower @ v + lower.mH @ v - lower.diagonal().real.unsqueeze(-1) * v
    largest = float(torch.linalg.vector_norm(image - v * w, dim=0).max())
    eye = torch.eye(v.shape[-1], dtype=v.dtype, device=v.device)
    return largest, float(w.abs().max()), float((v.mH @ v - eye).abs().max())


def _longest_column(a: Tensor) -> float:
    """Return the largest norm of a column, a lower bound of the spectral norm."""
    squares = a.tril().abs() ** 2
    columns = squares.sum(0) + squares.sum(1) - squares.diagonal()
    return float(columns.max()) ** 0.5 if columns.numel() else 0.0
