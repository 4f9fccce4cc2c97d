"""Batches of small QR factorizations on a CUDA device, against torch in float64."""

import math

import pytest
import torch

import trnsolver
from trnsolver._paths.cuda import batched
from trnsolver.orthogonal import _qr_backward

from .cuda_numbers import normal

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda

DTYPES = (torch.float32, torch.float64)


def batched_qr(a):
    return batched.batched_qr(a, _qr_backward)


def assert_factors(a, q, r):
    bound = 4 * torch.finfo(a.dtype).eps * max(a.shape[-2:])
    wide, x = a.double(), q.double()
    off = torch.linalg.vector_norm(x @ r.double() - wide, dim=-2)
    assert (off <= bound * torch.linalg.vector_norm(wide, dim=-2)).all()
    eye = torch.eye(x.shape[-1], dtype=torch.float64, device="cuda")
    assert torch.linalg.matrix_norm(x.mT @ x - eye, 2).max() <= bound
    assert torch.equal(r, r.triu())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(1, 1), (1, 3), (3, 1), (31, 17), (17, 31), (32, 32), (64, 33), (100, 100), (160, 40)]
)
def test_factors_are_those_of_torch(shape, dtype):
    a = normal(6, *shape, dtype=dtype)
    found = batched_qr(a)
    assert found is not None
    assert_factors(a, *found)
    want = torch.linalg.qr(a.double())
    close = 1e3 * torch.finfo(dtype).eps * torch.linalg.cond(a.double()[..., : min(shape)]).max()
    for ours, theirs in zip(found, want, strict=True):
        assert (ours - theirs).abs().max() <= close * theirs.abs().max()


def test_hard_matrices():
    n = 30
    graded = normal(n, n) * torch.logspace(0, -25, n, device="cuda", dtype=torch.float64)
    one = torch.outer(normal(n), normal(n, seed=1))
    eye = torch.eye(n, device="cuda", dtype=torch.float64)
    a = torch.stack([graded, one, eye, 0 * eye, eye * 1e-30, eye * 1e30])
    for dtype in DTYPES:
        q, r = batched_qr(a.to(dtype))
        for k in range(len(a)):
            assert_factors(a[k].to(dtype), q[k], r[k])


def test_not_a_number_stays_in_its_matrix():
    a = normal(5, 8, 8)
    a[1, 2, 3] = torch.nan
    q, r = trnsolver.qr(a)
    assert not torch.isfinite(r[1]).all()
    for k in (0, 2, 3, 4):
        assert_factors(a[k], q[k], r[k])


def test_batches_of_any_shape_and_layout():
    a = normal(2, 3, 10, 7)
    q, r = trnsolver.qr(a.mT.contiguous().mT)
    assert q.shape == (2, 3, 10, 7)
    assert r.shape == (2, 3, 7, 7)
    assert_factors(a, q, r)


def test_gradients():
    a = normal(4, 6, 4).requires_grad_()
    assert torch.autograd.gradcheck(batched_qr, a)
    assert torch.autograd.gradgradcheck(batched_qr, a)
    wide = normal(4, 4, 6).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: tuple(trnsolver.qr(x)), wide)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (512, 16), (60, 60), (3000, 4), (5000, 10), (2048, 64)])
def test_cholqr2_has_a_positive_diagonal_and_refuses_dependent_columns(shape, dtype):
    a = normal(*shape, dtype=dtype)
    q, r = trnsolver.cholqr2(a)
    assert_factors(a, q, r)
    assert (r.diagonal() > 0).all()
    for bad in (torch.nan, 0.0):
        a[:, -1] = bad
        with pytest.raises(trnsolver.NotPositiveDefiniteError):
            trnsolver.cholqr2(a)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("condition", [1, 20, 1e3])
def test_cholqr2_of_tall_matrices_at_every_condition(condition, dtype):
    a = torch.linalg.qr(normal(3000, 40)).Q * torch.logspace(0, -math.log10(condition), 40).cuda()
    a = (a @ torch.linalg.qr(normal(40, 40)).Q).to(dtype)
    q, r = trnsolver.cholqr2(a)
    assert_factors(a, q, r)
    assert (r.diagonal() > 0).all()


def test_what_does_not_fit_is_left_to_torch():
    assert batched_qr(normal(4, 400, 400)) is None
    assert batched_qr(normal(4, 4, 4).cpu()) is None
    assert batched_qr(normal(4, 4, 4).to(torch.complex64)) is None
    assert batched_qr(normal(0, 4, 4)) is None
