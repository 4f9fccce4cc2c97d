"""The four-step kernel: lengths by their factors, real operands, half spectra, tails."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import trnfft
from each_case import each_case
from oracles.fourier_long import hermitian, transform, worst_error
from pairwise import in_turn
from trnfft._kernels.four_step import four_step
from trnfft._kernels.four_step_geometry import Geometry, segments
from trnfft._kernels.stacked_geometry import RowsGeometry, many_rows, rows_geometry
from trnfft._planning.choice import find_geometry, four_step_constants, real_rows_constants

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32
slow = pytest.mark.slow

POWERS = [2**k for k in range(2, 17)] + [pytest.param(2**k, marks=slow) for k in (18, 20, 22)]
OTHERS = [3 * 2**k for k in (1, 5, 8, 12)] + [5 * 7 * 11, 9, 121, 127 * 113, 15 * 1001]
LONG_OTHERS = [pytest.param(n, marks=slow) for n in (44_100, 3 * 2**16, 13 * 7 * 11 * 101)]


def spectrum(
    x, n=None, inverse=False, generation="gen3", kind="full", scale=1.0, geometry=None, many=None
):
    """The kernel's result for rows of ``x``, as complex128 or, if it is real, as float64."""
    n = x.shape[1] if n is None else n
    geometry = geometry or find_geometry(n)
    constants = four_step_constants(geometry, inverse, scale)
    parts = [x.real.copy(), x.imag.copy()] if np.iscomplexobj(x) else [x, None]
    if many is not None:
        back = kind == "hermitian"
        matrices = real_rows_constants(many, inverse, scale / 2 if back else scale, back)
        constants = np.concatenate([constants, matrices])
    out = run(four_step, generation, *parts, constants, geometry, kind, many)
    if kind == "hermitian":
        assert out.dtype == np.float32
        return out.astype(np.float64)
    assert out[0].dtype == out[1].dtype == np.float32
    return out[0] + 1j * out[1].astype(np.float64)


def signals(batch, n):
    return (values(batch, n, seed=1) + 1j * values(batch, n, seed=2)).astype(np.complex64)


@pytest.mark.parametrize("n", POWERS + OTHERS + LONG_OTHERS)
def test_lengths(n):
    x = signals(2 if n < 2**15 else 1, n)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case(("generation", "n"), [*product(GENERATIONS, (96, 2048)), ("gen2", 30_000)])
