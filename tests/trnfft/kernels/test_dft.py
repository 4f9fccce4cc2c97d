"""The DFT kernel against the definition in float64, for lengths around a tile and some beyond."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles.fourier_kernels import (
    AROUND_TILES,
    BFLOAT16_ROUNDOFF,
    complex_product,
    fourier_matrix,
    relative_error,
)
from pairwise import in_turn
from trnfft._kernels.dft import LARGEST_N, dft
from trnfft._kernels.dft_constants import dft_constants
from trnfft._kernels.parts_tiling import parts_tiling

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32
LONGER = [263, 384, 509, 512, 521, 769, 1021, 1024]


def transform(x_re, x_im, inverse=False, scale=1.0, dtype="float32", generation="gen3"):
    """The kernel's transform as complex128, of parts given in float32."""
    batch, n = x_re.shape
    w = [part.astype(DTYPES[dtype]) for part in dft_constants(n, inverse, scale)]
    x = [None if part is None else part.astype(DTYPES[dtype]) for part in (x_re, x_im)]
    lefts = 1 if x_im is None else 2
    plan = parts_tiling(batch, n, n, dtype, generation, lefts=lefts, wide=dtype == "bfloat16")
    re, im = run(dft, generation, *x, *w, plan.blocks)
    assert re.dtype == im.dtype == np.float32
    assert re.shape == im.shape == (batch, n)
    return re + 1j * im.astype(np.float64)


def signals(batch, n):
    return values(batch, n, seed=1), values(batch, n, seed=2)


def defined(x_re, x_im, inverse=False):
    x = x_re.astype(np.float64) + (0 if x_im is None else 1j * x_im.astype(np.float64))
    return x @ fourier_matrix(x.shape[1], inverse)


def assert_transformed(n):
    x = signals(3, n)
    assert relative_error(transform(*x), defined(*x)) <= LIMIT


@each_case("n", AROUND_TILES)
def test_lengths_around_a_tile(n):
    assert_transformed(n)


@pytest.mark.slow
@each_case("n", range(1, 261))
def test_every_length_up_to_260(n):
    assert_transformed(n)


@each_case("n", LONGER)
def test_longer(n):
    x = signals(2, n)
    assert relative_error(transform(*x), defined(*x)) <= LIMIT


@each_case(("n", "generation"), in_turn([LARGEST_N, 2047, LARGEST_N], GENERATIONS))
def test_longest(n, generation):
    x = signals(2, n)
    assert relative_error(transform(*x, generation=generation), defined(*x)) <= LIMIT


@each_case("shape", [(1, 1), (1, 257), (127, 60), (129, 129), (300, 97), (513, 251)])
@each_case("inverse", [False, True])
def test_every_element_is_within_the_bound_of_its_sum(shape, inverse):
    x_re, x_im = signals(*shape)
    got = transform(x_re, x_im, inverse)
    x = x_re.astype(np.float64) + 1j * x_im
    want = complex_product(x, fourier_matrix(shape[1], inverse), rounded_matrix=True)
    for part, expected in zip((got.real, got.imag), want, strict=True):
        assert_within(part.astype(np.float32), expected.value, expected.tolerance)


@each_case("generation", GENERATIONS)
@each_case("n", [1, 100, 129, 257])
@each_case("real", [False, True])
def test_every_generation(generation, n, real):
    x_re, x_im = signals(130, n)
    x_im = None if real else x_im
    got = transform(x_re, x_im, generation=generation)
    assert relative_error(got, defined(x_re, x_im)) <= LIMIT


@each_case("n", [1, 6, 127, 200, 512])
def test_there_and_back(n):
    x_re, x_im = signals(3, n)
    there = transform(x_re, x_im)
    back = transform(
        there.real.astype(np.float32), there.imag.astype(np.float32), inverse=True, scale=1 / n
    )
    # Two transforms, each within the limit; the inverse is an isometry up to its scale.
    assert relative_error(back, x_re + 1j * x_im) <= 2 * LIMIT


@each_case("n", [8, 100, 256])
def test_impulses_give_the_rounded_roots(n):
    """The product of a single 1 is exact, so the result is the matrix as it was rounded."""
    got = transform(np.eye(n, dtype=np.float32), np.zeros((n, n), np.float32))
    want = fourier_matrix(n)
    # Half a unit in the last place of numbers up to 1, and the error of the float64 definition.
    assert np.abs(got.real - want.real).max() <= 2.0**-25 + 2.0**-48
    assert np.abs(got.imag - want.imag).max() <= 2.0**-25 + 2.0**-48


@each_case(("n", "generation"), in_turn([64, 129, 256, 1000], GENERATIONS))
def test_bfloat16_is_as_good_as_its_matrix(n, generation):
    x_re, x_im = (part.astype(ml_dtypes.bfloat16) for part in signals(4, n))
    got = transform(x_re, x_im, dtype="bfloat16", generation=generation)
    # x is exact and sums are float32: what is left is the rounding of the matrix, whose root mean
    # square is at most u / sqrt(3) of an entry.
    assert relative_error(got, defined(x_re, x_im)) <= BFLOAT16_ROUNDOFF / 3**0.5


@each_case("generation", GENERATIONS)
@each_case(("lefts", "parts"), [(2, 4), (1, 3)])
def test_signals_and_matrix_pass_hbm_once(generation, lefts, parts):
    batch, n = 1300, 512
    plan = parts_tiling(batch, n, n, "float32", generation, lefts=lefts)
    x = np.zeros((batch, n), np.float32)
    w = np.zeros((n, n), np.float32)
    count = Count(dft, generation, x, x if lefts == 2 else None, w, w, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes == parts * x.nbytes + 2 * w.nbytes
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


def test_real_signals_take_half_the_products():
    x, w = np.zeros((256, 256), np.float32), np.zeros((256, 256), np.float32)
    columns = []
    for x_im in (None, x):
        lefts = 1 if x_im is None else 2
        blocks = parts_tiling(256, 256, 256, "float32", "gen3", lefts=lefts).blocks
        columns.append(Count(dft, "gen3", x, x_im, w, w, blocks).moving_columns)
    assert columns == [2 * 2 * 2 * 256, 2 * 2 * 4 * 256]
