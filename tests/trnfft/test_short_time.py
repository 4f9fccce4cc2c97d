"""Short-time transforms against frames and samples taken one by one."""

import inspect
from itertools import product

import numpy as np
import pytest
import torch

import trnfft
from each_case import each_case
from oracles import fourier as oracle
from trnfft import ComplexTensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import array, assert_near, randn

NUMPY_PADS = {"reflect": "reflect", "constant": "constant", "replicate": "edge", "circular": "wrap"}


@each_case("center", [True, False])
@each_case("pad_mode", NUMPY_PADS)
def test_stft_agrees_with_the_definition(center, pad_mode):
    x = randn(50)
    for n_fft, hop, win, normalized in product((8, 9, 16), (None, 5), (None, 6), (True, False)):
        got = trnfft.stft(x, n_fft, hop, win, None, center, pad_mode, normalized)
        want = oracle.stft(
            array(x),
            n_fft,
            hop or n_fft // 4,
            oracle.hann(win or n_fft),
            center,
            NUMPY_PADS[pad_mode],
            normalized,
        )
        assert isinstance(got, ComplexTensor)
        assert_near(got, want, n_fft)


@each_case(("n_fft", "win"), [(1, None), (4, 1), (2, None), (3, 2)], ids=str)
@pytest.mark.parametrize("backend", ["pytorch", "simulator"])
def test_the_shortest_default_windows(n_fft, win, backend):
    x = randn(12)
    want = oracle.stft(array(x), n_fft, 1, oracle.hann(win or n_fft))
    with trnfft.backend(backend):
        got = trnfft.stft(x, n_fft, 1, win)
        assert_near(got, want, n_fft)
        back = trnfft.istft(got, n_fft, 1, win, length=12)
    # Windows of one sample, and of two at every sample, cover the signal.
    assert_near(back, array(x), 4 * n_fft)


@each_case("n_fft", [4, 9, 16])
@each_case("onesided", [None, False])
@each_case("dtype", [torch.float32, torch.complex64, ComplexTensor], ids=str)
def test_istft_of_stft_is_the_signal(dtype, onesided, n_fft):
    x = randn(2, 40, dtype=torch.complex64 if dtype is ComplexTensor else dtype)
    x = ComplexTensor(x) if dtype is ComplexTensor else x
    bins = trnfft.stft(x, n_fft, 1, onesided=onesided)
    got = trnfft.istft(bins, n_fft, 1, length=40)
    is_complex = dtype is not torch.float32 or onesided is False
    assert (isinstance(got, ComplexTensor) or got.is_complex()) == is_complex
    assert_near(got, array(x), 4 * n_fft)
    real = trnfft.istft(bins, n_fft, 1, length=40, return_complex=False)
    assert real.dtype is torch.float32
    assert_near(real, array(x).real, 4 * n_fft)


def test_complex_signals_and_windows():
    z = randn(2, 40, dtype=torch.complex64)
    window = randn(8, dtype=torch.complex64)
    got = trnfft.stft(z, 8, 2, window=window, center=False)
    assert isinstance(got, torch.Tensor)
    for row, signal in zip(got, z, strict=True):
        want = oracle.stft(array(signal), 8, 2, array(window), center=False, onesided=False)
        assert_near(row, want, 8)
    split = trnfft.stft(ComplexTensor(z), 8, 2, window=ComplexTensor(window), center=False)
    assert isinstance(split, ComplexTensor)
    np.testing.assert_array_equal(array(split), array(got))


def test_leading_dimensions_are_kept():
    x = randn(2, 1, 3, 64)
    got = trnfft.stft(x, 16)
    assert tuple(got.shape) == (2, 1, 3, 9, 17)
    want = oracle.stft(array(x[1, 0, 2]), 16, 4, oracle.hann(16))
    assert_near(got[1, 0, 2], want, 16)
    assert tuple(trnfft.stft(x[0, :, 0], 16).shape) == (1, 9, 17)
    assert tuple(trnfft.istft(got, 16).shape) == (2, 1, 3, 64)
    assert tuple(trnfft.istft(got[0, :, 0], 16).shape) == (1, 64)
    assert tuple(trnfft.stft(x[:0], 16).shape) == (0, 1, 3, 9, 17)


def test_kinds_of_result():
    x = randn(40)
    split = trnfft.stft(x, 8)
    native = trnfft.stft(x, 8, return_complex=True)
    real = trnfft.stft(x, 8, return_complex=False)
    assert isinstance(native, torch.Tensor)
    np.testing.assert_array_equal(array(split), array(native))
    assert torch.equal(real, torch.view_as_real(native))
    half = trnfft.stft(x.bfloat16(), 8)
    assert half.dtype is torch.bfloat16
    assert trnfft.stft(x.half(), 8, return_complex=False).dtype is torch.float16
    assert trnfft.istft(half, 8).dtype is torch.bfloat16
    assert trnfft.stft(torch.arange(40), 8).dtype is torch.complex64


def test_align_to_window():
    if "align_to_window" not in inspect.signature(torch.stft).parameters:
        pytest.skip("this torch has no align_to_window")
    x, window = randn(40), torch.hann_window(6)
    common = {"win_length": 6, "window": window, "center": False}
    for aligned in (True, False):
        want = torch.stft(x, 12, 3, **common, return_complex=True, align_to_window=aligned)
        got = trnfft.stft(x, 12, 3, **common, return_complex=True, align_to_window=aligned)
        assert torch.equal(got, want)


