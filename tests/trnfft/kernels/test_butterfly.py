"""The butterfly kernel: powers of two, all stages in one launch or one by one."""

from __future__ import annotations

import numpy as np
import pytest

from each_case import each_case
from oracles.fourier_long import transform, worst_error
from trnfft._kernels.butterfly import LARGEST, butterfly, butterfly_stage_kernel
from trnfft._planning.choice import butterfly_constants

from ...trnblas.kernels.harness_products import Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
LIMIT = 2e-6  # relative L2 error that every kernel transform keeps in float32


def spectrum(x, inverse=False, scale=1.0, generation="gen3"):
    constants = butterfly_constants(x.shape[1], inverse)
    re, im = run(butterfly, generation, x.real.copy(), x.imag.copy(), constants, inverse, scale)
    assert re.dtype == im.dtype == np.float32
    return re + 1j * im.astype(np.float64)


def signals(batch, n):
    return (values(batch, n, seed=1) + 1j * values(batch, n, seed=2)).astype(np.complex64)


@each_case("n", [2**k for k in range(1, 13)])
def test_lengths_both_ways(n):
    x = signals(3, n)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT
    assert worst_error(spectrum(x, True, 1.0 / n), transform(x, True) / n) <= LIMIT


@each_case("generation", GENERATIONS)
@each_case("n", [512, LARGEST])
def test_every_generation(generation, n):
    x = signals(2, n)
    assert worst_error(spectrum(x, generation=generation), transform(x)) <= LIMIT


@each_case("batch", [1, 127, 128, 129, 257])
def test_batches(batch):
    x = signals(batch, 64)
    assert worst_error(spectrum(x), transform(x)) <= LIMIT


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bits_are_read_as_float32(dtype):
    x = [values(2, 64, dtype=dtype, seed=s) for s in (1, 2)]
    re, im = run(butterfly, "gen2", *x, butterfly_constants(64, False), False, 1.0)
    wide = x[0].astype(np.float32) + 1j * x[1].astype(np.float32)
    assert worst_error(re + 1j * im, transform(wide)) <= LIMIT


@each_case(("n", "stages"), [(2, 1), (16, 2), (32, 3), (512, 5)])
@each_case("inverse", [False, True])
def test_stages_one_by_one_are_the_transform(n, stages, inverse):
    x = signals(5, n)
    parts = x.real.copy(), x.imag.copy()
    constants = butterfly_constants(n, inverse)
    for stage in range(stages):
        parts = run(butterfly_stage_kernel, "gen3", *parts, constants, stage, inverse)
    assert worst_error(parts[0] + 1j * parts[1], transform(x, inverse)) <= LIMIT


def test_longest_row_fits_the_smallest_memory():
    x = np.zeros((128, LARGEST), np.float32)
    count = Count(butterfly, "gen2", x, x, butterfly_constants(LARGEST, False), False, 1.0)
    assert count.sbuf_bytes <= 176 * 1024


def test_instructions_take_the_whole_free_axis():
    x = np.zeros((128, 1024), np.float32)
    count = Count(butterfly, "gen3", x, x, butterfly_constants(1024, False), False, 1.0)
    assert sum(count.instructions.values()) <= 5 * 24 + 8  # five stages, whatever the length
