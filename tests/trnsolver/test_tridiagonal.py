"""Eigenpairs of tridiagonal matrices, against SciPy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from trnsci.core.counters import counts
from trnsci.core.errors import (
    DerivativeError,
    DTypeError,
    FlagError,
    NotFiniteError,
    ShapeError,
)
from trnsci.core.testing import random_tensor, unit_roundoff

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def dense(d, e):
    return torch.diag_embed(d) + torch.diag_embed(e, 1) + torch.diag_embed(e, -1)


@each_case("dtype", DTYPES)
@each_case("n", [1, 2, 20])
@each_case("batch", [(), (3,), (2, 2)])
def test_pairs_have_small_residuals_and_are_orthonormal(dtype, n, batch):
    d, e = (random_tensor(*batch, m, dtype=dtype, seed=m) for m in (n, n - 1))
    w, v = trnsolver.eigh_tridiagonal(d, e)
    assert (w.shape, v.shape, w.dtype, v.dtype) == ((*batch, n), (*batch, n, n), dtype, dtype)
    wide = dense(d, e).double()
    w, v = w.double(), v.double()
    unit = 8 * n * max(unit_roundoff(dtype), unit_roundoff(torch.float32) * (dtype in DTYPES[:3]))
    norm = float(torch.linalg.matrix_norm(wide, 2).max())
    assert float((wide @ v - v * w.unsqueeze(-2)).abs().max()) <= unit * norm
    assert float((v.mT @ v - torch.eye(n)).abs().max()) <= unit
    assert bool((w.diff() >= 0).all())


def test_eigenvalues_of_the_laplacian_are_known():
    n = 30
    d, e = torch.full((n,), 2.0, dtype=torch.float64), -torch.ones(n - 1, dtype=torch.float64)
    w = trnsolver.eigh_tridiagonal(d, e, eigvals_only=True)
    want = [4 * math.sin(k * math.pi / (2 * (n + 1))) ** 2 for k in range(1, n + 1)]
    assert float((w - torch.tensor(want, dtype=torch.float64)).abs().max()) <= 8 * n * 2.0**-53


SELECTIONS = (
    {},
    {"select": "i", "select_range": (0, 0)},
    {"select": "i", "select_range": (2, 5)},
    {"select": "v", "select_range": (-0.5, 0.7)},
    {"select": "v", "select_range": (50.0, 60.0)},
)


@each_case("selection", SELECTIONS)
@each_case("eigvals_only", [True, False])
@each_case("differentiated", [True, False])
def test_selections_are_those_of_scipy(selection, eigvals_only, differentiated):
    d, e = (random_tensor(m, dtype=torch.float64, seed=m) for m in (9, 8))
    want = scipy.linalg.eigh_tridiagonal(d.numpy(), e.numpy(), eigvals_only, **selection)
    d.requires_grad_(differentiated)
    found = trnsolver.eigh_tridiagonal(d, e, eigvals_only, **selection)
    if eigvals_only:
        want, found = (want, None), (found, None)
    assert found[0].requires_grad == differentiated
    np.testing.assert_allclose(found[0].detach().numpy(), want[0], rtol=0, atol=1e-14)
    if not eigvals_only:
        assert found[1].shape == want[1].shape
        overlap = abs((found[1].detach().numpy() * want[1]).sum(0))
        np.testing.assert_allclose(overlap, 1, rtol=0, atol=1e-12)


def test_derivatives_of_pairs_and_of_a_selection():
    d, e = (random_tensor(2, m, dtype=torch.float64, seed=m).requires_grad_() for m in (4, 3))

    def pairs(d, e):
        w, v = trnsolver.eigh_tridiagonal(d, e)
        return w, v * v

    def some(d, e):
        w, v = trnsolver.eigh_tridiagonal(d, e, select="i", select_range=(1, 2))
        return w, v * v

    for function in (pairs, some):
        assert torch.autograd.gradcheck(function, (d, e), check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, (d, e), fast_mode=True)


def test_repeated_eigenvalues_have_a_derivative_and_their_vectors_have_none():
    d = torch.ones(3, dtype=torch.float64, requires_grad=True)
    w, v = trnsolver.eigh_tridiagonal(d, torch.zeros(2, dtype=torch.float64))
    (grad,) = torch.autograd.grad(w.sum(), d, retain_graph=True)
    assert torch.equal(grad, torch.ones(3, dtype=torch.float64))
    with pytest.raises(DerivativeError, match="eigh_tridiagonal: eigenvectors of repeated"):
        torch.autograd.grad(v.sum(), d)


def test_there_is_no_kernel_and_that_is_counted():
    before = counts()
    with trnsolver.backend("simulator"):
        trnsolver.eigh_tridiagonal(torch.ones(3), torch.ones(2))
    assert (counts() - before).no_kernel["trnsolver.eigh_tridiagonal"] == 1


REFUSED = {
    "lengths": (ShapeError, "e must have one entry less than d", (torch.ones(3), torch.ones(3))),
    "batches": (ShapeError, "must broadcast", (torch.ones(2, 3), torch.ones(3, 2))),
    "complex": (DTypeError, "d must be real", (torch.ones(3) + 0j, torch.ones(2) + 0j)),
    "dtypes": (DTypeError, "one dtype", (torch.ones(3), torch.ones(2).double())),
    "NaN": (NotFiniteError, "e must be finite", (torch.ones(3), torch.full((2,), torch.nan))),
    "select": (FlagError, "select must be one of", (torch.ones(3), torch.ones(2), False, "x")),
    "no range": (FlagError, "select_range must be two", (torch.ones(3), torch.ones(2), False, "i")),
    "indices": (
        FlagError,
        "select_range must be indices from 0 to 2",
        (torch.ones(3), torch.ones(2), False, "i", (1, 3)),
    ),
    "interval": (
        FlagError,
        "select_range must be an interval",
        (torch.ones(3), torch.ones(2), False, "v", (1, 1)),
    ),
    "values of a batch": (
        FlagError,
        "select must not be 'v' for a batch",
        (torch.ones(2, 3), torch.ones(2, 2), False, "v", (0, 1)),
    ),
}


@each_case("name", REFUSED)
def test_what_is_refused(name):
    error, text, arguments = REFUSED[name]
    with pytest.raises(error, match=f"eigh_tridiagonal: .*{text}"):
        trnsolver.eigh_tridiagonal(*arguments)
