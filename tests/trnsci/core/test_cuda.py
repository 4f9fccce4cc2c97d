"""How kernels are launched, seen without a device: a driver that notes what it is asked for."""

import ctypes

import pytest
import torch

from trnsci.core import cuda
from trnsci.core.errors import KernelError

STREAM = 7


class Driver:
    """Notes a launch, whose arguments are only there while it lasts."""

    def __init__(self, kinds=()):
        self.kinds, self.code = kinds, 0

    def cuLaunchKernel(self, handle, *rest):
        *shape, shared, stream, pointers, extra = rest
        assert extra is None
        values = [k.from_address(p).value for k, p in zip(self.kinds, pointers, strict=True)]
        self.launched = (handle, tuple(shape), shared, stream.value, values)
        return self.code

    def cuStreamSynchronize(self, stream):
        self.waited = stream.value
        return self.code


@pytest.fixture
def driver(monkeypatch):
    made = Driver((ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p))
    monkeypatch.setattr(cuda, "driver", lambda: made)
    monkeypatch.setattr(cuda, "current_stream", lambda device: STREAM + device)
    return made


def test_a_kernel_gets_pointers_and_numbers(driver):
    a = torch.ones(3)
    assert cuda.launch_kernel("kernel", (2, 1, 1), (64, 1, 1), (a, -5, None), 0, 1024)
    values = [a.data_ptr(), -5, None]
    assert driver.launched == ("kernel", (2, 1, 1, 64, 1, 1), 1024, STREAM, values)


def test_a_launch_that_fails_is_said(driver):
    driver.code = 1
    assert not cuda.launch_kernel("kernel", (1, 1, 1), (1, 1, 1), (None, 0, None), 0)


def test_waiting_is_for_the_current_stream_and_fails_aloud(driver, monkeypatch):
    cuda.wait_for(1)
    assert driver.waited == STREAM + 1
    driver.code = 700
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: torch.Stream())
    with pytest.raises(KernelError, match="error 700"):
        cuda.wait_for(0)
