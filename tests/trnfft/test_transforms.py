"""One-dimensional transforms against the definition: lengths, kinds, dtypes, arguments."""

from itertools import product

import numpy as np
import pytest
import torch

import trnfft
from each_case import each_case
from oracles import fourier as oracle
from trnfft import ComplexTensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import COMPLEX, DTYPES, array, assert_near, bound, randn

OF_REAL = ("rfft", "ihfft")
TO_REAL = ("irfft", "hfft")
NAMES = ("fft", "ifft", *OF_REAL, *TO_REAL)
NORMS = (None, "backward", "forward", "ortho")

PRIMES = (509, 997, 1009, 2003)
POWERS = (512, 1024, 2048, 3**6, 5**4, 7**3)
MIXED = (3 * 2**7, 3 * 2**9, 5 * 7 * 11, 2 * 257, 1000, 1155)


def input_of(name, n, dtype=torch.float32, seed=0):
    """What ``name`` takes to transform n points."""
    if name in OF_REAL:
        return randn(n, dtype=dtype, seed=seed)
    size = n // 2 + 1 if name in TO_REAL else n
    return randn(size, dtype=COMPLEX[dtype], seed=seed)


@each_case("name", NAMES)
def test_every_length_up_to_260(name):
    # The other three are these with the other sign.
    for n in range(1, 261, 1 if name in ("fft", "rfft", "irfft") else 3):
        x = input_of(name, n)
        assert_near(getattr(trnfft, name)(x, n), getattr(oracle, name)(array(x), n), n)


@pytest.mark.parametrize("n", [*PRIMES, *POWERS, *MIXED])
@each_case("name", NAMES)
def test_longer_lengths(name, n):
    x = input_of(name, n)
    assert_near(getattr(trnfft, name)(x, n), getattr(oracle, name)(array(x), n), n)


