"""Fourier transforms on native tensors, by torch.

Three forms, each forward or inverse: complex to complex, real to half a spectrum, half a spectrum
to real. In one dimension SciPy computes a single transform where it is faster.

Arguments that torch refuses are handed to torch, so that it raises the error it always raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft._arguments import Norm
from trnfft._single import single

__all__ = ["c2c", "c2c_nd", "c2r", "c2r_nd", "r2c", "r2c_nd"]

# From this many points on SciPy can be the faster one; below, calling it costs more than it gains.
SINGLE = 192


def c2c(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the discrete Fourier transform of ``x``, real or complex, along ``dim``."""
    if type(x) is Tensor and x.ndim == 1 and x.shape[0] >= SINGLE:
        result = single("fft" if forward else "ifft", x, n, dim, norm)
        if result is not None:
            return result
    return (torch.fft.fft if forward else torch.fft.ifft)(x, n, dim, norm)


def r2c(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the first ``n // 2 + 1`` bins of the transform of a real ``x`` along ``dim``."""
    if type(x) is Tensor and x.ndim == 1 and x.shape[0] >= SINGLE:
        result = single("rfft" if forward else "ihfft", x, n, dim, norm)
        if result is not None:
            return result
    if forward:
        return torch.fft.rfft(x, n, dim, norm)
    return torch.fft.ihfft(x, n, dim, norm).resolve_conj()  # which torch leaves to be done later


def c2r(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the n real points of which ``x`` has the first ``n // 2 + 1`` bins along ``dim``."""
    if type(x) is Tensor and x.ndim == 1 and 2 * x.shape[0] >= SINGLE:
        result = single("hfft" if forward else "irfft", x, n, dim, norm)
        if result is not None:
            return result
    return (torch.fft.hfft if forward else torch.fft.irfft)(x, n, dim, norm)


def c2c_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform of ``x``, real or complex, along several dimensions."""
    return (torch.fft.fftn if forward else torch.fft.ifftn)(x, s, dims, norm)


def r2c_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform of a real ``x``, with half the bins along the last of the dimensions."""
    if forward:
        return torch.fft.rfftn(x, s, dims, norm)
    found: Tensor = _ihfftn(x, s, dims, norm)
    return found.resolve_conj()


def c2r_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the real tensor of which ``x`` has half the bins along the last of the dimensions."""
    return (_hfftn if forward else torch.fft.irfftn)(x, s, dims, norm)


_hfftn: Any = torch.fft.hfftn
_ihfftn: Any = torch.fft.ihfftn
