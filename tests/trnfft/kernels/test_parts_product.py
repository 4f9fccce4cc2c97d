"""Products of parts, by the kernel of transforms and any matrix: cuts, and what they move."""

from __future__ import annotations

import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles.fourier_kernels import complex_product
from pairwise import in_turn, pairwise
from trnfft._kernels.dft import dft
from trnfft._kernels.parts_tiling import parts_tiling
from trnsci.core.tiles.tiling import Blocks

from ...trnblas.kernels.harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
KINDS = [("float32", False), ("bfloat16", True)]


def operands(m, k, n, dtype="float32"):
    """The parts of a and of b."""
    a = [values(m, k, dtype=dtype, seed=seed) for seed in (1, 2)]
    b = [values(k, n, dtype=dtype, seed=seed) for seed in (3, 4)]
    return [*a, *b]


def as_complex(re, im):
    return np.asarray(re, np.float64) + 1j * np.asarray(im, np.float64)


def check(m, k, n, generation, blocks):
    parts = operands(m, k, n)
    want = complex_product(as_complex(*parts[:2]), as_complex(*parts[2:]))
    for got, expected in zip(run(dft, generation, *parts, blocks), want, strict=True):
        assert_within(got, expected.value, expected.tolerance)


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
    check(257, 257, 1025, generation, blocks)


def test_long_contraction_keeps_the_result_on_chip():
    m, k, n = 130, 128 * 16 + 5, 64
    blocks = parts_tiling(m, n, k, "float32", "gen3").blocks
    assert blocks.depth_tiles * 128 < 2 * k
    check(m, k, n, "gen3", blocks)


def test_up_to_256_columns_both_parts_come_from_one_product():
    plan = parts_tiling(128, 256, 128, "float32", "gen3")
    count = Count(dft, "gen3", *operands(128, 128, 256), plan.blocks)
    assert count.instructions["nc_matmul"] == 2
    assert count.moving_columns == 2 * 512


SHAPES = [(1, 1, 1), (129, 257, 513), (1100, 700, 1300), (200, 9000, 300), (9, 6000, 5)]


@each_case(("case", "shape"), in_turn(pairwise(GENERATIONS, KINDS), SHAPES))
def test_counts_are_those_of_the_plan(case, shape):
    (generation, (dtype, wide)), (m, k, n) = case, shape
    plan = parts_tiling(m, n, k, dtype, generation, wide=wide)
    zeros = [np.zeros(s, DTYPES[dtype]) for s in ((m, k), (m, k), (k, n), (k, n))]
    count = Count(dft, generation, *zeros, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


@each_case("sizes", [(0, 1, 1), (1, 0, 1), (1, 1, -2)])
def test_sizes_below_one_are_refused(sizes):
    with pytest.raises(ValueError, match="parts_tiling: sizes must be at least 1, got M="):
        parts_tiling(*sizes)
