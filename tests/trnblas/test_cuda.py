"""The same results on a CUDA device, which is where they stay."""

import pytest
import torch

import trnblas
from oracles import blas as oracle

from .agreement import FLOATING, ROUNDOFF, array, assert_agrees
from .cases import CASES, unchanged
from .test_levels import BOUNDS, CALLS, SIZE

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda


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
    # Of swap, a result is a copy of one operand.
    assert all(t.grad is None or t.grad.isfinite().all() for t in on_device)


@pytest.mark.parametrize("level", BOUNDS)
@pytest.mark.parametrize("name", CALLS)
def test_levels_of_precision_on_cuda(name, level):
    """The bound of a level is the same as on a kernel, and on torch on a CPU."""
    call, truth, operands = CALLS[name]
    narrow = [x.to("cuda", torch.float32).requires_grad_() for x in operands]
    got = call(*narrow, precision=level)
    want = truth(*(x.detach().double() for x in narrow))
    bound = SIZE * BOUNDS[level] + torch.finfo(torch.float32).eps / 2 * want.abs()
    assert got.is_cuda
    assert got.dtype is torch.float32
    assert ((got.detach().double() - want).abs() <= bound).all()
    got.sum().backward()
    assert all(x.grad.isfinite().all() for x in narrow)


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


@pytest.mark.parametrize("count", [1, 3, 4, 255, 257, 4095, 4097, 2**20 + 1, 5_000_003])
def test_norms_on_cuda(count):
    generator = torch.Generator("cuda").manual_seed(count)
    for offset in (0, 1):
        x = torch.randn(count + offset, device="cuda", generator=generator)[offset:]
        want = float(torch.linalg.vector_norm(x.double()))
        for scale in (1.0, 1e30, 1e-30):
            got = float(trnblas.nrm2(x * scale))
            assert abs(got - scale * want) <= 4 * 2.0**-24 * scale * want


def test_norms_of_special_values_on_cuda():
    for values, want in (
        ([0.0, 0.0], 0.0),
        ([1.0, float("-inf")], float("inf")),
        ([3.0, 4.0], 5.0),
    ):
        assert float(trnblas.nrm2(torch.tensor(values, device="cuda"))) == want
    assert trnblas.nrm2(torch.tensor([1.0, float("nan")], device="cuda")).isnan()
    assert trnblas.nrm2(torch.empty(0, device="cuda")) == 0
    x = torch.tensor([3e30, 4e30], device="cuda", requires_grad=True)
    trnblas.nrm2(x).backward()
    assert torch.allclose(x.grad.cpu(), torch.tensor([0.6, 0.8]), rtol=4 * 2.0**-24)


def test_norms_on_two_streams_do_not_meet():
    x = torch.ones(2**22, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    torch.cuda.synchronize()
    for turn in range(40):
        with torch.cuda.stream(streams[turn % 4]):
            results.append(trnblas.nrm2(x))
    torch.cuda.synchronize()
    assert [float(r) for r in results] == [2.0**11] * 40


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 129, 1000])
def test_rank_k_updates_are_exactly_symmetric_on_cuda(n, dtype):
    generator = torch.Generator("cuda").manual_seed(n)
    a = torch.randn(3, n, 33, device="cuda", dtype=dtype, generator=generator)
    for operand in (a, a[0]):
        got = trnblas.syrk(0.5, operand)
        assert torch.equal(got, got.mT)
        want = operand.to(torch.complex128) @ operand.to(torch.complex128).mT / 2
        moduli = operand.to(torch.complex128).abs()
        bound = 40 * ROUNDOFF[dtype] * (moduli @ moduli.mT)
        assert ((got.to(torch.complex128) - want).abs() <= bound).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_large_rank_k_updates_on_cuda(dtype):
    order, depth = 1540, 515
    generator = torch.Generator("cuda").manual_seed(order)
    a = torch.randn(order, depth, device="cuda", dtype=dtype, generator=generator)
    c = torch.randn(order, order, device="cuda", dtype=dtype, generator=generator)
    c = c + c.mT
    wide = a.to(torch.complex128)
    bound = 4 * depth * ROUNDOFF[dtype] * (wide.abs() @ wide.abs().mT)
    for operand, trans in ((a, False), (a.mT, True), (a.mT.contiguous(), True)):
        got = trnblas.syrk(0.5, operand, trans=trans)
        assert torch.equal(got, got.mT)
        assert ((got - wide @ wide.mT / 2).abs() <= bound).all()
        sums = trnblas.syrk(0.5, operand, 2.0, c, trans=trans)
        assert torch.equal(sums, got + 2.0 * c)


def test_autocast_and_graphs_on_cuda():
    a = torch.randn(77, 91, device="cuda")
    with torch.autocast("cuda"):
        assert trnblas.syrk(1.0, a).dtype is torch.float16
    trnblas.syrk(1.0, a)  # cuBLAS allocates its workspace before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got, norm = trnblas.syrk(1.0, a), trnblas.nrm2(a)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(got, trnblas.syrk(1.0, a))
    assert torch.equal(norm, trnblas.nrm2(a))
