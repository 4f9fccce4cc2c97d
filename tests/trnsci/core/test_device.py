"""The NeuronCore that torch can use, and operands that stay on it."""

import sys
from types import SimpleNamespace

import pytest
import torch

from fresh_process import printed_after
from trnsci.core import from_device, to_device
from trnsci.core.backend import device
from trnsci.core.backend.device import neuron_device
from trnsci.core.backend.launch import Launcher
from trnsci.core.testing import random_tensor


def test_without_a_device_node_nothing_is_imported(monkeypatch):
    monkeypatch.setattr(device, "_NODES", "/dev/no such device[0-9]*")
    monkeypatch.setattr(device, "import_module", lambda name: pytest.fail(f"imported {name}"))
    assert neuron_device() is None


def test_fake_torch_xla_with_a_neuron_device_is_found(fake_neuron):
    fake_neuron("cpu")
    assert neuron_device() == device.NeuronDevice("xla", torch.device("cpu"))


def test_fake_torch_xla_with_another_device_does_not_count(fake_neuron):
    fake_neuron("cpu", hardware="TPU")
    assert neuron_device() is None


def test_a_device_node_without_a_runtime_does_not_count(fake_neuron, monkeypatch):
    fake_neuron()
    monkeypatch.delitem(sys.modules, "torch_xla.core.xla_model")
    assert neuron_device() is None


def test_a_runtime_that_raises_does_not_count(fake_neuron, monkeypatch):
    fake_neuron()
    model = sys.modules["torch_xla.core.xla_model"]

    def broken():
        raise OSError("NRT_INIT failed")

    monkeypatch.setattr(model, "xla_device", broken)
    assert neuron_device() is None


def test_the_probe_runs_once(fake_neuron):
    fake_neuron()
    first = neuron_device()
    del sys.modules["torch_xla.core.xla_model"]
    assert neuron_device() is first
    device.forget_device()
    assert neuron_device() is None


@pytest.mark.parametrize(("available", "kind"), [(True, "native"), (False, None)])
def test_a_fake_native_device_is_found_where_it_is_available(tmp_path, available, kind):
    (tmp_path / "neuron0").touch()
    code = f"""
import types, torch
torch.utils.rename_privateuse1_backend("neuron")
torch.neuron = types.SimpleNamespace(is_available=lambda: {available})
from trnsci.core.backend import device
device._NODES = {str(tmp_path / "neuron*")!r}
found = device.neuron_device()
print(json.dumps([found and found.kind, found and str(found.torch_device)]))
"""
    assert printed_after("torch", code) == [kind, kind and "neuron"]


X = random_tensor(3, 3)


def test_without_a_device_a_tensor_is_its_own_handle():
    assert to_device(X) is X
    assert from_device(X) is X


def test_a_fake_device_receives_the_tensor_once(fake_neuron):
    fake_neuron("meta")
    handle = to_device(X)
    assert handle.device.type == "meta"
    assert to_device(handle) is handle


def test_chained_calls_stay_on_a_fake_device(fake_neuron):
    fake_neuron("meta")
    launch = Launcher("nki")
    handle = to_device(X)
    for _ in range(3):
        handle = launch(torch.Tensor.exp, handle)
    assert handle.device.type == "meta"


def test_from_device_brings_back_only_what_is_there(fake_neuron):
    fake_neuron("meta")
    moved = []
    resident = SimpleNamespace(device=torch.device("meta"), to=moved.append)
    from_device(resident)
    from_device(resident, "cuda:1")
    assert moved == ["cpu", "cuda:1"]
    assert from_device(X) is X
