"""A drop-in replacement for ``torch.fft``: the same names, arguments, results and errors.

Inputs and results are native tensors, real or complex. Replace ``import torch.fft`` by ``from
trnfft import torch_fft``; the only difference is that transforms can run on kernels.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.fft import fftfreq, fftshift, ifftshift, rfftfreq

from trnfft import nd
from trnfft._complex.arguments import has_complex
from trnfft._library import kernels_wanted
from trnfft._paths.arguments import Dims, Norm
from trnfft.complex_tensor import ComplexTensor
from trnfft.transforms import fits, transform

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


def _one(name: str) -> OneDimension:
    """Return the function ``name`` of ``torch.fft``."""
    reference = getattr(torch.fft, name)

    def function(
        input: Tensor,
        n: int | None = None,
        dim: int = -1,
        norm: Norm = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        if out is None and _not_by_torch(input) and fits(name, input, n, dim, norm):
            return transform(name, input, n, dim, norm)
        return reference(input, n, dim, norm, out=out)

    return _named(function, name)


def _several(name: str, default: Dims = None) -> Dimensions:
    """Return the function ``name`` of ``torch.fft``; ``default`` is the default of ``dim``."""
    reference = getattr(torch.fft, name)

    def function(
        input: Tensor,
        s: Dims = None,
        dim: Dims = default,
        norm: Norm = None,
        *,
        out: Tensor | None = None,
    ) -> Tensor:
        if out is None and _not_by_torch(input):
            result = getattr(nd, name)(input, s, dim, norm)
            return result.to_torch_complex() if isinstance(result, ComplexTensor) else result
        return reference(input, s, dim, norm, out=out)

    return _named(function, name)


def _not_by_torch(input: object) -> bool:
    """Return whether kernels are enabled, or torch has no complex dtypes on the device."""
    if not isinstance(input, Tensor):
        return False
    return kernels_wanted() is not None or not has_complex(input.device)


def _named(function: Any, name: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return ``torch.fft.{name}`` of the same arguments."
    return function


_LAST_TWO = (-2, -1)

fft = _one("fft")
ifft = _one("ifft")
rfft = _one("rfft")
irfft = _one("irfft")
hfft = _one("hfft")
ihfft = _one("ihfft")

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
