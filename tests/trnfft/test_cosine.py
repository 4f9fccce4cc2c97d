"""Cosine and sine transforms against their matrices, on both paths."""

from itertools import product

import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
from each_case import each_case
from oracles import fourier as oracle
from pairwise import pairwise
from trnfft import ComplexTensor
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import array, assert_near, randn

TYPES = (1, 2, 3, 4)
NAMES = ("dct", "dst")


def lengths(name, type):
    return [n for n in (1, 2, 3, 4, 5, 8, 31, 32, 105) if n > 1 or name == "dst" or type > 1]


@each_case("name", NAMES)
@each_case("type", TYPES)
@each_case("tracked", [False, True], ids=["scipy", "torch"])
def test_agrees_with_the_matrix(name, type, tracked):
    for n, dtype in product(lengths(name, type), (torch.float32, torch.float64)):
        x = randn(3, n, dtype=dtype).requires_grad_(tracked)
        got = getattr(trnfft, name)(x, type)
        assert got.dtype is dtype
        assert got.requires_grad is tracked
        # A Fourier transform of up to 2 (N + 1) points and two products by rounded roots.
        want = array(x) @ oracle.trigonometric_matrix(name == "dst", type, n).T
        assert_near(got, want, 2 * n + 2, dtype, factor=2)


# Every norm with every flag; these with every length and every dimension.
SCALES = list(product((None, "backward", "forward", "ortho"), (None, True, False)))
SCALED_CALLS = pairwise(SCALES, (None, 3, 8), (-1, 0, 1))


@pytest.mark.parametrize("name", [*NAMES, "idct", "idst"])
@each_case("type", TYPES)
@each_case("tracked", [False, True], ids=["scipy", "torch"])
def test_scales_are_those_of_scipy(name, type, tracked):
    x = randn(4, 5, 6, dtype=torch.float64).requires_grad_(tracked)
    for (norm, orthogonalize), n, dim in SCALED_CALLS:
        got = getattr(trnfft, name)(x, type, n, dim, norm, orthogonalize)
        reference = getattr(scipy.fft, name)
        want = reference(array(x), type, n, dim, norm, orthogonalize=orthogonalize)
        assert_near(got, want, 18, torch.float64, factor=2)


@each_case("name", NAMES)
@each_case("type", TYPES)
@each_case("norm", [None, "forward", "ortho"])
def test_inverse(name, type, norm):
    x = randn(3, 17)
    back = getattr(trnfft, f"i{name}")(getattr(trnfft, name)(x, type, norm=norm), type, norm=norm)
    assert_near(back, array(x), 36, factor=4)
    if norm == "ortho":
        matrix = array(getattr(trnfft, name)(torch.eye(9, dtype=torch.float64), type, norm=norm))
        np.testing.assert_allclose(matrix @ matrix.T, np.eye(9), atol=9 * 8 * 2**-53 * 4)


def test_kinds_and_dtypes():
    z = randn(5, 8, dtype=torch.complex64)
    for tracked in (False, True):
        native = trnfft.dct(z.clone().requires_grad_(tracked))
        parts = trnfft.dct(z.real.clone()), trnfft.dct(z.imag.clone())
        assert_near(native, array(parts[0]) + 1j * array(parts[1]), 18)
        assert isinstance(trnfft.dct(ComplexTensor(z)), ComplexTensor)
    assert trnfft.dct(randn(8).bfloat16()).dtype is torch.bfloat16
    assert trnfft.dst(torch.arange(8)).dtype is torch.float32
    assert trnfft.dct(torch.zeros(0, 8)).shape == (0, 8)
    assert trnfft.dct(torch.zeros(0, 8), n=5).shape == (0, 5)


def test_bad_arguments():
    x = torch.ones(4)
    for error, args in [
        (FlagError, (x, 5)),
        (FlagError, (x, 2, None, -1, "none")),
        (ShapeError, (x, 2, 0)),
        (ShapeError, (x, 1, 1)),
        (ShapeError, (torch.ones(0),)),
        (IndexError, (x, 2, None, 1)),
        (DTypeError, ([1.0],)),
    ]:
        for name in ("dct", "idct"):
            with pytest.raises(error, match=f"^{name}: "):
                getattr(trnfft, name)(*args)
    assert trnfft.dst(torch.ones(1), 1).tolist() == [2.0]


SEVERAL = ("dctn", "idctn", "dstn", "idstn")


