"""A NaN leaves no Cholesky factor, whether or not LAPACK reports it."""

from math import nan

import pytest
import torch

import trnsolver
from each_case import each_case

without_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.cuda, without_cuda])]
DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]


@pytest.fixture(params=["this LAPACK", "one that misses NaN"], autouse=True)
def library(request, monkeypatch):
    if request.param == "this LAPACK":
        return

    def cholesky(a, compute=torch.linalg.cholesky):
        factor, _ = torch.linalg.cholesky_ex(a)
        return factor if factor.diagonal(dim1=-2, dim2=-1).isnan().any() else compute(a)

    monkeypatch.setattr(torch.linalg, "cholesky", cholesky)


@pytest.mark.parametrize("device", DEVICES)
@each_case("dtype", DTYPES, ids=str)
def test_a_nan_in_the_lower_triangle_leaves_no_factor(dtype, device):
    for n in (1, 2, 3, 40):
        for row, column in {(0, 0), (n - 1, 0), (n // 2, n // 3), (n - 1, n - 1)}:
            a = 2 * torch.eye(n, dtype=dtype, device=device)
            a[row, column] = nan
            with pytest.raises(trnsolver.NotPositiveDefiniteError):
                trnsolver.cholesky(a)


@pytest.mark.parametrize("device", DEVICES)
@each_case("dtype", DTYPES, ids=str)
def test_a_batch_has_factors_if_every_matrix_has_one(dtype, device):
    good = 4 * torch.eye(3, dtype=dtype, device=device).repeat(2, 2, 1, 1)
    assert torch.equal(trnsolver.cholesky(good), good / 2)
    for place in ((0, 0), (0, 1), (1, 0), (1, 1)):
        for bad in (nan, -1.0):
            a = good.clone()
            a[(*place, 2, 2)] = bad
            with pytest.raises(trnsolver.NotPositiveDefiniteError):
                trnsolver.cholesky(a)
        a = good.clone()
        a[(*place, 0, 2)] = nan  # in the triangle that is not read
        assert torch.equal(trnsolver.cholesky(a), good / 2)


def test_what_is_not_read_does_not_matter():
    a = torch.tensor([[4.0, nan], [2.0, 5.0]])
    assert torch.equal(trnsolver.cholesky(a), torch.tensor([[2.0, 0.0], [1.0, 2.0]]))


def test_no_rows_have_a_factor():
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        assert trnsolver.cholesky(torch.empty(shape)).shape == shape


def test_factors_have_derivatives():
    a = (2 * torch.eye(2, dtype=torch.float64)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: trnsolver.cholesky(x + x.mT), a)
