"""Modules of AWS's extensions of torch under which programs import what ``nkitorch`` has."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from nkitorch.operators import nki_op, wrap_nki


def _nki(name: str) -> Any:
    """Return ``nki``, which programs import from ``torch_neuronx`` too: its ``__getattr__``."""
    if name != "nki":
        raise AttributeError(f"module 'torch_neuronx' has no attribute {name!r}")
    return import_module(name)


def _device(index: int | None = None) -> torch.device:
    """Return the device, as ``torch_xla`` names it."""
    return torch.device("neuron", index or 0)


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Return at once: operators have finished when they return."""


def _hardware(device: Any = None) -> str:
    """Return the kind of a device."""
    return "NEURON"


_NEURON: Any = torch.neuron  # type: ignore[attr-defined]

MODULES: dict[str, dict[str, Any]] = {
    "torch_neuronx": {
        "__getattr__": _nki,
        "current_device": _NEURON.current_device,
        "device_count": _NEURON.device_count,
        "is_available": _NEURON.is_available,
        "nki_op": nki_op,
        "synchronize": _NEURON.synchronize,
        "wrap_nki": wrap_nki,
    },
    "torch_neuronx.nki_hop": {"nki_op": nki_op, "wrap_nki": wrap_nki},
    "libtorch_neuronx_lite": {},
    "libtorch_neuronx_lite.nki": {},
    "libtorch_neuronx_lite.nki.nki_hop": {"wrap_nki": wrap_nki},
    "libtorch_neuronx_lite._compiler": {"nki_op": nki_op},
    "torch_xla": {"device": _device, "sync": _nothing},
    "torch_xla.core": {},
    "torch_xla.core.xla_model": {
        "mark_step": _nothing,
        "xla_device": _device,
        "xla_device_hw": _hardware,
    },
}
"""Names by module; a module of AWS that is not here does not exist."""
