"""TRMM kernel against float64 products: every flag, ragged shapes, leaks, and what it costs."""

import itertools

import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles import blas_triangular as oracle
from pairwise import pairwise
from trnblas._kernels.trmm import trmm

from .harness_products import Count, run, values

FLAGS = list(itertools.product([True, False], repeat=4))
GENERATIONS = ("gen2", "gen3", "gen4")


def assert_multiplied(order, columns, flags, *, alpha=-0.5, dtype="float32", generation="gen3"):
    """The kernel multiplies a matrix in which everything it must not read is NaN."""
    left, upper, _, unit = flags
    a = values(order, order, dtype=dtype)
    b = values(*((order, columns) if left else (columns, order)), dtype=dtype, seed=1)
    got = run(trmm, generation, oracle.hidden(a, upper, unit), b, alpha, *flags)
    assert got.dtype == b.dtype
    assert_within(got, *oracle.multiply(a, b, alpha, *flags))


@each_case("flags", FLAGS)
@each_case("shape", [(7, 5), (130, 3), (257, 129)])
def test_every_combination_of_flags(flags, shape):
    assert_multiplied(*shape, flags)


@each_case(
    "generation, dtype, flags",
    pairwise(GENERATIONS, ["float32", "bfloat16", "float16"], FLAGS[::5]),
)
def test_every_generation(generation, flags, dtype):
    assert_multiplied(200, 150, flags, dtype=dtype, generation=generation)


@each_case("left", [True, False])
@each_case("order", [1, 2, 127, 128, 129, 255, 256, 383])
def test_orders_around_a_block(order, left):
    assert_multiplied(order, 4, (left, False, False, False))


@each_case("left", [True, False])
@each_case("columns", [1, 2, 127, 129, 511, 512, 513, 1031, 2049])
def test_columns_around_a_strip(columns, left):
    assert_multiplied(131, columns, (left, True, False, False))


@pytest.mark.slow
@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_large_products(flags, dtype):
    assert_multiplied(1000, 700, flags, dtype=dtype)


@pytest.mark.parametrize("left", [True, False])
def test_alpha_zero_reads_nothing(left):
    nothing = np.full((130, 130), np.nan, np.float32)
    b = nothing[:, :70] if left else nothing[:70]
    got = run(trmm, "gen3", nothing, b, 0.0, left, True, False, False)
    assert got.shape == b.shape
    assert not got.any()


@each_case("generation", GENERATIONS)
@each_case("left", [True, False])
def test_nan_in_one_column_leaves_the_others(left, generation):
    flags = (left, False, False, False)
    a = values(200, 200)
    b = values(*((200, 6) if left else (6, 200)), seed=1)
    want, bound = oracle.multiply(a, b, 1.0, *flags)
    b[(150, 2) if left else (2, 150)] = np.nan
    result = run(trmm, generation, a, b, 1.0, *flags)
    got, want, bound = (result, want, bound) if left else (result.T, want.T, bound.T)
    # Lower from the left reaches the rows behind, from the right those before.
    assert np.isnan(got[150:, 2] if left else got[:151, 2]).all()
    others = [0, 1, 3, 4, 5]
    assert_within(got[:, others], want[:, others], bound[:, others])


@pytest.mark.parametrize("left", [True, False])
def test_infinity_below_the_diagonal_stays_in_its_row(left):
    # Rows of the result beside the infinite one read no block that it is in.
    a = values(256, 256)
    a[200, 3] = np.inf
    b = abs(values(256, 5, seed=1)) if left else abs(values(5, 256, seed=1))
    got = run(trmm, "gen2", a, b, 1.0, left, False, False, False)
    rows = got if left else got.T
    touched, clear = (200, slice(0, 128)) if left else (3, slice(128, 256))
    assert np.isinf(rows[touched]).all()
    assert np.isfinite(rows[clear]).all()


def test_arguments_are_left_alone():
    a, b = values(130, 130), values(130, 9, seed=1)
    before = a.copy(), b.copy()
    run(trmm, "gen3", a, b, 2.0, True, True, False, False)
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("left", [True, False])
def test_tiles_of_the_empty_triangle_are_skipped(left):
    b = zeros(640, 1024) if left else zeros(1024, 640)
    count = Count(trmm, "gen2", zeros(640, 640), b, 1.0, left, True, False, False)
    blocks, strips = 5, 2
    assert count.instructions["nc_matmul"] == blocks * (blocks + 1) // 2 * strips
    assert count.hbm_bytes == 4 * (blocks * (blocks + 1) // 2 * 128 * 128 + 2 * b.size)


@pytest.mark.parametrize("left", [True, False])
def test_a_full_panel_fits_the_smallest_sbuf(left):
    # 20 blocks: 1843 columns of the panel are all of the 144 KiB.
    b = zeros(2560, 1843) if left else zeros(1843, 2560)
    Count(trmm, "gen2", zeros(2560, 2560), b, 1.0, left, True, False, False)
