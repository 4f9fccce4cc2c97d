"""The stacked kernel: lengths by their factors, batches around its groups, generations."""

from __future__ import annotations

import numpy as np
import pytest

import trnfft
from each_case import each_case
from oracles.fourier_long import transform, worst_error
from trnfft._kernels.stacked import stacked
from trnfft._kernels.stacked_geometry import StackedGeometry, many_rows, offsets, stacked_geometry
from trnfft._planning.choice import stacked_constants

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32


def signals(batch, n):
    return (values(batch, n, seed=1) + 1j * values(batch, n, seed=2)).astype(np.complex64)


def spectrum(x, generation="gen3", inverse=False, scale=1.0, geometry=None):
    geometry = geometry or stacked_geometry(x.shape[1])
    constants = stacked_constants(geometry, inverse, scale)
    real, imaginary = run(stacked, generation, x.real.copy(), x.imag.copy(), constants, geometry)
    assert real.dtype == imaginary.dtype == np.float32
    return real + 1j * imaginary.astype(np.float64)


@each_case(
    "n", [36 * 28, 520, 1000, 1001, 1024, 1025, 2048, 4095, 16384, 27 * 81, 52 * 21 * 60, 2**16]
)
def test_lengths(n):
    x = signals(2, n)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case("generation", GENERATIONS)
@each_case("n", [1000, 9216])
def test_every_generation_and_direction(n, generation):
    x = signals(3, n)
    assert worst_error(spectrum(x, generation), transform(x)) <= LIMIT
    back = spectrum(x, generation, inverse=True, scale=1 / n)
    assert worst_error(back, transform(x.conj()).conj() / n) <= LIMIT


@each_case("batch", [1, 15, 16, 17, 31, 32, 33, 70])  # 16 rows in a bank, 32 in a chunk
def test_batches_around_banks_and_chunks(batch):
    x = signals(batch, 1024)
    row_by_row = stacked_geometry(1024)._replace(many=None)
    assert worst_error(spectrum(x, geometry=row_by_row), transform(x)) <= LIMIT


# One column and several on partitions; one chunk of columns, several, and a ragged one.
@each_case(
    "factors", [(4, 128, 4, 1), (50, 20, 6, 6), (64, 4, 30, 15), (64, 5, 20, 1), (7, 9, 11, 11)]
)
def test_geometries_of_three_factors(factors):
    geometry = StackedGeometry(*factors)
    x = signals(2, geometry.length)
    assert worst_error(spectrum(x, geometry=geometry), transform(x)) <= LIMIT


@each_case(("batch", "n"), [(3, 1024), (3, 9216), (40, 640)])
def test_a_nan_stays_in_its_row(batch, n):
    x = signals(batch, n)
    x[1, 7] = np.nan
    got = spectrum(x)
    assert np.isnan(got[1]).all()
    assert worst_error(got[[0, *range(2, batch)]], transform(x[[0, *range(2, batch)]])) <= LIMIT


# Groups that divide both factors; that divide neither; one bin or all columns in a group.
@each_case("n", [1024, 1025, 54 * 20, 2048, 31 * 61, 4 * 64])
def test_lengths_of_many_rows(n):
    geometry = stacked_geometry(n)
    assert geometry.many is not None
    x = signals(sum(geometry.many.groups), n)
    assert many_rows(geometry.many, len(x))
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case("generation", GENERATIONS)
@each_case("batch", [21, 127, 128, 129, 257])  # 21 groups, 128 rows on partitions
def test_batches_of_many_rows(batch, generation):
    x = signals(batch, 640)
    assert worst_error(spectrum(x, generation), transform(x)) <= LIMIT
    back = spectrum(x[:23], generation, inverse=True, scale=1 / 640)
    assert worst_error(back, transform(x[:23].conj()).conj() / 640) <= LIMIT


@each_case("batch", [20, 21])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(batch, dtype):
    x = [values(batch, 640, dtype=dtype, seed=s) for s in (1, 2)]
    geometry = stacked_geometry(640)
    re, im = run(stacked, "gen3", *x, stacked_constants(geometry, False, 1.0), geometry)
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, transform(wide)) <= LIMIT


@each_case("generation", GENERATIONS)
def test_the_longest_transform_fits_on_chip(generation):
    n = 64 * 128 * 64
    geometry = stacked_geometry(n)
    assert geometry is not None
    assert geometry.length == n
    zeros = np.zeros((2, n), np.float32)
    count = Count(
        stacked, generation, zeros, zeros, np.zeros(offsets(geometry).end, "f4"), geometry
    )
    assert count.sbuf_bytes <= 180_224  # usable on gen2, the smallest


def test_many_rows_fit_on_chip():
    geometry, zeros = stacked_geometry(2048), np.zeros((256, 2048), np.float32)
    constants = np.zeros(offsets(geometry).end, "f4")
    count = Count(stacked, "gen3", zeros, zeros, constants, geometry)
    assert count.instructions["nc_transpose"] == 2 * sum(geometry.many.groups)
    assert count.sbuf_bytes <= 180_224
    assert count.psum_banks <= 8


@each_case(
    ("batch", "n", "generation"),
    [(5, 1024, "gen3"), (5, 32768, "gen3"), (200, 1024, "gen3"), (200, 1024, "gen2")],
)
def test_bytes_are_those_of_the_plan(batch, n, generation):
    plan = trnfft.plan((batch, n), generation=generation)
    zeros = np.zeros((batch, n), np.float32)
    (constants,) = plan.constants()
    count = Count(stacked, generation, zeros, zeros, constants, plan.geometry)
    assert count.hbm_bytes == plan.cost.hbm_bytes


@each_case("n", [1024, 65536, 1001, 44100])
def test_a_geometry_is_within_its_limits(n):
    found = stacked_geometry(n)
    assert found.length == n
    assert max(2 * found.a, found.rows, 2 * found.d) <= 128
    assert found.d == 1 or found.d % found.s == 0
    many = found.many
    assert (many is None) == (n != 1024)  # 1001 is 13 x 77 or 11 x 91
    assert many is None or (many.a * many.b == n and many.a <= 32 and many.b <= 64)


@pytest.mark.parametrize("n", [127, 2 * 127, 2**20, 1021 * 4])
def test_lengths_without_such_factors(n):
    assert stacked_geometry(n) is None
