"""Cosine and sine transforms on native tensors: by SciPy, or as Fourier transforms.

Those are torch's, or for the kernels of ``doublefloat`` those that the caller passes; products with
roots of unity are torch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from trnfft._complex.arguments import NATIVE
from trnfft._kernels.angles import roots
from trnfft._paths.arguments import Norm
from trnfft._paths.empty import is_empty
from trnfft._paths.scipy_fft import scipy_fft
from trnfft._planning.tables import cacheable
from trnsci.core.numbers.constants import Constants
from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import inert

_HALF_ROOT = math.sqrt(0.5)

Fourier: TypeAlias = Callable[[str, Tensor, int | None, Norm], Tensor]
"""``fourier(kind, x, n, norm)``: a transform of ``torch.fft`` along the last dimension."""


def trigonometric(
    x: Tensor,
    sine: bool,
    type: int,
    n: int,
    dim: int,
    norm: Norm,
    orthogonalize: bool,
    fourier: Fourier | None = None,
) -> Tensor:
    """Return the cosine or sine transform of one of four types along ``dim``.

    ``fourier`` computes the Fourier transform that it needs; by default torch does, or SciPy
    computes all.
    """
    if fourier is None and x.is_cpu and x.numel() and inert(x):
        function = scipy_fft().dst if sine else scipy_fft().dct
        array = function(array_of(x), type, n, dim, norm, orthogonalize=orthogonalize)
        return torch.from_numpy(array)
    if x.is_complex():
        parts = (
            trigonometric(part, sine, type, n, dim, norm, orthogonalize, fourier)
            for part in torch.view_as_real(x.resolve_conj()).unbind(-1)
        )
        return torch.complex(*parts)
    x = _resized(x.movedim(dim, -1), n)
    if is_empty(x):
        return x.movedim(-1, dim)
    if orthogonalize:
        x = _scaled_points(x, sine, type)
    y = (_sine if sine else _cosine)(x, type, fourier or by_torch)
    if orthogonalize:
        y = _scaled_bins(y, sine, type)
    scale = _scale(n, sine, type, norm)
    return (y if scale == 1 else y * scale).movedim(-1, dim)


def by_torch(kind: str, x: Tensor, n: int | None, norm: Norm) -> Tensor:
    """Return a Fourier transform of torch along the last dimension."""
    function: Callable[..., Tensor] = getattr(torch.fft, kind)
    return function(x, n, norm=norm)


def _cosine(x: Tensor, type: int, fourier: Fourier) -> Tensor:
    if type == 1:
        # An even signal of 2(N-1) points has a real spectrum.
        return fourier("rfft", torch.cat([x, x[..., 1:-1].flip(-1)], -1), None, None).real
    return (_cosine_2, _cosine_3, _cosine_4)[type - 2](x, fourier)


def _sine(x: Tensor, type: int, fourier: Fourier) -> Tensor:
    """Return a sine transform as the cosine transform of a reversed or sign-alternated signal."""
    n = x.shape[-1]
    if type == 1:
        # An odd signal of 2(N+1) points has an imaginary spectrum.
        zero = torch.zeros_like(x[..., :1])
        odd = torch.cat([zero, x, zero, -x.flip(-1)], -1)
        return -fourier("rfft", odd, None, None).imag[..., 1 : n + 1]
    signs = torch.ones(n, dtype=x.dtype, device=x.device)
    signs[1::2] = -1
    if type == 2:
        return _cosine_2(x * signs, fourier).flip(-1)
    return _cosine(x.flip(-1), type, fourier) * signs


def _cosine_2(x: Tensor, fourier: Fourier) -> Tensor:
    """Return the cosine transform of type II from one Fourier transform of N real points."""
    n = x.shape[-1]
    reordered = torch.cat([x[..., ::2], x[..., 1::2].flip(-1)], -1)
    rotated = fourier("rfft", reordered, None, None) * _roots(x, n // 2 + 1, 4 * n)
    # The real parts are the first bins; the imaginary parts, reversed, are the rest.
    return 2 * torch.cat([rotated.real, -rotated.imag[..., 1 : (n + 1) // 2].flip(-1)], -1)


def _cosine_3(x: Tensor, fourier: Fourier) -> Tensor:
    """Return the cosine transform of type III by inverting each step of type II."""
    n = x.shape[-1]
    half = n // 2 + 1
    reverse = torch.cat([torch.zeros_like(x[..., :1]), x[..., 1:].flip(-1)], -1)[..., :half]
    bins = torch.complex(x[..., :half], -reverse) * _roots(x, half, 4 * n).conj()
    reordered = fourier("irfft", bins, n, "forward")
    middle = (n + 1) // 2
    return _interleaved(reordered[..., :middle], reordered[..., middle:].flip(-1))


def _cosine_4(x: Tensor, fourier: Fourier) -> Tensor:
    """Return the cosine transform of type IV, by an FFT of N/2 points for even N, 2N for odd N."""
    n = x.shape[-1]
    eighths = _roots(x, 2 * n, 8 * n)
    if n % 2:
        bins = fourier("fft", x * eighths[::2], 2 * n, None)[..., :n]
        return 2 * (bins * eighths[1::2]).real
    folded = torch.complex(x[..., ::2], x[..., 1::2].flip(-1)) * eighths[1::4]
    bins = 2 * fourier("fft", folded, None, None) * _roots(x, n // 2, 2 * n)
    return _interleaved(bins.real, -bins.imag.flip(-1))


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """Return the tensor with these entries at even and odd indices, ``even`` at most one longer."""
    shared = odd.shape[-1]
    pairs = torch.stack([even[..., :shared], odd], -1).flatten(-2)
    return pairs if even.shape[-1] == shared else torch.cat([pairs, even[..., shared:]], -1)


def _roots(like: Tensor, count: int, order: int) -> Tensor:
    """Return ``exp(-2 pi i k / order)`` for k below ``count``, rounded once from float64."""
    dtype = NATIVE[like.dtype]
    if cacheable(like):
        # torch.jit.trace represents sizes as tensors.
        return _ROOTS((int(count), int(order)), like.device, dtype)[0]
    angle = torch.arange(count, dtype=torch.float64, device=like.device) * (-2 * math.pi / order)
    return torch.polar(torch.ones_like(angle), angle).to(dtype)


def _made_roots(key: tuple[int, int]) -> list[npt.NDArray[np.complex128]]:
    count, order = key
    real, imaginary = roots(order, np.arange(count, dtype=np.int64))
    return [real + 1j * imaginary]


_ROOTS: Constants[tuple[int, int]] = Constants(_made_roots, most_bytes=64 << 20)


def _scaled_points(x: Tensor, sine: bool, type: int) -> Tensor:
    if type == 1 and not sine:
        return _with_factors(x, math.sqrt(2.0), (0, -1))
    if type == 3:
        return _with_factors(x, math.sqrt(2.0), (-1 if sine else 0,))
    return x


def _scaled_bins(y: Tensor, sine: bool, type: int) -> Tensor:
    if type == 1 and not sine:
        return _with_factors(y, _HALF_ROOT, (0, -1))
    if type == 2:
        return _with_factors(y, _HALF_ROOT, (-1 if sine else 0,))
    return y


def _with_factors(x: Tensor, factor: float, places: tuple[int, ...]) -> Tensor:
    factors = torch.ones(x.shape[-1], dtype=x.dtype, device=x.device)
    for place in places:
        factors[place] = factor
    return x * factors


def _scale(n: int, sine: bool, type: int, norm: Norm) -> float:
    if norm in (None, "backward"):
        return 1.0
    period = 2 * n if type > 1 else 2 * (n + 1) if sine else 2 * (n - 1)
    return 1 / period if norm == "forward" else math.sqrt(1 / period)


def _resized(x: Tensor, n: int) -> Tensor:
    size = x.shape[-1]
    return x[..., :n] if n <= size else torch.nn.functional.pad(x, (0, n - size))
