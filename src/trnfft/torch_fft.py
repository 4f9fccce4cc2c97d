"""A drop-in for ``torch.fft``: the same names, arguments, results and errors.

Tensors are native, real or complex, and so are results. Replace ``import torch.fft`` by ``from
trnfft import torch_fft`` and nothing else changes, but that transforms on a CPU are faster.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.fft import fftfreq, fftshift, ifftshift, rfftfreq

from trnfft import nd
from trnfft._arguments import Dims, Norm
from trnfft._dispatch import c2c, c2r, kernels_wanted, r2c
from trnfft._eager import device_transform, host_transform
from trnfft.complex_tensor import ComplexTensor

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


class OneDimension(Protocol):
    """A function of ``torch.fft`` that transforms along one dimension."""

    def __call__(
        self,
        input: Tensor,
        n: int | None = None,
        dim: int = -1,
        norm: Norm = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the transform."""
        ...


class Dimensions(Protocol):
    """A function of ``torch.fft`` that transforms along several dimensions."""

    def __call__(
        self,
        input: Tensor,
        s: Dims = None,
        dim: Dims = ...,
        norm: Norm = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the transform."""
        ...


def _one(name: str, transform: Any, forward: bool) -> OneDimension:
    """Return the function ``name`` of ``torch.fft``, computed by ``transform``."""
    reference = getattr(torch.fft, name)

    def function(
        input: Tensor,
        n: int | None = None,
        dim: int = -1,
        norm: Norm = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        if out is not None:
            return reference(input, n, dim, norm, out=out)
        return transform(input, n, dim, norm, forward)

    return _named(function, name)


def _several(name: str, default: Dims = None) -> Dimensions:
    """Return the function ``name`` of ``torch.fft``; ``default`` is that of ``dim``."""
    reference = getattr(torch.fft, name)
    on_host, on_device = host_transform(name, reference), device_transform(name, reference)

    def function(
        input: Tensor,
        s: Dims = None,
        dim: Dims = default,
        norm: Norm = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        if out is None and kernels_wanted():
            result = getattr(nd, name)(input, s, dim, norm)
            return result.to_torch_complex() if isinstance(result, ComplexTensor) else result
        if out is None and type(input) is Tensor:
            if input.is_cpu:
                return on_host(input, s, dim, norm)
            if input.is_cuda:
                return on_device(input, s, dim, norm)
        return reference(input, s, dim, norm, out=out)

    return _named(function, name)


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return what ``torch.fft.{name}`` returns."
    return function


_LAST_TWO = (-2, -1)

fft = _one("fft", c2c, True)
ifft = _one("ifft", c2c, False)
rfft = _one("rfft", r2c, True)
irfft = _one("irfft", c2r, False)
hfft = _one("hfft", c2r, True)
ihfft = _one("ihfft", r2c, False)

fftn = _several("fftn")
ifftn = _several("ifftn")
rfftn = _several("rfftn")
irfftn = _several("irfftn")
hfftn = _several("hfftn")
ihfftn = _several("ihfftn")

fft2 = _several("fft2", _LAST_TWO)
ifft2 = _several("ifft2", _LAST_TWO)
rfft2 = _several("rfft2", _LAST_TWO)
irfft2 = _several("irfft2", _LAST_TWO)
hfft2 = _several("hfft2", _LAST_TWO)
ihfft2 = _several("ihfft2", _LAST_TWO)
