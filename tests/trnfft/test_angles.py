"""Roots of unity against 50 digits, and the tables made of them."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from each_case import each_case
from trnfft._kernels import angles

# sin(a) with a in [0, pi/4] from an angle with three roundings: 3 u a cos(a) <= 1.7 u, the function
# itself another one or two; 4 u = 2^-51 covers both.
TOLERANCE = 2.0**-51

LENGTHS = [1, 2, 3, 4, 5, 8, 12, 127, 128, 360, 1021, 65537, 2**20, 2**31 - 1]


def exact(n, numerators):
    with mpmath.workdps(50):
        values = [mpmath.expjpi(-2 * mpmath.mpf(int(k)) / n) for k in numerators]
        return [v.real for v in values], [v.imag for v in values]


def assert_roots(pair, n, numerators):
    for got, want in zip(pair, exact(n, numerators), strict=True):
        assert got.dtype == np.float64
        errors = [abs(mpmath.mpf(float(g)) - w) for g, w in zip(got, want, strict=True)]
        assert max(errors) <= TOLERANCE


@each_case("n", LENGTHS)
def test_roots(n):
    k = np.unique(np.random.default_rng(n).integers(0, n, 200))
    assert_roots(angles.roots(n, k), n, k)


@each_case("n", [8, 24, 1000, 2**20])
def test_eighths_of_a_turn_are_the_nearest_doubles(n):
    re, im = angles.roots(n, np.arange(8) * (n // 8))
    half = np.sqrt(0.5)
    assert re.tolist() == [1.0, half, 0.0, -half, -1.0, -half, 0.0, half]
    assert im.tolist() == [0.0, -half, -1.0, -half, 0.0, half, 1.0, half]
    assert not np.signbit(re[re == 0]).any()
    assert not np.signbit(im[im == 0]).any()


@each_case("n", [7, 12, 100, 1021])
def test_roots_are_symmetric_to_the_last_bit(n):
    k = np.arange(n)
    re, im = angles.roots(n, k)
    mirrored = angles.roots(n, -k)
    assert np.array_equal(mirrored[0], re)
    assert np.array_equal(mirrored[1], -im)
    # A quarter turn on, the parts change places: exp(-i (t + pi/2)) = -i exp(-i t).
    quarter = angles.roots(4 * n, 4 * k + n)
    assert np.array_equal(quarter[0], im)
    assert np.array_equal(quarter[1], -re)


def test_whole_turns_change_nothing():
    k = np.arange(-50, 50)
    near, far = angles.roots(37, k), angles.roots(37, k + 37 * 10**15)
    assert np.array_equal(near, far)


@pytest.mark.parametrize("inverse", [False, True])
def test_dft_matrix(inverse):
    n = 45
    j, k = np.indices((n, n))
    sign = -1 if inverse else 1
    re, im = angles.dft_matrix(n, inverse)
    assert_roots((re.ravel(), im.ravel()), n, sign * (j * k).ravel())
    part = angles.dft_matrix(n, inverse, rows=7, columns=3)
    assert np.array_equal(part, (re[:7, :3], im[:7, :3]))


@each_case("inverse", [False, True])
@each_case("shape", [(1, 5), (12, 8), (9, 11)])
def test_twiddles(shape, inverse):
    j, k = np.indices(shape)
    re, im = angles.twiddles(*shape, inverse)
    assert re.shape == im.shape == shape
    sign = -1 if inverse else 1
    assert_roots((re.ravel(), im.ravel()), shape[0] * shape[1], sign * (j * k).ravel())


@each_case("inverse", [False, True])
@each_case("n", [1, 2, 97, 100003])
def test_chirp(n, inverse):
    re, im = angles.chirp(n, inverse)
    assert re.shape == im.shape == (n,)
    k = [*np.unique(np.random.default_rng(n).integers(0, n, 100)).tolist(), n - 1]
    sign = -1 if inverse else 1
    assert_roots((re[k], im[k]), 2 * n, [sign * q * q for q in k])


def test_tables_are_kept_and_cannot_be_written():
    first = angles.twiddles(6, 10)
    assert all(x is y for x, y in zip(first, angles.twiddles(6, 10), strict=True))
    with pytest.raises(ValueError, match="read-only"):
        first[0][0, 0] = 2.0


def test_cache_holds_no_more_than_its_limit_and_drops_the_least_recently_used():
    cache = angles._TableCache(limit=3 * 16)
    built = []

    def table(key, size=1):
        def build():
            built.append(key)
            return np.zeros(size), np.zeros(size)

        return cache.get(key, build)

    for key in "abcaad":  # d pushes out b
        table(key)
    assert built == list("abcd")
    for key in "acdb":
        table(key)
    assert built == list("abcdb")
    table("large", size=4)
    table("large", size=4)
    assert built[5:] == ["large", "large"]  # larger than the cache: never kept
    table("b")
    assert len(built) == 7


@each_case(
    ("call", "message"),
    [
        (lambda: angles.roots(0, [1]), "roots: n must be from 1 to 2147483647, got 0"),
        (lambda: angles.dft_matrix(-3), "dft_matrix: n must be .* got -3"),
        (lambda: angles.dft_matrix(4, rows=0), "dft_matrix: rows must be .* got 0"),
        (lambda: angles.twiddles(2**16, 2**15), r"twiddles: n1 \* n2 must be .* got 2147483648"),
        (lambda: angles.chirp(0), r"chirp: 2 \* n must be .* got 0"),
    ],
)
def test_lengths_out_of_range(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_fractions_of_a_step_are_refused():
    with pytest.raises(TypeError, match="roots: numerators must be integers, got dtype float64"):
        angles.roots(8, [0.5])
