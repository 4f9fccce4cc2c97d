"""MP2 energies in float64 from their definition, and how far float32 may be from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

UNIT_ROUNDOFF = 2.0**-24


class Energy(NamedTuple):
    """An energy and what its error is measured by.

    Attributes:
        value: The energy.
        size: Sum of (T^2 + S^2 - T S) / |D|, S being the transpose of T: since D is symmetric this
            is the energy of a pair, with all denominators of one sign.
        slope: Sum of (4 |T| + 2 |S|) G / |D| with G = |b_i| |b_j|^T. An error d of T moves the
            energy by the sum of (4 T - 2 S) d / D, and d is at most naux u G.
        cancellation: Largest (|eps_i| + |eps_j| + |eps_a| + |eps_b|) / |D|.
    """

    value: float
    size: float
    slope: float
    cancellation: float

    def __add__(self, other: Energy) -> Energy:  # type: ignore[override]
        return Energy(
            self.value + other.value,
            self.size + other.size,
            self.slope + other.slope,
            max(self.cancellation, other.cancellation),
        )

    def tolerance(self, length: int, naux: int = 0) -> float:
        """First-order error bound of float32 arithmetic with sums of ``length`` terms in all.

        (T - S/2)^2 has 3 roundings relative to itself, 3/4 S^2 has 5, and both are positive, so
        their sum has 6; the reciprocal and the product with it make 8. The three additions of a
        denominator have 3 u (|eps_i| + |eps_j| + |eps_a| + |eps_b|). Summation in levels adds the
        sum of the levels' lengths. The last percent is for products of errors.
        """
        relative = 8 + length + 3 * self.cancellation
        return 1.01 * UNIT_ROUNDOFF * (relative * self.size + naux * self.slope)


NOTHING = Energy(0.0, 0.0, 0.0, 1.0)


def of_amplitudes(t: np.ndarray, eps_i: float, eps_j: float, eps_vir: np.ndarray) -> Energy:
    """E(i, j) of the amplitudes of one pair."""
    t, eps = t.astype(np.float64), eps_vir.astype(np.float64)
    gap = float(eps_i) + float(eps_j) - eps[:, None] - eps[None, :]
    value = float((t * (2 * t - t.T) / gap).sum())
    size = float(((t * t + t.T * t.T - t * t.T) / abs(gap)).sum())
    spread = abs(float(eps_i)) + abs(float(eps_j)) + abs(eps)[:, None] + abs(eps)[None, :]
    return Energy(value, size, 0.0, float((spread / abs(gap)).max()))


def of_pair(b_i, b_j, eps_i: float, eps_j: float, eps_vir: np.ndarray) -> Energy:
    """E(i, j) with T = b_i b_j^T."""
    wide_i, wide_j = b_i.astype(np.float64), b_j.astype(np.float64)
    t = wide_i @ wide_j.T
    energy = of_amplitudes(t, eps_i, eps_j, eps_vir)
    eps = eps_vir.astype(np.float64)
    gap = float(eps_i) + float(eps_j) - eps[:, None] - eps[None, :]
    size = abs(wide_i) @ abs(wide_j).T
    slope = float(((4 * abs(t) + 2 * abs(t.T)) * size / abs(gap)).sum())
    return energy._replace(slope=slope)


def of_all_pairs(b: np.ndarray, eps_occ: np.ndarray, eps_vir: np.ndarray) -> Energy:
    """The sum of E(i, j) over all ordered pairs."""
    total = NOTHING
    for i in range(len(b)):
        for j in range(len(b)):
            total = total + of_pair(b[i], b[j], eps_occ[i], eps_occ[j], eps_vir)
    return total


def of_flat(t_flat, eps_chunk, eps_occ, eps_vir: np.ndarray) -> Energy:
    """The sum over the pairs of a chunk with all orbitals, T[i nvir + a, j nvir + b]."""
    n = len(eps_vir)
    total = NOTHING
    for i in range(len(eps_chunk)):
        for j in range(len(eps_occ)):
            block = t_flat[i * n : (i + 1) * n, j * n : (j + 1) * n]
            total = total + of_amplitudes(block, eps_chunk[i], eps_occ[j], eps_vir)
    return total
