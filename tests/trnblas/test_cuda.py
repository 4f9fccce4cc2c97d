"""The same results on a CUDA device, which is where they stay."""

import pytest
import torch

import trnblas
from oracles import blas as oracle

from .agreement import FLOATING, array, assert_agrees
from .cases import CASES, unchanged

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(autouse=True)
def full_precision():
    """float32 products are not rounded to TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_agrees_with_the_definition_on_cuda(case, dtype):
    tensors = case.operands(dtype)
    on_device = [t.cuda().requires_grad_() for t in tensors]
    got = case.call(trnblas, unchanged, *on_device)
    assert got.is_cuda
    of_real = case.name in ("asum", "nrm2") and dtype.is_complex
    arrays = [array(t) for t in tensors]
    want = case.call(oracle, unchanged, *arrays)
    result = dtype.to_real() if of_real else dtype
    steps = case.steps * (4 if of_real else 1)
    assert_agrees(got, want, result, steps, case.magnitude(arrays))
    got.abs().sum().backward()
    assert all(t.grad.isfinite().all() for t in on_device)


def test_special_values_on_cuda():
    nan = torch.full((3, 3), float("nan"), device="cuda")
    eye = torch.eye(3, device="cuda")
    assert torch.equal(trnblas.gemm(0.0, nan, nan, 1.0, eye), eye)
    assert torch.equal(trnblas.gemm(1.0, eye, eye, 0.0, nan), eye)
    assert torch.equal(trnblas.gemm(torch.tensor(0.0, device="cuda"), nan, nan, 1.0, eye), eye)
    assert trnblas.nrm2(torch.full((4,), 1e30, device="cuda")).isfinite()
    upper = eye + nan.tril(-1)
    assert torch.equal(trnblas.trsm(1.0, upper, eye), eye)
    assert torch.equal(trnblas.symm(1.0, upper, eye), eye)
    assert trnblas.iamax(torch.tensor([1.0, -3.0, 3.0], device="cuda")) == 1


def test_two_devices_are_refused():
    with pytest.raises(RuntimeError, match=r"gemm: A and B must be on one device"):
        trnblas.gemm(1.0, torch.ones(2, 2), torch.ones(2, 2, device="cuda"))
