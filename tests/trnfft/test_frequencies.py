"""Frequencies of bins, and shifted spectra."""

import numpy as np
import pytest
import torch

import trnfft
from each_case import each_case
from trnfft import ComplexTensor
from trnsci.core.errors import DTypeError, ShapeError

from .agreement import array, randn


@each_case("n", [1, 2, 7, 8])
@each_case("d", [1.0, 0.25, 3])
def test_frequencies(n, d):
    bins = [k if k < (n + 1) // 2 else k - n for k in range(n)]
    got = trnfft.fftfreq(n, d, dtype=torch.float64)
    np.testing.assert_allclose(array(got), np.array(bins) / (n * d), rtol=2**-51)
    half = trnfft.rfftfreq(n, d, dtype=torch.float64)
    np.testing.assert_allclose(array(half), np.arange(n // 2 + 1) / (n * d), rtol=2**-51)
    assert trnfft.fftfreq(n, d, device="meta", requires_grad=True).requires_grad


@each_case("dim", [None, 0, -1, (0, 1)])
def test_shifts(dim):
    z = randn(4, 5, dtype=torch.complex64)
    for name in ("fftshift", "ifftshift"):
        want = getattr(np.fft, name)(array(z), dim)
        for value in (z, ComplexTensor(z), ComplexTensor(z.real.clone(), z.imag.clone())):
            got = getattr(trnfft, name)(value, dim)
            assert isinstance(got, type(value))
            np.testing.assert_array_equal(array(got), want)
    assert torch.equal(trnfft.ifftshift(trnfft.fftshift(z, dim), dim), z)


def test_zero_is_in_the_middle():
    for n in (6, 7):
        assert trnfft.fftshift(trnfft.fftfreq(n)).diff().gt(0).all()
    half = ComplexTensor(randn(4).bfloat16())
    assert trnfft.fftshift(half).dtype is torch.bfloat16


def test_bad_arguments():
    for n in (0, -3):
        with pytest.raises(ShapeError, match=f"^fftfreq: n must be at least 1, got {n}"):
            trnfft.fftfreq(n)
    with pytest.raises(DTypeError, match="rfftfreq: n must be an integer, got float"):
        trnfft.rfftfreq(2.0)
    with pytest.raises(IndexError, match="fftshift: dim must be from -1 to 0, got 1"):
        trnfft.fftshift(torch.ones(3), 1)
    with pytest.raises(DTypeError, match="ifftshift: input must be"):
        trnfft.ifftshift([1.0])
