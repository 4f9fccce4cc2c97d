"""Fourier transforms on native tensors, by torch.

Three forms, each forward or inverse: complex to complex, real to half a spectrum, half a spectrum
to real. What torch has to compute again and again, a descriptor or a plan that is kept computes in
its place. On a CPU without MKL SciPy computes the transform of one vector.

Arguments that torch refuses are handed to torch, so that it raises the error it always raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from trnfft._arguments import Norm
from trnfft._eager import device_transform, host_transform
from trnfft._vectors import vector_transform

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
    return _along("fft" if forward else "ifft", x, n, dim, norm)


def r2c(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the first ``n // 2 + 1`` bins of the transform of a real ``x`` along ``dim``."""
    return _along("rfft" if forward else "ihfft", x, n, dim, norm)


def c2r(x: Tensor, n: int | None, dim: int, norm: Norm, forward: bool) -> Tensor:
    """Return the n real points of which ``x`` has the first ``n // 2 + 1`` bins along ``dim``."""
    return _along("hfft" if forward else "irfft", x, n, dim, norm)


def c2c_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform of ``x``, real or complex, along several dimensions."""
    return _over("fftn" if forward else "ifftn", x, s, dims, norm)


def r2c_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the transform of a real ``x``, with half the bins along the last of the dimensions."""
    return _over("rfftn" if forward else "ihfftn", x, s, dims, norm)


def c2r_nd(x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm, forward: bool) -> Tensor:
    """Return the real tensor of which ``x`` has half the bins along the last of the dimensions."""
    return _over("hfftn" if forward else "irfftn", x, s, dims, norm)


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

_TORCHS: dict[str, Callable[..., Tensor]] = {
    **{name: getattr(torch.fft, name) for name in ("fft", "ifft", "rfft", "irfft", "hfft")},
    **{name: getattr(torch.fft, name) for name in ("fftn", "ifftn", "rfftn", "irfftn", "hfftn")},
    "ihfft": ihfft,
    "ihfftn": ihfftn,
}
_ON_HOST = {name: host_transform(name, function) for name, function in _TORCHS.items()}
_OF_VECTORS = {
    name: vector_transform(name, function)
    for name, function in _TORCHS.items()
    if not name.endswith("n")
}
_ON_DEVICE = {name: device_transform(name, function) for name, function in _TORCHS.items()}


def _along(name: str, x: Tensor, n: int | None, dim: int, norm: Norm) -> Tensor:
    """Return a transform along one dimension."""
    if type(x) is Tensor and x.is_cpu and x.ndim == 1:
        return _OF_VECTORS[name](x, n, dim, norm)
    return _transforms_of(x)[name](x, n, dim, norm)


def _over(name: str, x: Tensor, s: Sequence[int], dims: Sequence[int], norm: Norm) -> Tensor:
    """Return a transform along several dimensions."""
    return _transforms_of(x)[name](x, s, dims, norm)


def _transforms_of(x: Tensor) -> dict[str, Callable[..., Tensor]]:
    """Return what computes the transforms of a tensor, by name."""
    if type(x) is not Tensor:
        return _TORCHS
    if x.is_cpu:
        return _ON_HOST
    return _ON_DEVICE if x.is_cuda else _TORCHS
