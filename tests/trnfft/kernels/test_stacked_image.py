"""The kernel of images by stacked factors: sizes around its groups and blocks, generations."""

from __future__ import annotations

import numpy as np
import pytest

import trnfft
from each_case import each_case
from oracles.fourier_long import image, worst_error
from trnfft._kernels.stacked_geometry import (
    ImageGeometry,
    StackedGeometry,
    image_geometry,
    offsets,
)
from trnfft._kernels.stacked_image import stacked_image
from trnfft._planning.choice import stacked_constants

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
FORMS = ("fft2", "rfft2")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32


def signals(*shape):
    return (values(*shape, seed=1) + 1j * values(*shape, seed=2)).astype(np.complex64)


def geometry(rows, columns):
    """Return factors (a, b, s) of both dimensions as a geometry."""
    return ImageGeometry(*(StackedGeometry(a, b, 1, s) for a, b, s in (rows, columns)))


def constants(found, inverse=False, scale=1.0):
    return stacked_constants(found.rows, inverse, 1.0), stacked_constants(
        found.columns, inverse, scale
    )


def spectrum(x, found, generation="gen3", inverse=False, scale=1.0, half=False):
    tables = constants(found, inverse, scale)
    parts = (x.real.copy(), x.imag.copy()) if np.iscomplexobj(x) else (x, None)
    real, imaginary = run(stacked_image, generation, *parts, *tables, found, half)
    assert real.dtype == imaginary.dtype == np.float32
    return real + 1j * imaginary.astype(np.float64)


# Factors (a, b, s): a block is 1024 // (2 a) groups of s columns, so 64 x 4 makes several blocks;
# s divides the other length, or leaves one column, or all but one, or is the whole length.
@each_case(
    ("rows", "columns"),
    [
        ((64, 4, 2), (9, 4, 5)),
        ((64, 4, 3), (4, 4, 32)),
        ((4, 4, 3), (5, 8, 16)),
        ((8, 5, 7), (6, 6, 1)),
        ((50, 4, 11), (11, 4, 16)),
        ((4, 4, 16), (4, 4, 16)),
        ((4, 100, 1), (7, 4, 8)),
    ],
)
def test_geometries(rows, columns):
    found = geometry(rows, columns)
    x = signals(1, found.rows.length, found.columns.length)
    want = image(x)
    assert worst_error(spectrum(x, found), want) <= LIMIT
    points = x.shape[2] // 2 + 1
    assert worst_error(spectrum(x, found, half=True), want[:, :, :points]) <= LIMIT


# Points 0 to n / 2 are whole runs of a points and one or several points, or whole runs alone.
@each_case("generation", GENERATIONS)
@each_case("columns", [(9, 4, 5), (5, 9, 8), (4, 5, 16), (5, 5, 4), (7, 4, 8)])
def test_real_operands(columns, generation):
    found = geometry((8, 5, 7), columns)
    x = values(2, 40, found.columns.length, seed=3)
    want = image(x.astype(np.complex64))
    points = x.shape[2] // 2 + 1
    assert worst_error(spectrum(x, found, generation), want) <= LIMIT
    half = spectrum(x, found, generation, half=True)
    assert worst_error(half, want[:, :, :points]) <= LIMIT


@each_case("generation", GENERATIONS)
def test_every_generation_and_direction(generation):
    found = geometry((64, 4, 2), (9, 4, 5))
    x = signals(2, 256, 36)
    assert worst_error(spectrum(x, found, generation), image(x)) <= LIMIT
    back = spectrum(x, found, generation, inverse=True, scale=1 / x[0].size)
    assert worst_error(back, image(x, True) / x[0].size) <= LIMIT


# The second pass of an image follows the first of the next, which may be a single block.
@each_case("batch", [1, 2, 3, 4])
def test_batches_of_images_of_one_block_and_of_several(batch):
    for found in (geometry((4, 4, 16), (4, 4, 16)), geometry((64, 4, 2), (4, 4, 8))):
        x = signals(batch, found.rows.length, found.columns.length)
        assert worst_error(spectrum(x, found), image(x)) <= LIMIT


def test_a_nan_stays_in_its_image():
    found = geometry((8, 5, 7), (9, 4, 5))
    x = signals(3, 40, 36)
    x[1, 7, 3] = np.nan
    got = spectrum(x, found)
    assert np.isnan(got[1]).all()
    assert worst_error(got[[0, 2]], image(x[[0, 2]])) <= LIMIT


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(dtype):
    found = geometry((4, 4, 7), (5, 4, 16))
    x = [values(2, 16, 20, dtype=dtype, seed=s) for s in (1, 2)]
    re, im = run(stacked_image, "gen3", *x, *constants(found), found)
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, image(wide)) <= LIMIT


@each_case("generation", GENERATIONS)
@each_case("sizes", [(1024, 1024), (999, 1001), (1024, 16)])
def test_large_images_fit_on_chip(sizes, generation):
    found = image_geometry(*sizes)
    zeros = np.zeros((2, *sizes), np.float32)
    tables = [np.zeros(offsets(g).end, "f4") for g in found]
    count = Count(stacked_image, generation, zeros, zeros, *tables, found)
    assert count.sbuf_bytes <= 180_224  # usable on gen2, the smallest
    assert count.psum_banks <= 8


@pytest.mark.slow
@each_case("sizes", [(1024, 1024), (999, 1001), (1024, 768)])
def test_large_images(sizes):
    x = signals(1, *sizes)
    assert worst_error(spectrum(x, image_geometry(*sizes)), image(x)) <= LIMIT


@each_case(("shape", "kind"), [((2, 384, 384), "fft2"), *[((1, 999, 1001), k) for k in FORMS]])
def test_bytes_are_those_of_the_plan(shape, kind):
    plan = trnfft.plan(shape, kind=kind)
    zeros = np.zeros(shape, np.float32)
    parts = (zeros, zeros if kind == "fft2" else None)
    arguments = (*plan.constants(), plan.geometry, kind == "rfft2")
    count = Count(stacked_image, "gen3", *parts, *arguments)
    assert count.hbm_bytes == plan.cost.hbm_bytes


@each_case("sizes", [(1024, 1024), (1000, 36), (16, 1024), (999, 1001)])
def test_a_geometry_is_within_its_limits(sizes):
    found = image_geometry(*sizes)
    for g, n, columns in zip(found, sizes, reversed(sizes), strict=True):
        assert g.length == n
        assert max(2 * g.a, g.rows) <= 128
        assert g.d == 1
        assert 1 <= g.s <= columns


# Small images, a prime length, and a length below 4 x 4.
@pytest.mark.parametrize("sizes", [(256, 256), (130, 20), (1021, 1024), (1024, 15)])
def test_other_images_are_products_with_whole_matrices(sizes):
    assert image_geometry(*sizes) is None


def test_half_spectra_of_smaller_images_are_products_with_whole_matrices():
    assert image_geometry(512, 512) is not None
    assert image_geometry(512, 512, half=True) is None
    assert image_geometry(1024, 1024, half=True) == image_geometry(1024, 1024)
