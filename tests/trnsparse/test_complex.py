"""Complex sparse matrices on kernels: one launch, within the bound of a real product.

A part of an element is a real sum of twice as many products, so the modulus of the error is at most
sqrt(2) 2 K u of the moduli, with K entries in a row and u = 2**-24.
"""

from __future__ import annotations

import pytest
import torch

import trnsparse as ts
from each_case import each_case
from pairwise import pairwise
from trnsci.core.counters import counts
from trnsci.core.testing import random_tensor, refusals_expected
from trnsparse._library import LIBRARY

from .cases import random_dense

U = 2.0**-24
ROOT = 2**0.5


def launched(call):
    before = counts()
    with LIBRARY.backend("simulator"), LIBRARY.requiring("1"):
        got = call()
    since = counts() - before
    assert not since.refusals
    assert not since.fallbacks
    return got, dict(since.launches)


def drawn(*shape, share=1.0, seed=0):
    real, imaginary = (random_tensor(*shape, seed=seed + 100 * part) for part in (1, 2))
    return torch.complex(real, imaginary) * random_dense(*shape, share, seed).ne(0)


def equal_rows(rows, columns, each):
    """Return a matrix with so many entries in every row, for the kernel of segments."""
    places = torch.arange(rows * each).reshape(rows, each) % columns
    return torch.zeros(rows, columns, dtype=torch.complex64).scatter(
        1, places, drawn(rows, each, seed=rows)
    )


MATRICES = {
    "one entry": torch.tensor([[2 - 1j]], dtype=torch.complex64),
    "tile": drawn(128, 128, share=0.05),
    "tails": drawn(129, 127, share=0.05),
    "equal rows": equal_rows(130, 64, 3),
    "empty rows": drawn(40, 30, share=0.1) * (torch.arange(40) % 2)[:, None],
}


def assert_product(got, a, b):
    wide_a, wide_b = a.to(torch.complex128), b.to(torch.complex128)
    terms = int((a != 0).sum(1).max())
    bound = ROOT * (2 * terms + 2) * U * (wide_a.abs() @ wide_b.abs())
    assert ((got - wide_a @ wide_b).abs() <= bound).all()


@each_case("width, kind, name", pairwise([1, 5, 257], ["csr", "csc", "coo", "bsr"], MATRICES))
def test_products_are_one_launch(name, kind, width):
    dense = MATRICES[name]
    A = ts.from_dense(dense)
    A = {"csr": A.to_csr, "csc": A.to_csc, "coo": A.to_coo, "bsr": lambda: A.to_bsr(16)}[kind]()
    b = drawn(dense.shape[1], width, seed=1).mT.contiguous().mT.conj()
    got, launches = launched(lambda: ts.spmm(A, b))
    assert list(launches.values()) == [1]
    assert_product(got, dense, b)


@each_case("name", MATRICES)
def test_sampled_products_are_one_launch(name):
    dense = MATRICES[name]
    rows, columns = dense.shape
    c, d = drawn(rows, 9, seed=2), drawn(columns, 9, seed=3)
    got, launches = launched(lambda: ts.sddmm(ts.from_dense(dense), c, d))
    assert list(launches.values()) == [1]
    want = (c.to(torch.complex128) @ d.to(torch.complex128).mT) * (dense != 0)
    bound = ROOT * (2 * 9 + 2) * U * (c.abs().double() @ d.abs().double().mT)
    assert ((got.to_dense() - want).abs() <= bound).all()


def test_vectors_and_transposes():
    dense = MATRICES["tails"]
    A, x, y = ts.from_dense(dense), drawn(127, 1, seed=4)[:, 0], drawn(129, 1, seed=5)[:, 0]
    got, launches = launched(lambda: A @ x)
    assert list(launches.values()) == [1]
    assert_product(got[:, None], dense, x[:, None])
    assert_product(launched(lambda: A.T @ y)[0][:, None], dense.mT, y[:, None])


def hermitian(order, share):
    a = drawn(order, order, share=share, seed=order)
    return a + a.mH + 4 * (1 + float(a.abs().sum(1).max())) * torch.eye(order)


@pytest.mark.parametrize("order", [20, 37])
def test_a_hermitian_system_in_blocks_is_one_launch(order):
    dense = hermitian(order, 0.2)
    b, A = drawn(order, 2, seed=6), ts.from_dense(dense).to_bsr(8)
    found, launches = launched(lambda: ts.cg(A, b, tol=1e-6))
    assert launches["bsr_cg"] == 1
    rest = b - dense @ found.x
    # The tolerance, and the roundings of float32 in a residual of a matrix of condition below 3.
    assert float(rest.norm()) <= (1e-6 + 16 * U) * float(b.norm()) * 2
    assert found.converged


def test_solvers_use_products_on_kernels():
    dense = hermitian(30, 0.2)
    A, b = ts.from_dense(dense), drawn(30, 1, seed=7)[:, 0]
    for solve in (ts.cg, ts.minres):
        found, launches = launched(lambda solve=solve: solve(A, b, tol=1e-5))
        assert sum(launches.values()) >= found.iterations
        assert float((b - dense @ found.x).norm()) <= 2e-5 * float(b.norm())


@refusals_expected()
def test_large_blocks_of_a_system_are_refused():
    dense = hermitian(130, 0.05)
    with LIBRARY.backend("simulator"):
        before = counts()
        found = ts.cg(ts.from_dense(dense).to_bsr(65), drawn(130, 1)[:, 0], tol=1e-5)
    reasons = [reason for _, reason in (counts() - before).refusals]
    assert reasons == ["the kernel takes blocks of up to 128, not 130"]
    assert found.converged
