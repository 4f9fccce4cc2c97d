"""Convolution against sums taken term by term, and against SciPy where dimensions broadcast."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.signal
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import trnfft
from each_case import each_case
from oracles import fourier as oracle
from trnfft import ComplexTensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import array, randn

SHAPES = [
    ((9,), (4,)),
    ((4,), (9,)),
    ((5, 6), (3, 2)),
    ((5, 6), (1, 3)),
    ((1,), (1,)),
    ((3, 4, 2),) * 2,
]


def assert_convolved(got, want, a, b, dtype=torch.float32):
    """An error of roundoff times the norms of both, times the stages of three transforms."""
    values = array(got)
    assert values.shape == want.shape
    steps = 3 * 8 * (1 + np.log2(max(want.size, 1)))
    roundoff = torch.finfo(dtype).eps / 2
    size = np.linalg.norm(array(a)) * np.linalg.norm(array(b))
    assert np.abs(values - want).max(initial=0.0) <= steps * roundoff * size


@each_case(("first", "second"), SHAPES, ids=str)
@each_case("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_full_agrees_with_the_definition(first, second, dtype):
    a, b = randn(*first, dtype=dtype), randn(*second, dtype=dtype, seed=1)
    got = trnfft.fftconvolve(a, b)
    assert got.dtype is dtype
    assert_convolved(got, oracle.convolve(array(a), array(b)), a, b, dtype.to_real())


@each_case("mode", ["full", "same", "valid"])
@each_case(
    ("first", "second", "axes"),
    [
        ((9, 7), (4, 3), None),
        ((4, 3), (9, 7), None),
        ((9, 7), (4, 7), 0),
        ((3, 9), (1, 4), 1),
        ((3, 9, 5), (3, 4, 2), (1, 2)),
        ((6, 2), (5, 2), [-2]),
    ],
    ids=str,
)
def test_modes_and_axes_are_those_of_scipy(first, second, axes, mode):
    a, b = randn(*first), randn(*second, seed=1)
    want = scipy.signal.fftconvolve(array(a), array(b), mode, axes)
    assert_convolved(trnfft.fftconvolve(a, b, mode, axes), want, a, b)


def test_same_keeps_the_dimensions_that_broadcast():
    # SciPy cuts those too, to the size of the first tensor, and keeps one row of the three.
    a, b = randn(1, 9), randn(3, 4, seed=1)
    want = scipy.signal.fftconvolve(np.repeat(array(a), 3, 0), array(b), "same", 1)
    assert_convolved(trnfft.fftconvolve(a, b, "same", 1), want, a, b)


def test_kinds_and_dtypes():
    real, native = randn(5), randn(4, dtype=torch.complex64)
    assert isinstance(trnfft.fftconvolve(real, native), torch.Tensor)
    split = trnfft.fftconvolve(real, ComplexTensor(native))
    assert isinstance(split, ComplexTensor)
    np.testing.assert_array_equal(array(split), array(trnfft.fftconvolve(real, native)))
    assert trnfft.fftconvolve(real, native.to(torch.complex128)).dtype is torch.complex128
    assert trnfft.fftconvolve(real.half(), real.half()).dtype is torch.float16
    assert trnfft.fftconvolve(real.half(), real.bfloat16()).dtype is torch.float32
    assert trnfft.fftconvolve(real, real.half()).dtype is torch.float32
    whole = torch.arange(4)
    assert trnfft.fftconvolve(whole, whole).round().tolist() == [0, 0, 1, 4, 10, 12, 9]


def test_empty_operands():
    a = torch.zeros(0, 5, requires_grad=True)
    got = trnfft.fftconvolve(a, torch.ones(1, 3), axes=1)
    assert got.shape == (0, 7)
    got.sum().backward()
    assert a.grad.shape == (0, 5)
    assert trnfft.fftconvolve(torch.zeros(0), torch.ones(3)).numel() == 0


def test_bad_arguments():
    a = torch.ones(3, 4)
    for error, args in [
        (ShapeError, (a, a[0])),
        (ShapeError, (a, torch.ones(2, 5), "valid")),
        (ShapeError, (a, torch.ones(2, 5), "full", 0)),
        (ShapeError, (a, a, "full", (0, 0))),
        (IndexError, (a, a, "full", 2)),
        (FlagError, (a, a, "circular")),
        (DTypeError, (a, [1.0])),
        (DTypeError, (a, a, "full", 0.5)),
    ]:
        with pytest.raises(error, match=r"^fftconvolve: "):
            trnfft.fftconvolve(*args)


LONG = [
    ((1000,), (7,)),
    ((7,), (1000,)),
    ((200, 90), (5, 6)),
    ((90, 200), (6, 1)),
    ((3, 300), (1, 11)),
    ((5, 400), (6, 9)),
    ((400, 5), (9, 6)),
    ((40,), (39,)),
    ((1,), (300,)),
]


@each_case(("first", "second"), LONG, ids=str)
@each_case("dtype", [torch.float32, torch.complex64], ids=str)
def test_blocks_agree_with_the_definition(first, second, dtype):
    a, b = randn(*first, dtype=dtype), randn(*second, dtype=dtype, seed=1)
    got = trnfft.oaconvolve(a, b)
    assert got.dtype is dtype
    want = scipy.signal.convolve(array(a), array(b), method="direct")
    assert_convolved(got, want, a, b)


@each_case("mode", ["full", "same", "valid"])
@each_case(
    ("first", "second", "axes"),
    [
        ((300, 7), (4, 3), None),
        ((4, 3), (300, 7), None),
        ((3, 500), (1, 4), 1),
        ((300, 2),) * 2 + (0,),
    ],
    ids=str,
)
def test_blocks_have_the_modes_of_scipy(first, second, axes, mode):
    a, b = randn(*first), randn(*second, seed=1)
    want = scipy.signal.oaconvolve(array(a), array(b), mode, axes)
    assert_convolved(trnfft.oaconvolve(a, b, mode, axes), want, a, b)


@each_case("mode", ["full", "same", "valid"])
@each_case("name", ["fftconvolve", "oaconvolve"])
@each_case(
    ("first", "second"),
    [(a, b) for a in product((1, 2, 5), repeat=2) for b in product((1, 2, 5), repeat=2)],
    ids=str,
)
def test_dimensions_of_one_broadcast_as_in_scipy(first, second, name, mode):
    a, b = randn(*first), randn(*second, seed=1)
    try:
        want = getattr(scipy.signal, name)(array(a), array(b), mode)
    except ValueError:
        with pytest.raises(ShapeError, match=f"^{name}: for mode 'valid'"):
            getattr(trnfft, name)(a, b, mode)
        return
    assert_convolved(getattr(trnfft, name)(a, b, mode), want, a, b)


class RealTransforms(TorchDispatchMode):
    """Collects the shapes of the operands of Fourier transforms of real tensors."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._fft_r2c.default:
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def blocks_of(first, second):
    """Return the length and the number of the blocks of a convolution of vectors."""
    with RealTransforms() as seen:
        trnfft.oaconvolve(torch.ones(first), torch.ones(second))
    (length,) = {shape[-1] for shape in seen.shapes}
    return length, max(math.prod(shape[:-1]) for shape in seen.shapes)


