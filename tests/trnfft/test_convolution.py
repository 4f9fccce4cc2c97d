"""Convolution against sums taken term by term, and against SciPy where dimensions broadcast."""

import numpy as np
import pytest
import scipy.signal
import torch

import trnfft
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


@pytest.mark.parametrize(("first", "second"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_full_agrees_with_the_definition(first, second, dtype):
    a, b = randn(*first, dtype=dtype), randn(*second, dtype=dtype, seed=1)
    got = trnfft.fftconvolve(a, b)
    assert got.dtype is dtype
    assert_convolved(got, oracle.convolve(array(a), array(b)), a, b, dtype.to_real())


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(
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
