"""Iterations with a small matrix run with one thread of torch, and leave the number as it was."""

from __future__ import annotations

import threading

import pytest
import torch

import trnsolver
import trnsparse
from trnsci.core.krylov import threads

N = 40
DENSE = torch.diag(torch.arange(1.0, N + 1, dtype=torch.float64))
B = torch.ones(N, dtype=torch.float64)
MATRICES = {"dense": DENSE, "sparse": trnsparse.from_dense(DENSE)}
METHODS = {
    "trnsolver.bicgstab": trnsolver.bicgstab,
    "trnsolver.cg": trnsolver.cg,
    "trnsolver.gmres": trnsolver.gmres,
    "trnsolver.minres": trnsolver.minres,
    "trnsparse.cg": trnsparse.cg,
    "trnsparse.minres": trnsparse.minres,
}


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def seen(method, A, b=B, **options):
    """The numbers of threads during the steps of a method."""
    found = set()
    method(A, b, callback=lambda progress: found.add(torch.get_num_threads()), **options)
    return found


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("method", METHODS)
def test_a_small_matrix_takes_one_thread(method, kind):
    assert seen(METHODS[method], MATRICES[kind]) == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("kind", MATRICES)
def test_a_large_matrix_keeps_the_threads(monkeypatch, kind):
    A = MATRICES[kind]
    monkeypatch.setattr(threads, "SMALL", {"dense": N * N, "sparse": N}[kind])
    assert seen(trnsolver.cg, A) == {1}
    monkeypatch.setattr(threads, "SMALL", threads.SMALL - 1)
    assert seen(trnsolver.cg, A) == {2}


def test_a_function_keeps_the_threads():
    assert seen(trnsolver.cg, lambda v: DENSE @ v) == {2}


def test_the_number_is_restored_after_an_exception():
    def stop(progress):
        raise KeyError("stop")

    with pytest.raises(KeyError):
        trnsolver.cg(DENSE, B, callback=stop)
    assert torch.get_num_threads() == 2


def test_power_iteration_and_derivatives_leave_the_number():
    trnsparse.power_iteration(MATRICES["sparse"], max_iter=3, on_failure="ignore")
    b = B.clone().requires_grad_()
    trnsolver.cg(DENSE, b).x.sum().backward()
    assert torch.get_num_threads() == 2


def test_iterations_at_the_same_time_leave_the_number():
    """The second one begins in the first and ends after it."""
    began, ended = threading.Event(), threading.Event()

    def first(progress):
        began.set()
        other.join(timeout=0.05)

    def second(progress):
        ended.wait(timeout=10)

    def solve():
        began.wait(timeout=10)
        trnsolver.cg(DENSE, B, callback=second)

    other = threading.Thread(target=solve)
    other.start()
    trnsolver.cg(DENSE, B, callback=first)
    ended.set()
    other.join()
    assert torch.get_num_threads() == 2
    assert not threads._HELD.locked()
