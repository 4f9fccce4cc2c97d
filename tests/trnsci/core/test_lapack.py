"""A NaN leaves no Cholesky factor, whether or not LAPACK says so."""

from math import nan

import pytest
import torch

from trnsci.core import lapack

without_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, without_cuda])]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.fixture(params=["this LAPACK", "one that misses NaN"], autouse=True)
def library(request, monkeypatch):
    if request.param != "this LAPACK":
        monkeypatch.setattr(lapack, "misses_nan", lambda: True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_nan_in_the_lower_triangle_leaves_no_factor(dtype, device):
    for n in (1, 2, 3, 40):
        for row, column in {(0, 0), (n - 1, 0), (n // 2, n // 3), (n - 1, n - 1)}:
            a = 2 * torch.eye(n, dtype=dtype, device=device)
            a[row, column] = nan
            assert lapack.lower_factor(a)[1].item()


@pytest.mark.parametrize("device", DEVICES)
def test_each_matrix_of_a_batch_is_judged_alone(device):
    a = 2 * torch.eye(3, device=device).repeat(2, 2, 1, 1)
    a[0, 1, 2, 2] = nan
    a[1, 0] *= -1
    factor, failed = lapack.lower_factor(a)
    assert (failed != 0).tolist() == [[False, True], [True, False]]
    assert torch.equal(factor[1, 1].cpu(), 2**0.5 * torch.eye(3))


def test_what_is_not_read_does_not_matter():
    a = torch.tensor([[4.0, nan], [2.0, 5.0]])
    factor, failed = lapack.lower_factor(a)
    assert not failed
    assert torch.equal(factor, torch.tensor([[2.0, 0.0], [1.0, 2.0]]))


def test_no_rows_have_a_factor():
    assert not lapack.lower_factor(torch.empty(0, 0))[1]
    assert lapack.lower_factor(torch.empty(2, 0, 0))[1].tolist() == [0, 0]


def test_factors_have_derivatives():
    a = (2 * torch.eye(2, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: lapack.lower_factor(x + x.mT)[0], a)
