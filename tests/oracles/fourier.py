"""Fourier transforms and what is made of them by their definitions, in complex128.

Names, arguments and defaults are those of trnfft; arrays are NumPy's. A transform is a product with
the matrix of its definition.
"""

from __future__ import annotations

import mpmath
import numpy as np

from oracles.fourier_kernels import fourier_matrix


def scale_of(n, norm, inverse):
    """The factor that ``norm`` asks for with n points in all."""
    name = norm or "backward"
    if name == "ortho":
        return 1 / np.sqrt(n)
    return 1 / n if (name == "backward") == inverse else 1.0


def resized(x, n, dim):
    """Cut or padded with zeros to n entries along ``dim``."""
    n = x.shape[dim] if n is None or n == -1 else n
    kept = np.moveaxis(x, dim, -1)[..., :n]
    out = np.zeros((*kept.shape[:-1], n), x.dtype)
    out[..., : kept.shape[-1]] = kept
    return np.moveaxis(out, -1, dim)


def _along(matrix, x, dim):
    return np.moveaxis(np.moveaxis(x, dim, -1) @ matrix.T, -1, dim)


def fft(x, n=None, dim=-1, norm=None, inverse=False):
    x = resized(np.asarray(x, complex), n, dim)
    n = x.shape[dim]
    return _along(fourier_matrix(n, inverse), x, dim) * scale_of(n, norm, inverse)


def ifft(x, n=None, dim=-1, norm=None):
    return fft(x, n, dim, norm, inverse=True)


def rfft(x, n=None, dim=-1, norm=None):
    return _half(fft(x, n, dim, norm), dim)


def ihfft(x, n=None, dim=-1, norm=None):
    return _half(ifft(x, n, dim, norm), dim)


def irfft(x, n=None, dim=-1, norm=None):
    return ifft(whole_spectrum(x, n, dim), None, dim, norm).real


def hfft(x, n=None, dim=-1, norm=None):
    return fft(whole_spectrum(x, n, dim), None, dim, norm).real


