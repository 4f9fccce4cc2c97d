"""Shapes, dtypes and values of every combination of arguments, beside those of torch."""

from itertools import chain, product

import pytest
import torch

import trnfft
from each_case import each_case
from pairwise import pairwise
from trnfft import ComplexTensor, torch_fft

from .agreement import randn

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = tuple(f"{name}{suffix}" for suffix in ("n", "2") for name in ONE)
NORMS = (None, "backward", "forward", "ortho")
DTYPES = (
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
)


def operand(dtype, *shape):
    wide = randn(*shape, dtype=torch.complex128 if dtype.is_complex else torch.float64)
    return (wide * 3).to(dtype)


def outcome(function, *args, **kwargs):
    """What a call returns, or the error it raises."""
    try:
        return function(*args, **kwargs)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return error


def as_native(value):
    return value.to_torch_complex() if isinstance(value, ComplexTensor) else value


def assert_as_torch(got, want):
    """One shape, dtype and value; an error of ours where torch raises."""
    if isinstance(want, Exception):
        assert isinstance(got, Exception), want
        return
    got = as_native(got)
    assert not isinstance(got, Exception), got
    assert (got.dtype, got.shape, got.device) == (want.dtype, want.shape, want.device)
    # Either is within a few eps for each of its stages, of which there are at most 16; but MKL is
    # off by 150 eps where a length is even and has a prime factor near 128.
    eps = torch.finfo(want.dtype).eps
    distance, norm = torch.linalg.vector_norm(got - want), torch.linalg.vector_norm(want)
    assert distance <= 256 * eps * norm + eps


def assert_the_same(got, want):
    """One shape, dtype, layout and the same bits, or one type of error with one message."""
    if isinstance(want, Exception):
        assert type(got) is type(want)
        assert str(got).splitlines()[0] == str(want).splitlines()[0]
    else:
        assert isinstance(got, torch.Tensor)
        for of in (lambda x: x.dtype, torch.Tensor.stride, torch.Tensor.is_conj):
            assert of(got) == of(want)
        assert torch.equal(got, want)


LENGTH_DIM_NORM = pairwise((None, 0, -1, 1, 6, 7, 8, 13), (-1, 0, 1, 3), NORMS)
SIZES_DIMS_NORM = pairwise(
    (None, (4,), (3, 6), (-1, 5), (2, 3, 4), (0, 2), (2, 2, 2, 2)),
    (None, (0,), (1, 2), (-1, 0), (0, 0), (3,), (2, 0, 1)),
    (None, "ortho", "forward"),
)


@pytest.mark.parametrize("name", ONE)
@each_case("dtype", DTYPES, ids=str)
def test_one_dimension(name, dtype):
    # Integers are converted, whatever their shape.
    shapes = ((8,), (5, 8), (1, 8), (2, 3, 7)) if dtype in DTYPES[:4] else ((2, 3, 7),)
    for shape in shapes:
        x = operand(dtype, *shape)
        for n, dim, norm in LENGTH_DIM_NORM:
            want = outcome(getattr(torch.fft, name), x, n, dim, norm)
            assert_as_torch(outcome(getattr(trnfft, name), x, n, dim, norm), want)
            assert_the_same(outcome(getattr(torch_fft, name), x, n, dim, norm), want)


@each_case("name", SEVERAL)
@each_case("dtype", [*DTYPES[:4], torch.int64], ids=str)
def test_several_dimensions(name, dtype):
    x = operand(dtype, 3, 4, 5)
    for s, dim, norm in SIZES_DIMS_NORM:
        if dim is None and name.endswith("2"):
            continue  # which torch does not take, and which means all dimensions here
        want = outcome(getattr(torch.fft, name), x, s, dim, norm)
        assert_as_torch(outcome(getattr(trnfft, name), x, s, dim, norm), want)
        assert_the_same(outcome(getattr(torch_fft, name), x, s, dim, norm), want)


