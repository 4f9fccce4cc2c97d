"""Transfer of operands to and from the NeuronCore, to keep them there between calls."""

from __future__ import annotations

from torch import Tensor

from trnsci.core.backend.device import from_device, neuron_device, to_device
from trnsci.core.backend.library import device_ready
from trnsci.core.errors import BackendError

__all__ = ["from_xla", "to_xla"]


def to_xla(tensor: Tensor) -> Tensor:
    """Return a tensor on the NeuronCore; one that is already there is returned unchanged.

    Kernels use it without a copy, and their results stay on the NeuronCore.

    Raises:
        BackendError: There is no NeuronCore with AWS's NKI.
    """
    device = neuron_device()
    if device is not None and tensor.device.type == device.torch_device.type:
        return tensor
    if not device_ready():
        raise BackendError(
            "trntensor.to_xla: there is no NKI runtime here: it needs a NeuronCore and AWS's NKI"
        )
    return to_device(tensor)


def from_xla(tensor: Tensor) -> Tensor:
    """Return a tensor of the NeuronCore on the CPU; any other tensor unchanged."""
    return from_device(tensor)
