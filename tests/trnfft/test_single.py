"""Which lengths of one vector SciPy transforms: a choice that decides the last bits of results."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import trnfft
from trnfft import _single
from trnfft._single import scipy_is_faster, single

ALWAYS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
COMPLEX = ("fft", "ifft")

LENGTHS = [
    (191, False, False),  # too short
    (192, True, True),
    (193, True, True),  # a prime
    (4 * 97, True, True),
    (4 * 101, True, False),  # reals of little more than a prime above 100
    (8 * 101, True, True),
    (2 * 127, True, False),
    (2 * 131, False, False),  # even, with a factor above 128
    (3 * 131, True, True),
    (512, True, True),
    (4999, True, True),
    (5003, False, False),  # primes between 5000 and 20000
    (19997, False, False),
    (20011, True, True),
    (9984, True, True),
    (10_000, False, True),  # from here on complex ones of an odd part below 45
    (10_240, False, True),  # other than 5
    (10_752, True, True),
    (43 << 8, True, True),
    (45 << 8, False, True),
    (12_288, False, True),  # MKL is quick at these
    (57_344, False, True),
    (114_688, False, True),
    (122_880, False, True),
    (98_304, True, True),
    (1 << 16, True, True),
    (1 << 17, False, True),  # and below 2**17
    (3 << 16, False, True),
]


@pytest.mark.parametrize(("n", "for_complex", "for_real"), LENGTHS)
def test_lengths_that_scipy_transforms(n, for_complex, for_real):
    for name in ALWAYS:
        assert scipy_is_faster(name, n) is (for_complex if name in COMPLEX else for_real)


@pytest.mark.parametrize(("n", "faster"), [(16 * 13, False), (16 * 17, True), (192, False)])
def test_short_lengths_are_torchs_without_scipys_own_routines(n, faster, monkeypatch):
    monkeypatch.setattr(_single, "_routines", lambda: None)
    assert scipy_is_faster.__wrapped__("fft", n) is faster
    assert scipy_is_faster.__wrapped__("fft", 512) is True


@pytest.mark.parametrize(
    ("odd", "largest"), [(1, 1), (3, 3), (9, 3), (45, 5), (49, 7), (3 * 17, 17), (25 * 49, 7)]
)
def test_largest_prime_factor(odd, largest):
    assert _single._largest_factor(odd) == largest


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
    # From 512 points on the remembered choice does not depend on the routines.
    x, function = natural(name, 600), getattr(torch.fft, name)
    for given, n in ((x, None), (x, 600), (x, 900), (x[:150], 600)):
        got = single(name, given, n, -1, norm)
        if n is None and name in ("irfft", "hfft"):
            assert got.shape[0] == 600
        torch.testing.assert_close(got, function(given, n, -1, norm), rtol=1e-12, atol=1e-12)


def test_what_is_left_to_torch():
    x = drawn(200)
    assert single("fft", x, None, 0, None) is not None
    for args in (
        ("fft", x[:191], None, -1, None),
        ("fft", x, 0, -1, None),
        ("fft", x, -1, -1, None),
        ("fft", x, 200.0, -1, None),
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


@pytest.mark.parametrize("name", COMPLEX)
def test_long_real_vectors_are_transformed_as_complex_ones(name):
    function, x = getattr(torch.fft, name), drawn(10_000)
    for given, dtype in ((x, torch.complex128), (x.float(), torch.complex64)):
        got = single(name, given, None, -1, None)
        assert torch.equal(got, function(given.to(dtype)))
    assert single(name, x, 10_240, -1, "ortho") is not None
    # What is short, or complex already, torch takes as it is.
    assert single(name, x[:9999], 10_000, -1, None) is None
    assert single(name, x.to(torch.complex128), None, -1, None) is None
    assert single("rfft", drawn(5003), None, -1, None) is None


def test_without_scipy_torch_computes(monkeypatch):
    monkeypatch.setattr(_single, "scipy_fft", lambda: None)
    assert single("fft", drawn(200), None, -1, None) is None


# Of every choice one: torch, SciPy's routines, and for long reals torch with complex numbers.
CHOICES = [2, 190, 191, 192, 600, 5003, 5998, 9998, 10_000, 10_240, 10_752, 20_011]


@pytest.mark.parametrize("name", ALWAYS)
def test_defaults_are_computed_as_what_is_given(name):
    """Whatever computes a vector by defaults computes it where the dimension is named as 0."""
    function = getattr(trnfft, name)
    for n in CHOICES:
        for x in (natural(name, n), natural(name, n).to(torch.complex64).real.contiguous()):
            for given in (x, x.conj()) if x.is_complex() else (x, x.clone().requires_grad_()):
                got, want = function(given), function(given, None, 0)
                assert got.requires_grad is want.requires_grad is given.requires_grad
                assert torch.equal(plain(got), plain(want))


def plain(result):
    return result.to_torch_complex() if isinstance(result, trnfft.ComplexTensor) else result


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
def test_scipy_computes_only_what_nobody_watches(name, monkeypatch):
    scipys, function, x = Scipys(monkeypatch), getattr(trnfft, name), natural(name, 600)
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
def test_what_is_recorded_is_no_constant():
    """A result of SciPy would be one to ``torch.jit.trace``."""
    recorded = torch.jit.trace(lambda x: plain(trnfft.fft(x)), drawn(600), check_trace=False)
    other = drawn(600).sin()
    torch.testing.assert_close(recorded(other), torch.fft.fft(other), rtol=1e-12, atol=1e-12)


def test_the_bins_of_reals_may_be_real(monkeypatch):
    scipys, x = Scipys(monkeypatch), drawn(301)
    torch.testing.assert_close(trnfft.irfft(x), torch.fft.irfft(x), rtol=1e-12, atol=1e-12)
    assert not scipys.calls
