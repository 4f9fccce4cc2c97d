"""The SYMM kernel: one triangle of the symmetric operand counts, the other never leaks."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles.blas_kernels import product, symmetric
from pairwise import pairwise
from trnblas._kernels.symm import symm
from trnsci.core.tiles.tiling import Blocks
from trnsci.core.tiles.tiling_gemm import gemm_tiling

from .harness_products import DTYPES, Count, run, values

FLAGS = list(itertools.product((True, False), repeat=2))


def tiling(m, n, left, upper, dtype="float32", generation="gen3"):
    stored = "upper" if upper else "lower"
    a_layout, b_layout = (stored, "rows") if left else ("columns", stored)
    depth = m if left else n
    return gemm_tiling(m, n, depth, dtype, generation, a_layout=a_layout, b_layout=b_layout)


def half(size, upper, dtype="float32"):
    """A matrix with NaN in the triangle that does not count."""
    a = values(size, size, dtype=dtype, seed=1)
    a[np.tril_indices(size, -1) if upper else np.triu_indices(size, 1)] = np.nan
    return a


def check(m, n, left, upper, dtype="float32", generation="gen3", scales=(1.0, 0.0), blocks=None):
    a = half(m if left else n, upper, dtype)
    b = values(m, n, dtype=dtype, seed=2)
    alpha, beta = scales
    c = None if beta == 0.0 else values(m, n, dtype=dtype, seed=3)
    blocks = blocks or tiling(m, n, left, upper, dtype, generation).blocks
    out = run(symm, generation, a, b, c, alpha, beta, left, upper, blocks)
    full = symmetric(a, upper)
    want = product(full, b, alpha, beta, c) if left else product(b, full, alpha, beta, c)
    assert_within(out, want.value, want.tolerance)


EDGES = [(1, 1), (16, 16), (127, 129), (128, 128), (129, 513), (300, 1), (1, 300), (260, 521)]


@each_case(("shape", "left", "upper"), pairwise(EDGES, (True, False), (True, False)))
def test_flags_and_edges(shape, left, upper):
    check(*shape, left, upper)


@each_case(
    ("generation", "left", "upper", "dtype"),
    pairwise(("gen2", "gen3", "gen4"), (True, False), (True, False), list(DTYPES)),
)
def test_every_generation(generation, left, upper, dtype):
    check(200, 150, left, upper, dtype, generation, (2.0, 0.5))


# Mirror images inside the panel, outside of it on either side, and across depth blocks.
CUTS = [
    Blocks(1, 1, 5, "a", 1, 2),
    Blocks(2, 1, 5, "b", 1, 5),
    Blocks(3, 2, 5, "a", 1, 1),
    Blocks(2, 1, 2, "", 1, 2),
    Blocks(5, 2, 1, "", 2, 1),
]


@each_case(("blocks", "left", "upper"), pairwise(CUTS, (True, False), (True, False)))
def test_every_cut_gives_the_product(blocks, left, upper):
    m, n = (600, 140) if left else (140, 600)
    check(m, n, left, upper, blocks=blocks)


def test_special_values_of_the_stored_triangle_do_reach_the_result():
    a, b = half(200, True), values(200, 30)
    a[3, 150] = np.inf
    out = run(symm, "gen2", a, b, None, 1.0, 0.0, True, True, tiling(200, 30, True, True).blocks)
    bad = np.zeros(out.shape, bool)
    bad[3], bad[150] = True, True
    assert np.array_equal(~np.isfinite(out), bad)


@pytest.mark.parametrize("upper", [True, False])
def test_resident_triangle_is_read_once(upper):
    m, n = 1024, 256
    a, b = np.zeros((m, m), np.float32), np.zeros((m, n), np.float32)
    blocks = Blocks(8, 1, 8, "a", 1, 8)
    count = Count(symm, "gen3", a, b, None, 1.0, 0.0, True, upper, blocks)
    tiles = 8 * 9 // 2
    assert count.hbm_bytes == 4 * (tiles * 128 * 128 + 2 * m * n)


@each_case(("left", "upper"), FLAGS)
def test_a_mirror_image_inside_of_the_panel_is_not_read_from_hbm(left, upper):
    """Of two blocks of four columns of tiles, each reads 10 tiles of the triangle and 16 others."""
    size, other = 1024, 128
    m, n = (size, other) if left else (other, size)
    a, b = np.zeros((size, size), np.float32), np.zeros((m, n), np.float32)
    blocks = Blocks(4, 1, 8, "a" if left else "b", 1, 8)
    count = Count(symm, "gen3", a, b, None, 1.0, 0.0, left, upper, blocks)
    # The other operand passes by once for each block, and the result is written.
    assert count.hbm_bytes == 4 * (2 * 26 * 128 * 128 + 2 * m * n + m * n)


def test_moves_no_more_than_the_plan():
    m, n = 1500, 700
    for left, upper in FLAGS:
        size = m if left else n
        plan = tiling(m, n, left, upper)
        a, b = np.zeros((size, size), np.float32), np.zeros((m, n), np.float32)
        count = Count(symm, "gen3", a, b, None, 1.0, 0.0, left, upper, plan.blocks)
        assert count.hbm_bytes <= plan.hbm_bytes
        assert count.instructions["nc_matmul"] == plan.products
        assert count.sbuf_bytes <= plan.sbuf_bytes
        assert count.psum_banks <= plan.psum_banks