@each_case("n", [4099, 8191, 11025, 12288, 44100, 65536, 65537, 1 << 17])
def test_long_lengths_by_a_few_bins(n):
    # The definition of all bins would take minutes; of some, with exact angles, it is as strict.
    x = randn(n, dtype=torch.complex64)
    got = array(trnfft.fft(x))
    half = array(trnfft.rfft(x.real.contiguous()))
    some = np.random.default_rng(n).choice(n // 2, 8)
    index = np.arange(n)
    rows = np.stack([np.exp(-2j * np.pi * (index * k % n) / n) for k in some])
    # The error of a bin is taken against the size that bins have, sqrt(2 N) or sqrt(N).
    wanted, wanted_half = rows @ array(x), rows @ array(x.real)
    assert np.abs(got[some] - wanted).max() <= 4 * bound(n) * np.sqrt(2 * n)
    assert np.abs(half[some] - wanted_half).max() <= 4 * bound(n) * np.sqrt(n)
    back = array(trnfft.ifft(trnfft.fft(x)))
    assert np.linalg.norm(back - array(x)) <= 2 * bound(n) * np.linalg.norm(array(x))


@each_case("n", [7, 31, 64, 100])
def test_against_forty_digits(n):
    x = randn(n, dtype=torch.complex128)
    want = oracle.exact_fft(array(x))
    assert_near(trnfft.fft(x), want, n, torch.float64)
    assert_near(
        trnfft.fft(x.to(torch.complex64)), oracle.exact_fft(array(x.to(torch.complex64))), n
    )


@each_case("name", NAMES)
@each_case("dtype", [torch.float32, torch.float64], ids=str)
def test_length_dimension_and_norm(name, dtype):
    x = randn(9, 5, 10, dtype=dtype if name in OF_REAL else COMPLEX[dtype])
    for n, dim, norm in product((None, 1, 4, 9, 10, 17), (0, 1, -1), NORMS):
        got = getattr(trnfft, name)(x, n, dim, norm)
        want = getattr(oracle, name)(array(x), n, dim, norm)
        assert_near(got, want, 18, dtype)
        if name in TO_REAL:
            assert got.dtype is dtype
        else:
            assert isinstance(got, ComplexTensor if name in OF_REAL else torch.Tensor)


@each_case("n", [4, 6, 7, 8, 9, 12])
def test_bins_are_resized_before_the_inverse(n):
    bins = randn(5, dtype=torch.complex64)
    assert_near(trnfft.irfft(bins, n), oracle.irfft(array(bins), n), n)
    assert_near(trnfft.hfft(bins, n), oracle.hfft(array(bins), n), n)


def test_imaginary_parts_of_the_outer_bins_do_not_count():
    bins = randn(5, dtype=torch.complex64)
    other = bins.clone()
    other[0] += 3j
    other[4] -= 2j
    torch.testing.assert_close(trnfft.irfft(bins), trnfft.irfft(other), rtol=0, atol=0)


@each_case("name", ["fft", "ifft", "irfft", "hfft"])
def test_kinds_of_complex_input(name):
    z = randn(3, 9, dtype=torch.complex64)
    native = getattr(trnfft, name)(z)
    split = getattr(trnfft, name)(ComplexTensor(z.real.clone(), z.imag.clone()))
    assert isinstance(native, torch.Tensor)
    assert isinstance(split, torch.Tensor if name in TO_REAL else ComplexTensor)
    np.testing.assert_array_equal(array(split), array(native))


@each_case("name", NAMES)
def test_real_input_gives_a_complex_tensor(name):
    x = randn(3, 9)
    got = getattr(trnfft, name)(x)
    assert isinstance(got, torch.Tensor if name in TO_REAL else ComplexTensor)
    assert got.dtype is (torch.float32 if name in TO_REAL else torch.complex64)
    assert_near(got, getattr(oracle, name)(array(x)), 16)


@each_case("name", NAMES)
@each_case("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_computed_in_float32_and_rounded(name, dtype):
    x = randn(4, 33).to(dtype)
    got = getattr(trnfft, name)(x)
    assert got.dtype is (dtype if name in TO_REAL else DTYPES[dtype])
    wide = getattr(trnfft, name)(x.float())
    if isinstance(wide, ComplexTensor):
        assert torch.equal(got.real, wide.real.to(dtype))
        assert torch.equal(got.imag, wide.imag.to(dtype))
    else:
        assert torch.equal(got, wide.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_complex_tensors(dtype):
    z = ComplexTensor(randn(33).to(dtype), randn(33, seed=1).to(dtype))
    got = trnfft.fft(z)
    assert isinstance(got, ComplexTensor)
    assert got.dtype is DTYPES[dtype]
    wide = trnfft.fft(ComplexTensor(z.real.float(), z.imag.float()))
    assert torch.equal(got.real, wide.real.to(dtype))
    assert trnfft.irfft(z).dtype is dtype


@each_case("dtype", [torch.int64, torch.int8, torch.uint8, torch.bool], ids=str)
@each_case("name", NAMES)
def test_integers_are_promoted_as_torch_promotes_them(name, dtype):
    x = torch.arange(12).to(dtype)
    got = getattr(trnfft, name)(x)
    assert got.dtype is (torch.float32 if name in TO_REAL else torch.complex64)
    assert_near(got, getattr(oracle, name)(array(x)), 22)


@each_case("name", NAMES)
def test_integers_follow_the_default_dtype(name):
    try:
        for default, part in ((torch.float64, torch.float64), (torch.float16, torch.float32)):
            torch.set_default_dtype(default)
            got = getattr(trnfft, name)(torch.arange(4))
            assert got.dtype is (part if name in TO_REAL else COMPLEX[part])
    finally:
        torch.set_default_dtype(torch.float32)


@each_case("name", ["fft", "ifft", *OF_REAL])
def test_parts_of_a_result_are_ordinary_views(name):
    # torch returns some of these as conjugates, whose imaginary parts are negated views.
    got = getattr(trnfft, name)(randn(3, 8))
    assert not got.to_torch_complex().is_conj()
    assert not got.imag.is_neg()


def test_nan_and_infinity_reach_every_bin():
    x = randn(3, 300)
    x[1, 7] = float("nan")
    got = array(trnfft.fft(x))
    assert np.isnan(got[1]).all()
    assert np.isfinite(got[[0, 2]]).all()
    assert np.isnan(array(trnfft.rfft(x[1]))).all()
    y = randn(300)
    y[5] = float("inf")
    assert not np.isfinite(array(trnfft.rfft(y))).any()


@each_case("name", NAMES)
def test_an_empty_batch_has_an_empty_result(name):
    x = torch.zeros(0, 6, requires_grad=True)
    got = getattr(trnfft, name)(x)
    sizes = {"fft": 6, "ifft": 6, "rfft": 4, "ihfft": 4, "irfft": 10, "hfft": 10}
    assert tuple(got.shape) == (0, sizes[name])
    total = got.real.sum() if isinstance(got, ComplexTensor) else got.sum()
    total.backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape


def test_no_points_but_a_length():
    assert not array(trnfft.fft(torch.zeros(2, 0), 4)).any()


@each_case("size", [100, 300, 1000])
def test_arguments_are_not_modified_and_results_are_new(size):
    x = randn(size)
    before = x.clone()
    got = trnfft.fft(x)
    got.real.zero_()
    assert torch.equal(x, before)
    one = torch.ones(1, dtype=torch.complex64)
    result = trnfft.fft(one)
    result.zero_()
    assert one.item() == 1


@each_case("n", [256, 12800, 44100])
def test_strided_conjugated_and_detached_vectors(n):
    x = randn(2 * n, dtype=torch.complex64)
    for view in (x[::2], x.conj()[:n], x.real[:n], x.imag[n:], x.flip(0)[:n]):
        plain = view.resolve_conj().resolve_neg().clone()
        # MKL takes other ways through other strides, each with its own rounding.
        assert_near(trnfft.fft(view), array(trnfft.fft(plain)), n, factor=2)
    tracked = x[:n].clone().requires_grad_()
    with torch.no_grad():
        got = trnfft.fft(tracked)
    assert not got.requires_grad


BAD = [
    ("no points", ShapeError, lambda f: f(torch.zeros(3, 0))),
    ("n = 0", ShapeError, lambda f: f(torch.ones(4), 0)),
    ("n < 0", ShapeError, lambda f: f(torch.ones(4), -1)),
    ("n is a float", DTypeError, lambda f: f(torch.ones(4), 2.0)),
    ("dim out of range", IndexError, lambda f: f(torch.ones(4), dim=1)),
    ("0-d", IndexError, lambda f: f(torch.tensor(1.0))),
    ("norm", FlagError, lambda f: f(torch.ones(4), norm="unitary")),
    ("a list", DTypeError, lambda f: f([1.0, 2.0])),
]


@each_case(("what", "error", "call"), BAD, ids=[bad[0] for bad in BAD])
@each_case("name", NAMES)
def test_bad_input(name, what, error, call):
    with pytest.raises(error, match=f"^{name}: "):
        call(getattr(trnfft, name))


@pytest.mark.parametrize("name", OF_REAL)
def test_complex_input_where_it_must_be_real(name):
    for z in (torch.ones(4, dtype=torch.complex64), ComplexTensor(torch.ones(4))):
        with pytest.raises(DTypeError, match=f"^{name}: input must be real"):
            getattr(trnfft, name)(z)


@pytest.mark.parametrize("name", TO_REAL)
def test_one_bin_needs_a_length(name):
    with pytest.raises(ShapeError, match="at least two bins"):
        getattr(trnfft, name)(torch.ones(1))
    assert getattr(trnfft, name)(torch.ones(1), 1).tolist() == [1.0]


def test_numpy_integers_are_integers():
    assert trnfft.fft(torch.ones(4), np.int64(3), np.int64(0)).shape == (3,)


OUT = [name + several for name in NAMES for several in ("", "2", "n")]


@each_case("name", OUT)
@each_case("kind", [torch.Tensor, ComplexTensor])
def test_results_are_written_to_out(name, kind):
    of_real = name.startswith(("rfft", "ihfft"))
    x = randn(3, 4, 6) if of_real else randn(3, 4, 6, dtype=torch.complex64)
    x = ComplexTensor(x) if kind is ComplexTensor and not of_real else x
    want = getattr(trnfft, name)(x)
    to_real = isinstance(want, torch.Tensor) and not want.is_complex()
    out = torch.full(want.shape, torch.nan, dtype=want.dtype)
    out = ComplexTensor(out) if kind is ComplexTensor and not to_real else out
    assert getattr(trnfft, name)(x, out=out) is out
    np.testing.assert_array_equal(array(out), array(want))


def test_out_that_does_not_fit_is_refused():
    x = randn(8)
    with pytest.raises(ShapeError, match=r"rfft: out must have shape \(5,\), got \(4,\)"):
        trnfft.rfft(x, out=torch.empty(4, dtype=torch.complex64))
    with pytest.raises(DTypeError, match=r"rfft: out must be torch.complex64, got torch.float32"):
        trnfft.rfft(x, out=torch.empty(5))
    with pytest.raises(DTypeError, match="fft: out must be a tensor, got list"):
        trnfft.fft(x, out=[])
    with pytest.raises(RuntimeError, match="irfft: out cannot be differentiated"):
        trnfft.irfft(x.requires_grad_(), out=torch.empty(14))
    with torch.no_grad():
        assert trnfft.irfft(x, out=torch.empty(14)).shape == (14,)
