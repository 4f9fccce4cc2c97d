"""Transforms of any length in complex128: by the definition while it is affordable, by FFT beyond.

NumPy's FFT in complex128 is wrong by less than 2^-53 * 5 log2(n) of the norm (its own bound for the
error of an FFT with exact twiddles), which is 1e-14 at 2^20: nothing beside float32's 6e-8.
"""

from __future__ import annotations

import numpy as np

from oracles.fourier_kernels import fourier_matrix

DEFINITION_UP_TO = 3072


def transform(x: np.ndarray, inverse: bool = False) -> np.ndarray:
    """The unscaled transform of each row."""
    x = np.asarray(x).astype(np.complex128)
    n = x.shape[-1]
    if n <= DEFINITION_UP_TO:
        return x @ fourier_matrix(n, inverse)
    return np.fft.ifft(x) * n if inverse else np.fft.fft(x)


def hermitian(bins: np.ndarray, n: int, inverse: bool = True) -> np.ndarray:
    """The unscaled real transform of a spectrum of which the first n // 2 + 1 points are given.

    Point n - k is the conjugate of point k, and points that are their own conjugates are real.
    """
    full = np.zeros((*bins.shape[:-1], n), np.complex128)
    k = np.arange(n // 2 + 1)
    full[..., (n - k) % n] = np.conj(bins)
    full[..., k] = bins
    own = k[(n - k) % n == k]
    full[..., own] = bins[..., own].real
    return transform(full, inverse).real


def image(x: np.ndarray, inverse: bool = False) -> np.ndarray:
    """The unscaled transform over the last two dimensions."""
    over_columns = np.swapaxes(transform(np.swapaxes(x, -1, -2), inverse), -1, -2)
    return transform(over_columns, inverse)


def worst_error(got: np.ndarray, want: np.ndarray) -> float:
    """The largest relative L2 error of one result of a batch, so that none hides behind others."""
    assert got.shape == want.shape
    got, want = got.reshape(len(got), -1), want.reshape(len(want), -1)
    return float(np.max(np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)))
