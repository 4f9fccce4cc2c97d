"""What is made of a look at matrices on a CUDA device, shown without one."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import trnsolver
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
