"""A batch of no signals has a result of no signals, be the batch a dimension or that of vmap."""

from __future__ import annotations

import pytest
import torch

import trnfft
from each_case import each_case
from trnfft import ComplexTensor
from trnfft.nn import ComplexLinear

NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
OF_REAL = ("rfft", "ihfft")
BACKENDS = ("pytorch", "simulator")

# torch has no rule for vmap over these two and says so.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


def native(result):
    return result.to_torch_complex() if isinstance(result, ComplexTensor) else result


def calls():
    """Functions of one element of a batch, and the element."""
    real, bins = torch.ones(4, 6), torch.ones(4, 6, dtype=torch.complex64)
    kernel = torch.ones(3)
    found = {}
    for name in NAMES:
        one = real if name in OF_REAL else bins
        for many in ("", "2", "n"):
            found[name + many] = getattr(trnfft, name + many), one
        found[f"{name} of a vector"] = getattr(trnfft, name), one[0]
    for name in ("dct", "idct", "dst", "idst", "dctn", "idstn"):
        found[name] = getattr(trnfft, name), real
    for name in ("fftconvolve", "oaconvolve", "correlate"):
        found[name] = lambda x, name=name: getattr(trnfft, name)(x, kernel), torch.ones(40)
    found["czt"] = lambda x: trnfft.czt(x, 5), real
    found["stft"] = lambda x: trnfft.stft(x, 8, 2), torch.ones(16)
    found["stft of several"] = lambda x: trnfft.stft(x, 8, 2), torch.ones(3, 16)
    spectrum = torch.ones(3, 5, 9, dtype=torch.complex64)
    found["istft"] = lambda z: trnfft.istft(z, 8, 2), spectrum[0]
    found["istft of several"] = lambda z: trnfft.istft(z, 8, 2, center=False), spectrum
    found["istft of a length"] = lambda z: trnfft.istft(z, 8, 2, length=11), spectrum[0]
    layer = ComplexLinear(6, 2).requires_grad_(False)
    found["layer"] = layer, bins
    found["layer of a vector"] = layer, bins[0]
    return found


CALLS = calls()


@each_case("backend", BACKENDS)
@each_case("name", CALLS)
def test_vmap_over_no_elements(name, backend):
    function, one = CALLS[name]
    want = native(function(one))
    with trnfft.backend(backend):
        got = torch.func.vmap(lambda x: native(function(x)))(one.new_empty((0, *one.shape)))
    assert got.shape == (0, *want.shape)
    assert got.dtype is want.dtype


@each_case("backend", BACKENDS)
@each_case("name", ["rfft", "rfft2", "dct", "stft", "fftconvolve"])
def test_vmap_of_gradients_over_no_elements(name, backend):
    function, one = CALLS[name]

    def gradient(x):
        return torch.func.grad(lambda x: native(function(x)).abs().sum())(x)

    with trnfft.backend(backend):
        got = torch.func.vmap(gradient)(one.new_empty((0, *one.shape)))
    assert got.shape == (0, *one.shape)


@each_case("backend", BACKENDS)
@each_case(
    ("options", "samples"),
    [({}, 16), ({"center": False}, 24), ({"length": 5}, 5), ({"length": 0}, 0)],
)
@each_case("shape", [(0,), (2, 0), (0, 3)])
def test_short_time_spectra_of_no_signals(shape, options, samples, backend):
    bins = torch.zeros(*shape, 5, 9, dtype=torch.complex64, requires_grad=True)
    with trnfft.backend(backend):
        got = trnfft.istft(bins, 8, 2, **options)
    assert got.shape == (*shape, samples)
    assert got.dtype is torch.float32
    got.sum().backward()
    assert bins.grad.shape == bins.shape


def test_short_time_spectra_of_no_complex_signals():
    bins = ComplexTensor(torch.zeros(0, 8, 9, dtype=torch.complex64))
    got = trnfft.istft(bins, 8, 2, onesided=False, return_complex=True)
    assert isinstance(got, ComplexTensor)
    assert got.shape == (0, 16)
