"""Launching a kernel on a NeuronCore or on the simulator.

A launcher accepts tensors on any device and returns the results on the device of the first one.
Operands that are already on the NeuronCore are not moved, and neither are their results.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from trnsci.core.backend.device import neuron_device
from trnsci.core.backend.setting import Setting
from trnsci.core.counters import count_launch
from trnsci.core.errors import BackendError
from trnsci.core.numbers.conversions import read_only_array_of, tensor_of

SIMULATE: Setting[Callable[[Any], Callable[..., Any]] | None] = Setting("trnsci.simulate", None)
"""Converts a kernel to a function of arrays; None uses the ``nki.simulate`` of the current NKI."""


_LOGICAL_CORES = os.environ.get("NEURON_LOGICAL_NC_CONFIG", "")
_TARGET = os.environ.get("NEURON_PLATFORM_TARGET_OVERRIDE", "").lower()
_OF_ONE_CORE = ("trn1", "inf2", "gen2")


@dataclass(eq=False)
class Launcher:
    """Runs kernels on one path and counts them.

    Attributes:
        path: ``"nki"`` for the NeuronCore, ``"simulator"`` for a CPU.
        launches: Kernels that have run.
    """

    path: Literal["nki", "simulator"]
    launches: int = 0

    def __call__(self, kernel: Any, *args: Any) -> Any:
        """Return the results of ``kernel``, on the device of the first tensor in ``args``.

        Args:
            kernel: An ``nki.jit`` kernel.
            *args: Its arguments. Tensors may be on any device and of any layout; the kernel
                receives dense ones.
        """
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        home = tensors[0].device if tensors else torch.device("cpu")
        run = _simulated if self.path == "simulator" else _on_device
        results = run(kernel, args, home)
        self.launches += 1
        count_launch(getattr(kernel, "__name__", repr(kernel)))
        return results


def on_both_cores(launch: Launcher, kernel: Any) -> Any:
    """Return a kernel for a launch on all cores of a logical core.

    The compiler refuses a kernel with a loop on the device that runs on one of the two cores. A
    logical core has two on trn2 and trn3, unless NEURON_LOGICAL_NC_CONFIG was 1 when this module
    was imported; trn1 is known by NEURON_PLATFORM_TARGET_OVERRIDE. The simulator runs one core.
    """
    alone = _LOGICAL_CORES == "1" or _TARGET in _OF_ONE_CORE
    return kernel if alone or launch.path == "simulator" else kernel[2]


def _simulated(kernel: Any, args: tuple[Any, ...], home: torch.device) -> Any:
    """Run a kernel on NumPy arrays, which the simulators of AWS and of nkisim both accept."""
    simulate = SIMULATE.get() if SIMULATE.used else None
    if simulate is None:
        from trnsci.core.nki import nki

        simulate = nki.simulate
    arrays = [read_only_array_of(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    return _mapped(simulate(kernel)(*arrays), lambda array: tensor_of(array).to(home))


def _on_device(kernel: Any, args: tuple[Any, ...], home: torch.device) -> Any:
    device = neuron_device()
    if device is None:
        raise BackendError("no NeuronCore can be reached through torch in this process")
    target = device.torch_device
    moved = [
        arg.detach().contiguous().to(target) if isinstance(arg, torch.Tensor) else arg
        for arg in args
    ]
    return _mapped(kernel(*moved), lambda tensor: tensor.to(home))


def _mapped(results: Any, function: Callable[[Any], Any]) -> Any:
    """Return the results of a kernel, one or a tuple, with ``function`` applied to each."""
    if isinstance(results, (tuple, list)):
        return tuple(function(result) for result in results)
    return function(results)