def _half(full, dim):
    return np.moveaxis(np.moveaxis(full, dim, -1)[..., : full.shape[dim] // 2 + 1], -1, dim)


def whole_spectrum(bins, n, dim):
    """The n bins of a real signal of which the first ``n // 2 + 1`` are given."""
    n = 2 * (bins.shape[dim] - 1) if n is None or n == -1 else n
    half = np.moveaxis(resized(np.asarray(bins, complex), n // 2 + 1, dim), dim, -1)
    full = np.zeros((*half.shape[:-1], n), complex)
    for k in range(n):
        full[..., k] = half[..., k] if 2 * k <= n else half[..., n - k].conj()
        if 2 * k in (0, n):
            full[..., k].imag = 0
    return np.moveaxis(full, -1, dim)


def _dims(x, s, dim):
    if dim is None:
        dim = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    dim = [d % x.ndim for d in dim]
    return ([None] * len(dim) if s is None else list(s)), dim


def _over(transform, x, s, dims, norm):
    for n, d in zip(s, dims, strict=True):
        x = transform(x, n, d, norm)
    return x


def fftn(x, s=None, dim=None, norm=None):
    s, dims = _dims(x, s, dim)
    return _over(fft, x, s, dims, norm)


def ifftn(x, s=None, dim=None, norm=None):
    s, dims = _dims(x, s, dim)
    return _over(ifft, x, s, dims, norm)


def rfftn(x, s=None, dim=None, norm=None):
    s, dims = _dims(x, s, dim)
    return _over(fft, rfft(x, s[-1], dims[-1], norm), s[:-1], dims[:-1], norm)


def ihfftn(x, s=None, dim=None, norm=None):
    s, dims = _dims(x, s, dim)
    return _over(ifft, ihfft(x, s[-1], dims[-1], norm), s[:-1], dims[:-1], norm)


def irfftn(x, s=None, dim=None, norm=None):
    s, dims = _dims(x, s, dim)
    return irfft(_over(ifft, x, s[:-1], dims[:-1], norm), s[-1], dims[-1], norm)


def hfftn(x, s=None, dim=None, norm=None):
    s, dims = _dims(x, s, dim)
    return hfft(_over(fft, x, s[:-1], dims[:-1], norm), s[-1], dims[-1], norm)


def exact_fft(x, digits=40):
    """The transform with ``digits`` digits, rounded to complex128 at the end."""
    with mpmath.workdps(digits):
        n = len(x)
        roots = [mpmath.expjpi(mpmath.mpf(-2 * k) / n) for k in range(n)]
        values = [mpmath.mpmathify(complex(v)) for v in x]
        sums = [mpmath.fsum(values[j] * roots[j * k % n] for j in range(n)) for k in range(n)]
        return np.array([complex(v) for v in sums])


def hann(n):
    """The periodic Hann window; that of one sample is one, as in SciPy."""
    return np.ones(1) if n == 1 else 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)


def _framed_window(window, n_fft):
    out = np.zeros(n_fft, window.dtype)
    left = (n_fft - len(window)) // 2
    out[left : left + len(window)] = window
    return out


def stft(x, n_fft, hop, window, center=True, pad_mode="reflect", normalized=False, onesided=True):
    """Frame by frame, of a vector; ``pad_mode`` by NumPy's name."""
    if center:
        x = np.pad(x, n_fft // 2, mode=pad_mode)
    window = _framed_window(window, n_fft)
    count = 1 + (len(x) - n_fft) // hop
    frames = np.stack([x[t * hop : t * hop + n_fft] * window for t in range(count)])
    bins = fft(frames, norm="ortho" if normalized else None).T
    return bins[: n_fft // 2 + 1] if onesided else bins


def istft(bins, n_fft, hop, window, center=True, length=None, onesided=True):
    """Sample by sample, of the bins of one real signal."""
    frames = irfft(bins.T, n_fft) if onesided else ifft(bins.T).real
    window = _framed_window(window, n_fft)
    count = len(frames)
    signal = np.zeros(n_fft + hop * (count - 1))
    for i in range(len(signal)):
        covering = [(t, i - t * hop) for t in range(count) if 0 <= i - t * hop < n_fft]
        weight = sum(window[j] ** 2 for t, j in covering)
        if weight > 1e-8:
            signal[i] = sum(frames[t, j] * window[j] for t, j in covering) / weight
        else:
            signal[i] = sum(frames[t, j] for t, j in covering)
    first = n_fft // 2 if center else 0
    last = len(signal) - first if length is None else first + length
    kept = signal[first:last]
    return kept if length is None else resized(kept, length, 0)


def convolve(a, b):
    """The full convolution along every dimension, term by term."""
    shape = [m + n - 1 for m, n in zip(a.shape, b.shape, strict=True)]
    out = np.zeros(shape, np.result_type(a, b))
    for at in np.ndindex(*a.shape):
        out[tuple(slice(i, i + n) for i, n in zip(at, b.shape, strict=True))] += a[at] * b
    return out


def trigonometric_matrix(sine, type, n):
    """The matrix of a cosine or sine transform, as the table of trnfft.cosine has it."""
    k, j = np.arange(n)[:, None], np.arange(n)[None, :]
    # Numerators and denominators of the angle over pi; reduced in integers.
    if sine:
        top, bottom = {
            1: ((k + 1) * (j + 1), n + 1),
            2: ((k + 1) * (2 * j + 1), 2 * n),
            3: ((2 * k + 1) * (j + 1), 2 * n),
            4: ((2 * k + 1) * (2 * j + 1), 4 * n),
        }[type]
        matrix = 2 * np.sin(np.pi * (top % (2 * bottom)) / bottom)
        halved = [n - 1] if type == 3 else []
    else:
        top, bottom = {
            1: (k * j, n - 1),
            2: (k * (2 * j + 1), 2 * n),
            3: ((2 * k + 1) * j, 2 * n),
            4: ((2 * k + 1) * (2 * j + 1), 4 * n),
        }[type]
        matrix = 2 * np.cos(np.pi * (top % (2 * bottom)) / bottom)
        halved = {1: [0, n - 1], 3: [0]}.get(type, [])
    for column in halved:
        matrix[:, column] /= 2
    return matrix