def test_every_generation(generation, n):
    x = signals(2, n)
    assert worst_error(spectrum(x, generation=generation), transform(x)) <= LIMIT
    half = spectrum(x.real.copy(), generation=generation, kind="half")
    assert worst_error(half, transform(x.real)[:, : n // 2 + 1]) <= LIMIT


GEOMETRIES = [
    Geometry(2, 2),
    Geometry(128, 2),
    Geometry(2, 128),
    Geometry(77, 5),
    Geometry(127, 127),
    Geometry(41, 25, 1, 2),  # a second stage of 1025 columns
    Geometry(27, 19, 1, 3),  # and of 513, one more than a bank
    Geometry(2, 3, 1, 128),
    Geometry(2, 3, 5, 7),
    Geometry(4, 33, 2, 2),
    Geometry(8, 128, 1, 50),  # two loads of 25 columns in the first stage
    Geometry(16, 9, 64, 2),  # three of 48 in the second, with two factors
]


@pytest.mark.parametrize(
    ("geometry", "generation"),
    [*in_turn(GEOMETRIES, GENERATIONS), (GEOMETRIES[0], "gen3"), (GEOMETRIES[0], "gen4")],
    ids=str,
)
def test_every_cut_gives_the_transform(geometry, generation):
    n = geometry.length
    x, real = signals(2, n), values(2, n, seed=3)
    bins = x[:, : n // 2 + 1]
    full, half = transform(x), transform(real)[:, : n // 2 + 1]
    back = hermitian(bins, n)
    got = spectrum(x, geometry=geometry, generation=generation)
    assert worst_error(got, full) <= LIMIT
    got = spectrum(real, geometry=geometry, generation=generation, kind="half")
    assert worst_error(got, half) <= LIMIT
    if n % 2 == 1 or geometry.a % 2 == 0:
        got = spectrum(bins, n, True, generation, "hermitian", 2.0, geometry)
        assert worst_error(got, back) <= LIMIT


@each_case("batch", [1, 31, 32, 33, 130])
def test_batches(batch):
    x = signals(batch, 1024)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


def test_batch_of_two_stages():
    x = signals(5, 2**15)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case("n", [100, 105, 2**15, 33 * 35 * 37])
def test_inverse_with_scale(n):
    x = signals(2, n)
    got = spectrum(x, inverse=True, scale=1.0 / n)
    assert worst_error(got, transform(x, inverse=True) / n) <= LIMIT


@each_case("n", [100, 105, 2**15, 33 * 35 * 37])
def test_real_operand_and_full_spectrum(n):
    x = values(2, n)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@each_case("n", [4, 6, 15, 100, 105, 385, 4096, 2**15, 33 * 35 * 37])
def test_half_spectra(n):
    x, bins = values(3, n), signals(3, n // 2 + 1)
    got = spectrum(x, kind="half")
    assert got.shape == (3, n // 2 + 1)
    assert worst_error(got, transform(x)[:, : n // 2 + 1]) <= LIMIT
    got = spectrum(bins, n, inverse=True, kind="hermitian", scale=2.0 / n)
    assert worst_error(got, hermitian(bins, n) / n) <= LIMIT


@each_case("n", [100, 105, 2**15])
def test_imaginary_parts_of_real_bins_do_not_count(n):
    bins = signals(2, n // 2 + 1)
    want = spectrum(bins, n, inverse=True, kind="hermitian")
    bins.imag[:, 0] = np.nan
    if n % 2 == 0:
        bins.imag[:, n // 2] = np.inf
    assert np.array_equal(spectrum(bins, n, inverse=True, kind="hermitian"), want)


@each_case(
    ("n", "length"),
    [
        *product((100, 105), (1, 2, 51, 99, 101, 5000)),
        *product((2**15,), (51, 5000, 40_000)),
        (33 * 35 * 37, 5000),
    ],
)
def test_rows_are_padded_or_cut(n, length):
    x = signals(2, length)
    fitted = np.zeros((2, n), np.complex64)
    fitted[:, : min(n, length)] = x[:, :n]
    assert worst_error(spectrum(x, n), transform(fitted)) <= LIMIT


@each_case("length", [25, 26, 6375, 6401, 6426])
def test_padded_rows_in_several_loads(length):
    geometry = Geometry(8, 128, 1, 50)
    x = signals(2, length)
    fitted = np.zeros((2, geometry.length), np.complex64)
    fitted[:, :length] = x
    got = spectrum(x, geometry.length, geometry=geometry)
    assert worst_error(got, transform(fitted)) <= LIMIT


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_of_many_rows_are_read_as_float32(dtype):
    x, many = values(3, 640, dtype=dtype), rows_geometry(640, True)
    constants = [
        four_step_constants(find_geometry(640), False, 1.0),
        real_rows_constants(many, False, 1.0, False),
    ]
    constants = np.concatenate(constants)
    re, im = run(four_step, "gen3", x, None, constants, find_geometry(640), "half", many)
    assert worst_error(re + 1j * im, transform(x.astype(np.float32))[:, :321]) <= LIMIT


@pytest.mark.parametrize("n", [385, 2**15])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(n, dtype):
    x = [values(2, n, dtype=dtype, seed=s) for s in (1, 2)]
    geometry = find_geometry(n)
    constants = four_step_constants(geometry, False, 1.0)
    re, im = run(four_step, "gen2", *x, constants, geometry, "full")
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, transform(wide)) <= LIMIT


@pytest.mark.parametrize("n", [256, 2**15])
def test_special_values_stay_in_their_row(n):
    x = signals(3, n)
    x[1, 7] = np.nan
    got = spectrum(x, generation="gen2")
    assert np.isnan(got[1]).all()
    assert worst_error(got[[0, 2]], transform(x[[0, 2]])) <= LIMIT


def check_many(batch, n, many, generation="gen3"):
    """Compare both real transforms of many rows with the definition."""
    x, bins = values(batch, n, seed=3), signals(batch, n // 2 + 1)
    got = spectrum(x, kind="half", generation=generation, scale=2.0, many=many)
    assert worst_error(got, 2 * transform(x)[:, : n // 2 + 1]) <= LIMIT
    want = hermitian(bins, n) / n
    bins.imag[:, 0] = np.nan
    if n % 2 == 0:
        bins.imag[:, n // 2] = np.inf
    got = spectrum(bins, n, True, generation, "hermitian", 2.0 / n, many=many)
    assert worst_error(got, want) <= LIMIT


# Even and odd factors; groups that divide columns and bins, and that do not; one bin or column.
@each_case(
    "factors", [(26, 20), (9, 63), (50, 20), (91, 11), (32, 32), (41, 25), (64, 17), (128, 9)]
)
def test_many_real_rows(factors):
    check_many(3, factors[0] * factors[1], RowsGeometry(*factors, True))


@each_case(("generation", "batch"), [*product(GENERATIONS, (127, 128, 129)), ("gen3", 257)])
def test_batches_of_many_real_rows(generation, batch):
    check_many(batch, 520, rows_geometry(520, True), generation)


def test_a_nan_stays_in_its_row_of_many():
    many, x, bins = rows_geometry(1024, True), values(3, 1024), signals(3, 513)
    x[1, 7] = bins[1, 7] = np.nan
    half = spectrum(x, kind="half", many=many)
    back = spectrum(bins, 1024, True, "gen3", "hermitian", 2.0, many=many)
    assert np.isnan(half[1]).all()
    assert np.isnan(back[1]).all()
    assert worst_error(half[[0, 2]], transform(x[[0, 2]])[:, :513]) <= LIMIT
    assert worst_error(back[[0, 2]], hermitian(bins[[0, 2]], 1024)) <= LIMIT


@each_case("n", [513, 640, 1024, 2048, 4095, 5000])
def test_many_real_rows_are_within_their_limits(n):
    many = rows_geometry(n, True)
    assert many.a * many.b == n
    assert max(shape[i] for shape in many.shapes for i in (0, 2)) <= 128
    assert 2 * many.bins < many.extent  # bin 0 and the last one are in two instructions
    batches = [batch for batch in range(1, 400) if many_rows(many, batch)]
    assert 5 * sum(many.groups) <= 4 * batches[0]
    assert real_rows_constants(many, False, 1.0, False).shape == (many.size,)
    assert rows_geometry(1021 * 2, True) is None


@each_case(
    ("batch", "n", "kind", "generation"),
    [
        (5, 4096, "half", "gen3"),
        (3, 2**15, "half", "gen3"),
        (2, 30_000, "half", "gen3"),
        *product((30,), (1024, 1025), ("half", "hermitian"), ("gen2", "gen3")),
        (256, 5000, "half", "gen3"),
        (256, 5000, "hermitian", "gen3"),
    ],
)
def test_bytes_are_those_of_the_plan(batch, n, kind, generation):
    name, points = ("rfft", n) if kind == "half" else ("irfft", n // 2 + 1)
    plan = trnfft.plan((batch, points), kind=name, n=n, generation=generation)
    x = np.zeros((batch, points), np.float32)
    many = rows_geometry(n, True)
    many = many if many_rows(many, batch) else None
    parts, geometry = (x, None if kind == "half" else x), plan.geometry
    count = Count(four_step, generation, *parts, *plan.constants(), geometry, kind, many)
    if generation != "gen2" and many is not None:
        assert plan.factors == (many.a, many.b)
    if kind == "half" or plan.factors != geometry[:2]:
        assert count.hbm_bytes == plan.cost.hbm_bytes
    assert count.psum_banks <= 8
    assert count.sbuf_bytes <= 180_224  # usable on gen2, the smallest


@each_case("n", [4, 100, 2**14, 2**15, 44_100, 2**20, 2**22, 7**8, 101**4])
def test_geometry_multiplies_to_the_length(n):
    geometry = find_geometry(n)
    assert geometry.length == n
    assert max(geometry) <= 128
    assert min(geometry.a, geometry.b) > 1
    assert n % 2 == 1 or geometry.a % 2 == 0
    assert n > 128**2 or geometry.d == 1


@each_case("n", [1, 2, 127, 257, 2 * 131, 128**5, 13**5])
def test_lengths_without_a_geometry(n):
    assert find_geometry(n) is None


@each_case("geometry", GEOMETRIES, ids=lambda g: "x".join(map(str, g)))
def test_constants_fill_their_segments(geometry):
    assert four_step_constants(geometry, False, 1.0).shape == (segments(geometry).end,)
