"""Derivatives of factorizations at doublefloat: computed on kernels, as accurate as the level.

Matrices are of order 3, with condition numbers below 10, and gaps of eigenvalues and singular
values above 1. Vectors are compared by their moduli: their signs and phases are free.
"""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import trnblas
import trnsolver
from each_case import each_case
from trnsci.core.backend.precision import precision
from trnsci.core.counters import counts
from trnsci.core.testing import random_tensor

BOUND = 100 * 2.0**-43
"""Of the largest entry: ten products in a row, each amplified by ten for condition and gaps."""
REAL, COMPLEX = torch.float64, torch.complex128


def apart(dtype, rows=3, seed=0):
    values = torch.diag(torch.tensor([1.0, 2.5, 4.5], dtype=torch.float64)).to(dtype)
    below = torch.zeros(rows - 3, 3, dtype=dtype)
    return torch.cat([values, below]) + 0.25 * random_tensor(rows, 3, dtype=dtype, seed=seed)


def positive(a):
    return 0.25 * (a @ a.mH) + torch.eye(3, dtype=a.dtype)


def moduli(*parts):
    return [part.abs() ** 2 for part in parts]


CALLS = {
    "cholesky": lambda a: [trnsolver.cholesky(positive(a))],
    "eigh": lambda a: moduli(*trnsolver.eigh(a + a.mH)),
    "eigenvalues": lambda a: [trnsolver.eigh(a + a.mH).eigenvalues],
    "eigh_generalized": lambda a: moduli(*trnsolver.eigh_generalized(a + a.mH, positive(a))),
    "inv": lambda a: [trnsolver.inv(a)],
    "lu": lambda a: list(trnsolver.lu(a)[1:]),
    "lu, tall": lambda a: list(trnsolver.lu(torch.cat([a, 0.1 * a[:1]]))[1:]),
    "lu, wide": lambda a: list(trnsolver.lu(torch.cat([a, 0.1 * a[:1]]).mT)[1:]),
    "pinv": lambda a: [trnsolver.pinv(torch.cat([a, a[:1]]))],
    "qr": lambda a: moduli(*trnsolver.qr(torch.cat([a, a[:1]]))),
    "singular values": lambda a: [trnsolver.svd(a)[1]],
    "solve": lambda a: [trnsolver.solve(a, a[:, :2] + 1)],
    "svd": lambda a: moduli(*trnsolver.svd(torch.cat([a, a[:1]]))),
}


FAST = {"cholesky", "eigh_generalized", "lu, wide", "qr"}
WORDS = ("aten::bmm", "aten::linalg")


class Recorded(TorchDispatchMode):
    """The products of batches, as those of the rules are, and solutions that torch computes."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        filled = all(x.numel() for x in args if isinstance(x, torch.Tensor))
        if filled and any(word in function.name() for word in WORDS):
            self.found.append(function.name())
        return function(*args, **(kwargs or {}))


@pytest.fixture
def at_level():
    with precision("doublefloat"):
        yield


def weights(results):
    return [random_tensor(*x.shape, dtype=x.dtype, seed=9) for x in results]


def check(got, want):
    assert len(got) == len(want)
    for found, exact in zip(got, want, strict=True):
        assert (found - exact).abs().max() <= BOUND * exact.abs().max().clamp_min(1)


@pytest.mark.usefixtures("at_level")
@pytest.mark.parametrize(
    ("names", "dtype"),
    [
        (FAST, REAL),
        pytest.param(CALLS.keys() - FAST, REAL, marks=pytest.mark.slow),
        pytest.param(CALLS, COMPLEX, marks=pytest.mark.slow),
    ],
    ids=("fast", "real", "complex"),
)
def test_gradients_are_computed_on_the_kernels_of_the_forward_pass(names, dtype):
    for name in sorted(names):
        check_gradient(name, dtype)


def check_gradient(name, dtype):
    def gradient(backend):
        a = apart(dtype).requires_grad_()
        with trnblas.backend(backend), trnsolver.backend(backend):
            results = CALLS[name](a)
        before, recorded = counts(), Recorded()
        with recorded:
            found = torch.autograd.grad(results, [a], weights(results))
        return found, counts() - before, recorded.found

    want, none, _ = gradient("pytorch")
    got, since, by_torch = gradient("simulator")
    assert not none.launches
    assert "doublefloat_gemm" in since.launches
    assert not since.refusals
    assert not since.fallbacks
    # The product with the permutation of lu is exact.
    assert by_torch == ["aten::bmm"] * name.startswith("lu")
    check(got, want)


@pytest.mark.slow
@pytest.mark.usefixtures("at_level")
@pytest.mark.parametrize("dtype", [REAL, COMPLEX], ids=str)
@each_case("name", CALLS)
def test_tangents_and_second_derivatives_have_the_accuracy_of_the_level(name, dtype):
    a, tangent = apart(dtype), apart(dtype, seed=4)

    def vector(a):
        results = CALLS[name](a)
        return sum((x * w).real.sum() for x, w in zip(results, weights(results), strict=True))

    def derivatives(backend, gradients):
        with trnblas.backend(backend), trnsolver.backend(backend):
            _, along = torch.func.jvp(vector, (a,), (tangent,))
            each = gradients(torch.func.grad(vector), torch.stack([a, 1.25 * a]))
            leaf = a.clone().requires_grad_()
            (first,) = torch.autograd.grad(vector(leaf), leaf, create_graph=True)
            (second,) = torch.autograd.grad((first * tangent.conj()).real.sum(), leaf)
        return along, each, second

    before = counts()
    got = derivatives("simulator", lambda f, batch: torch.func.vmap(f)(batch))
    since = counts() - before
    assert not since.refusals
    assert not since.fallbacks
    # torch does not compute all of these under vmap.
    check(got, derivatives("pytorch", lambda f, batch: torch.stack([f(x) for x in batch])))
