"""The chirp z-transform against its sum, in exact angles, and against SciPy."""

import cmath
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.signal
import torch

import trnfft
from each_case import each_case
from trnfft import ComplexTensor
from trnsci.core.counters import counts, reset
from trnsci.core.errors import DTypeError, FlagError, ShapeError

from .agreement import array, randn

# Points, bins, and the fractions of a turn of w and of a; None for the default w.
PROBLEMS = [
    (1, 1, None, 0),
    (1, 7, None, Fraction(1, 3)),
    (7, 1, Fraction(1, 7), 0),
    (8, 8, None, 0),
    (9, 14, None, Fraction(-1, 5)),
    (30, 11, Fraction(-3, 1000), Fraction(2, 7)),
    (64, 65, Fraction(1, 4), Fraction(1, 2)),
    (12, 5, Fraction(0), Fraction(1, 6)),
]


def number(turn):
    return cmath.exp(2j * math.pi * float(turn))


def summed(x, m, w, a, bins=None):
    """The definition, with angles reduced as fractions."""
    n = x.shape[-1]
    turn = Fraction(-1, m) if w is None else w
    chosen = range(m) if bins is None else bins
    angles = [[float((j * k * turn - j * a) % 1) for j in range(n)] for k in chosen]
    return x @ np.exp(2j * np.pi * np.array(angles)).T


def assert_near(got, want, x, size):
    """Three transforms: roundoff of their stages, relative to the norm of the input."""
    values = array(got)
    assert values.shape == want.shape
    steps = 3 * 8 * (1 + math.log2(size))
    roundoff = torch.finfo(x.dtype.to_real() if x.is_complex() else x.dtype).eps / 2
    norm = np.linalg.norm(array(x), axis=-1, keepdims=True) * math.sqrt(size)
    assert (np.abs(values - want) <= steps * roundoff * norm).all()


@each_case(("n", "m", "w", "a"), PROBLEMS, ids=str)
@each_case("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128], ids=str)
def test_agrees_with_the_definition(n, m, w, a, dtype):
    x = randn(2, n, dtype=dtype)
    got = trnfft.czt(x, m, None if w is None else number(w), number(a))
    assert isinstance(got, ComplexTensor) is not dtype.is_complex
    assert_near(got, summed(array(x), m, w, a), x, n + m)


def test_long_angles_are_exact():
    """A zoom into a hundredth of a spectrum; SciPy's phases lose four digits of sixteen."""
    n, turn = 5000, Fraction(-1, 500_000)
    x = randn(n, dtype=torch.complex128)
    bins = [1, n // 2, n - 1]
    got = trnfft.czt(x, n, number(turn))[..., bins]
    assert_near(got, summed(array(x), n, turn, 0, bins), x, 2 * n)


@each_case(("w", "a"), [(0.97 * number(-0.013), 1.02j), (1.05, 0.9), (-0.99 + 0j, -1.0)], ids=str)
def test_spirals(w, a):
    """Beyond the unit circle the error grows with the range of the powers of w."""
    n, m = 12, 9
    x = randn(3, n, dtype=torch.complex128)
    with mpmath.workdps(40):
        terms = [
            [mpmath.mpc(a) ** -j * mpmath.mpc(w) ** (j * k) for j in range(n)] for k in range(m)
        ]
        want = array(x) @ np.array([[complex(v) for v in row] for row in terms]).T
    got = trnfft.czt(x, m, w, a)
    powers = max(abs(w), 1 / abs(w)) ** (max(n, m) ** 2) * max(abs(a), 1 / abs(a)) ** n
    norm = np.linalg.norm(array(x), axis=-1, keepdims=True) * math.sqrt(n + m)
    assert (np.abs(array(got) - want) <= 3 * 8 * 6 * 2.0**-53 * powers * norm).all()
    np.testing.assert_allclose(array(got), scipy.signal.czt(array(x), m, w, a), rtol=1e-9)


def test_the_defaults_are_the_fourier_transform():
    x = randn(3, 30, dtype=torch.complex128)
    torch.testing.assert_close(trnfft.czt(x), torch.fft.fft(x), rtol=0, atol=1e-12)
    torch.testing.assert_close(trnfft.czt(x, dim=0), torch.fft.fft(x, dim=0), rtol=0, atol=1e-12)


@each_case("dtype", [torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_narrow_points_are_widened(dtype):
    x = (8 * randn(6)).to(dtype)
    got = trnfft.czt(x, 4)
    wide = trnfft.czt(x.float(), 4)
    assert got.part_dtype is (dtype if dtype.is_floating_point else torch.float32)
    torch.testing.assert_close(
        got.to(torch.float32).to_torch_complex(), wide.to_torch_complex(), rtol=1e-2, atol=0.2
    )


@each_case("n", [5, 130, 700])
def test_three_transforms_run_on_kernels(n):
    x = randn(2, n, dtype=torch.complex64)
    reset()
    with trnfft.backend("simulator"):
        got = trnfft.czt(x, 40, number(Fraction(-1, 900)))
    assert sum(counts().launches.values()) == 3
    assert_near(got, summed(array(x), 40, Fraction(-1, 900), 0), x, n + 40)


def test_gradients():
    for dtype, w in ((torch.float64, None), (torch.complex128, 0.9 - 0.3j)):
        x = randn(2, 5, dtype=dtype).requires_grad_()

        def bins(x, w=w):
            found = trnfft.czt(x, 4, w, 0.8j)
            return found if isinstance(found, torch.Tensor) else found.to_torch_complex()

        assert torch.autograd.gradcheck(bins, x, check_forward_ad=True)


def test_an_empty_batch():
    assert trnfft.czt(torch.ones(0, 4), 3).shape == (0, 3)


def test_bad_arguments():
    x = torch.ones(4)
    for call, error, message in (
        (lambda: trnfft.czt(x, 0), ShapeError, "m must be at least 1, got 0"),
        (lambda: trnfft.czt(torch.ones(3, 0)), ShapeError, "input must have points"),
        (lambda: trnfft.czt(x, dim=1), IndexError, "dim must be from -1 to 0, got 1"),
        (lambda: trnfft.czt(x, w=0), FlagError, "w must be finite and not zero, got 0"),
        (lambda: trnfft.czt(x, a=math.inf), FlagError, "a must be finite and not zero, got inf"),
        (lambda: trnfft.czt(x, w=torch.ones(())), DTypeError, "w must be a number, got Tensor"),
        (lambda: trnfft.czt([1.0]), DTypeError, "input must be a torch.Tensor"),
    ):
        with pytest.raises(error, match=f"^czt: {message}"):
            call()
