"""Matrices that try a solver, in float64: known spectra, bad condition, and the famous ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

ORDER = 24


def orthogonal(n: int, seed: int = 0) -> np.ndarray:
    """A random orthogonal matrix."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    return q * np.sign(np.diag(r))


def with_values(values: np.ndarray, seed: int = 0) -> Tensor:
    """A symmetric matrix with these eigenvalues."""
    q = orthogonal(len(values), seed)
    a = (q * values) @ q.T
    return torch.from_numpy((a + a.T) / 2)


def with_condition(condition: float, n: int = ORDER, seed: int = 0) -> Tensor:
    """A general matrix with singular values from 1 down to 1 / condition."""
    s = np.logspace(0, -np.log10(condition), n)
    return torch.from_numpy((orthogonal(n, seed) * s) @ orthogonal(n, seed + 1))


def hilbert(n: int) -> Tensor:
    i = np.arange(n)
    return torch.from_numpy(1.0 / (i[:, None] + i + 1))


def wilkinson(n: int) -> Tensor:
    """Pairs of eigenvalues that agree to many digits."""
    diagonal = np.abs(np.arange(n) - (n - 1) / 2)
    return torch.from_numpy(np.diag(diagonal) + np.eye(n, k=1) + np.eye(n, k=-1))


def graded(n: int) -> Tensor:
    """Rows and columns that fall from 1 to 1e-8."""
    scale = np.logspace(0, -8, n)
    core = np.random.default_rng(5).standard_normal((n, n))
    return torch.from_numpy(scale[:, None] * (core + core.T) * scale)


def clustered(n: int) -> Tensor:
    """Eigenvalues 1 and 2 in two groups that are 1e-12 wide."""
    rng = np.random.default_rng(6)
    values = np.where(np.arange(n) < n // 2, 1.0, 2.0) + 1e-12 * rng.standard_normal(n)
    return with_values(values, 3)


SYMMETRIC = {
    **{f"condition 1e{p}": with_values(np.logspace(0, -p, ORDER)) for p in (0, 3, 6, 9, 12)},
    "indefinite": with_values(np.linspace(-1, 1, ORDER)),
    "graded": graded(ORDER),
    "clustered": clustered(ORDER),
    "rank deficient": with_values(np.where(np.arange(ORDER) < 5, 1.0, 0.0)),
    "hilbert": hilbert(ORDER),
    "wilkinson": wilkinson(21),
    "zero": torch.zeros(6, 6, dtype=torch.float64),
    "one": torch.tensor([[-3.0]], dtype=torch.float64),
}
GENERAL = {
    **{f"condition 1e{p}": with_condition(10.0**p) for p in (0, 3, 6, 9, 12)},
    "orthogonal": torch.from_numpy(orthogonal(ORDER, 9)),
    "graded": graded(ORDER),
    "hilbert": hilbert(12),
    "wilkinson": wilkinson(21),
}
