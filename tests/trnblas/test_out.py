"""Results in a tensor of the caller's, and in float32 from narrow operands."""

import numpy as np
import pytest
import torch

import trnblas
from each_case import each_case
from oracles import blas as oracle
from trnsci.core.errors import DerivativeError, DTypeError, ShapeError

from .agreement import array, assert_agrees, draw
from .cases import CASES, unchanged

TUPLES = ("swap", "grouped_gemm")
FIRST = {}
for case in CASES:
    FIRST.setdefault(case.name.partition("-")[0], case)
WITH_OUT = [case for name, case in FIRST.items() if name not in TUPLES]


class Into:
    """trnblas with ``out`` in every call."""

    def __init__(self, out):
        self.out = out

    def __getattr__(self, name):
        return lambda *args, **options: getattr(trnblas, name)(*args, **options, out=self.out)


by_name = each_case("case", WITH_OUT, ids=lambda case: case.name)


@by_name
def test_the_result_goes_into_out(case):
    tensors = case.operands(torch.float32)
    want = case.call(trnblas, unchanged, *tensors)
    wide = torch.full((*want.shape, 2), float("nan"))
    for out in (torch.full_like(want, 7.0), wide[..., 1]):
        assert case.call(Into(out), unchanged, *tensors) is out
        assert torch.equal(out, want)
    assert wide[..., 0].isnan().all()


@by_name
def test_out_is_never_made_to_fit(case):
    tensors = case.operands(torch.float32)
    want = case.call(trnblas, unchanged, *tensors)
    name = case.name.partition("-")[0]
    for shape in ((*want.shape, 1), (2, *want.shape)):
        with pytest.raises(ShapeError, match=rf"^{name}: out must have the result's shape"):
            case.call(Into(torch.empty(shape)), unchanged, *tensors)
    with pytest.raises(DTypeError, match=rf"^{name}: the result and out must have one dtype"):
        case.call(Into(torch.empty(want.shape, dtype=torch.float64)), unchanged, *tensors)
    with pytest.raises(RuntimeError, match=rf"^{name}: the result and out must be on one device"):
        case.call(Into(torch.empty(want.shape, device="meta")), unchanged, *tensors)
    with pytest.raises(DTypeError, match=rf"^{name}: out must be a torch.Tensor, got list"):
        case.call(Into([]), unchanged, *tensors)
    tensors[0].requires_grad_()
    out = torch.zeros(want.shape)
    with pytest.raises(
        DerivativeError, match=rf"^{name}: out must be None where a gradient is required"
    ):
        case.call(Into(out), unchanged, *tensors)
    assert not out.any()
    with torch.no_grad():
        assert torch.equal(case.call(Into(out), unchanged, *tensors), want)


def test_out_may_be_an_operand():
    a, b, c = (draw((4, 4), torch.float64, seed) for seed in range(3))
    want = trnblas.gemm(2.0, a, b, -1.0, c)
    assert trnblas.gemm(2.0, a, b, -1.0, c, out=c) is c
    assert torch.equal(c, want)
    want = trnblas.gemm(1.0, a, b)
    assert torch.equal(trnblas.gemm(1.0, a, b, out=a), want)
    with pytest.raises(DerivativeError, match="gradient is required"):
        trnblas.scal(2.0, b, out=b.clone().requires_grad_())


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events:UserWarning")  # torch 2.11
@pytest.mark.parametrize("lead", [(), (3,)], ids=str)
def test_products_are_written_at_once(lead):
    """torch writes the product to ``out``; nothing is copied there afterwards."""
    a, b, c = (draw((*lead, *s), torch.float64, i) for i, s in enumerate([(2, 4), (4, 5), (2, 5)]))
    wants = [trnblas.gemm(0.5, a, b), trnblas.gemm(0.5, a, b, -2.0, c), trnblas.gemm(1.0, a, b)]
    for name in ("gemm", "batched_gemm") if lead else ("gemm",):
        call, below = getattr(trnblas, name), c.clone()
        for want, args in zip(wants, [(0.5,), (0.5, -2.0, below), (1.0,)], strict=True):
            out = torch.full_like(want, float("nan"))
            with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU]
            ) as profile:
                assert call(args[0], a, b, *args[1:], out=out) is out
            assert torch.equal(out, want)
            if len(args) == 1:  # addmm itself copies an accumulator
                assert "aten::copy_" not in {event.key for event in profile.key_averages()}
        assert torch.equal(call(0.5, a.mT, b, -2.0, below, transA=True, out=below), wants[1])
        unread = torch.full_like(c, float("nan"))
        assert torch.equal(call(0.5, a, b, 0.0, unread, out=torch.empty_like(c)), wants[0])
        none = call(0.5, a[..., :0], b[..., :0, :], 0.0, unread, out=torch.empty_like(c))
        assert torch.equal(none, torch.zeros_like(c))


