"""Hankel transforms against integrals in closed form, sums term by term, and SciPy."""

import math
import warnings

import mpmath
import numpy as np
import pytest
import scipy.fft
import torch

import trnfft
from each_case import each_case
from trnfft.hankel import coefficients
from trnsci.core.errors import DTypeError, ShapeError

from .agreement import array, randn

PARAMETERS = [
    (0.0, 0.0, 0.0),
    (1.5, 0.3, 0.2),
    (0.0, -0.4, -0.7),
    (2.0, 0.1, 1.0),
    (3.0, 0.2, -2.0),
    (0.0, 0.2, -0.5),
    (-0.3, 0.1, 0.4),
]


@each_case("mu", [0.0, 1.0, 2.5])
@each_case("bias", [0.0, 0.1, -0.1])
def test_a_function_that_is_its_own_transform(mu, bias):
    # The integral of r^(mu+1) exp(-r^2/2) J_mu(k r) k dr is k^(mu+1) exp(-k^2/2).
    r = np.logspace(-4, 4, 256)
    dln = math.log(r[1] / r[0])
    offset = trnfft.fhtoffset(dln, mu, 0.0, bias)
    k = math.exp(offset) / r[::-1]
    a = torch.from_numpy(r ** (mu + 1) * np.exp(-(r**2) / 2))
    want = k ** (mu + 1) * np.exp(-(k**2) / 2)
    # What is cut off at 1e-4 is of the order of 1e-4 to the power of mu + 1, biased.
    error = np.abs(trnfft.fht(a, dln, mu, offset, bias).numpy() - want).max()
    assert error <= 10 * (1e-4) ** (min(mu, 2) + 1 - abs(bias)) + 1e-9


@each_case(("mu", "offset", "bias"), PARAMETERS)
@each_case("n", [1, 2, 7, 8, 33])
def test_sums_term_by_term(n, mu, offset, bias):
    dln, j = 0.2, np.arange(n) - (n - 1) / 2
    a = array(randn(n, dtype=torch.float64))
    mpmath.mp.dps = 30
    # Points as a sum of powers; each power has its transform by gamma functions.
    found = np.zeros(n, complex)
    for m in range(-((n - 1) // 2), n // 2 + 1):
        y = 2 * math.pi * m / (n * dln)
        plus, minus = (mu + 1 + bias + 1j * y) / 2, (mu + 1 - bias - 1j * y) / 2
        u = mpmath.power(2, bias + 1j * y) * mpmath.gammaprod([plus], [minus])
        u = complex(u * mpmath.expj(-y * offset))
        if 2 * m == n:
            u = u.real
        share = np.mean(a * np.exp(-bias * j * dln) * np.exp(-2j * math.pi * m * np.arange(n) / n))
        found += share * u * np.exp(2j * math.pi * m * np.arange(n) / n)[::-1]
    want = found.real * np.exp(-bias * (j * dln + offset))
    got = trnfft.fht(torch.from_numpy(a), dln, mu, offset, bias).numpy()
    assert np.abs(got - want).max() <= 1e-13 * np.abs(want).max() + 1e-15


@each_case(("mu", "offset", "bias"), PARAMETERS)
def test_is_that_of_scipy_and_inverted(mu, offset, bias):
    for n in (7, 16):
        a = randn(3, n, dtype=torch.float64)
        got = trnfft.fht(a, 0.2, mu, offset, bias)
        want = scipy.fft.fht(a.numpy(), 0.2, mu, offset, bias)
        np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-13 * np.abs(want).max())
        found = trnfft.ifht(a, 0.2, mu, offset, bias)
        want = scipy.fft.ifht(a.numpy(), 0.2, mu, offset, bias)
        np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=1e-12 * np.abs(want).max())
        offset = trnfft.fhtoffset(0.2, mu, offset, bias)
        there = trnfft.fht(a, 0.2, mu, offset, bias)
        back = trnfft.ifht(there, 0.2, mu, offset, bias)
        np.testing.assert_allclose(back.numpy(), a.numpy(), rtol=0, atol=1e-11)


@each_case("mu", [0.0, 0.5, 3.0])
@each_case("bias", [0.0, 0.3])
@each_case("initial", [0.0, 0.2, -1.0])
def test_offset_without_ringing(mu, bias, initial):
    found = trnfft.fhtoffset(0.1, mu, initial, bias)
    assert abs(found - initial) <= 0.05
    assert found == pytest.approx(scipy.fft.fhtoffset(0.1, mu, initial, bias), abs=1e-14)
    # The coefficient of the highest frequency of an even number of points is real there.
    n = 8
    y = math.pi / 0.1
    plus, minus = (mu + 1 + bias + 1j * y) / 2, (mu + 1 - bias - 1j * y) / 2
    turn = float((mpmath.loggamma(plus) - mpmath.loggamma(minus)).imag) + y * (math.log(2) - found)
    assert math.sin(turn) == pytest.approx(0.0, abs=1e-11)
    assert coefficients((n, 0.1, mu, found, bias))[0][-1].imag == 0.0


@each_case(
    ("mu", "bias", "forward", "inverse"),
    [
        (0.0, -1.0, True, False),  # the gamma function above has a pole, so infinity
        (0.0, 1.0, False, True),  # the one below has, so zero
        (-2.0, 0.5, False, False),
        (-3.0, 2.0, False, False),  # both have one, and the quotient is finite
    ],
)
def test_singular_parameters_warn(mu, bias, forward, inverse):
    a = randn(8, dtype=torch.float64)
    for name, expected in (("fht", forward), ("ifht", inverse)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            got = getattr(trnfft, name)(a, 0.1, mu, 0.0, bias)
            theirs = getattr(scipy.fft, name)(a.numpy(), 0.1, mu, 0.0, bias)
        ours = [
            w
            for w in caught
            if w.filename == __file__ and "the constant is omitted" in str(w.message)
        ]
        assert bool(ours) == expected
        assert torch.isfinite(got).all()
        if np.isfinite(theirs).all():
            atol = 1e-12 * np.abs(theirs).max()
            np.testing.assert_allclose(got.numpy(), theirs, rtol=0, atol=atol)


def test_kinds_gradients_and_errors():
    a = randn(2, 9, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: trnfft.fht(x, 0.3, 1.0, 0.1, 0.2), (a,))
    assert trnfft.fht(randn(9), 0.3, 1.0).dtype is torch.float32
    assert trnfft.fht(randn(9).bfloat16(), 0.3, 1.0).dtype is torch.bfloat16
    with pytest.raises(DTypeError, match="fht: a must be real"):
        trnfft.fht(randn(3, dtype=torch.complex64), 0.3, 1.0)
    with pytest.raises(DTypeError, match="ifht: A must be real"):
        trnfft.ifht(randn(3, dtype=torch.complex64), 0.3, 1.0)
    with pytest.raises(ShapeError, match="fht: dln must not be zero"):
        trnfft.fht(a.detach(), 0.0, 1.0)
    with pytest.raises(ShapeError, match="fht: input must have points"):
        trnfft.fht(torch.zeros(2, 0), 0.1, 1.0)
