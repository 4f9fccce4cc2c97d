"""Conversion between complex tensors and real tensors with the parts in a last dimension of two.

Operations take the real form. It is a view of a native complex tensor if the device has complex
dtypes. On other devices it is stacked from the parts and converted back to a ComplexTensor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnfft._complex.arguments import COMPLEX_DEVICES, NATIVE
from trnfft._complex.parts import Parts
from trnfft.complex_tensor import ComplexTensor


def as_parts(value: Tensor | ComplexTensor) -> Tensor:
    """Return a complex tensor as parts in a last dimension of two, a real tensor unchanged."""
    if isinstance(value, ComplexTensor):
        if not value.is_native:
            return torch.stack((value.real, value.imag), -1)
        value = value.to_torch_complex()
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def as_complex(parts: Tensor) -> Tensor:
    """Return parts in a last dimension of two as a native complex tensor."""
    return torch.view_as_complex(parts.contiguous())


def as_spectrum(parts: Tensor) -> Tensor | ComplexTensor:
    """Return parts in a last dimension of two as a native tensor, else as a ComplexTensor."""
    if parts.dtype in NATIVE and parts.device.type in COMPLEX_DEVICES:
        return as_complex(parts)
    return ComplexTensor._of(Parts(*parts.unbind(-1)))


def resized(x: Tensor, dim: int, size: int) -> Tensor:
    """Return the tensor truncated or zero-padded at the end of a dimension."""
    length = x.shape[dim]
    if length >= size:
        return x.narrow(dim, 0, size)
    shape = list(x.shape)
    shape[dim] = size - length
    return torch.cat([x, x.new_zeros(shape)], dim)
