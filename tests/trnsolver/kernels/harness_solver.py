"""How the tests of the solver's kernels run them, and the matrices that they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

import nkisim

GENERATIONS = ("gen2", "gen3", "gen4")
EPS = float(np.finfo(np.float32).eps)


def run(kernel: Any, generation: str, *arguments: Any) -> Any:
    """Return the results of a kernel in strict simulation, which must have nothing to report."""
    simulation = nkisim.simulate(kernel, strictness="strict", target=generation)
    out = simulation(*arguments)
    assert not simulation.report.findings, simulation.report.findings
    return out


def symmetric(n: int, seed: int = 0) -> np.ndarray:
    """Return a symmetric matrix of normally distributed entries."""
    x = np.random.default_rng((seed, n)).standard_normal((n, n))
    return ((x + x.T) / 2).astype(np.float32)


def with_spectrum(values: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return a symmetric matrix with such eigenvalues, up to rounding."""
    n = len(values)
    q, _ = np.linalg.qr(np.random.default_rng((seed, n)).standard_normal((n, n)))
    a = (q * values) @ q.T
    return ((a + a.T) / 2).astype(np.float32)


def lower_only(a: np.ndarray) -> np.ndarray:
    """Return matrices with NaN above the diagonal, where nobody may read."""
    return np.where(np.tril(np.ones(a.shape[-2:], bool)), a, np.float32(np.nan))


def norm(a: np.ndarray) -> float:
    """Return the spectral norm, and 1 for a matrix of zeros."""
    return float(np.linalg.norm(a.astype(np.float64), 2)) or 1.0


def residual_of_pairs(a: np.ndarray, w: np.ndarray, v: np.ndarray) -> float:
    """Return the norm of A V - V diag(w), relative to that of A."""
    wide = v.astype(np.float64)
    return float(np.linalg.norm(a.astype(np.float64) @ wide - wide * w, 2)) / norm(a)


def distance_from_orthogonal(q: np.ndarray) -> float:
    """Return the norm of Q^T Q - I."""
    wide = q.astype(np.float64)
    return float(np.linalg.norm(wide.T @ wide - np.eye(q.shape[1]), 2))


def diagonalises(a: np.ndarray, w: np.ndarray, v: np.ndarray) -> bool:
    """Tell whether w and v are eigenvalues, ascending, and orthonormal eigenvectors of ``a``.

    Both measures are held to 20 units of float32's precision for each row.
    """
    n = a.shape[0]
    if not (np.isfinite(w).all() and np.isfinite(v).all() and (np.diff(w) >= 0).all()):
        return False
    bound = 20 * EPS * n
    return residual_of_pairs(a, w, v) <= bound and distance_from_orthogonal(v) <= bound
