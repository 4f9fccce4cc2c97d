"""What is made of a look at matrices on a CUDA device, shown without one."""

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import trnsolver
from trnsci.core import cuda
from trnsolver import _cuda_look, eigen, factor


class Seen:
    """A look that has ended."""

    def __init__(self, good):
        self.good = good

    def saw_only_numbers(self):
        return self.good


CALLS = {
    "eigh": trnsolver.eigh,
    "eigvalsh": trnsolver.eigvalsh,
    "svd": trnsolver.svd,
    "svdvals": trnsolver.svdvals,
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_not_looked_at_after_a_look_that_saw_numbers(name, monkeypatch):
    def results(value):
        raise AssertionError("results were looked at")

    for module in (eigen, factor):
        monkeypatch.setattr(module, "begun_look", lambda a: Seen(True))
    monkeypatch.setattr(_cuda_look, "only_finite", results)
    CALLS[name](torch.eye(3))


@pytest.mark.parametrize("name", CALLS)
def test_the_matrix_is_asked_after_a_look_that_saw_something_else(name, monkeypatch):
    for module in (eigen, factor):
        monkeypatch.setattr(module, "begun_look", lambda a: Seen(False))
    CALLS[name](torch.eye(3))  # a sum that overflows, or a triangle that nobody reads
    with pytest.raises(trnsolver.NotFiniteError, match=name):
        CALLS[name](torch.full((3, 3), torch.nan))


def test_tensors_on_a_cpu_are_not_looked_at():
    assert _cuda_look.begun_look(torch.eye(3)) is None


@pytest.mark.parametrize(
    ("number", "good"), [(1.0, True), (torch.nan, False), (torch.inf, False), (-torch.inf, False)]
)
def test_a_sum_that_is_not_there_or_not_finite_is_no_good_news(number, good):
    assert _cuda_look.Look(np.array([number])).saw_only_numbers() is good


class Driver:
    """Sums what a launch would, from the memory that it is given."""

    def __init__(self, code=0):
        self.code, self.blocks = code, []

    def cuLaunchKernel(self, kernel, blocks, *rest):
        pointers = rest[-2]
        x, n, out = (
            kind.from_address(pointers[i]).value
            for i, kind in enumerate((ctypes.c_void_p, ctypes.c_longlong, ctypes.c_void_p))
        )
        assert kernel == "sums of torch.float64"
        assert rest[:5] == (1, 1, 256, 1, 1)
        self.blocks.append(blocks)
        if not self.code:
            given = np.frombuffer((ctypes.c_double * n).from_address(x))
            sums = np.frombuffer((ctypes.c_double * blocks).from_address(out))
            sums[:] = [given[i::blocks].sum() for i in range(blocks)]
        return self.code


def launcher(monkeypatch, code=0):
    driver, empty = Driver(code), torch.empty
    monkeypatch.setattr(cuda, "driver", lambda: driver)
    monkeypatch.setattr(torch, "empty", lambda *a, pin_memory, **k: empty(*a, **k))
    made = _cuda_look._SumsLauncher("sums of torch.float64", 5, torch.float64)
    monkeypatch.undo()
    return made, driver


@pytest.mark.parametrize("shape", [(1, 1), (45, 45), (46, 45), (3, 700, 700)])
@pytest.mark.parametrize("bad", [None, torch.nan, torch.inf])
def test_one_launch_sees_every_number(shape, bad, monkeypatch):
    look, driver = launcher(monkeypatch)
    for last in (False, True):
        a = torch.ones(shape, dtype=torch.float64)
        if bad is not None:
            a.view(-1)[-1 if last else 0] = bad
        for given in (a, a.mT.contiguous().mT):
            assert look(given).saw_only_numbers() is (bad is None)
    # A thread for eight numbers, and no more sums than the host reads at once.
    assert set(driver.blocks) == {min(64, -(-a.numel() // 2048))}


def test_numbers_apart_and_launches_that_fail_are_left_to_torch(monkeypatch):
    look, driver = launcher(monkeypatch)
    assert look(torch.ones(4, 4, dtype=torch.float64)[::2, ::2]) is None
    assert look(torch.ones(0, 0, dtype=torch.float64)) is None
    assert not driver.blocks
    look, driver = launcher(monkeypatch, 700)
    assert look(torch.ones(4, 4, dtype=torch.float64)) is None
    assert driver.blocks == [1]


def test_a_launch_that_has_not_ended_is_no_good_news(monkeypatch):
    look, driver = launcher(monkeypatch)
    a = torch.ones(4, 4, dtype=torch.float64)
    assert look(a).saw_only_numbers()
    monkeypatch.setattr(Driver, "cuLaunchKernel", lambda *_: 0)
    look._launch = driver.cuLaunchKernel
    assert not look(a).saw_only_numbers()


def test_what_has_not_arrived_is_waited_for(monkeypatch):
    array = np.array([torch.nan, 2.0])

    class Device:
        is_cuda, dtype, device = True, torch.float64, "cuda"

        def numel(self):
            return 2

    class Memory:
        def copy_(self, value, non_blocking):
            assert non_blocking

    def come():
        array[0] = 1.0

    stream = SimpleNamespace(synchronize=come)
    rooms = SimpleNamespace(room=lambda *key: (Memory(), array))
    monkeypatch.setattr(_cuda_look, "told", lambda: rooms)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    assert _cuda_look.on_the_way(Device())() == [1.0, 2.0]
