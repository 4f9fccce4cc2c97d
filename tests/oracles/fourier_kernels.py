"""Fourier transforms and complex products by their definitions in float64, and float32's distance.

The angle of an entry is reduced in integers, so it is as exact for the last entry of a matrix as
for the first. A complex product of K terms is a real one of 2 K, whose bound is that of
``blas_kernels``; a transform's matrix is rounded once more, by u of each term.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from oracles.blas_kernels import FLOAT32_ROUNDOFF, Expected, product

BFLOAT16_ROUNDOFF = 2.0**-8
AROUND_TILES = (*range(1, 34), *range(61, 68), *range(120, 137), 180, 191, *range(248, 261))
"""Short lengths, and those whose points or bins are about as many as a tile has."""


@lru_cache(maxsize=4)
def fourier_matrix(n: int, inverse: bool = False) -> np.ndarray:
    """``exp(-2 pi i j k / n)``, or with the other sign; the inverse is not scaled."""
    index = np.arange(n)
    roots = np.exp((2j if inverse else -2j) * np.pi * (index / n))
    matrix = roots[np.outer(index, index) % n]
    matrix.setflags(write=False)
    return matrix


def complex_product(
    a: np.ndarray, b: np.ndarray, bias: np.ndarray | None = None, rounded_matrix: bool = False
) -> tuple[Expected, Expected]:
    """Both parts of ``a b + bias`` of complex128 arrays.

    With ``rounded_matrix`` the kernel multiplies by ``b`` rounded to float32.
    """
    left = np.hstack([a.real, a.imag])
    parts = []
    for right, added in (
        (np.vstack([b.real, -b.imag]), None if bias is None else bias.real),
        (np.vstack([b.imag, b.real]), None if bias is None else bias.imag),
    ):
        c = None if added is None else np.broadcast_to(added, (len(a), b.shape[1]))
        want = product(left, right, beta=1.0, c=c)
        if rounded_matrix:
            # The rounded entries are up to (1 + u) times as large, which is far below one rounding.
            want.tolerance += 2 * FLOAT32_ROUNDOFF * (np.abs(left) @ np.abs(right))
            # Here a sine of pi is 1.2e-16: entries of the definition are wrong by up to 2^-50.
            want.tolerance += 2.0**-50 * np.abs(right).max() * np.abs(left).sum(1, keepdims=True)
        parts.append(want)
    return parts[0], parts[1]


def frames(signals: np.ndarray, n_fft: int, hop: int) -> np.ndarray:
    """The whole frames of each signal, one after the other, (batch, frames, n_fft)."""
    count = 1 + (signals.shape[1] - n_fft) // hop
    return np.stack(
        [[signal[f * hop : f * hop + n_fft] for f in range(count)] for signal in signals]
    )


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    """The L2 norm of the error over that of the result."""
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))
