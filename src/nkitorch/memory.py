"""Tensors of the device "neuron": CPU memory under another device type, shared without a copy."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nkitorch.interop import CPU, EXTENSION, negative_view, relabelled, with_cpu_kernel

_AS_STRIDED = torch.ops.aten.as_strided.default


def is_neuron(value: Any) -> bool:
    """Return whether this is a tensor of the device."""
    return isinstance(value, Tensor) and value.device.type == "neuron"


def to_host(tensor: Tensor) -> Tensor:
    """Return a CPU tensor that shares the memory of a tensor of the device.

    The twin of an empty tensor is new, so that an operator can resize it.
    """
    if not tensor.numel():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    if tensor.is_conj():  # DLPack has no lazy conjugation or negation
        return to_host(tensor.conj()).conj()
    if tensor.is_neg():
        return negative_view(to_host(negative_view(tensor)))
    host = relabelled(tensor, CPU)
    if host.stride() != tensor.stride():  # DLPack gives extents of 1 a stride of its own
        host = host.as_strided(tensor.shape, tensor.stride())
    return host


def to_neuron(tensor: Tensor) -> Tensor:
    """Return a tensor of the device that shares the memory of a CPU tensor.

    Raises:
        NotImplementedError: The tensor is sparse, quantized or of another layout without strides.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        kind = "quantized" if tensor.is_quantized else f"{tensor.layout} "
        raise NotImplementedError(
            f"device neuron: {kind} tensors are not simulated; convert with .to_dense() or "
            ".dequantize(), or compute on the CPU"
        )
    plain = tensor.detach() if tensor.requires_grad else tensor
    if plain.is_conj() or plain.is_neg():
        plain = plain.resolve_conj().resolve_neg()
    if plain.numel() and not plain.data_ptr():  # zeros that torch stores without memory
        plain = torch.zeros(plain.shape, dtype=plain.dtype)
    found = relabelled(plain, EXTENSION)
    if found.stride() != plain.stride():
        form = plain.shape, plain.stride(), 0
        found = with_cpu_kernel(_AS_STRIDED, (found, *form), {})
    return found
