"""Matrices of the transform kernels, as pairs of float64 arrays.

Scales and windows are multiplied in before the single rounding to the format of the kernel, so a
scaled transform has the cost and the error of an unscaled one. Entries are computed from exact
angles. Callers round a matrix to float32 or bfloat16 and cache it.
"""

from __future__ import annotations

import numpy as np

from trnfft._kernels.angles import Array, Pair, dft_matrix


def dft_constants(n: int, inverse: bool, scale: float) -> Pair:
    """Return W of ``x @ W``, (n, n): ``scale * exp(-2*pi*i*j*k/n)``, or with +i if ``inverse``."""
    return _scaled(dft_matrix(n, inverse), scale)


def rfft_constants(n: int, scale: float) -> Pair:
    """Return W of ``x @ W`` for the first n//2 + 1 bins, (n, n//2 + 1)."""
    return _scaled(dft_matrix(n, columns=n // 2 + 1), scale)


def irfft_constants(n: int, scale: float) -> Pair:
    """Return C and S of ``irfft``, ((n + 1)//2, n) each; with ``scale=1/n`` it inverts ``rfft``.

    The signal is ``sum over k of X_re[k] C[k] + X_im[k] S[k]``. Bins other than 0 and n/2 have
    weight two, for their mirror images. The imaginary parts of bins 0 and n/2 do not contribute to
    a real signal, so row 0 of S is used for the real part of bin n/2.
    """
    real, imaginary = dft_matrix(n, inverse=True, rows=(n + 1) // 2)
    weight = np.full((len(real), 1), 2.0 * scale)
    weight[0] = scale
    c, s = weight * real, 0.0 - weight * imaginary
    if n % 2 == 0:
        s[0, 0::2], s[0, 1::2] = scale, -scale
    return c, s


def stft_constants(window: Array, onesided: bool, scale: float) -> Pair:
    """Return W of ``frames @ W`` with the window on its rows, (n_fft, bins).

    Args:
        window: n_fft weights; the caller centres a shorter window.
        onesided: Whether only the first n_fft//2 + 1 bins are computed.
        scale: Factor of all entries, such as n_fft**-0.5.
    """
    n = len(window)
    matrix = dft_matrix(n, columns=n // 2 + 1 if onesided else n)
    return _scaled(matrix, scale * np.asarray(window, dtype=np.float64)[:, None])


def _scaled(pair: Pair, scale: float | Array) -> Pair:
    if isinstance(scale, float) and scale == 1.0:
        return pair
    return pair[0] * scale, pair[1] * scale
