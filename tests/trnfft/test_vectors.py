"""Vectors on a CPU with MKL have torch's bits from the first call on, whoever computes them."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import trnfft
from trnfft import _descriptors, _single, torch_fft
from trnfft._descriptors import LONG_KEPT, MAY_KEEP, TABLE_BYTES, long_kept_for
from trnfft._kept import CALLS, LONGEST
from trnsci.core.testing import random_tensor

from .keeping import entry, native, same, torchs

pytestmark = [
    pytest.mark.skipif(not MAY_KEEP, reason="torch computes by MKL on x86-64 Linux only"),
    pytest.mark.usefixtures("nothing_is_kept"),
]

HALF, OF_REAL = ("irfft", "hfft"), ("rfft", "ihfft")
NAMES = ("fft", "ifft", *OF_REAL, *HALF)
DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
# Short and long, smooth, odd, prime and with a large factor, around the bounds of all choices.
LENGTHS = (2, 3, 63, 192, 257, 1000, 2 * 1009, 4095, 4096, 5003, 10_000, 1 << 14)
BOTH = (torch_fft, trnfft)


def vector(name, n, dtype, seed=0):
    """What ``name`` takes to transform n points."""
    return random_tensor(n // 2 + 1 if name in HALF else n, dtype=dtype, seed=seed)


def taken(name):
    """The dtypes that a transform takes."""
    return DTYPES[:2] if name in OF_REAL else DTYPES


def assert_torchs(name, x, *args, calls=(1, 2, 3, 20), want=None):
    """Both modules give torch's bits, at each of these calls."""
    want = torchs(name, x, *args) if want is None else want
    functions = [getattr(module, name) for module in BOTH]
    for call in range(1, calls[-1] + 1):
        drop_in, own = (function(x, *args) for function in functions)
        if call in calls:
            assert same(drop_in.resolve_conj(), want.resolve_conj()), (x.shape, x.dtype, args, call)
            assert same(native(own).resolve_conj(), want.resolve_conj()), (x.shape, args, call)
            assert name == "ihfft" or drop_in.is_conj() is want.is_conj()


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_torchs_at_any_call(name):
    for n in LENGTHS:
        for dtype in taken(name):
            assert_torchs(name, vector(name, n, dtype))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_torchs_by_any_norm(name, norm):
    for n in (48, 4096):
        for dtype in taken(name):
            assert_torchs(name, vector(name, n, dtype), None, -1, norm, calls=(1, 9))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_bits_are_torchs_of_any_length(name, threads):
    generator = torch.Generator().manual_seed(len(name))
    drawn = torch.randint(2, 20_000, (6,), generator=generator).tolist()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for n in (*drawn, 44_100, LONGEST + 2):
            for dtype in taken(name):
                assert_torchs(name, vector(name, n, dtype), calls=(1, 2, 3))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_scipys(name, monkeypatch):
    def refused():
        raise AssertionError("asked for SciPy")

    monkeypatch.setattr(_single, "_routines", refused)
    monkeypatch.setattr(_single, "scipy_fft", refused)
    for n in (600, 4096, LONGEST + 2):
        for args in ((), (n,), (None, 0, "ortho"), (n - 2,)):
            getattr(trnfft, name)(vector(name, n, taken(name)[-1]), *args)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_cut_padded_or_strided_is_computed_as_its_copy(name, computed):
    sizes = (4096, 4097, 4200, 4210)
    for dtype in taken(name):
        x = vector(name, 4200, dtype)
        for n in sizes:
            assert_torchs(name, x, n, calls=(1, 2, 3))
        apart = torch.stack([x, x], 1)[:, 0]
        assert not apart.is_contiguous()
        assert_torchs(name, apart, calls=(1, 2, 3), want=torchs(name, x))
        if dtype.is_complex:
            assert_torchs(name, x.conj(), calls=(1, 2, 3))
        else:
            assert_torchs(name, torch._neg_view(x), calls=(1, 2, 3), want=torchs(name, -x))
    assert {*computed} == {(n // 2 + 1 if name in HALF else n,) for n in sizes}


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("fft", (0,)),
        ("fft", (-1,)),
        ("fft", (200.0,)),
        ("fft", (None, 1)),
        ("fft", (None, -2)),
        ("fft", (300, -1, "both")),
        ("rfft", (300, False)),
        ("irfft", (None, 0.0)),
    ],
)
def test_what_torch_refuses_is_refused(name, args):
    x = random_tensor(200)
    try:
        want = getattr(torch.fft, name)(x, *args)
    except Exception as refused:
        for _ in range(CALLS + 1):
            with pytest.raises(type(refused)):
                getattr(torch_fft, name)(x, *args)
    else:
        assert_torchs(name, x, *args, want=want)


