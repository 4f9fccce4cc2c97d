"""What a zero multiplies, and what an option leaves out, is never read; norms never overflow."""

import math

import numpy as np
import pytest
import torch

import trnblas
from each_case import each_case
from oracles import blas as oracle
from pairwise import pairwise

from .agreement import ROUNDOFF, array, draw
from .cases import CASES, DIAG, SIDE, UPLO

NAN = float("nan")
WITHOUT_ALPHA = ("copy", "dot", "dotc", "swap", "asum", "nrm2", "trmv", "trsv", "dgmm")
WITH_ALPHA = [c for c in CASES if c.name.partition("-")[0] not in WITHOUT_ALPHA]
# Routines of which alpha multiplies one operand; of the others it multiplies two.
ONE = ("scal", "axpy", "syrk", "herk", "syr", "her", "geam")


@each_case("grad", [False, True])
@each_case("case", WITH_ALPHA, ids=lambda case: case.name)
def test_alpha_zero_reads_no_factor(case, grad):
    name = case.name.partition("-")[0]
    seen = []

    def zero_first(factor):
        seen.append(factor)
        return 0.0 if len(seen) == 1 else factor

    count = 1 if name in ONE else 2
    tensors = [draw(shape, torch.float64, i) for i, shape in enumerate(case.shapes)]
    for tensor in tensors[:count]:
        tensor.fill_(NAN)
    for tensor in tensors:
        tensor.requires_grad_(grad)
    got = case.call(trnblas, zero_first, *tensors)
    arrays = [np.zeros(t.shape) if i < count else array(t) for i, t in enumerate(tensors)]
    seen.clear()
    # A system with zeros for its matrix has no answer; alpha == 0 gives zeros all the same.
    want = np.zeros(got.shape) if case.solves else case.call(oracle, zero_first, *arrays)
    assert np.array_equal(array(got), want)
    if grad:
        for gradient in torch.autograd.grad(got.sum(), tensors[:count]):
            assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("grad", [False, True])
def test_beta_zero_reads_no_accumulator(grad):
    a, b, x = (draw(s, torch.float64, i) for i, s in enumerate(((3, 3), (3, 3), (3,))))
    c = torch.full((3, 3), NAN, dtype=torch.float64, requires_grad=grad)
    y = torch.full((3,), NAN, dtype=torch.float64, requires_grad=grad)
    two = (trnblas.gemm, trnblas.symm, trnblas.hemm, trnblas.syr2k, trnblas.her2k, trnblas.gemmt)
    for function in two:
        for alpha in (1.0, 2.0, 0.0):
            got = function(alpha, a, b, 0.0, c)
            assert torch.equal(got, function(alpha, a, b))
            assert got.requires_grad == grad
            if grad:
                (gradient,) = torch.autograd.grad(got.sum(), [c])
                assert torch.equal(gradient, torch.zeros_like(c))
    for stack in (a.expand(2, 3, 3), a.expand(2, 1, 3, 3)):
        for alpha in (1.0, 2.0, 0.0):
            got = trnblas.batched_gemm(alpha, stack, b.expand_as(stack), 0.0, c)
            assert torch.equal(got, trnblas.batched_gemm(alpha, stack, b.expand_as(stack)))
            assert got.requires_grad == grad
            if grad:
                (gradient,) = torch.autograd.grad(got.sum(), [c])
                assert torch.equal(gradient, torch.zeros_like(c))
    for function in (trnblas.syrk, trnblas.herk):
        assert torch.equal(function(2.0, a, 0.0, c), function(2.0, a))
    for function in (trnblas.gemv, trnblas.symv, trnblas.hemv):
        assert torch.equal(function(2.0, a, x, 0.0, y), function(2.0, a, x))
    assert torch.equal(
        trnblas.batched_gemm(2.0, a[None], b, 0.0, c), trnblas.batched_gemm(2.0, a[None], b)
    )


