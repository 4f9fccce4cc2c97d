"""Tensors that stay where they are between calls."""

from types import SimpleNamespace

import torch

from trnsci.core import from_device, to_device
from trnsci.core.backend.launch import Launcher
from trnsci.core.testing import random_tensor

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