def test_dtypes_that_torch_converts():
    for dtype in (torch.int64, torch.bool):
        x = torch.arange(300).to(dtype)
        assert same(torch_fft.rfft(x, 310), torch.fft.rfft(x, 310))


@pytest.mark.parametrize("name", NAMES)
def test_descriptors_compute_only_what_nobody_watches(name, computed):
    function, x = getattr(trnfft, name), vector(name, 4096, taken(name)[-1])
    for _ in range(3):
        function(x)
    assert computed == [tuple(x.shape)] * 2
    tracked = x.clone().requires_grad_()
    with torch.no_grad():
        function(tracked)
    assert len(computed) == 3
    for given in (tracked, tracked[::2]):
        assert function(given).requires_grad
    torch.func.vmap(function)(x[None])
    with torch.autocast("cpu"):
        function(x)
    with FakeTensorMode():
        function(torch.empty(x.shape, dtype=x.dtype))
    with forward_ad.dual_level():
        function(x)
    compiled = torch.compile(getattr(torch_fft, name), fullgraph=True, backend="eager")
    assert same(compiled(x).resolve_conj(), torchs(name, x))
    assert len(computed) == 3


@pytest.mark.parametrize(("n", "calls"), [(4095, CALLS), (4096, 2), (LONGEST + 2, 2)])
def test_when_a_vector_is_prepared(n, calls, computed):
    x = random_tensor(n)
    for _ in range(calls - 1):
        trnfft.rfft(x)
    assert not computed
    trnfft.rfft(x)
    assert len(computed) == 1


def test_short_spectra_of_reals_are_torchs(computed):
    for n in (511, 512):
        assert_torchs("fft", random_tensor(n), calls=(9,))
    assert {*computed} == {(512,)}


class TestLongVectors:
    """Their tables take much memory, so there are few of them."""

    def open(self, n, dtype=torch.complex64):
        return entry("fft", torch.empty(n, dtype=dtype)).open

    def test_tables_are_bounded(self):
        smooth, prime = TABLE_BYTES // 8, 1_677_721
        assert self.open(smooth)
        assert not self.open(smooth + (1 << 10))
        assert self.open(smooth // 2, torch.complex128)
        assert not self.open(smooth // 2 + (1 << 10), torch.complex128)
        # Above a factor of a thousand five times as much.
        assert prime == TABLE_BYTES // 40 < smooth
        assert self.open(prime)
        assert not self.open(1_677_727)
        assert not self.open(prime, torch.complex128)

    def test_only_few_are_remembered(self):
        for n in range(LONGEST + 2, LONGEST + 14, 2):
            trnfft.rfft(random_tensor(n))
        assert long_kept_for.cache_info().currsize == LONG_KEPT
        assert _descriptors.kept_for.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("n", "largest"),
    [(1, 1), (2, 2), (64, 2), (9, 3), (45, 5), (49, 7), (102, 17), (10_007, 10_007)],
)
def test_largest_prime_factor(n, largest):
    assert _descriptors._largest_factor(n) == largest
