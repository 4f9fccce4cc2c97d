"""The image kernel: two chained products, any size, real operands and real results."""

from __future__ import annotations

import numpy as np
import pytest

import trnfft
from each_case import each_case
from oracles.fourier_long import hermitian, image, transform, worst_error
from pairwise import in_turn
from trnfft._kernels.two_d import two_d
from trnfft._planning.choice import two_d_constants

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32
SIZES = [1, 127, 129, 257, 513]


def spectrum(x, inverse=False, scale=1.0, generation="gen3", half=False):
    rows = two_d_constants(x.shape[1], inverse, 1.0)
    columns = two_d_constants(x.shape[2], inverse, scale, "half" if half else "full")
    parts = [x.real.copy(), x.imag.copy()] if np.iscomplexobj(x) else [x, None]
    re, im = run(two_d, generation, *parts, rows, columns, False)
    assert re.dtype == im.dtype == np.float32
    return re + 1j * im.astype(np.float64)


def real_image(bins, width, generation="gen3"):
    height = bins.shape[1]
    rows = two_d_constants(height, True, 1.0)
    columns = two_d_constants(width, True, 1.0 / (height * width), "hermitian")
    return run(two_d, generation, bins.real.copy(), bins.imag.copy(), rows, columns, True)


def signals(*shape):
    return (values(*shape, seed=1) + 1j * values(*shape, seed=2)).astype(np.complex64)


@pytest.mark.parametrize("height", SIZES)
def test_sizes(height):
    """Of two large sizes only 257 meet: each is cut into tiles for itself."""
    for width in SIZES:
        if min(height, width) > 129 and (height, width) != (257, 257):
            continue
        x = signals(1, height, width)
        assert worst_error(spectrum(x), image(x)) <= LIMIT, width


@each_case("generation", GENERATIONS)
def test_every_generation(generation):
    x = signals(2, 257, 140)
    assert worst_error(spectrum(x, generation=generation), image(x)) <= LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
def test_largest_image(generation):
    x = signals(1, 1024, 1024)
    assert worst_error(spectrum(x, generation=generation), image(x)) <= LIMIT


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 130, 300)])
def test_batches_and_inverse(shape):
    x = signals(*shape)
    scale = 1.0 / (shape[1] * shape[2])
    assert worst_error(spectrum(x, True, scale), image(x, True) * scale) <= LIMIT


@each_case(
    ("size", "generation"),
    [
        *in_turn([(1, 1), (5, 2), (33, 128), (129, 514)], GENERATIONS),
        *(((64, 129), generation) for generation in GENERATIONS),
    ],
)
def test_real_operand_and_real_result(size, generation):
    height, width = size
    bins = width // 2 + 1
    x = values(2, height, width)
    got = spectrum(x, half=True, generation=generation)
    assert worst_error(got, image(x)[..., :bins]) <= LIMIT
    x = signals(2, height, bins)
    columns = np.swapaxes(transform(np.swapaxes(x, 1, 2), True), 1, 2)
    want = hermitian(columns, width) / (height * width)
    assert worst_error(real_image(x, width, generation), want) <= LIMIT


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(dtype):
    x = [values(2, 20, 30, dtype=dtype, seed=s) for s in (1, 2)]
    matrices = two_d_constants(20, False, 1.0), two_d_constants(30, False, 1.0)
    re, im = run(two_d, "gen2", *x, *matrices, False)
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, image(wide)) <= LIMIT


@each_case("shape", [(3, 64, 200), (2, 300, 100), (2, 300, 521)])
@each_case("kind", ["fft2", "rfft2", "irfft2"])
def test_bytes_are_those_of_the_plan(shape, kind):
    if kind == "irfft2":
        shape = (*shape[:-1], shape[-1] // 2 + 1)
    plan = trnfft.plan(shape, (1, 2), kind=kind)
    x = [np.zeros(shape, np.float32)] * 2
    parts = (x[0], None) if kind == "rfft2" else x
    count = Count(two_d, "gen3", *parts, *plan.constants(), kind == "irfft2")
    assert count.hbm_bytes == plan.cost.hbm_bytes
    assert "nc_transpose" not in count.instructions
    assert count.psum_banks <= 8
