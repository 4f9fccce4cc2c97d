"""On a device without complex numbers nothing makes one, and results stay parts on the device."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import trnfft
import trnfft.nki
import trnfft.nn
from each_case import each_case
from required import requiring
from trnfft import ComplexTensor
from trnfft._complex import arguments
from trnsci.core.testing import launched, random_tensor, refusals_expected

from .agreement import array, in_parts

ERROR = 2e-6  # what every kernel promises, in the L2 norm


class NoComplexNumbers(TorchDispatchMode):
    """Refuses every operation with a complex result, as a NeuronCore does."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.is_complex():
                raise RuntimeError(f"{function}: there are no complex numbers here")
        return result


@pytest.fixture
def without_complex(monkeypatch):
    """The CPU as a device that torch has no complex numbers on."""
    monkeypatch.setattr(arguments, "COMPLEX_DEVICES", ("cuda",))
    with requiring("trnfft"), trnfft.backend("simulator"):
        yield


def relative_error(got, want):
    got, want = array(got), array(want)
    assert got.shape == want.shape
    return float(abs(got - want).max() / abs(want).max())


def operand(kind, *shape):
    if kind.startswith(("rfft", "ihfft")):
        return random_tensor(*shape), random_tensor(*shape)
    z = random_tensor(*shape, dtype=torch.complex64)
    return in_parts(z.real.contiguous(), z.imag.contiguous()), z


ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@pytest.mark.parametrize("kind", [name + more for name in ONE for more in ("", "2", "n")])
def test_transforms(kind, without_complex):
    x, z = operand(kind, 2, 5, 6)
    want = getattr(torch.fft, kind)(z)
    with NoComplexNumbers(), launched():
        got = getattr(trnfft, kind)(x)
    assert isinstance(got, ComplexTensor) == want.is_complex()
    if isinstance(got, ComplexTensor):
        assert not got.is_native
    assert got.dtype is want.dtype
    assert relative_error(got, want) <= ERROR


@pytest.mark.parametrize("real", [True, False])
def test_frames(real, without_complex):
    z = random_tensor(2, 200, dtype=torch.float32 if real else torch.complex64)
    x = z if real else in_parts(z.real.contiguous(), z.imag.contiguous())
    window = torch.hann_window(16)
    want = torch.stft(z, 16, window=window, return_complex=True)
    with NoComplexNumbers(), launched("stft"):
        got = trnfft.stft(x, 16)
        pairs = trnfft.stft(x, 16, return_complex=False)
    assert not got.is_native
    assert relative_error(got, want) <= ERROR
    assert relative_error(pairs, torch.view_as_real(want)) <= ERROR


def test_products_and_layers(without_complex):
    a, z = operand("fft", 5, 6)
    b, w = operand("fft", 6, 7)
    layer = trnfft.nn.ComplexLinear(6, 3)
    weight = torch.complex(layer.W_re.weight, layer.W_im.weight)
    want = z @ weight.mT + torch.complex(layer.bias_re, layer.bias_im)
    with NoComplexNumbers(), torch.no_grad(), launched("complex_gemm", "complex_mask"):
        product, mapped = trnfft.nki.complex_gemm(a, b), layer(a)
        masked = trnfft.nki.complex_mask_apply(a, a)
    assert relative_error(product, z @ w) <= ERROR
    assert relative_error(mapped, want.detach()) <= ERROR
    assert relative_error(masked, z * z) <= ERROR


@pytest.mark.parametrize("kind", ["fft", "rfft", "irfft", "fft2", "ihfftn"])
def test_what_torch_must_compute_is_computed_on_the_host(kind, monkeypatch):
    x, z = operand(kind, 3, 5, 6)
    want = getattr(torch.fft, kind)(z)
    moved = []

    monkeypatch.setattr(arguments, "COMPLEX_DEVICES", ("cuda",))
    cpu = ComplexTensor.cpu if isinstance(x, ComplexTensor) else torch.Tensor.cpu

    def to_host(value):
        moved.append(value)
        return ComplexTensor(z) if isinstance(value, ComplexTensor) else cpu(value)

    monkeypatch.setattr(type(x), "cpu", to_host)
    with trnfft.backend("pytorch"), monkeypatch.context() as patched:
        patched.setattr(ComplexTensor, "is_native", property(lambda self: self._native is not None))
        got = getattr(trnfft, kind)(x)
    assert moved
    assert relative_error(got, want) <= ERROR


@each_case("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@each_case("backend", ["pytorch", "simulator"])
@refusals_expected()
def test_the_dtype_of_a_result_does_not_depend_on_the_backend(backend, dtype):
    wide = random_tensor(4, 6, dtype=torch.complex64)
    z = ComplexTensor(wide).to(dtype)
    x = wide.real.to(dtype)
    layer = trnfft.nn.ComplexLinear(6, 3, dtype=dtype)
    with trnfft.backend(backend):
        for got in (trnfft.fft(z), trnfft.rfft2(x), trnfft.stft(x, 4), trnfft.ifftn(z)):
            assert got.dtype is z.dtype
        for got in (trnfft.irfft(z), trnfft.hfft2(z), trnfft.dct(x), trnfft.istft(z, 6, 2)):
            assert got.dtype is dtype
        for got in (layer(z), trnfft.nki.complex_gemm(z, z.mT), trnfft.complex_matmul(z, z.mT)):
            assert got.dtype is z.dtype
        assert trnfft.nki.complex_mask_apply(z, z).dtype is z.dtype
        assert trnfft.nki.complex_linear(z, *(torch.ones(2, 6, dtype=dtype),) * 2).dtype is z.dtype
