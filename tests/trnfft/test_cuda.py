"""Transforms on a CUDA device are those of the CPU, and stay on the device."""

import pytest
import torch

import trnfft
import trnfft.nn
from oracles.fourier_kernels import relative_error
from trnsci.core.testing import random_tensor

from .agreement import array

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

pytestmark = pytest.mark.cuda

# What both promise, relative in the L2 norm, added up.
ERROR = 2 * (5e-7 * 12 + 2e-7)

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn", "hfftn")


def agree(on_device, on_cpu, error=ERROR):
    assert on_device.device.type == "cuda"
    assert on_device.dtype is on_cpu.dtype
    got, want = array(on_device), array(on_cpu)
    assert got.shape == want.shape
    assert relative_error(got, want) <= error


def operand(name, *shape):
    real = name.startswith(("rfft", "ihfft"))
    return random_tensor(*shape, dtype=torch.float32 if real else torch.complex64)


@pytest.mark.parametrize("n", [1, 7, 128, 997, 4096])
@pytest.mark.parametrize("name", ONE)
def test_one_dimension(name, n):
    x = operand(name, 3, n // 2 + 1 if name in ("irfft", "hfft") else n)
    function = getattr(trnfft, name)
    agree(function(x.cuda(), n), function(x, n))
    agree(function(x.cuda(), n + 3, norm="ortho"), function(x, n + 3, norm="ortho"))


@pytest.mark.parametrize("name", SEVERAL)
def test_several_dimensions(name):
    x = operand(name, 4, 12, 10)
    agree(getattr(trnfft, name)(x.cuda()), getattr(trnfft, name)(x))


def test_short_time_transform_and_back():
    x = random_tensor(1, 2000)
    bins = trnfft.stft(x.cuda(), 128)
    agree(bins, trnfft.stft(x, 128))
    agree(trnfft.istft(bins, 128, length=2000), x)


@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["dct", "dst", "idct", "idst"])
def test_cosine_and_sine_transforms(name, type):
    x = random_tensor(3, 40)
    agree(getattr(trnfft, name)(x.cuda(), type), getattr(trnfft, name)(x, type))


@pytest.mark.parametrize("name", ["dctn", "dstn", "idctn", "idstn"])
def test_cosine_and_sine_transforms_of_several_dimensions(name):
    x = random_tensor(3, 8, 10)
    agree(getattr(trnfft, name)(x.cuda()), getattr(trnfft, name)(x), 2 * ERROR)


@pytest.mark.parametrize("name", ["fftconvolve", "oaconvolve", "correlate"])
def test_convolution(name):
    a, b = random_tensor(500), random_tensor(20, seed=1)
    agree(getattr(trnfft, name)(a.cuda(), b.cuda()), getattr(trnfft, name)(a, b))


@pytest.mark.parametrize("name", ["fht", "ifht"])
def test_hankel(name):
    a = random_tensor(2, 64)
    function = getattr(trnfft, name)
    agree(function(a.cuda(), 0.1, 1.0, 0.2, 0.1), function(a, 0.1, 1.0, 0.2, 0.1), 4 * ERROR)


@pytest.mark.parametrize("name", [*ONE, *SEVERAL])
def test_complex_tensors_stay_native(name):
    if name.startswith(("rfft", "ihfft")):
        x = random_tensor(4, 12, 10)
    else:
        x = trnfft.ComplexTensor(random_tensor(4, 12, 10, dtype=torch.complex64))
    got = getattr(trnfft, name)(x.to("cuda"))
    if isinstance(got, trnfft.ComplexTensor):
        assert got.is_native
    agree(got, getattr(trnfft, name)(x))


def test_parts_given_on_the_device_are_joined_there():
    z = random_tensor(5, 6, dtype=torch.complex64)
    made = trnfft.ComplexTensor(z.real.cuda(), z.imag.cuda())
    assert made.is_native
    assert made.is_cuda
    agree(made, trnfft.ComplexTensor(z), 0.0)
    agree(made.cpu().cuda().bfloat16().float(), trnfft.ComplexTensor(z).bfloat16().float(), 0.0)


def test_results_are_written_to_out():
    x = random_tensor(4, 64, dtype=torch.complex64).cuda()
    out = torch.empty_like(x)
    assert trnfft.fft(x, out=out) is out
    assert torch.equal(out, trnfft.fft(x))


@pytest.mark.parametrize("name", ["fft", "rfft", "rfft2"])
def test_batches_of_nothing(name):
    # torch's functions raise an error of cuFFT.
    x = operand(name, 0, 4, 8).cuda()
    got = getattr(trnfft, name)(x)
    assert tuple(got.shape) == (0, 4, 8 if name == "fft" else 5)
    assert got.is_cuda


def test_streams_and_graphs():
    x = random_tensor(16, 256, dtype=torch.complex64).cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        got = trnfft.ifft(trnfft.fft(x))
    torch.cuda.current_stream().wait_stream(side)
    agree(got, x.cpu())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        captured = trnfft.fft(x)
    x.copy_(random_tensor(16, 256, dtype=torch.complex64, seed=1))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, torch.fft.fft(x))


def test_gradients():
    x = random_tensor(3, 60)
    grads = []
    for device in ("cpu", "cuda"):
        leaf = x.detach().to(device).clone().requires_grad_()
        (trnfft.rfft(leaf).abs() ** 2).sum().backward()
        grads.append(leaf.grad)
    agree(grads[1], grads[0], 4 * ERROR)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_wide(dtype):
    x = random_tensor(3, 64).to(dtype)
    agree(trnfft.irfft(trnfft.rfft(x.cuda())).float(), x.float(), 4 * torch.finfo(dtype).eps)


def test_layers():
    z = random_tensor(5, 20, dtype=torch.complex64)
    layer = trnfft.nn.ComplexLinear(20, 7)
    want = layer(z)
    agree(layer.cuda()(z.cuda()), want, 40 * 2.0**-24)
    a = trnfft.ComplexTensor(z.real.contiguous(), z.imag.contiguous())
    agree(
        trnfft.complex_matmul(a.to("cuda"), a.mT.to("cuda")), trnfft.complex_matmul(a, a.mT), 1e-5
    )
