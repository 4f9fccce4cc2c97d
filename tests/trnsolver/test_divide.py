"""Division of spectra, on torch, and on the simulator with a small matrix for the base."""

import numpy as np
import pytest
import torch

from each_case import each_case
from trnsci.core.backend.launch import Launcher
from trnsci.core.errors import ConvergenceError
from trnsolver._eigen import divide
from trnsolver._eigen.divide import divided_eigh
from trnsolver.eigen import eigh_by_division

from .kernels.harness_solver import diagonalises, lower_only, symmetric, with_spectrum


def divided(a, smallest):
    """Return eigenpairs on torch, and the orders of the small problems."""
    orders = []

    def small(a):
        orders.append(a.shape[0])
        return tuple(torch.linalg.eigh(a))

    return *divided_eigh(a, smallest, torch.linalg.cholesky, small), orders


MATRICES = {
    "normal": symmetric(100),
    "graded": with_spectrum(np.logspace(0, -6, 60)),
    "clustered": with_spectrum(np.repeat([-1.0, 0.5, 2.0], 20)),
    "one far away": with_spectrum(np.r_[100.0, np.linspace(0, 1, 59)]),
    "a multiple of the identity": 3 * np.eye(40, dtype=np.float32),
    "zeros": np.zeros((40, 40), np.float32),
    "diagonal": np.diag(np.arange(40, dtype=np.float32)),
}


@each_case("name", MATRICES)
def test_on_torch(name):
    a = MATRICES[name]
    w, v, orders = divided(torch.from_numpy(lower_only(a)).nan_to_num(), 16)
    assert diagonalises(a, w.numpy(), v.numpy())
    assert max(orders, default=0) <= 16
    assert a.shape[0] not in orders


def test_a_spectrum_that_cannot_be_divided_is_named(monkeypatch):
    by_turns = torch.diag(torch.tensor([1.0, -1.0] * 10))
    monkeypatch.setattr(divide, "_sign", lambda x: by_turns)
    with pytest.raises(ConvergenceError, match="eigh: 4 divisions of a spectrum of 20 values"):
        divided(torch.from_numpy(symmetric(20)), 8)


def test_on_the_simulator():
    a = symmetric(9)
    launch = Launcher("simulator")
    w, v = eigh_by_division(launch, torch.from_numpy(a)[None], 10, 6)
    assert diagonalises(a, w[0].numpy(), v[0].numpy())
    assert launch.launches > 2


def test_noise_in_the_place_of_products_is_seen(monkeypatch):
    a = torch.from_numpy(symmetric(20))
    count = iter(range(1000))

    def noisy(x, y, turned):
        exact = (x.mT if turned else x) @ y
        return torch.randn(exact.shape) if next(count) > 60 else exact

    monkeypatch.setattr(divide, "product", noisy)
    try:
        w, v, _ = divided(a, 8)
    except (ConvergenceError, RuntimeError):
        return
    assert not diagonalises(a.numpy(), w.numpy(), v.numpy())
