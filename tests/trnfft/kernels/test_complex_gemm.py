"""The complex GEMM kernels against float64, on all generations, and what they move and occupy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles.fourier_kernels import complex_product
from pairwise import in_turn, pairwise
from trnfft._kernels.complex_gemm import complex_gemm, complex_gemm_bf16
from trnfft._kernels.complex_gemm_tiling import parts_tiling
from trnsci.core.tiles.tiling import Blocks

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
EXTENTS = (1, 127, 128, 129, 200, 251, 257, 513)
TAILS = (1, 127, 128, 129, 257, 513)
KINDS = [
    ("float32", False),
    ("float16", False),
    ("bfloat16", False),
    ("bfloat16", True),
]  # the last is summed wide


def operands(m, k, n, dtype="float32"):
    """The parts of a and of b."""
    a = [values(m, k, dtype=dtype, seed=seed) for seed in (1, 2)]
    b = [values(k, n, dtype=dtype, seed=seed) for seed in (3, 4)]
    return [*a, *b]


def as_complex(re, im):
    return np.asarray(re, np.float64) + 1j * np.asarray(im, np.float64)


def check(m, k, n, dtype, generation, kernel=complex_gemm, blocks=None):
    wide = kernel is complex_gemm_bf16
    parts = operands(m, k, n, dtype)
    blocks = blocks or parts_tiling(m, n, k, dtype, generation, wide=wide).blocks
    out = run(kernel, generation, *parts, blocks)
    want = complex_product(as_complex(*parts[:2]), as_complex(*parts[2:]))
    for got, expected in zip(out, want, strict=True):
        assert got.dtype == (np.float32 if wide else DTYPES[dtype])
        assert_within(got, expected.value, expected.tolerance)


@each_case(("i", "j"), itertools.product(range(5), repeat=2))
def test_every_two_tails_together(i, j):
    """A Latin square: any two extents, in any two places, meet in one of the 25 shapes."""
    extents = (1, 127, 128, 129, 513)
    check(extents[i], extents[j], extents[(i + j) % 5], "float32", "gen3")


@pytest.mark.slow
@pytest.mark.parametrize("m", EXTENTS)
def test_every_tail(m):
    for k, n in itertools.product(EXTENTS, repeat=2):
        check(m, k, n, "float32", "gen3")


# Every extent in every place once.
ROTATED = [(m, TAILS[(i + 2) % 6], TAILS[(i + 4) % 6]) for i, m in enumerate(TAILS)]


@each_case(("shape", "generation", "kind"), pairwise(ROTATED, GENERATIONS, KINDS))
def test_every_generation_and_dtype(shape, generation, kind):
    dtype, wide = kind
    check(*shape, dtype, generation, complex_gemm_bf16 if wide else complex_gemm)


# One tile at a time, either operand resident, and blocks of the result that stay. The contraction
# counts both parts.
CUTS = [
    Blocks(1, 1, 6, "a", 1, 1),
    Blocks(1, 1, 6, "b", 1, 2),
    Blocks(3, 2, 6, "a", 2, 3),
    Blocks(2, 5, 6, "b", 2, 3),
    Blocks(1, 1, 2, "", 1, 1),
    Blocks(3, 2, 4, "", 2, 1),
    Blocks(2, 5, 2, "", 3, 1),
]


@each_case(("blocks", "generation"), in_turn(CUTS, ["gen2", "gen3"]), ids=str)
def test_every_cut_gives_the_product(blocks, generation):
    check(257, 257, 1025, "float32", generation, blocks=blocks)


def test_long_contraction_keeps_the_result_on_chip():
    m, k, n = 130, 128 * 16 + 5, 64
    plan = parts_tiling(m, n, k, "float32", "gen3")
    assert plan.blocks.depth_tiles * 128 < 2 * k
    check(m, k, n, "float32", "gen3", blocks=plan.blocks)


@each_case("generation", GENERATIONS)
def test_nan_and_infinity_reach_their_rows_and_columns_only(generation):
    m, k, n = 140, 150, 160
    a_re, a_im, b_re, b_im = operands(m, k, n)
    a_re[3, 5], a_im[139, 149] = np.nan, np.inf
    b_im[20, 33] = np.nan
    blocks = parts_tiling(m, n, k, "float32", generation).blocks
    touched = np.zeros((m, n), bool)
    touched[[3, 139]] = touched[:, 33] = True
    for got in run(complex_gemm, generation, a_re, a_im, b_re, b_im, blocks):
        assert np.array_equal(~np.isfinite(got), touched)


def test_products_by_one_and_by_i_are_exact():
    a_re, a_im = values(200, 128, seed=1), values(200, 128, seed=2)
    one, zero = np.eye(128, dtype=np.float32), np.zeros((128, 128), np.float32)
    blocks = parts_tiling(200, 128, 128, "float32", "gen3").blocks
    re, im = run(complex_gemm, "gen3", a_re, a_im, one, zero, blocks)
    assert np.array_equal(re, a_re)
    assert np.array_equal(im, a_im)
    re, im = run(complex_gemm, "gen3", a_re, a_im, zero, one, blocks)
    assert np.array_equal(re, -a_im)
    assert np.array_equal(im, a_re)


def test_arguments_are_not_modified():
    parts = operands(130, 140, 50)
    kept = [x.copy() for x in parts]
    run(complex_gemm, "gen3", *parts, parts_tiling(130, 50, 140).blocks)
    assert all(np.array_equal(x, y) for x, y in zip(parts, kept, strict=True))


@each_case(("generation", "dtype"), in_turn(GENERATIONS, DTYPES))
def test_1024_passes_hbm_once(dtype, generation):
    n = 1024
    plan = parts_tiling(n, n, n, dtype, generation)
    x = np.zeros((n, n), DTYPES[dtype])
    count = Count(complex_gemm, generation, x, x, x, x, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes == 6 * x.nbytes
    # Each stationary tile meets the two parts of b, which is four real products.
    assert count.moving_columns == 4 * (n // 128) * (n // 128) * n
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


def test_up_to_256_columns_both_parts_come_from_one_product():
    plan = parts_tiling(128, 256, 128, "float32", "gen3")
    count = Count(complex_gemm, "gen3", *operands(128, 128, 256), plan.blocks)
    assert count.instructions["nc_matmul"] == 2
    assert count.moving_columns == 2 * 512


SHAPES = [(1, 1, 1), (129, 257, 513), (1100, 700, 1300), (200, 9000, 300), (9, 6000, 5)]


@each_case(("case", "shape"), in_turn(pairwise(GENERATIONS, KINDS), SHAPES))
def test_counts_are_those_of_the_plan(case, shape):
    (generation, (dtype, wide)), (m, k, n) = case, shape
    plan = parts_tiling(m, n, k, dtype, generation, wide=wide)
    kernel = complex_gemm_bf16 if wide else complex_gemm
    zeros = [np.zeros(s, DTYPES[dtype]) for s in ((m, k), (m, k), (k, n), (k, n))]
    count = Count(kernel, generation, *zeros, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


@each_case("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, -2)])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(ValueError, match="parts_tiling: sizes must be at least 1, got M="):
        parts_tiling(*sizes)