@each_case("name", ["dctn", "dstn"])
@each_case("type", TYPES)
@each_case("tracked", [False, True], ids=["scipy", "torch"])
def test_several_dimensions_agree_with_the_matrices(name, type, tracked):
    x = randn(3, 4, 5, dtype=torch.float64).requires_grad_(tracked)
    want = array(x)
    for dim in (0, 2):
        matrix = oracle.trigonometric_matrix(name == "dstn", type, x.shape[dim])
        want = np.moveaxis(np.moveaxis(want, dim, -1) @ matrix.T, -1, dim)
    assert_near(getattr(trnfft, name)(x, type, dim=(0, 2)), want, 144, torch.float64, factor=2)


@each_case("name", SEVERAL)
@each_case("type", TYPES)
def test_arguments_of_several_dimensions_are_those_of_scipy(name, type):
    x = randn(4, 5, 6, dtype=torch.float64)
    for s, dim, norm, orthogonalize in [
        (None, None, None, None),
        ((3, 8), None, "ortho", None),
        ((3, 8), (2, 0), "forward", None),
        (None, (-1,), "ortho", False),
        (None, 1, None, True),
        (7, 1, None, None),
    ]:
        got = getattr(trnfft, name)(x, type, s, dim, norm, orthogonalize)
        reference = getattr(scipy.fft, name)
        want = reference(array(x), type, s, dim, norm, orthogonalize=orthogonalize)
        assert_near(got, want, 120, torch.float64, factor=4)
    kept = getattr(trnfft, name)(x, type, (-1, 8), (0, 1))
    assert_near(kept, reference(array(x), type, (4, 8), (0, 1)), 32, torch.float64, factor=4)


@each_case("name", ["dct", "dst"])
@each_case("type", TYPES)
def test_inverse_over_several_dimensions(name, type):
    x = randn(3, 5, 4)
    for norm in (None, "forward", "ortho"):
        there = getattr(trnfft, f"{name}n")(x, type, norm=norm)
        back = getattr(trnfft, f"i{name}n")(there, type, norm=norm)
        assert_near(back, array(x), 60, factor=4)


def test_kinds_of_several_dimensions():
    z = randn(3, 4, dtype=torch.complex64)
    want = scipy.fft.dctn(array(z))
    assert_near(trnfft.dctn(z), want, 24)
    assert isinstance(trnfft.dctn(ComplexTensor(z)), ComplexTensor)
    assert trnfft.dstn(randn(3, 4).half()).dtype is torch.float16
    assert torch.equal(trnfft.dctn(randn(2, 3), dim=()), randn(2, 3))
    assert trnfft.dctn(torch.zeros(0, 4), dim=1).shape == (0, 4)


def test_bad_arguments_of_several_dimensions():
    x = torch.ones(4, 4)
    for error, args in [
        (FlagError, (x, 5)),
        (FlagError, (x, 2, None, None, "none")),
        (ShapeError, (x, 2, (0, 3))),
        (ShapeError, (x, 1, (1, 4))),
        (ShapeError, (x, 2, (4, 4), 0)),
        (ShapeError, (x, 2, None, (0, 0))),
        (IndexError, (x, 2, None, 2)),
        (DTypeError, ([1.0],)),
    ]:
        with pytest.raises(error, match=r"^dctn: "):
            trnfft.dctn(*args)
    assert trnfft.dstn(torch.ones(1, 1), 1).tolist() == [[4.0]]


@each_case("type", [2, 3, 4])
def test_roots_are_kept_and_not_poisoned(type):
    from torch._subclasses import FakeTensorMode

    n = 46 + type  # a length that no other test has
    x = randn(n).requires_grad_()
    with FakeTensorMode() as mode:
        assert trnfft.dct(mode.from_tensor(x), type).shape == (n,)
    with torch.inference_mode():
        trnfft.dct(randn(n), type)
    first = trnfft.dct(x, type)
    first.sum().backward()
    again = trnfft.dct(x, type)
    assert torch.equal(first, again)
    want = array(x) @ oracle.trigonometric_matrix(False, type, n).T
    assert_near(again, want, 2 * n, factor=2)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")  # its length is a constant
@each_case("type", [1, 2, 3, 4])
def test_what_is_recorded_is_no_constant(type):
    recorded = torch.jit.trace(lambda x: trnfft.dct(x, type), randn(8), check_trace=False)
    other = randn(8).sin()
    torch.testing.assert_close(recorded(other), trnfft.dct(other, type))
