import itertools
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from trnsci.core import counters
from trnsci.core.backend import device, fallback
from trnsci.core.backend.library import Library
from trnsci.core.backend.operation import Operation

KERNELS = f"{__name__.rpartition('.')[0]}.toy_kernel"

_numbers = itertools.count()


def scaled_add(x: Tensor, y: Tensor | None, alpha: float) -> Tensor:
    """The reference: ``alpha*x + y``."""
    return alpha * x if y is None else alpha * x + y


@pytest.fixture(autouse=True)
def clean_state(monkeypatch):
    """No variable set, nothing counted, no cause told, no device known."""
    for what in ("USE_SIMULATOR", "REQUIRE_NKI"):
        monkeypatch.delenv(f"TRNSCI_{what}", raising=False)
    counters.reset()
    fallback.forget_causes()
    device.forget_device()
    yield
    device.forget_device()


@pytest.fixture
def make_library(monkeypatch):
    """A function from variables, by the end of their names, to a library that reads them.

    No other test has seen it: custom operators live as long as the process.
    """

    def make(umbrella=False, **variables):
        name = f"trntoy{next(_numbers)}"
        for what, value in variables.items():
            monkeypatch.setenv(f"{'TRNSCI' if umbrella else name.upper()}_{what}", value)
        return Library(name)

    return make


@pytest.fixture
def library(make_library):
    return make_library()


@pytest.fixture
def make_operation(library):
    """A function that makes the operation, launched by the named function of toy_kernel."""

    def make(launch="scaled_add", owner=library, **options):
        options = {"reference": scaled_add, **options}
        return Operation(owner, "scaled_add", launch=f"{KERNELS}:{launch}", **options)

    return make


@pytest.fixture
def operation(make_operation):
    return make_operation()


@pytest.fixture
def fake_neuron(monkeypatch, tmp_path):
    """A stand-in for a Trainium host: a device node, AWS's NKI, and torch_xla.

    Its NeuronCore is a device that torch has everywhere, the CPU or ``meta``. What runs on it is
    torch, so this shows how tensors travel, not that kernels work on hardware.
    """

    def make(torch_device="cpu", hardware="NEURON"):
        (tmp_path / "neuron0").touch()
        monkeypatch.setattr(device, "_NODES", str(tmp_path / "neuron[0-9]*"))
        model = SimpleNamespace(
            xla_device=lambda: torch.device(torch_device), xla_device_hw=lambda _: hardware
        )
        monkeypatch.setitem(__import__("sys").modules, "torch_xla.core.xla_model", model)
        monkeypatch.setattr("trnsci.core.backend.library.has_aws_nki", lambda: True)
        device.forget_device()

    return make
