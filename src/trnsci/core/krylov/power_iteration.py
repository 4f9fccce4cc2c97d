"""Power iteration: the eigenvalue of largest magnitude by products alone."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trnsci.core.errors import OperandError
from trnsci.core.iterations import Eigenpair, IterationInfo, Reason
from trnsci.core.krylov.runs import Product
from trnsci.core.krylov.vectors import ONE, norm


def power_iteration(
    function: str, product: Product, v0: Tensor, tol: float, limit: int
) -> Eigenpair:
    """Return the eigenpair reached from ``v0``, without derivatives.

    The iteration stops when the relative change of the Rayleigh quotient is at most ``tol`` and the
    relative residual of the pair at most its root, as for symmetric matrices: the quotient of a
    vector far from any eigenvector can be stationary too.

    Raises:
        OperandError: ``v0`` is zero or not finite.
    """
    peak = ONE.peak(v0)
    if v0.numel() and not 0 < peak < math.inf:
        raise OperandError(f"{function}: v0 must have a length, got {peak}")
    v = v0 / peak if v0.numel() else v0
    v = v / (norm(v) or 1.0)
    value = 0.0
    changes: list[float] = []
    reason: Reason = "limit"
    accepted = max(math.sqrt(tol), 8 * torch.finfo(v.dtype).eps * math.sqrt(v.numel()))
    for _ in range(limit):
        w = product(v)
        previous, value = value, ONE.inner(v, w)
        size = norm(w)
        if not math.isfinite(size):
            reason = "diverged"
            changes.append(math.nan)
            break
        if size == 0:  # v is an eigenvector for 0
            reason, value = "converged", 0.0
            changes.append(0.0)
            break
        changes.append(abs(value - previous) / size if changes else math.inf)
        rest = norm(w - value * v) if changes[-1] <= tol else math.inf
        v = w / size
        if rest <= accepted * size:
            reason = "converged"
            break
    iterations = len(changes)
    if not limit:
        value = ONE.inner(v, product(v))
    info = IterationInfo(reason == "converged", reason, tuple(changes), max(iterations, 1))
    return Eigenpair(value, v, iterations, info)
