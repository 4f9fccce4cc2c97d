"""Set-up of the device "neuron" in torch, once per process."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch

from nkitorch import fallback
from nkitorch.autocast import CASTS, operator_of
from nkitorch.interop import (
    collectives,
    composed_operators,
    device_name,
    library,
    register_device,
    with_cpu_kernel,
)
from nkitorch.memory import to_neuron

NAME = "neuron"
_LIBRARIES: list[Any] = []  # a registration lives as long as its library


class NeuronModule:
    """``torch.neuron``: one simulated core. Random numbers are those of torch's CPU generator."""

    simulated = True

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"torch.neuron has no {name}: the simulated device has neither streams nor a pool of "
            "memory, which FSDP for example needs",
            name=name,
            obj=self,
        )

    def is_available(self) -> bool:
        """Return True: the simulated device is always there."""
        return True

    def is_initialized(self) -> bool:
        """Return True: there is nothing to start."""
        return True

    def device_count(self) -> int:
        """Return 1, the number of simulated devices."""
        return 1

    def current_device(self) -> int:
        """Return 0, the index of the only device."""
        return 0

    def set_device(self, device: Any) -> None:
        """Select the device; only the first exists.

        Raises:
            RuntimeError: The index is not 0.
        """
        index = device if isinstance(device, int) else torch.device(device).index or 0
        if index:
            raise RuntimeError(f"device: got {device!r}, accepted: 0, the only simulated device")

    def device(self, device: Any) -> AbstractContextManager[None]:
        """Return a context in which ``device`` is selected; only the first exists."""
        self.set_device(device)
        return nullcontext()

    def synchronize(self, device: Any = None) -> None:
        """Return at once: operators have finished when they return."""

    def empty_cache(self) -> None:
        """Do nothing: memory is freed with its last tensor."""

    def get_device_name(self, device: Any = None) -> str:
        """Return a name that says that this is no chip."""
        return "Trainium, simulated by nkisim"

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """Return the dtypes of ``torch.autocast("neuron")``."""
        return [torch.bfloat16, torch.float16, torch.float32]

    def manual_seed(self, seed: int) -> None:
        """Seed the generator; it is the CPU's, which ``torch.manual_seed`` seeds too."""
        torch.default_generator.manual_seed(seed)

    manual_seed_all = manual_seed

    def initial_seed(self) -> int:
        """Return the seed of the generator."""
        return torch.default_generator.initial_seed()

    def get_rng_state(self, device: Any = NAME) -> torch.Tensor:
        """Return the state of the generator."""
        return torch.default_generator.get_state()

    def set_rng_state(self, state: torch.Tensor, device: Any = NAME) -> None:
        """Set the state of the generator."""
        torch.default_generator.set_state(state)

    def _is_in_bad_fork(self) -> bool:
        return False


def set_up() -> None:
    """Make "neuron" a device of torch in this process; a second call changes nothing.

    Raises:
        ImportError: Another extension has already defined a device, or the process has CUDA.
    """
    if _LIBRARIES:
        return
    if torch.cuda.device_count():
        # With another one registered, torch's engine ends in an assertion on tensors of CUDA.
        raise ImportError(
            "nkitorch: this process has CUDA, and torch differentiates on one kind of accelerator; "
            'run with CUDA_VISIBLE_DEVICES="" to use the simulated device'
        )
    if device_name() != "privateuseone":
        raise ImportError(
            f"nkitorch: this process already has the device {device_name()!r} of another "
            "extension of torch, and torch allows one"
        )
    register_device(NAME, NeuronModule())
    everything = library("_", "IMPL")
    everything.fallback(fallback.computed_on_host, "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = library("aten", "IMPL")
    with warnings.catch_warnings():  # torch warns of every kernel that replaces one of its own
        warnings.simplefilter("ignore")
        for name, kernel in fallback.OWN_KERNELS.items():
            aten.impl(name, kernel, "PrivateUse1")
        for op in map(operator_of, composed_operators()):
            if fallback.is_functional(op):
                aten.impl(op, partial(fallback.computed_on_host, op), "PrivateUse1")
        for name in ("_copy_from", "_copy_from_and_resize"):
            for key in ("Conjugate", "Negative"):  # else torch resolves by a copy, without end
                aten.impl(name, torch.library.fallthrough_kernel, key)
        for name in fallback.VIEWS:
            aten.impl(name, _on_storage(name), "PrivateUse1")
        for name, cast in CASTS.items():
            aten.impl(name, cast, "AutocastPrivateUse1")
        c10d = library("c10d", "IMPL")  # so that gloo reads and writes the memory that is shared
        for name in collectives():
            name = name.removeprefix("c10d::")
            op = operator_of(name, "c10d")
            c10d.impl(name, partial(fallback.computed_on_host, op), "PrivateUse1")
    _LIBRARIES.extend((everything, aten, c10d))
    _allocate_storages()


def _on_storage(name: str) -> Any:
    op = operator_of(name)
    return lambda *args, **kwargs: with_cpu_kernel(op, args, kwargs)


def _allocate_storages() -> None:
    """Give ``torch.UntypedStorage`` memory on the device.

    torch's own allocation for a device without an allocator in C++ ends the interpreter.
    """
    make = torch.UntypedStorage.__new__

    def new(kind: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != NAME:
            more = {} if device is None else {"device": device}
            return make(kind, *args, **more, **kwargs)
        host = make(kind, *args, **kwargs)
        held = torch.empty(0, dtype=torch.uint8, device="cpu").set_(host)
        return to_neuron(held).untyped_storage()

    torch.UntypedStorage.__new__ = new  # type: ignore[method-assign,assignment]