@each_case("name", [*ONE, *SEVERAL])
def test_the_drop_in_takes_the_same_arguments(name):
    x = operand(torch.float32, 4, 5)
    want = getattr(torch.fft, name)(x)
    ours = getattr(torch_fft, name)
    assert_the_same(ours(input=x), want)
    out = torch.empty_like(want)
    assert ours(x, out=out) is out
    assert torch.equal(out, want)
    for bad in (x.bfloat16(), x.half(), [1.0, 2.0], "x", None):
        assert_the_same(outcome(ours, bad), outcome(getattr(torch.fft, name), bad))
    for bad in ((None, -1, "none"), (None, -1, 3), (None, 7, None), (2.5, -1, None)):
        assert_the_same(outcome(ours, x, *bad), outcome(getattr(torch.fft, name), x, *bad))
    assert ours.__name__ == name


@each_case("name", ONE)
@each_case("n", [300, 509, 4096, 44100])
def test_the_drop_in_on_vectors(name, n):
    for dtype in (torch.float32, torch.complex64, torch.complex128):
        x = operand(dtype, n)
        for size, norm in (
            (None, None),
            (n - 1, "ortho"),
            (n + 5, "forward"),
            (0, None),
            (3.5, None),
        ):
            got = outcome(getattr(torch_fft, name), x, size, 0, norm)
            assert_the_same(got, outcome(getattr(torch.fft, name), x, size, 0, norm))


@each_case("name", ONE)
def test_the_drop_in_refuses_what_torch_refuses_on_kernels_too(name):
    for x in (operand(torch.float32, 8), operand(torch.complex64, 5000), torch.zeros(0)):
        for bad in ((None, -1, "none"), (None, 1, None), (0, -1, None), (2.5, -1, None)):
            want = outcome(getattr(torch.fft, name), x, *bad)
            with trnfft.backend("simulator"):
                got = outcome(getattr(torch_fft, name), x, *bad)
            assert isinstance(want, Exception)
            assert_the_same(got, want)


def test_the_drop_in_has_every_name():
    public = {name for name in dir(torch.fft) if "fft" in name and not name.startswith("_")}
    assert public == set(torch_fft.__all__)


# All combinations inside of a group, and any two of different groups.
STFT = [
    {
        "hop_length": (None, 3),
        "win_length": (None, 10),
        "window": (None, torch.float32, torch.float64),
    },
    {"center": (True, False), "pad_mode": ("reflect", "constant", "replicate", "circular")},
    {"normalized": (False, True), "onesided": (None, True, False)},
]
STFT_CALLS = pairwise((12, 13), *(list(product(*of.values())) for of in STFT))


@each_case("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@each_case("shape", [(40,), (1, 40), (3, 40)], ids=str)
def test_stft(dtype, shape):
    x = operand(dtype, *shape)
    for n_fft, *groups in STFT_CALLS:
        arguments = dict(zip(chain(*STFT), chain(*groups), strict=True))
        size = arguments["win_length"] or n_fft
        real = x.dtype.to_real()
        # torch takes a window of any dtype; the result has that of the signal here.
        window = arguments.pop("window")
        given = torch.hann_window(size, dtype=real)
        arguments["window"] = None if window is None else given.to(window)
        want = outcome(torch.stft, x, n_fft, **{**arguments, "window": given}, return_complex=True)
        got = outcome(trnfft.stft, x, n_fft, **arguments, return_complex=True)
        if window in (None, real):
            assert_as_torch(got, want)
        elif not isinstance(want, Exception):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)


@each_case("shape", [(40,), (1, 40), (3, 40)], ids=str)
def test_istft(shape):
    window = torch.hann_window(12)
    for onesided, normalized, length in product((True, False), (False, True), (None, 25, 40)):
        common = {"window": window, "normalized": normalized, "onesided": onesided}
        bins = torch.stft(randn(*shape), 12, 3, **common, return_complex=True)
        want = torch.istft(bins, 12, 3, **common, length=length)
        assert_as_torch(trnfft.istft(bins, 12, 3, **common, length=length), want)
    bins = torch.stft(operand(torch.complex64, *shape), 12, 3, window=window, return_complex=True)
    want = torch.istft(bins, 12, 3, window=window, onesided=False, return_complex=True)
    assert_as_torch(trnfft.istft(bins, 12, 3, window=window, return_complex=True), want)
