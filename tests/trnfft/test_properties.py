"""What Fourier transforms have in common, on drawn signals."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import trnfft
from drawn import examples
from oracles.fourier_kernels import relative_error

from .agreement import array, bound

SETTINGS = examples(30)
# Below this float32 loses bits to underflow, and relative errors say nothing.
FINITE = st.floats(-1e6, 1e6, width=32).map(lambda v: 0.0 if abs(v) < 1e-6 else v)
LENGTHS = st.one_of(st.integers(1, 300), st.sampled_from([512, 769, 1000, 1024]))


@st.composite
def signals(draw, count=1):
    """Complex float32 vectors of one length."""
    n = draw(LENGTHS)
    parts = [draw(arrays(np.float32, (2, n), elements=FINITE, fill=FINITE)) for _ in range(count)]
    return [torch.complex(*torch.from_numpy(part.copy())) for part in parts]


def near(got, want, n, size, factor=1.0):
    """Within ``factor`` times the bound of a transform, relative to ``size``."""
    return np.linalg.norm(array(got) - array(want)) <= factor * bound(max(n, 2)) * size


@SETTINGS
@given(signals())
def test_parseval(vectors):
    (x,) = vectors
    n, energy = len(x), np.linalg.norm(array(x))
    assert (
        abs(np.linalg.norm(array(trnfft.fft(x, norm="ortho"))) - energy)
        <= bound(max(n, 2)) * energy
    )


@SETTINGS
@given(signals(2), st.floats(-8, 8, width=16))
def test_linearity(vectors, factor):
    x, y = vectors
    total = trnfft.fft(x + factor * y, norm="ortho")
    apart = trnfft.fft(x, norm="ortho") + factor * trnfft.fft(y, norm="ortho")
    size = np.linalg.norm(array(x)) + abs(factor) * np.linalg.norm(array(y))
    assert near(total, apart, len(x), size, factor=2)


@SETTINGS
@given(signals(), st.integers(-400, 400))
def test_a_shift_turns_the_bins(vectors, shift):
    (x,) = vectors
    n = len(x)
    turns = np.exp(-2j * np.pi * (np.arange(n) * shift % n) / n)
    want = torch.from_numpy(array(trnfft.fft(x, norm="ortho")) * turns)
    got = trnfft.fft(x.roll(shift), norm="ortho")
    assert near(got, want, n, np.linalg.norm(array(x)), factor=2)


@SETTINGS
@given(signals())
def test_round_trips(vectors):
    (x,) = vectors
    n, real = len(x), x.real.contiguous()
    assert near(trnfft.ifft(trnfft.fft(x)), x, n, np.linalg.norm(array(x)), factor=2)
    size = np.linalg.norm(array(real))
    assert near(trnfft.irfft(trnfft.rfft(real), n), real, n, size, factor=2)
    assert near(trnfft.hfft(trnfft.ihfft(real), n), real, n, size, factor=2)


@SETTINGS
@given(signals(2))
def test_a_convolution_is_a_product_of_spectra(vectors):
    x, y = vectors
    n = len(x)
    wide = trnfft.fft(x, 2 * n) * trnfft.fft(y, 2 * n)
    got = trnfft.fft(trnfft.fftconvolve(x, y), 2 * n)
    size = np.linalg.norm(array(trnfft.fft(x, 2 * n))) * np.abs(array(trnfft.fft(y, 2 * n))).max()
    assert near(got, wide, 2 * n, size, factor=4)


def test_a_wrong_transform_would_be_seen():
    x = torch.arange(64).to(torch.complex64)
    wrong = array(trnfft.fft(x)).copy()
    wrong[3] *= 1 + 1e-3
    assert relative_error(wrong, array(trnfft.fft(x))) > bound(64)