def test_products_are_not_written_over_their_operands():
    square = draw((3, 3), torch.float64, 0)
    want = trnblas.gemm(1.0, square, square, 1.0, square)
    assert torch.equal(trnblas.gemm(1.0, square, square, 1.0, square, out=square), want)
    both = draw((2, 3, 3), torch.float64, 1)
    want = trnblas.gemm(0.5, both[0], both[1], 2.0, both[0])
    assert torch.equal(trnblas.gemm(0.5, both[0], both[1], 2.0, both[0], out=both[1]), want)
    nan = torch.full((3, 3), float("nan"), dtype=torch.float64)
    out = torch.empty(3, 3, dtype=torch.float64)
    assert torch.equal(trnblas.gemm(1.0, square, square, 0.0, nan, out=out), square @ square)
    assert torch.equal(trnblas.gemm(0.0, nan, nan, 1.0, square, out=out), square)
    shared = trnblas.batched_gemm(1.0, both, square)
    assert torch.equal(trnblas.batched_gemm(1.0, both, square, out=both), shared)


def test_grouped_results_go_into_out():
    a, b = [draw((2, 3), torch.float32, 0)] * 2, [draw((3, 2), torch.float32, 1)] * 2
    out = [torch.empty(2, 2), torch.empty(2, 2)]
    got = trnblas.grouped_gemm(2.0, a, b, out=out)
    assert all(g is o for g, o in zip(got, out, strict=True))
    left, right = array(a[1]), array(b[1])
    assert_agrees(out[1], 2 * left @ right, torch.float32, 5, 2 * np.abs(left) @ np.abs(right))
    with pytest.raises(ShapeError, match="A and out must have as many matrices, got 2 and 1"):
        trnblas.grouped_gemm(2.0, a, b, out=out[:1])


@each_case("shape", [(), (5,), (2, 1), (1, 5), (2, 5)], ids=str)
def test_grouped_accumulators_broadcast_alike_on_every_backend(shape):
    """Two products of two rows: a batch of row accumulators must not be taken for columns."""
    a, b = ([draw(s, torch.float32, i) for i in range(2)] for s in ((2, 3), (3, 5)))
    c = [draw(shape, torch.float32, i) for i in range(2)]
    want = trnblas.grouped_gemm(2.0, a, b, -1.0, c)
    with trnblas.backend("simulator"):
        got = trnblas.grouped_gemm(2.0, a, b, -1.0, c)
    torch.testing.assert_close(got, want)


NARROW = [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


@each_case("backend", ["pytorch", "simulator"])
@each_case("dtype", NARROW, ids=str)
def test_narrow_operands_give_float32_results(dtype, backend):
    a, b = draw((3, 4, 5), torch.float32, 0).to(dtype), draw((3, 5, 2), torch.float32, 1).to(dtype)
    c = draw((3, 4, 2), torch.float32, 2)
    wide = [array(t) for t in (a, b, c)]
    want = oracle.gemm(-2, wide[0], wide[1], 3, wide[2])
    size = oracle.gemm(2, np.abs(wide[0]), np.abs(wide[1]), 3, np.abs(wide[2]))
    with trnblas.backend(backend):
        got = trnblas.batched_gemm(-2.0, a, b, 3.0, c, out_dtype=torch.float32)
        assert_agrees(got, want, torch.float32, 9, size)
        got = trnblas.gemm(-2.0, a[0], b[0], 3.0, c[0], out_dtype=torch.float32)
        assert_agrees(got, want[0], torch.float32, 9, size[0])
        (got,) = trnblas.grouped_gemm(-2.0, [a[0]], [b[0]], 3.0, [c[0]], out_dtype=torch.float32)
        assert_agrees(got, want[0], torch.float32, 9, size[0])


def test_narrow_operands_are_differentiated_in_their_dtype():
    a = draw((3, 4), torch.bfloat16, 0).requires_grad_()
    trnblas.gemm(1.0, a, torch.ones(4, 2).bfloat16(), out_dtype=torch.float32).sum().backward()
    assert torch.equal(a.grad, torch.full((3, 4), 2.0).bfloat16())


def test_dtypes_that_a_result_cannot_have():
    a = torch.ones(2, 2)
    assert torch.equal(trnblas.gemm(1.0, a, a, out_dtype=torch.float32), 2 * a)
    with pytest.raises(
        DTypeError, match=r"gemm: out_dtype must be the operands' torch.float32, got"
    ):
        trnblas.gemm(1.0, a, a, out_dtype=torch.float64)
    narrow = a.bfloat16()
    message = r"gemm: out_dtype must be the operands' torch.bfloat16 or torch.float32, got"
    with pytest.raises(DTypeError, match=message):
        trnblas.gemm(1.0, narrow, narrow, out_dtype=torch.float16)
    with pytest.raises(DTypeError, match="gemm: A and B must have one dtype"):
        trnblas.gemm(1.0, narrow, a, out_dtype=torch.float32)
    with pytest.raises(DTypeError, match="gemm: A and C must have one dtype"):
        trnblas.gemm(1.0, narrow, narrow, 1.0, narrow, out_dtype=torch.float32)
