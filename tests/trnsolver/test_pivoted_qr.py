"""QR with ordered columns, against SciPy's and by its definition."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch.autograd import gradcheck
from torch.func import grad, jvp, vmap

import trnsolver as ts
from each_case import each_case
from required import requiring
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, DerivativeError
from trnsci.core.testing import BACKENDS, random_tensor, refusals_expected, unit_roundoff

DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def low_rank(m, n, rank, dtype=torch.float64):
    return random_tensor(m, rank, dtype=dtype) @ random_tensor(rank, n, dtype=dtype, seed=1)


@each_case("backend", BACKENDS)
@each_case("dtype", DTYPES, ids=str)
@each_case("shape", [(5, 5), (7, 3), (3, 7), (1, 4), (4, 1)], ids=str)
def test_it_is_the_factorization_of_scipy(shape, dtype, backend):
    a = random_tensor(*shape, dtype=dtype)
    with ts.backend(backend), refusals_expected():
        found = ts.qr(a, pivoting=True)
    want = scipy.linalg.qr(a.numpy(), mode="economic", pivoting=True)
    for got, expected in zip(found, want, strict=True):
        assert np.array_equal(got.numpy(), expected)
    assert (found.Q.dtype, found.R.dtype, found.P.dtype) == (dtype, dtype, torch.int64)


@each_case("rank", [1, 2, 4])
@each_case("batch", [(), (3,), (2, 2)], ids=str)
def test_the_diagonal_decreases_and_shows_the_rank(rank, batch):
    a = torch.stack([low_rank(6, 5, rank) * (k + 1) for k in range(4)])
    a = a.reshape(2, 2, 6, 5) if len(batch) == 2 else a[:3] if batch else a[0]
    q, r, p = ts.qr(a, pivoting=True)
    sizes = r.diagonal(dim1=-2, dim2=-1).abs()
    # A diagonal element is the norm of what is left of a column, which no later one exceeds.
    rounding = 20 * 6 * unit_roundoff(a.dtype)
    assert bool(
        (sizes[..., 1:] <= sizes[..., :-1] * (1 + rounding) + rounding * sizes[..., :1]).all()
    )
    assert bool(((sizes > rounding * sizes[..., :1]).sum(-1) == rank).all())
    ordered = a.take_along_dim(p.unsqueeze(-2), -1)
    assert float((q @ r - ordered).abs().max()) <= rounding * float(a.abs().max()) * 5
    assert float((q.mH @ q - torch.eye(5, dtype=a.dtype)).abs().max()) <= rounding


@each_case("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 3, 3)], ids=str)
def test_nothing_is_ordered(shape):
    q, r, p = ts.qr(torch.zeros(shape), pivoting=True)
    least = min(shape[-2:])
    assert q.shape == (*shape[:-1], least)
    assert r.shape == (*shape[:-2], least, shape[-1])
    assert p.shape == (*shape[:-2], shape[-1])


def test_narrow_and_strided_matrices():
    a = random_tensor(6, 4)
    found = ts.qr(a.half(), pivoting=True)
    want = ts.qr(a.half().float(), pivoting=True)
    assert torch.equal(found.Q, want.Q.half())
    assert torch.equal(found.P, want.P)
    for view in (a.mT.contiguous().mT, random_tensor(6, 8)[:, ::2]):
        for got, expected in zip(
            ts.qr(view, pivoting=True), ts.qr(view.contiguous(), pivoting=True), strict=True
        ):
            assert torch.equal(got, expected)


@each_case("dtype", [torch.float64, torch.complex128], ids=str)
@each_case("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 3)], ids=str)
def test_derivatives_are_those_of_the_ordered_columns(shape, dtype):
    a = random_tensor(*shape, dtype=dtype)

    def free(x):  # of the phases of complex columns
        q, r, _ = ts.qr(x, pivoting=True)
        return (q.unsqueeze(-2) * q.conj().unsqueeze(-3)).sum(-1) if x.is_complex() else q, r.abs()

    assert gradcheck(free, a.clone().requires_grad_(), check_forward_ad=True)
    if dtype is torch.float64:
        direction = random_tensor(*shape, dtype=dtype, seed=2)
        energy = lambda x: (ts.qr(x, pivoting=True).R ** 3).sum()  # noqa: E731
        _, along = jvp(energy, (a,), (direction,))
        torch.testing.assert_close(along, (grad(energy)(a) * direction).sum())


def test_values_with_a_gradient_are_those_without():
    a = random_tensor(7, 5, dtype=torch.float64)
    for plain, tracked in zip(
        ts.qr(a, pivoting=True), ts.qr(a.clone().requires_grad_(), pivoting=True), strict=True
    ):
        torch.testing.assert_close(tracked.detach(), plain, rtol=0, atol=20 * 7 * 2.0**-53)


def test_what_is_refused_is_named():
    a = low_rank(5, 4, 2).requires_grad_()
    with pytest.raises(DerivativeError, match="qr: A must have full rank to be differentiated"):
        ts.qr(a, pivoting=True)
    with pytest.raises(DerivativeError, match=r"qr: torch\.vmap has no values"):
        vmap(lambda x: ts.qr(x, pivoting=True).R)(random_tensor(2, 3, 3))
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ts.NotFiniteError, match="qr: A must be finite"):
            ts.qr(torch.full((2, 2), bad), pivoting=True)
    with pytest.raises(ValueError, match="qr: pivoting must be a bool"):
        ts.qr(torch.eye(2), pivoting="yes")
    with pytest.raises(ValueError, match="qr: A must"):
        ts.qr(torch.ones(3), pivoting=True)


def test_no_kernel_orders_columns_and_the_refusal_is_counted():
    a = random_tensor(4, 3)
    before = counts()
    with ts.backend("simulator"), refusals_expected():
        ts.qr(a, pivoting=True)
        steps = explain(ts.qr, a, True).steps
    assert sum((counts() - before).refusals.values()) == 1
    assert [step.path for step in steps] == ["pytorch"]
    assert "no kernel orders columns" in steps[0].reason
    with requiring("trnsolver"), pytest.raises(BackendError, match="no kernel orders columns"):
        ts.qr(a, pivoting=True)
