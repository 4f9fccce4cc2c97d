"""Operands that stay on the NeuronCore between calls.

``to_device`` returns an ordinary torch tensor. With a NeuronCore it is on the device: kernels
use it without a copy, and their results stay on the device until ``from_device`` copies them
back. Without a NeuronCore it is the given tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsci.core.backend.device import neuron_device

if TYPE_CHECKING:
    import torch

__all__ = ["from_device", "to_device"]


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` on the NeuronCore; without one, ``tensor`` itself."""
    device = neuron_device()
    return tensor if device is None else tensor.to(device.torch_device)


def from_device(tensor: torch.Tensor, device: str | torch.device = "cpu") -> torch.Tensor:
    """Return a tensor of the NeuronCore on ``device``; any other tensor unchanged."""
    neuron = neuron_device()
    if neuron is None or tensor.device.type != neuron.torch_device.type:
        return tensor
    return tensor.to(device)
