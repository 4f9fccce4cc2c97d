"""Conversion between complex tensors and real tensors with the parts in a last dimension of two.

Operations take the real form. It is a view of a native complex tensor if the device has complex
dtypes. On other devices it is stacked from the parts and converted back to a ComplexTensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnfft._complex.arguments import HALVES, NATIVE, has_complex
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
    if parts.dtype in NATIVE and has_complex(parts.device):
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


def native(x: Tensor, is_complex: bool) -> Tensor:
    """Return an operand in the form that torch computes on.

    It is moved to the host if the device has no complex dtypes, and widened if its dtype has none.
    """
    held = x if has_complex(x.device) else x.cpu()
    if held.dtype in HALVES:
        held = held.float()
    return as_complex(held) if is_complex else held


def result_like(value: Tensor, x: Tensor) -> Tensor:
    """Return a result of torch with its parts, on the device and in the dtype of the operand."""
    return as_parts(value).to(x.device, x.dtype)


def split(x: Tensor, is_complex: bool) -> tuple[Tensor, Tensor | None]:
    """Return the parts of an operand for a kernel; a real operand has one."""
    return (x[..., 0], x[..., 1]) if is_complex else (x, None)


def joined(parts: Any) -> Tensor:
    """Return two parts in a last dimension of two, a real result unchanged."""
    return torch.stack(parts, dim=-1) if isinstance(parts, tuple) else parts
