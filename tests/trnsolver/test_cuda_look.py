"""Looks at matrices on a CUDA device: the kernel run on a CPU, and what is made of a look."""

import numpy as np
import pytest
import torch

import trnsolver
from trnsolver import _cuda_look, eigen, factor
from trnsolver._cuda_launch import source_of

from . import emulated_cuda

CALL = "look((REAL*)arguments[0], (long)arguments[1], (double*)arguments[2])"


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    if emulated_cuda.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    text = source_of(_cuda_look.LOOK, torch.float32)
    return emulated_cuda.compiled(text, CALL, tmp_path_factory.mktemp("look"))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 255, 600])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_kernel_sees_what_is_not_finite_at_every_place(kernel, count, bad):
    for place in (0, count // 2, count - 1):
        numbers = np.full(count, np.finfo(np.float32).max)
        seen = np.zeros(1)
        numbers = numbers.astype(np.float32)
        emulated_cuda.launch(kernel, 2, 64, 0, numbers, count, seen)
        assert seen[0] == 0
        numbers[place] = bad
        emulated_cuda.launch(kernel, 2, 64, 0, numbers, count, seen)
        assert seen[0] == 1


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
    monkeypatch.setattr(_cuda_look, "checked_values", results)
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