@each_case("center", [True, False])
@each_case("onesided", [True, False])
def test_istft_agrees_with_the_definition(center, onesided):
    for n_fft, hop, win, length in product((8, 9), (2, 5, 8, 11), (None, 5), (None, 20, 90)):
        bins = randn(n_fft // 2 + 1 if onesided else n_fft, 7, dtype=torch.complex64)
        window = randn(win or n_fft, seed=1).abs() + 0.1
        got = trnfft.istft(bins, n_fft, hop, win, window, center, False, onesided, length)
        want = oracle.istft(array(bins), n_fft, hop, array(window), center, length, onesided)
        # Weights are at least 0.01 or nothing at all, so no quotient magnifies an error by more
        # than its norm; two further roundings, of the product and of the quotient.
        assert_near(got, want, n_fft, factor=4)


def test_samples_that_no_window_covers():
    # A Hann window is zero at its first point, so the first sample has nothing to be divided by.
    bins = randn(5, 6, dtype=torch.complex64)
    got = trnfft.istft(bins, 8, 4, center=False)
    want = oracle.istft(array(bins), 8, 4, oracle.hann(8), center=False)
    assert_near(got, want, 8, factor=4)
    frames = oracle.irfft(array(bins).T, 8)
    assert got[0].item() == pytest.approx(frames[0, 0], abs=1e-6)
    with pytest.raises(RuntimeError, match="window overlap add min"):
        torch.istft(bins, 8, 4, window=torch.hann_window(8), center=False)


@each_case("n_fft", [16, 64, 255, 256])
@each_case("shape", [(1024,), (4, 1024)], ids=str)
def test_round_trip(shape, n_fft):
    x = randn(*shape)
    back = trnfft.istft(trnfft.stft(x, n_fft), n_fft, length=1024)
    # Two transforms and the weights: within three times the bound of one.
    assert_near(back, array(x), n_fft, factor=3)


def test_length_cuts_and_pads():
    bins = trnfft.stft(randn(600), 64)
    assert trnfft.istft(bins, 64, length=500).shape == (500,)
    longer = trnfft.istft(bins, 64, length=900)
    assert longer.shape == (900,)
    assert not longer[700:].any()
    assert trnfft.istft(bins, 64, length=0).shape == (0,)


BAD_STFT = [
    ("short", ShapeError, (torch.ones(4), 16), {"center": False}),
    ("too short to reflect", ShapeError, (torch.ones(8), 16), {}),
    ("empty", ShapeError, (torch.ones(3, 0), 16), {"pad_mode": "constant"}),
    ("0-d", ShapeError, (torch.tensor(1.0), 16), {}),
    ("n_fft = 0", ShapeError, (torch.ones(40), 0), {}),
    ("n_fft is a float", DTypeError, (torch.ones(40), 8.0), {}),
    ("hop 0", ShapeError, (torch.ones(40), 8, 0), {}),
    ("window longer than a frame", ShapeError, (torch.ones(40), 8, 2, 9), {}),
    ("window of another length", ShapeError, (torch.ones(40), 8, 2, 8, torch.ones(7)), {}),
    ("window of two dimensions", ShapeError, (torch.ones(40), 8, 2, 8, torch.ones(1, 8)), {}),
    ("window is a list", DTypeError, (torch.ones(40), 8, 2, 8, [1.0] * 8), {}),
    ("pad_mode", FlagError, (torch.ones(40), 8), {"pad_mode": "mirror"}),
    ("onesided", DTypeError, (torch.ones(40) + 0j, 8), {"onesided": True}),
    ("aligned", FlagError, (torch.ones(40), 8), {"align_to_window": True}),
    ("a list", DTypeError, ([1.0] * 40, 8), {}),
]


@each_case(("what", "error", "args", "kwargs"), BAD_STFT, ids=lambda v: str(v)[:30])
def test_bad_arguments_of_stft(what, error, args, kwargs):
    with pytest.raises(error, match=r"^stft: "):
        trnfft.stft(*args, **kwargs)


BINS = torch.ones(5, 6, dtype=torch.complex64)
BAD_ISTFT = [
    ("real", DTypeError, (torch.ones(5, 6), 8), {}),
    ("bins", ShapeError, (BINS, 10), {}),
    ("bins of both sides", ShapeError, (BINS, 8), {"onesided": False}),
    ("no frames", ShapeError, (BINS[:, :0], 8), {}),
    ("a vector", ShapeError, (BINS[:, 0], 8), {}),
    ("length", ShapeError, (BINS, 8), {"length": -1}),
    ("complex and onesided", DTypeError, (BINS, 8), {"onesided": True, "return_complex": True}),
    ("complex window", DTypeError, (BINS, 8), {"window": torch.ones(8) + 0j}),
]


@each_case(("what", "error", "args", "kwargs"), BAD_ISTFT, ids=lambda v: str(v)[:30])
def test_bad_arguments_of_istft(what, error, args, kwargs):
    with pytest.raises(error, match=r"^istft: "):
        trnfft.istft(*args, **kwargs)