@each_case("longer", [50, 1000, 20000])
@each_case("shorter", [2, 3, 10, 49])
def test_blocks_are_of_the_length_with_the_least_work(longer, shorter):
    def work(size):
        return -(-longer // (size - shorter + 1)) * size * np.log2(size)

    whole = trnfft.next_fast_len(longer + shorter - 1, real=True)
    doubling = [2**k for k in range(1, 16) if 2 * shorter <= 2**k < whole]
    found, _ = blocks_of(longer, shorter)
    assert found in (*doubling, whole)
    assert work(found) <= min(map(work, (*doubling, whole)))


def test_blocks_are_differentiable():
    a = randn(60, dtype=torch.float64).requires_grad_()
    b = randn(3, dtype=torch.float64, seed=1).requires_grad_()
    assert blocks_of(60, 3)[0] < 62
    assert torch.autograd.gradcheck(trnfft.oaconvolve, (a, b))


def correlation(a, b):
    """The sums by their definition, lag 0 at index n2 - 1."""
    n, m = len(a), len(b)
    sums = np.zeros(n + m - 1, np.result_type(a, b))
    for k in range(n + m - 1):
        for j in range(n):
            if 0 <= j - k + m - 1 < m:
                sums[k] += a[j] * np.conj(b[j - k + m - 1])
    return sums


@each_case("dtype", [torch.float32, torch.complex64], ids=str)
@each_case(("n", "m"), [(9, 4), (4, 9), (5, 5), (1, 3)])
def test_correlation_agrees_with_the_definition(n, m, dtype):
    a, b = randn(n, dtype=dtype), randn(m, dtype=dtype, seed=1)
    assert_convolved(trnfft.correlate(a, b), correlation(array(a), array(b)), a, b)


@each_case("mode", ["full", "same", "valid"])
@each_case(("first", "second"), [((9, 7), (4, 3)), ((4, 3), (9, 7))], ids=str)
@each_case("dtype", [torch.float32, torch.complex64], ids=str)
def test_correlation_has_the_modes_of_scipy(first, second, mode, dtype):
    a, b = randn(*first, dtype=dtype), randn(*second, dtype=dtype, seed=1)
    want = scipy.signal.correlate(array(a), array(b), mode, method="direct")
    assert_convolved(trnfft.correlate(a, b, mode), want, a, b)


def test_correlation_along_an_axis_and_of_kinds():
    a, b = randn(3, 9, dtype=torch.complex64), randn(3, 4, dtype=torch.complex64, seed=1)
    want = np.stack([correlation(x, y) for x, y in zip(array(a), array(b), strict=True)])
    got = trnfft.correlate(a, ComplexTensor(b), axes=1)
    assert isinstance(got, ComplexTensor)
    assert_convolved(got, want, a, b)


@pytest.mark.parametrize("name", ["oaconvolve", "correlate"])
def test_errors_name_the_function(name):
    function, x = getattr(trnfft, name), torch.ones(4)
    with pytest.raises(FlagError, match=f"^{name}: mode must be one of"):
        function(x, x, "most")
    with pytest.raises(ShapeError, match=f"^{name}: in1 and in2 must have the same number"):
        function(x, torch.ones(2, 2))
    with pytest.raises(ShapeError, match=f"^{name}: for mode 'valid'"):
        function(torch.ones(2, 5), torch.ones(5, 2), "valid")
    with pytest.raises(DTypeError, match=f"^{name}: in2 must be"):
        function(x, [1.0])
    assert function(torch.ones(0), x).shape == (0,)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(("longer", "shorter"), [(1000, 10), (12, 10), (60, 3)])
def test_transforms_are_as_long_as_a_block(longer, shorter, swapped):
    size, blocks = blocks_of(*((shorter, longer) if swapped else (longer, shorter)))
    assert blocks == -(-longer // (size - shorter + 1))
    assert (blocks > 1) is (longer > 12)


@each_case("shapes", [((0,), (3,)), ((100, 0), (3, 4)), ((0,), (0,))])
def test_nothing_convolved_by_blocks_is_nothing(shapes):
    a, b = (torch.ones(shape) for shape in shapes)
    assert trnfft.oaconvolve(a, b).shape == trnfft.fftconvolve(a, b).shape
