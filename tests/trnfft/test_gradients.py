"""Gradients against finite differences, and transforms inside torch's own transforms."""

import pytest
import torch

import trnfft
from each_case import each_case
from trnfft import ComplexTensor, torch_fft

from .agreement import array, assert_near, randn

F, C = torch.float64, torch.complex128


def as_native(value):
    return value.to_torch_complex() if isinstance(value, ComplexTensor) else value


CALLS = {
    "fft": (lambda z: trnfft.fft(z, 7, 0, "ortho"), C, (5, 2)),
    "fft of real": (lambda x: trnfft.fft(x), F, (2, 5)),
    "ifft": (lambda z: trnfft.ifft(z, 4), C, (2, 5)),
    "rfft": (lambda x: trnfft.rfft(x), F, (2, 6)),
    "irfft": (lambda z: trnfft.irfft(z, 7), C, (2, 4)),
    "hfft": (lambda z: trnfft.hfft(z), C, (2, 4)),
    "ihfft": (lambda x: trnfft.ihfft(x), F, (2, 5)),
    "fft2": (lambda z: trnfft.fft2(z), C, (2, 3, 2)),
    "rfftn": (lambda x: trnfft.rfftn(x, (3, 4)), F, (2, 3)),
    "irfftn": (lambda z: trnfft.irfftn(z), C, (3, 3)),
    "hfftn": (lambda z: trnfft.hfftn(z), C, (3, 3)),
    "ihfft2": (lambda x: trnfft.ihfft2(x), F, (3, 4)),
    "fftshift": (lambda z: trnfft.fftshift(z), C, (3, 4)),
    "stft": (lambda x: trnfft.stft(x, 4, 2), F, (2, 9)),
    "istft": (lambda z: trnfft.istft(z, 4, 2), C, (3, 5)),
    "istft, uncovered": (lambda z: trnfft.istft(z, 4, 2, center=False), C, (3, 4)),
    "fftconvolve": (lambda x: trnfft.fftconvolve(x, x.flip(0), "same"), F, (3, 4)),
    "dct 1": (lambda x: trnfft.dct(x, 1), F, (2, 5)),
    "dct 2": (lambda x: trnfft.dct(x, 2, norm="ortho"), F, (2, 5)),
    "dst 3": (lambda x: trnfft.dst(x, 3, norm="ortho"), F, (2, 4)),
    "dst 4": (lambda x: trnfft.dst(x, 4), F, (2, 4)),
    "dct 4 of complex": (lambda z: trnfft.dct(z, 4), C, (2, 3)),
    "drop-in": (lambda z: torch_fft.fft(z), C, (5,)),
}


@each_case("name", CALLS)
def test_gradients(name):
    call, dtype, shape = CALLS[name]
    x = randn(*shape, dtype=dtype).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: as_native(call(x)), x)


@each_case("name", ["rfft", "irfft", "stft", "istft", "dct 2", "dst 4"])
def test_second_derivatives(name):
    call, dtype, shape = CALLS[name]
    x = randn(*shape, dtype=dtype).requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: as_native(call(x)).abs() ** 2, x, fast_mode=True)


def test_gradients_reach_both_parts_of_a_complex_tensor():
    re, im = randn(6, dtype=F).requires_grad_(), randn(6, dtype=F, seed=1).requires_grad_()
    spectrum = trnfft.fft(ComplexTensor(re, im))
    (spectrum.real**2 + spectrum.imag**2).sum().backward()
    # Parseval: the sum is N times that of the squares of both parts.
    torch.testing.assert_close(re.grad, 12 * re.detach())
    torch.testing.assert_close(im.grad, 12 * im.detach())


@each_case("n", [8, 1000, 44100])
def test_long_vectors_with_a_gradient(n):
    x = randn(n).requires_grad_()
    spectrum = trnfft.rfft(x)
    (spectrum.real**2).sum().backward()
    assert torch.isfinite(x.grad).all()
    with torch.no_grad():
        plain = trnfft.rfft(x)
    assert_near(plain, array(spectrum), n, factor=2)


@pytest.mark.parametrize("n", [6, 300])
def test_inside_vmap_and_forward_mode(n):
    x = randn(4, n, dtype=C)
    native = torch.func.vmap(trnfft.fft)(x)
    torch.testing.assert_close(native, torch.fft.fft(x))
    tangent = randn(n, dtype=C, seed=1)
    _, derivative = torch.func.jvp(trnfft.fft, (x[0],), (tangent,))
    torch.testing.assert_close(derivative, torch.fft.fft(tangent))
    back = torch.func.vmap(lambda v: trnfft.istft(v, 4, 2))(
        torch.stft(x.real, 4, 2, window=torch.hann_window(4), return_complex=True)
    )
    assert back.shape == (4, n)


def test_on_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert trnfft.fft(torch.empty(1000, dtype=C)).shape == (1000,)
        assert trnfft.dct(torch.empty(5, 8)).shape == (5, 8)
        assert trnfft.istft(torch.empty(5, 7, dtype=C), 8).shape == (12,)


def test_on_meta_tensors():
    z = torch.empty(3, 300, device="meta", dtype=C)
    assert trnfft.fft(z[0]).device.type == "meta"
    assert trnfft.rfft2(z.real, (8, 8)).shape == (8, 5)


@pytest.mark.slow
def test_inside_compile():
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: trnfft.fft(x).abs() ** 2, backend="eager", fullgraph=True)
    x = randn(300, dtype=C)
    torch.testing.assert_close(compiled(x), torch.fft.fft(x).abs() ** 2)
    with trnfft.precision("double"):
        torch.testing.assert_close(compiled(x), torch.fft.fft(x).abs() ** 2)
    torch._dynamo.reset()
