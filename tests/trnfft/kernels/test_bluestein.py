"""The chirp kernel: primes, any other length, real operands and half spectra."""

from __future__ import annotations

import numpy as np
import pytest

import trnfft
from each_case import each_case
from oracles.fourier_long import hermitian, transform, worst_error
from trnfft._kernels.bluestein import bluestein
from trnfft._kernels.four_step_geometry import Geometry
from trnfft._planning.choice import bluestein_constants, find_geometry, padded_length

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32
slow = pytest.mark.slow

LENGTHS = [2, 3, 7, 11, 64, 100, 127, 257, 500, 997, 1009, 2 * 1009, 2053]
LONG = [pytest.param(n, marks=slow) for n in (4099, 8193, 44_101, 131_071)]


def spectrum(x, n=None, inverse=False, generation="gen3", kind="full", scale=1.0, geometry=None):
    """The kernel's result for rows of ``x``, as complex128 or, if it is real, as float64."""
    n = x.shape[1] if n is None else n
    geometry = geometry or find_geometry(padded_length(n))
    constants = bluestein_constants(n, geometry, inverse, scale, kind)
    parts = [x.real.copy(), x.imag.copy()] if np.iscomplexobj(x) else [x, None]
    out = run(bluestein, generation, *parts, constants, n, geometry, kind)
    if kind == "hermitian":
        return out.astype(np.float64)
    return out[0] + 1j * out[1].astype(np.float64)


def signals(batch, n):
    return (values(batch, n, seed=1) + 1j * values(batch, n, seed=2)).astype(np.complex64)


@pytest.mark.parametrize("n", LENGTHS + LONG)
def test_lengths(n):
    x = signals(2, n)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case(("generation", "n"), [*((g, 257) for g in GENERATIONS), ("gen2", 8209)], ids=str)
def test_every_generation(generation, n):
    x, bins = signals(2, n), signals(2, n // 2 + 1)
    assert worst_error(spectrum(x, generation=generation), transform(x)) <= LIMIT
    half = spectrum(x.real.copy(), generation=generation, kind="half")
    assert worst_error(half, transform(x.real)[:, : n // 2 + 1]) <= LIMIT
    real = spectrum(bins, n, True, generation, "hermitian")
    assert worst_error(real, hermitian(bins, n)) <= LIMIT


@each_case("n", [2, 3, 101, 262, 1009])
def test_half_spectra(n):
    x, bins = values(2, n), signals(2, n // 2 + 1)
    got = spectrum(x, kind="half")
    assert got.shape == (2, n // 2 + 1)
    assert worst_error(got, transform(x)[:, : n // 2 + 1]) <= LIMIT
    got = spectrum(bins, n, True, kind="hermitian", scale=1.0 / n)
    assert worst_error(got, hermitian(bins, n) / n) <= LIMIT


@pytest.mark.parametrize("n", [262, 1009])
def test_imaginary_parts_of_real_bins_do_not_count(n):
    bins = signals(2, n // 2 + 1)
    want = spectrum(bins, n, True, kind="hermitian")
    bins.imag[:, 0] = np.nan
    if n % 2 == 0:
        bins.imag[:, n // 2] = 1e30
    assert np.array_equal(spectrum(bins, n, True, kind="hermitian"), want)


@pytest.mark.parametrize("column", [24, 25])
def test_a_real_bin_beside_the_edge_of_a_load(column):
    geometry = Geometry(2, 128, 1, 50)  # loaded 25 columns at a time
    middle = 50 + column
    bins = signals(2, middle + 1)
    want = hermitian(bins, 2 * middle)
    bins.imag[:, middle] = np.nan
    got = spectrum(bins, 2 * middle, True, kind="hermitian", geometry=geometry)
    assert worst_error(got, want) <= LIMIT


@pytest.mark.parametrize("n", [101, 1009])
def test_inverse_with_scale(n):
    x = signals(2, n)
    got = spectrum(x, inverse=True, scale=1.0 / n)
    assert worst_error(got, transform(x, inverse=True) / n) <= LIMIT


@each_case("batch", [1, 32, 33, 130])
def test_batches(batch):
    x = signals(batch, 257)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case("length", [1, 500, 1008, 1010, 3000])
def test_rows_are_padded_or_cut(length):
    n = 1009
    x = signals(2, length)
    fitted = np.zeros((2, n), np.complex64)
    fitted[:, : min(n, length)] = x[:, :n]
    assert worst_error(spectrum(x, n), transform(fitted)) <= LIMIT


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(dtype):
    n = 1009
    x = [values(2, n, dtype=dtype, seed=s) for s in (1, 2)]
    geometry = find_geometry(padded_length(n))
    constants = bluestein_constants(n, geometry, False, 1.0, "full")
    re, im = run(bluestein, "gen2", *x, constants, n, geometry, "full")
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, transform(wide)) <= LIMIT


@each_case("kind", ["fft", "rfft"])
@each_case("n", [4099, 8209])
def test_bytes_are_those_of_the_plan(n, kind):
    plan = trnfft.plan((2, n), kind=kind)
    x = [np.zeros((2, n), np.float32)] * 2
    parts = (x[0], None) if kind == "rfft" else x
    form = "half" if kind == "rfft" else "full"
    count = Count(bluestein, "gen3", *parts, *plan.constants(), n, plan.geometry, form)
    assert count.hbm_bytes == plan.cost.hbm_bytes
    assert count.psum_banks <= 8
