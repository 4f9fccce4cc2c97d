"""The doublefloat kernel: errors against 30 digits and their bound, edges of tiles, generations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from each_case import each_case
from oracles import fourier_exact
from oracles.fourier_long import worst_error
from trnfft._paths.doublefloat import doublefloat_launch
from trnfft._planning.doublefloat import axes_of, doublefloat_plan, padded_axes
from trnsci.core.errors import ShapeError

from ...trnblas.kernels.harness_products import launcher

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-13  # relative L2 error that every transform of this level keeps


class Launch:
    """A strict simulation that accepts no finding; the path of a Launcher."""

    path = "simulator"

    def __init__(self, generation="gen3"):
        self.run = launcher(generation)

    def __call__(self, kernel, *args):
        return self.run(kernel, *args)


def forbidden(*args):
    raise AssertionError("torch computed")


def signals(*shape, seed=0):
    rng = np.random.default_rng((seed, *shape))
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def spectrum(x, generation="gen3", inverse=False, sizes=None, norm=None):
    sizes = x.shape[1:] if sizes is None else sizes
    kind = "ifftn" if inverse else "fftn"
    parts = torch.view_as_real(torch.as_tensor(x))
    found = doublefloat_launch(forbidden, Launch(generation), parts, True, kind, sizes, norm)
    return torch.view_as_complex(found).numpy()


def by_numpy(x, inverse=False):
    """Return the transform in long double, whose error is far below that of the level."""
    wide = np.asarray(x).astype(np.clongdouble)
    dims = tuple(range(1, wide.ndim))
    return np.fft.ifftn(wide, axes=dims) if inverse else np.fft.fftn(wide, axes=dims)


def assert_exact(n):
    x = signals(1, n)[0]
    error = fourier_exact.relative_error(spectrum(x[None])[0], fourier_exact.transform(x))
    assert error <= min(LIMIT, doublefloat_plan("fft", (n,), None).bound)


# One axis and two; primes, powers of them, and a length that is a convolution.
@each_case("n", [1, 2, 3, 64, 127, 150])
def test_lengths_against_30_digits(n):
    assert_exact(n)


@pytest.mark.slow
@each_case("n", [256, 257, 289, 300, 512, 521, 720, 1024])
def test_more_lengths_against_30_digits(n):
    assert_exact(n)


def assert_close(n):
    x = signals(1, n)
    error = worst_error(spectrum(x), by_numpy(x))
    assert error <= min(LIMIT, doublefloat_plan("fft", (n,), None).bound)


@each_case("n", [257, 1024, 3000, 4099, 65536])
def test_long_lengths(n):
    assert_close(n)


@pytest.mark.slow
@each_case("n", [2187, 16384, 30030, 32749, 50_000, 65521, 131_071, 131_072])
def test_longer_lengths(n):
    assert_close(n)


@each_case("norm", ["backward", "ortho", "forward"])
@each_case("n", [100, 600, 263])
def test_inverse_and_norms(n, norm):
    x = signals(2, n)
    scale = {"backward": 1, "ortho": n**0.5, "forward": n}[norm]
    assert worst_error(spectrum(x, inverse=True, norm=norm), by_numpy(x, True) * scale) <= LIMIT
    assert worst_error(spectrum(x, norm=norm), by_numpy(x) / scale) <= LIMIT


# 128 rows of the operand; transforms beside each other on partitions, and the ragged rest.
@each_case("batch", [1, 2, 3, 4, 5, 31, 33, 127, 128, 129])
@each_case("n", [5, 300])
def test_batches_around_tiles(n, batch):
    x = signals(batch, n)
    assert (len(axes_of(n)) == 2) is (n == 300)
    assert worst_error(spectrum(x), by_numpy(x)) <= LIMIT


@each_case("shape", [(6, 5), (30, 20), (3, 4, 5), (2, 3, 4, 5), (300, 7), (7, 300), (2, 384, 3)])
def test_dimensions(shape):
    x = signals(2, *shape)
    assert worst_error(spectrum(x), by_numpy(x)) <= LIMIT


@pytest.mark.parametrize("generation", GENERATIONS)
@each_case("shape", [(130, 20), (3, 257), (3, 300), (5, 600), (2, 200, 3)])
def test_every_generation(shape, generation):
    x = signals(*shape)
    assert worst_error(spectrum(x, generation), by_numpy(x)) <= LIMIT


# -- operands for which a fixed number of digits is hard -------------------------------------------


@each_case("n", [250, 263, 1000, 4096])
@each_case("kind", ["impulse", "constant", "graded", "wave", "tiny beside one"])
def test_operands_without_equal_sizes(n, kind):
    j = np.arange(n)
    x = {
        "impulse": (j == 3) + 0j,
        "constant": np.ones(n) + 0j,
        "graded": 2.0 ** -(60.0 * j / n) + 0j,
        "wave": np.exp(2j * np.pi * 7 * j / n),
        "tiny beside one": (j == 5) + 1e-7 * signals(1, n)[0],
    }[kind]
    x = np.stack([x, 3.7 * x])
    assert worst_error(spectrum(x), by_numpy(x)) <= LIMIT


@each_case("exponent", [-1070, -1000, -300, -149, -126, 127, 128, 300, 1000])
def test_numbers_beyond_float32(exponent):
    x = np.ldexp(signals(2, 300).view(np.float64), exponent).view(np.complex128)
    got, want = spectrum(x), by_numpy(x)
    # A result below the normal numbers is rounded to a multiple of 2**-1074.
    steps = 2.0**-1074 * np.sqrt(300)
    assert (
        np.linalg.norm(got - want, axis=1) <= LIMIT * np.linalg.norm(want, axis=1) + steps
    ).all()


# -- plans -----------------------------------------------------------------------------------------


@each_case("n", [521, 1031, 4099, 65521, 131071])
def test_axes_of_convolutions_are_coprime(n):
    axes = padded_axes(2 * n - 1)
    assert np.lcm.reduce(axes) == np.prod(axes) >= 2 * n - 1
    places = doublefloat_plan("fft", (n,), None).places
    assert sorted(places) == list(range(np.prod(axes)))


def test_every_length_has_a_plan_and_a_bound():
    for n in (*range(1, 700), 8191, 10007, 50_000, 65_536):
        plan = doublefloat_plan("fft", (n,), None)
        assert plan.convolved or np.prod(plan.chain) == n
        assert 2.0**-49 < plan.bound < 4e-12


@each_case("sizes", [(131_073,), (200_000,), (20, 263)], ids=str)
def test_sizes_without_a_kernel(sizes):
    with pytest.raises(ShapeError, match="precision 'doublefloat' transforms up to 131072 points"):
        doublefloat_plan("fftn", sizes, None)
