"""Real transforms against the definition in float64, and what they cost beside the complex one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from each_case import each_case
from oracles.fourier_kernels import (
    AROUND_TILES,
    BFLOAT16_ROUNDOFF,
    fourier_matrix,
    relative_error,
)
from pairwise import pairwise
from trnfft._kernels.dft import dft
from trnfft._kernels.dft_constants import irfft_constants, rfft_constants
from trnfft._kernels.parts_tiling import parts_tiling
from trnfft._kernels.real_dft import irfft, rfft

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32


def forward(x, scale=1.0, dtype="float32", generation="gen3"):
    batch, n = x.shape
    bins = n // 2 + 1
    w = [part.astype(DTYPES[dtype]) for part in rfft_constants(n, scale)]
    plan = parts_tiling(batch, bins, n, dtype, generation, lefts=1, wide=dtype == "bfloat16")
    re, im = run(rfft, generation, x.astype(DTYPES[dtype]), *w, plan.blocks)
    assert re.dtype == im.dtype == np.float32
    assert re.shape == im.shape == (batch, bins)
    return re + 1j * im.astype(np.float64)


def backward(x_re, x_im, n, scale=1.0, dtype="float32", generation="gen3"):
    batch = len(x_re)
    w = [part.astype(DTYPES[dtype]) for part in irfft_constants(n, scale)]
    plan = parts_tiling(batch, n, (n + 1) // 2, dtype, generation, outs=1, wide=dtype == "bfloat16")
    x = [part.astype(DTYPES[dtype]) for part in (x_re, x_im)]
    out = run(irfft, generation, *x, *w, plan.blocks)
    assert (out.dtype, out.shape) == (np.float32, (batch, n))
    return out


def real_signal(x_re, x_im, n):
    """The unscaled inverse of the Hermitian spectrum that begins with the bins, by definition."""
    spectrum = np.zeros((len(x_re), n), np.complex128)
    half = x_re.astype(np.float64) + 1j * x_im
    for k in range(n // 2 + 1):
        alone = k == 0 or 2 * k == n
        spectrum[:, k] = half[:, k].real if alone else half[:, k]
        if not alone:
            spectrum[:, n - k] = half[:, k].conj()
    signal = spectrum @ fourier_matrix(n, inverse=True)
    assert np.abs(signal.imag).max() <= 1e-10 * np.abs(signal).max()
    return signal.real


def halves(batch, n):
    return values(batch, n // 2 + 1, seed=1), values(batch, n // 2 + 1, seed=2)


def assert_transformed(n):
    x, spectrum = values(3, n), halves(3, n)
    want = x.astype(np.float64) @ fourier_matrix(n)[:, : n // 2 + 1]
    assert relative_error(forward(x), want) <= LIMIT
    assert relative_error(backward(*spectrum, n), real_signal(*spectrum, n)) <= LIMIT


@each_case("n", AROUND_TILES)
def test_lengths_around_a_tile(n):
    assert_transformed(n)


@pytest.mark.slow
@each_case("n", range(1, 261))
def test_every_length_up_to_260(n):
    assert_transformed(n)


@each_case("n", [509, 512, 1023])
def test_longer(n):
    assert_transformed(n)


@each_case(
    ("batch", "n", "generation"), pairwise([1, 127, 129, 300], [1, 2, 128, 257], GENERATIONS)
)
def test_every_generation_and_batch(batch, n, generation):
    x = values(batch, n)
    spectrum = forward(x, generation=generation)
    want = x.astype(np.float64) @ fourier_matrix(n)[:, : n // 2 + 1]
    assert relative_error(spectrum, want) <= LIMIT
    parts = [part.astype(np.float32) for part in (spectrum.real, spectrum.imag)]
    # Two transforms, each within the limit.
    assert relative_error(backward(*parts, n, 1 / n, generation=generation), x) <= 2 * LIMIT


@each_case("n", [1, 2, 9, 10, 256])
def test_imaginary_parts_without_a_mirror_image_do_not_matter(n):
    x_re, x_im = halves(4, n)
    other = x_im.copy()
    other[:, 0] = np.nan
    if n % 2 == 0:
        other[:, -1] = np.inf
    assert np.array_equal(backward(x_re, x_im, n), backward(x_re, other, n))


@pytest.mark.parametrize("n", [64, 255])
def test_bfloat16_is_as_good_as_its_matrix(n):
    # As for the complex transform: the root mean square of the matrix's rounding.
    limit = BFLOAT16_ROUNDOFF / 3**0.5
    x = values(4, n).astype(ml_dtypes.bfloat16)
    want = x.astype(np.float64) @ fourier_matrix(n)[:, : n // 2 + 1]
    assert relative_error(forward(x, dtype="bfloat16"), want) <= limit
    half = [part.astype(ml_dtypes.bfloat16) for part in halves(4, n)]
    got = backward(*half, n, dtype="bfloat16")
    assert relative_error(got, real_signal(*(p.astype(np.float64) for p in half), n)) <= limit


@each_case("generation", GENERATIONS)
def test_a_real_transform_costs_a_quarter(generation):
    batch, n = 512, 512
    bins = n // 2 + 1
    x, w = np.zeros((batch, n), np.float32), np.zeros((n, n), np.float32)
    full = parts_tiling(batch, n, n, "float32", generation)
    whole = Count(dft, generation, x, x, w, w, full.blocks).moving_columns
    plan = parts_tiling(batch, bins, n, "float32", generation, lefts=1)
    count = Count(rfft, generation, x, w[:, :bins], w[:, :bins], plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes == 4 * (batch * n + 2 * n * bins + 2 * batch * bins)
    assert count.moving_columns == whole * bins / (2 * n)
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks
    plan = parts_tiling(batch, n, n // 2, "float32", generation, outs=1)
    half, w = np.zeros((batch, bins), np.float32), w[: n // 2]
    count = Count(irfft, generation, half, half, w, w, plan.blocks)
    # n real numbers of a spectrum are read for each signal, and two matrices of half the bins.
    assert count.hbm_bytes == plan.hbm_bytes == 4 * (batch * n + 2 * w.size + batch * n)
    assert count.moving_columns == whole / 4
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks
