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
from trnfft._single import SINGLE, single

__all__ = [
    "c2c",
    "c2c_nd",
    "c2r",
    "c2r_nd",
    "hfft2",
    "hfftn",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "r2c",
    "r2c_nd",
]


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
    return (torch.fft.rfft if forward else ihfft)(x, n, dim, norm)


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
    return (torch.fft.rfftn if forward else ihfftn)(x, s, dims, norm)


def c2r_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the real tensor of which ``x`` has half the bins along the last of the dimensions."""
    return (hfftn if forward else torch.fft.irfftn)(x, s, dims, norm)


def ihfft(*args: Any) -> Tensor:
    """Return ``torch.fft.ihfft`` with its conjugation done, which torch leaves for later."""
    found: Tensor = torch.fft.ihfft(*args)
    return found.resolve_conj()


def ihfft2(*args: Any) -> Tensor:
    """Return ``torch.fft.ihfft2`` with its conjugation done."""
    found: Tensor = _ihfft2(*args)
    return found.resolve_conj()


def ihfftn(*args: Any) -> Tensor:
    """Return ``torch.fft.ihfftn`` with its conjugation done."""
    found: Tensor = _ihfftn(*args)
    return found.resolve_conj()


hfft2: Any = torch.fft.hfft2
hfftn: Any = torch.fft.hfftn
_ihfft2: Any = torch.fft.ihfft2
_ihfftn: Any = torch.fft.ihfftn
