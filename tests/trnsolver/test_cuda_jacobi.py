"""Batches of small eigenproblems and singular values on a CUDA device, against torch in float64."""

import pytest
import torch
from torch.autograd import forward_ad

import trnsolver
from trnsolver._paths.cuda import batched
from trnsolver.eigen import _eigh_backward
from trnsolver.singular_values import _svd_backward

from .cuda_numbers import normal

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda

DTYPES = (torch.float32, torch.float64)


def batched_eigh(a):
    return batched.batched_eigh(a, _eigh_backward)


def batched_svd(a):
    return batched.batched_svd(a, _svd_backward)


def symmetric(*shape, dtype=torch.float64):
    x = normal(*shape, shape[-1], dtype=torch.float64)
    return (0.5 * (x + x.mT)).to(dtype)


def norms(x):
    return torch.linalg.matrix_norm(x, 2).max()


def assert_diagonalised(a, w, v):
    bound = 20 * torch.finfo(a.dtype).eps * a.shape[-1]
    wide, x = a.double(), v.double()
    scale = norms(wide).clamp_min(1e-300)
    assert norms(wide @ x - x * w.double().unsqueeze(-2)) <= bound * scale
    assert norms(x.mT @ x - torch.eye(a.shape[-1], device="cuda")) <= bound
    assert (w.diff(dim=-1) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 9, 16, 31, 32, 33, 63, 64, 65, 100])
@pytest.mark.parametrize("count", [4, 7, 300])
def test_eigenvectors(n, dtype, count):
    a = symmetric(count, n, dtype=dtype)
    found = batched_eigh(torch.where(torch.ones(n, n, device="cuda").tril() > 0, a, torch.nan))
    assert found is not None
    assert_diagonalised(a, *found)


def test_eigenvectors_of_hard_spectra():
    n = 40
    q, _ = torch.linalg.qr(normal(n, n))
    spectra = torch.stack(
        [
            torch.logspace(0, -12, n),
            torch.ones(n) + 1e-6 * torch.arange(n),
            torch.arange(n) // 10.0,
            torch.zeros(n),
        ]
    ).to("cuda", torch.float64)
    exact = (q * spectra.unsqueeze(-2)) @ q.mT
    for dtype in DTYPES:
        a = (0.5 * (exact + exact.mT)).to(dtype)
        found = batched_eigh(a)
        assert found is not None
        for k in range(len(a)):
            assert_diagonalised(a[k], found[0][k], found[1][k])


@pytest.mark.parametrize("n", [8, 32, 64, 100])
def test_errors_are_no_worse_than_those_of_torch(n):
    a = symmetric(50, n, dtype=torch.float32)
    wide = a.double()

    def errors(w, v):
        x = v.double()
        residual = norms(wide @ x - x * w.double().unsqueeze(-2)) / norms(wide)
        return residual, norms(x.mT @ x - torch.eye(n, device="cuda"))

    for ours, theirs in zip(errors(*batched_eigh(a)), errors(*torch.linalg.eigh(a)), strict=True):
        assert ours <= theirs


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (2, 3), (31, 17), (64, 64), (100, 40)])
def test_singular_vectors(shape, dtype):
    a = normal(5, *shape, dtype=dtype)
    found = batched_svd(a)
    assert found is not None
    u, s, vh = (x.double() for x in found)
    bound = 20 * torch.finfo(dtype).eps * max(shape)
    eye = torch.eye(min(shape), device="cuda")
    assert norms((u * s.unsqueeze(-2)) @ vh - a.double()) <= bound * norms(a.double())
    assert norms(u.mT @ u - eye) <= bound
    assert norms(vh @ vh.mT - eye) <= bound
    assert (s.diff(dim=-1) <= 0).all()


def test_gradients():
    a = symmetric(4, 6).requires_grad_()
    weights = normal(6, 6)

    def loss(x):
        w, v = batched_eigh(0.5 * (x + x.mT))
        return (w**2).sum(-1) + (v.abs() * weights).sum((-2, -1))

    assert torch.autograd.gradcheck(loss, a)
    b = normal(4, 5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: batched_svd(x)[1], b)


@pytest.mark.parametrize(
    "values", [lambda x: trnsolver.eigh(x + x.mT)[0], lambda x: trnsolver.svd(x)[1]]
)
def test_derivatives_of_one_small_matrix(values):
    a, tangent = normal(6, 6), normal(6, 6, seed=1)
    assert torch.autograd.gradgradcheck(values, a.clone().requires_grad_())
    step = 1e-6
    slope = (values(a + step * tangent) - values(a - step * tangent)) / (2 * step)
    with forward_ad.dual_level():
        along = forward_ad.unpack_dual(values(forward_ad.make_dual(a, tangent))).tangent
    for found in (along, torch.func.jvp(values, (a,), (tangent,))[1]):
        assert (found - slope).abs().max() <= 1e-8 * slope.abs().max()


def test_what_does_not_fit_is_left_to_torch():
    assert batched_eigh(symmetric(4, 400)) is None
    assert batched_eigh(symmetric(4, 4).cpu()) is None
    assert batched_eigh(symmetric(4, 4).to(torch.complex64)) is None
    assert batched_svd(torch.zeros(4, 3, 3, device="cuda")) is None
    assert batched_svd(torch.zeros(0, 3, 3, device="cuda")) is None


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("n", [5, 40, 70])
def test_what_is_not_a_number_is_left_to_torch(n, bad):
    a = symmetric(6, n)
    a[4, 2, 1] = bad
    assert batched_eigh(a) is None
    assert batched_svd(a) is None
    a = symmetric(6, n)
    a[4, 1, 2] = bad  # above the diagonal nothing is read
    assert batched_eigh(a) is not None


def test_batches_of_any_shape_and_layout():
    a = symmetric(2, 3, 10)
    w, v = batched_eigh(a.mT)
    assert w.shape == (2, 3, 10)
    assert_diagonalised(a, w, v)