def test_tensor_factors_equal_to_zero_stop_nan_too():
    zero = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    a, c = torch.full((2, 2), NAN, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    assert torch.equal(trnblas.gemm(zero, a, a, 1.0, c), c)
    assert torch.equal(trnblas.gemm(1.0, c, c, zero, a), c)
    assert torch.equal(trnblas.scal(zero, a), torch.zeros_like(c))
    got = trnblas.gemm(zero, c, 3 * c)
    (gradient,) = torch.autograd.grad(got.sum(), [zero])
    assert gradient == 6  # the product counts for the derivative, though not for the value


@each_case(
    ("n", "dtype", "grad"),
    pairwise([3, 70, 200], [torch.bfloat16, torch.float32, torch.complex128], [False, True]),
)
def test_the_other_triangle_is_not_read(n, grad, dtype):
    a, b, x = (draw(s, dtype, i) for i, s in enumerate(((n, n), (n, n), (n,))))
    a = a / n + 2 * torch.eye(n, dtype=dtype)
    for uplo in UPLO:
        spoilt = torch.full_like(a, NAN)
        spoilt = a.triu() + spoilt.tril(-1) if uplo == "upper" else a.tril() + spoilt.triu(1)
        spoilt = spoilt.requires_grad_(grad)
        assert spoilt.isnan().any()
        results = [trnblas.symv(2.0, spoilt, x, uplo=uplo)]
        results.append(trnblas.hemv(2.0, spoilt, x, uplo=uplo))
        for side in SIDE:
            results.append(trnblas.symm(2.0, spoilt, b, side=side, uplo=uplo))
            results.append(trnblas.hemm(2.0, spoilt, b, side=side, uplo=uplo))
        for diag in DIAG:
            without = spoilt.detach().clone()
            if diag == "unit":
                without.fill_diagonal_(NAN)
            without.requires_grad_(grad)
            for trans in (False, True, "C"):
                results.append(trnblas.trmv(without, x, uplo, trans, diag))
                results.append(trnblas.trsv(without, x, uplo, trans, diag))
                for side in SIDE:
                    for function in (trnblas.trmm, trnblas.trsm):
                        results.append(function(2.0, without, b, side, uplo, trans, diag))
            if grad:
                (gradient,) = torch.autograd.grad(results[-1].abs().sum(), [without])
                assert not gradient.isnan().any()
        assert all(result.isfinite().all() for result in results)


def test_a_singular_system_gives_infinities():
    got = trnblas.trsm(1.0, torch.zeros(1, 1), torch.ones(1, 1))
    assert got.isinf().all()


@each_case("scale", [1e30, 1e-30, 1e-44, 1.0, 3e38])
@each_case("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_nrm2_of_narrow_numbers_beyond_their_squares(dtype, scale):
    x = torch.full((4,), scale if dtype is not torch.complex64 else complex(scale, 0)).to(dtype)
    x[1:] /= 4
    check_norm(x)


@each_case("scale", [1e300, 1e-300, 5e-324, 1.5e308, 1.0])
@each_case("dtype", [torch.float64, torch.complex128], ids=str)
def test_nrm2_of_wide_numbers_beyond_their_squares(dtype, scale):
    x = torch.full((4,), scale, dtype=torch.float64).to(dtype)
    x[1:] /= 4
    check_norm(x)
    if dtype is torch.complex128:
        check_norm(x * 0.5j)


def check_norm(x):
    for variable in (x, x.clone().requires_grad_()):
        got = float(trnblas.nrm2(variable).detach())
        want = float(oracle.nrm2(array(x)))
        real = x.dtype.to_real() if x.is_complex() else x.dtype
        # Eight roundings: four squares and sums, the root, the scaling; and the least subnormal.
        least = 2.0 * torch.finfo(real).tiny * torch.finfo(real).eps
        assert abs(got - want) <= 8 * ROUNDOFF[real] * want + least


COUNT = 5_000_003


@each_case("kind", ["normal", "equal", "growing"])
def test_sums_of_many_float32_keep_their_digits(kind):
    """A naive sum of these is wrong in the third or fourth digit; eps is 2^-23."""
    every = {
        "normal": lambda: draw((COUNT,), torch.float32, 0),
        "equal": lambda: torch.full((COUNT,), 0.1),
        "growing": lambda: torch.linspace(0, 1, COUNT),
    }[kind]()
    for count in (2**15, COUNT):
        x = every[:count]
        wide = x.numpy().astype(np.float64)
        norm, total = math.sqrt(np.dot(wide, wide)), np.abs(wide).sum()
        assert abs(float(trnblas.nrm2(x)) - norm) <= 2 * 2.0**-23 * norm
        assert abs(float(trnblas.asum(x)) - total) <= 3 * 2.0**-23 * total


@each_case("count", [255, 256, 257, 511, 512, 513, 2**15, 2**15 + 1, 256 * 256 + 1])
def test_blocks_of_a_norm_leave_no_element_out(count):
    for place in (0, 255, count - 1):
        x = torch.zeros(count)
        x[min(place, count - 1)] = -3.0
        assert trnblas.nrm2(x) == 3
    x = torch.ones(count, dtype=torch.float64)
    assert abs(float(trnblas.nrm2(x)) - math.sqrt(count)) <= 8 * 2.0**-53 * math.sqrt(count)
    x = torch.full((count,), 1e200, dtype=torch.float64)
    want = 1e200 * math.sqrt(count)
    assert abs(float(trnblas.nrm2(x)) - want) <= 8 * 2.0**-53 * want


@each_case("count", [2**18 - 1, 2**18, 2**18 + 1, 2**19 + 5])
def test_spans_of_a_sum_leave_no_element_out(count):
    x = torch.ones(count, dtype=torch.float64)
    x[-1] = x[0] = -7.0
    assert trnblas.asum(x) == count + 12
    narrow = torch.zeros(count, dtype=torch.bfloat16)
    narrow[::4096] = -1.0
    assert trnblas.asum(narrow) == len(narrow[::4096])


def test_nrm2_of_special_values():
    inf = float("inf")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert trnblas.nrm2(torch.zeros(3, dtype=dtype)) == 0
        assert trnblas.nrm2(torch.tensor([1.0, -inf], dtype=dtype)) == inf
        assert trnblas.nrm2(torch.tensor([1.0, NAN, inf], dtype=dtype)).isnan()
    assert trnblas.nrm2(torch.full((4,), 3e4, dtype=torch.float16)) == 6e4
    x = torch.zeros(3, requires_grad=True)
    trnblas.nrm2(x).backward()
    assert torch.equal(x.grad, torch.zeros(3))
    x = torch.tensor([3e30, 4e30], requires_grad=True)
    trnblas.nrm2(x).backward()
    assert torch.allclose(x.grad, torch.tensor([0.6, 0.8]), rtol=4 * 2.0**-24)


def test_iamax():
    assert trnblas.iamax(torch.tensor([1.0, -5.0, 3.0, -2.0])) == 1
    assert trnblas.iamax(torch.tensor([2, -5, 5, -5])) == 1
    assert trnblas.iamax(torch.tensor([[1.0, -4.0], [4.0, 0.0]])) == 1
    assert trnblas.iamax(torch.tensor([1.0, math.inf, NAN, 0.0])) == 2
    # By |re| + |im|, as in BLAS: 6, 4.5 and 4, though the modulus of the second is the largest.
    assert trnblas.iamax(torch.tensor([3 + 3j, 0 + 4.5j, -4 + 0j])) == 0
    assert trnblas.iamax(torch.tensor([-2 - 3j, 0 + 5j]).conj()) == 0
    assert trnblas.iamax(torch.tensor([127, -128], dtype=torch.int8)) == 1
    assert trnblas.iamax(torch.tensor([3, 200, 200], dtype=torch.uint8)) == 1
    assert type(trnblas.iamax(torch.ones(2))) is int
    for dtype in (torch.float16, torch.bfloat16):
        assert trnblas.iamax(torch.tensor([1, -2, 2], dtype=dtype)) == 1
    with pytest.raises(IndexError, match=r"iamax: x must have elements, got shape \(0, 3\)"):
        trnblas.iamax(torch.empty(0, 3))


def test_iamin():
    assert trnblas.iamin(torch.tensor([2.0, -1.0, 3.0, 1.0])) == 1
    assert trnblas.iamin(torch.tensor([-128, 5, -3], dtype=torch.int8)) == 2
    assert trnblas.iamin(torch.tensor([[4, 3], [3, 200]], dtype=torch.uint8)) == 1
    assert trnblas.iamin(torch.tensor([1.0, NAN, 0.0])) == 1
    assert trnblas.iamin(torch.tensor([3 + 3j, 0 - 4.5j, -4 + 0j]).conj()) == 2
    assert type(trnblas.iamin(torch.ones(2))) is int
    with pytest.raises(IndexError, match=r"iamin: x must have elements, got shape \(0, 3\)"):
        trnblas.iamin(torch.empty(0, 3))
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        assert trnblas.iamin(torch.tensor([torch.iinfo(dtype).min, -2, 2], dtype=dtype)) == 1
