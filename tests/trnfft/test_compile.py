"""Functions compile as a whole on torch; those with kernels are in the contract of operations."""

import pytest
import torch

import trnfft
from trnsci.core.testing import random_tensor

REAL = {
    "rfft": lambda x: trnfft.rfft(x).abs(),
    "ihfft": lambda x: trnfft.ihfft(x).abs(),
    "rfft2": lambda x: trnfft.rfft2(x).to_torch_complex(),
    "stft": lambda x: trnfft.stft(x, 16).abs(),
    "istft": lambda x: trnfft.istft(trnfft.stft(x, 16), 16),
    "dct": trnfft.dct,
    "dctn": lambda x: trnfft.dctn(x, 4),
    "fht": lambda x: trnfft.fht(x, 0.1, 1.0, 0.2, 0.1),
    "ifht": lambda x: trnfft.ifht(x, 0.1, 1.0, 0.2, 0.1),
    "fftconvolve": lambda x: trnfft.fftconvolve(x[0], x[1]),
    "oaconvolve": lambda x: trnfft.oaconvolve(x[0], x[1, :3]),
    "correlate": lambda x: trnfft.correlate(x[0], x[1]),
}


@pytest.mark.parametrize("name", REAL)
def test_real_signals(name):
    x = random_tensor(4, 60)
    torch._dynamo.reset()
    compiled = torch.compile(REAL[name], backend="eager", fullgraph=True)
    want = REAL[name](x)
    # The same operations but for SciPy's, so the roundings of a transform of 60 points differ.
    assert (compiled(x) - want).abs().max() <= 2e-6 * want.abs().max()


@pytest.mark.parametrize("name", ["fft", "ifft2", "irfftn", "hfft"])
def test_complex_signals(name):
    z = random_tensor(4, 6, 8, dtype=torch.complex64)
    torch._dynamo.reset()
    compiled = torch.compile(getattr(trnfft, name), backend="eager", fullgraph=True)
    assert torch.equal(compiled(z), getattr(trnfft, name)(z))
