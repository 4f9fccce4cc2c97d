"""Keeping operands on the NeuronCore between calls.

A tensor that ``to_device`` returns is an ordinary torch tensor. Where there is a NeuronCore it
lives there: kernels take it without a copy and leave their results beside it, until
``from_device`` brings one back. Where there is none it is the tensor that was given.
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
    """Return a tensor of the NeuronCore on ``device``; any other tensor as it is."""
    neuron = neuron_device()
    if neuron is None or tensor.device.type != neuron.torch_device.type:
        return tensor
    return tensor.to(device)
