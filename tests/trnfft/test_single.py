"""What SciPy transforms where torch has no MKL: long vectors that nobody watches."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

from trnfft import _single, _torch, _vectors
from trnfft._single import PUBLIC_SINGLE, SINGLE, SMOOTH_SINGLE, single

ALWAYS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


@pytest.fixture
def without_mkl(monkeypatch):
    """What computes a transform of vectors where torch has no MKL, by its name."""
    monkeypatch.setattr(_vectors, "MAY_KEEP", False)
    return lambda name: _vectors.vector_transform(name, _torch._TORCHS[name])


@pytest.mark.parametrize("by_routines", [True, False])
@pytest.mark.parametrize("name", ALWAYS)
def test_lengths_that_scipy_transforms(name, by_routines, monkeypatch):
    if not by_routines:
        monkeypatch.setattr(_single, "_routines", lambda: None)
    least = SINGLE if by_routines else PUBLIC_SINGLE
    rough = [2 * p for p in (31, 191, 193, 509, 521)]
    smooth = (2, 512, 1024, SMOOTH_SINGLE - 96, SMOOTH_SINGLE, 44100)
    for lengths, first in ((rough, least), (smooth, SMOOTH_SINGLE)):
        for n in lengths:
            found = single(name, natural(name, n), None, -1, None)
            assert (found is not None) is (n >= first), n


def drawn(count, dtype=torch.float64):
    return torch.linspace(-1, 1, count, dtype=torch.float64).to(dtype)


def natural(name, n):
    """A vector whose transform has n points."""
    if name in ("irfft", "hfft"):
        return drawn(n // 2 + 1, torch.complex128)
    return drawn(n, torch.float64 if name in ("rfft", "ihfft") else torch.complex128)


@pytest.mark.parametrize("by_routines", [True, False])
@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
@pytest.mark.parametrize("name", ALWAYS)
def test_results_are_those_of_torch(name, norm, by_routines, monkeypatch):
    if not by_routines:
        monkeypatch.setattr(_single, "_routines", lambda: None)
    x, function = natural(name, 1042), getattr(torch.fft, name)
    for given, n in ((x, None), (x, 1042), (x, 1082), (x[:150], 1042)):
        got = single(name, given, n, -1, norm)
        if n is None and name in ("irfft", "hfft"):
            assert got.shape[0] == 1042
        torch.testing.assert_close(got, function(given, n, -1, norm), rtol=1e-12, atol=1e-12)


def test_what_is_left_to_torch():
    x = drawn(1042)
    assert single("fft", x, None, 0, None) is not None
    for args in (
        ("fft", x[:383], None, -1, None),
        ("fft", x, 0, -1, None),
        ("fft", x, -1, -1, None),
        ("fft", x, 1042.0, -1, None),
        ("fft", x, None, 1, None),
        ("fft", x, None, -2, None),
        ("fft", x, None, -1, "both"),
        ("fft", x.half(), None, -1, None),
        ("fft", x.clone().requires_grad_(), None, -1, None),
        ("rfft", x.to(torch.complex128), None, -1, None),
        ("ihfft", x.to(torch.complex128), None, -1, None),
        ("irfft", x[:1].to(torch.complex128), None, -1, None),
    ):
        assert single(*args) is None


def test_without_scipy_torch_computes(monkeypatch):
    monkeypatch.setattr(_single, "scipy_fft", lambda: None)
    assert single("fft", drawn(1042), None, -1, None) is None


@pytest.mark.parametrize("name", ALWAYS)
def test_defaults_are_computed_as_what_is_given(name, without_mkl):
    """Whatever computes a vector by defaults computes it where the dimension is named as 0."""
    function = without_mkl(name)
    for n in (2, 190, 382, 386, 600, 5003, 10_240):
        for x in (natural(name, n), natural(name, n).to(torch.complex64).real.contiguous()):
            for given in (x, x.conj()) if x.is_complex() else (x, x.clone().requires_grad_()):
                got, want = function(given), function(given, None, 0)
                assert got.requires_grad is want.requires_grad is given.requires_grad
                assert torch.equal(got, want)


class Scipys:
    """Routines that note their calls, and their results."""

    def __init__(self, monkeypatch):
        self.calls, found = [], _single._routines()

        def noted(name):
            routine, forward = found[name]
            return lambda *args: (self.calls.append(name), routine(*args))[1], forward

        routines = {name: noted(name) for name in ALWAYS}
        monkeypatch.setattr(_single, "_routines", lambda: routines)


@pytest.mark.parametrize("name", ALWAYS)
def test_scipy_computes_only_what_nobody_watches(name, without_mkl, monkeypatch):
    scipys, function, x = Scipys(monkeypatch), without_mkl(name), natural(name, 1042)
    function(x)
    assert scipys.calls == [name]
    tracked = x.clone().requires_grad_()
    with torch.no_grad():
        function(tracked)
    assert scipys.calls == [name] * 2
    function(tracked)
    torch.func.vmap(function)(x[None])
    with torch.autocast("cpu"):
        function(x)
    with FakeTensorMode():
        function(torch.empty(x.shape, dtype=x.dtype))
    with forward_ad.dual_level():
        function(x)
    function(natural(name, 190))
    assert scipys.calls == [name] * 2


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_what_is_recorded_is_no_constant(without_mkl):
    """A result of SciPy would be one to ``torch.jit.trace``."""
    recorded = torch.jit.trace(without_mkl("fft"), drawn(1042), check_trace=False)
    other = drawn(1042).sin()
    torch.testing.assert_close(recorded(other), torch.fft.fft(other), rtol=1e-12, atol=1e-12)


def test_the_bins_of_reals_may_be_real(without_mkl, monkeypatch):
    scipys, function, x = Scipys(monkeypatch), without_mkl("irfft"), drawn(522)
    torch.testing.assert_close(function(x), torch.fft.irfft(x), rtol=1e-12, atol=1e-12)
    assert not scipys.calls
