"""Single vectors on a CPU, on both sides of the lengths from which on SciPy computes them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.autograd import forward_ad
from torch.fx.experimental.proxy_tensor import make_fx

import trnfft
from each_case import each_case
from trnfft import ComplexTensor

from .agreement import array, assert_near, randn

OF_REAL, TO_REAL = ("rfft", "ihfft"), ("irfft", "hfft")
NAMES = ("fft", "ifft", *OF_REAL, *TO_REAL)
NORMS = (None, "backward", "ortho", "forward")
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Short; long with small factors; long and prime.
LENGTHS = (300, 5040, 5003)
LONG = 5040


def vector(name, n, dtype=None, seed=0):
    """What ``name`` takes to transform n points."""
    dtype = dtype or (torch.float64 if name in OF_REAL else torch.complex128)
    return randn(n // 2 + 1 if name in TO_REAL else n, dtype=dtype, seed=seed)


def native(result):
    return result.to_torch_complex() if isinstance(result, ComplexTensor) else result


WIDER = {
    torch.float32: np.float64,
    torch.float64: np.longdouble,
    torch.complex64: np.complex128,
    torch.complex128: np.clongdouble,
}


def assert_right(name, x, *args):
    """The kind of result is torch's; its values are those of SciPy in the next wider type."""
    got, like = native(getattr(trnfft, name)(x, *args)), getattr(torch.fft, name)(x, *args)
    assert (got.dtype, got.is_contiguous(), got.is_conj()) == (like.dtype, True, False)
    exact = getattr(scipy.fft, name)(x.numpy().astype(WIDER[x.dtype]), *args)
    want = exact.astype(np.complex128 if like.is_complex() else np.float64)
    assert_near(got, want, len(got), like.dtype.to_real())


@each_case("name", NAMES)
def test_results_are_right_in_the_dtype_of_torch(name):
    for dtype in DTYPES[:2] if name in OF_REAL else DTYPES:
        double = dtype in (torch.float64, torch.complex128)
        # A long prime length takes long in types wider than double.
        for n in LENGTHS[:2] if double else LENGTHS:
            x = vector(name, n, dtype)
            for norm in NORMS if n == LENGTHS[0] else NORMS[::2]:
                assert_right(name, x, n, -1, norm)
            for size in (n - 7, n + 6):
                assert_right(name, x, size, 0)


@each_case("name", NAMES)
def test_who_computes_depends_on_the_length_alone(name):
    """Bits are the same at each call, for each layout and whatever was computed before."""
    x = vector(name, LONG)
    first = native(getattr(trnfft, name)(x))
    for other in (LONG, 300, 5003, LONG):
        getattr(trnfft, name)(vector(name, other, seed=1))
    apart = torch.stack([x, x], 1)[:, 0]
    alike = [x, x.clone(), apart]
    if x.is_complex():
        alike += [x.conj().clone().conj(), ComplexTensor(x)]
    for given in alike:
        assert torch.equal(native(getattr(trnfft, name)(given)), first)


@pytest.mark.parametrize("n", [LONG, 5003])
def test_nothing_is_changed_and_results_are_new(n):
    for name in NAMES:
        x = vector(name, n)
        before = x.clone()
        native(getattr(trnfft, name)(x)).zero_()
        assert torch.equal(x, before)


def test_points_that_are_all_padding():
    assert not array(trnfft.fft(torch.zeros(0), LONG)).any()
    assert not array(trnfft.rfft(torch.zeros(0, dtype=torch.float64), LONG)).any()


@each_case("name", NAMES)
def test_nan_reaches_every_bin(name):
    for n in LENGTHS:
        x = vector(name, n)
        x[5] = torch.nan
        assert native(getattr(trnfft, name)(x)).isnan().all()


@pytest.mark.parametrize("name", NAMES)
class TestWhatMustSeeTheOperation:
    """SciPy's result of a long vector would be a constant to each of these."""

    def test_gradients(self, name):
        function, x = getattr(trnfft, name), vector(name, LONG).requires_grad_()
        want = torch.autograd.grad(getattr(torch.fft, name)(x).abs().square().sum(), x)
        got = torch.autograd.grad(native(function(x)).abs().square().sum(), x)
        torch.testing.assert_close(got, want)
        for context in (torch.no_grad(), torch.inference_mode()):
            with context:
                result = native(function(x))
            assert not result.requires_grad
            assert result.is_inference() is isinstance(context, torch.inference_mode)
        assert native(function(x)).requires_grad

    def test_forward_mode(self, name):
        x, tangent = vector(name, LONG), vector(name, LONG, seed=1)
        with forward_ad.dual_level():
            result = native(getattr(trnfft, name)(forward_ad.make_dual(x, tangent)))
            got = forward_ad.unpack_dual(result).tangent
        torch.testing.assert_close(got, getattr(torch.fft, name)(tangent))

    def test_vmap(self, name):
        x = torch.stack([vector(name, LONG), vector(name, LONG, seed=1)])
        got = torch.func.vmap(lambda row: native(getattr(trnfft, name)(row)))(x)
        torch.testing.assert_close(got, getattr(torch.fft, name)(x))

    def test_recordings(self, name):
        def function(x):
            return native(getattr(trnfft, name)(x))

        x, other = vector(name, LONG), vector(name, LONG, seed=1)
        for recorded in (
            torch.jit.trace(function, x, check_trace=False),
            make_fx(function)(x),
            torch.func.functionalize(function),
        ):
            torch.testing.assert_close(recorded(other), getattr(torch.fft, name)(other))

    def test_fake_tensors_and_autocast(self, name):
        function, x = getattr(trnfft, name), vector(name, LONG)
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            for given in (x, mode.from_tensor(x)):
                assert isinstance(native(function(given)), FakeTensor)
        with torch.autocast("cpu"):
            torch.testing.assert_close(native(function(x)), getattr(torch.fft, name)(x))


def test_compilation_with_lengths_that_change():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda xs: [native(getattr(trnfft, name)(xs[name])) for name in NAMES],
        fullgraph=True,
        backend="eager",
        dynamic=True,
    )
    for n in (302, LONG):
        xs = {name: vector(name, n) for name in NAMES}
        for name, got in zip(NAMES, compiled(xs), strict=True):
            torch.testing.assert_close(got, getattr(torch.fft, name)(xs[name]))
