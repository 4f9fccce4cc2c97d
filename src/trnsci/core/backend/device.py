"""The NeuronCore that torch can use, and operands that stay on it between calls.

``to_device`` returns an ordinary torch tensor. With a NeuronCore it is on the device: kernels
use it without a copy, and their results stay on the device until ``from_device`` copies them
back. Without a NeuronCore it is the given tensor.
"""

from __future__ import annotations

import glob
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import torch

_NODES = "/dev/neuron[0-9]*"
_SIMULATOR = "nkitorch"
"""The package that registers a simulated device "neuron" with torch. It is never imported here."""


@dataclass(frozen=True)
class NeuronDevice:
    """A NeuronCore as torch addresses it.

    Attributes:
        kind: ``"native"`` for torch's own ``neuron`` device type, ``"xla"`` for torch_xla.
        torch_device: Argument for ``tensor.to``.
    """

    kind: Literal["native", "xla"]
    torch_device: Any


probed: list[NeuronDevice | None] = []
"""The cached result of the probe; empty before it has run."""


def neuron_device() -> NeuronDevice | None:
    """Return the NeuronCore of this process, or None; probed once, never raises.

    If the Neuron driver has no device node, nothing is imported.
    """
    return (probed or probe())[0]


def probe() -> list[NeuronDevice | None]:
    """Return ``probed`` with the result of the probe."""
    probed.append(_probe())
    return probed


def forget_device() -> None:
    """Clear the cached probe result."""
    probed.clear()


def _probe() -> NeuronDevice | None:
    if not glob.glob(_NODES):
        return None
    for probe in (_native, _xla):
        try:
            found = probe()
        except Exception:
            # A broken or missing runtime counts as no device. `set_backend("nki")` shows the
            # cause, since the kernel's own exception is then reported.
            continue
        if found is not None:
            return found
    return None


def _native() -> NeuronDevice | None:
    torch: Any = import_module("torch")
    if _SIMULATOR in sys.modules or not torch.neuron.is_available():
        return None
    return NeuronDevice("native", torch.device("neuron"))


def _xla() -> NeuronDevice | None:
    xla_model: Any = import_module("torch_xla.core.xla_model")
    device = xla_model.xla_device()
    if _SIMULATOR in sys.modules and device.type == "neuron":
        return None
    return NeuronDevice("xla", device) if xla_model.xla_device_hw(device) == "NEURON" else None


def device_is_simulated() -> bool:
    """Return whether the device "neuron" is the one of nkisim, and kernels run on its tensors.

    They do until ``nkisim.uninstall``; the device itself stays.
    """
    nkitorch = sys.modules.get(_SIMULATOR)
    return nkitorch is not None and nkitorch.front_end.is_enabled()


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
