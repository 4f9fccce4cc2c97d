"""SYRK, SYR2K and GEMMT kernels: one triangle of products, and what becomes of the other."""

from __future__ import annotations

import numpy as np
import pytest

from comparing import assert_same_bits, assert_within
from each_case import each_case
from oracles.blas_kernels import product, transposed
from pairwise import in_turn, pairwise
from trnblas._kernels.gemm import gemm
from trnblas._kernels.gemmt import gemmt
from trnblas._kernels.syrk import syr2k, syrk
from trnblas._kernels.tiling_syrk import syrk_tiling
from trnsci.core.tiles.tiling import Blocks
from trnsci.core.tiles.tiling_gemm import gemm_tiling

from .harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")

PUBLISHED = [
    (128, 128),
    (256, 256),
    (512, 512),
    (256, 128),
    (1024, 256),
    (100, 100),
    (200, 128),
    (128, 200),
    (300, 175),
]
EDGES = [(1, 1), (1, 300), (127, 129), (129, 1), (513, 127), (521, 131), (1025, 40)]


def layout(trans):
    return "rows" if trans else "columns"


def operand(m, k, trans, dtype="float32", seed=1):
    return values(*((k, m) if trans else (m, k)), dtype=dtype, seed=seed)


def check_syrk(m, k, dtype, generation, alpha=1.0, beta=0.0, trans=False, blocks=None):
    a = operand(m, k, trans, dtype)
    c = None if beta == 0.0 else values(m, m, dtype=dtype, seed=2)
    if blocks is None:
        blocks = syrk_tiling(m, k, dtype, generation, layout=layout(trans)).blocks
    out = run(syrk, generation, a, c, alpha, beta, trans, blocks)
    left = transposed(a, trans)
    want = product(left, left.T, alpha, beta, c)
    assert_within(out, want.value, want.tolerance)
    if c is None:
        assert_same_bits(out, np.ascontiguousarray(out.T))
    return out


def check_syr2k(m, k, dtype, generation, alpha=1.0, beta=0.0, trans=False, blocks=None):
    a, b = operand(m, k, trans, dtype), operand(m, k, trans, dtype, seed=3)
    c = None if beta == 0.0 else values(m, m, dtype=dtype, seed=2)
    if blocks is None:
        blocks = syrk_tiling(m, k, dtype, generation, layout=layout(trans), operands=2).blocks
    out = run(syr2k, generation, a, b, c, alpha, beta, trans, blocks)
    a, b = transposed(a, trans), transposed(b, trans)
    # One sum of 2 K products: that of the operands side by side.
    want = product(np.hstack([a, b]), np.hstack([b, a]).T, alpha, beta, c)
    assert_within(out, want.value, want.tolerance)
    if c is None:
        assert_same_bits(out, np.ascontiguousarray(out.T))


def check_gemmt(m, k, dtype, generation, upper, beta=0.0, trans=(False, False), blocks=None):
    a, b = operand(m, k, trans[0], dtype), operand(m, k, not trans[1], dtype, seed=3)
    c = None if beta == 0.0 else values(m, m, dtype=dtype, seed=2)
    if blocks is None:
        blocks = syrk_tiling(m, k, dtype, generation, operands=2).blocks
    out = run(gemmt, generation, a, b, c, 1.5, beta, *trans, upper, blocks)
    want = product(transposed(a, trans[0]), transposed(b, trans[1]), 1.5, beta, c)
    computed = np.triu(np.ones((m, m), bool)) if upper else np.tril(np.ones((m, m), bool))
    assert_within(out[computed], want.value[computed], want.tolerance[computed])
    rest = np.zeros_like(out) if c is None else c
    assert_same_bits(out[~computed], rest[~computed])


@each_case(("shape", "dtype"), in_turn(PUBLISHED + EDGES, DTYPES), ids=str)
def test_syrk(shape, dtype):
    check_syrk(*shape, dtype, "gen3")


@each_case(("generation", "dtype", "trans"), pairwise(GENERATIONS, list(DTYPES), [False, True]))
def test_every_generation(generation, dtype, trans):
    check_syrk(300, 175, dtype, generation, 2.0, 0.5, trans)
    check_syr2k(300, 130, dtype, generation, 2.0, 0.5, trans)
    check_gemmt(300, 130, dtype, generation, trans, 0.5, (trans, False))


@each_case(
    ("scales", "dtype", "trans"),
    pairwise([(-0.37, 0.0), (1.0, 1.0), (2.0, 0.5)], list(DTYPES), [False, True]),
)
def test_scales(dtype, trans, scales):
    check_syrk(290, 140, dtype, "gen3", *scales, trans)
    check_syr2k(290, 140, dtype, "gen3", *scales, trans)


@each_case("shape", [(1, 1), (129, 1), (513, 127), (128, 128)], ids=str)
def test_syr2k_and_gemmt_edges(shape):
    check_syr2k(*shape, "float32", "gen3")
    for upper in (False, True):
        check_gemmt(*shape, "float32", "gen3", upper)


CUTS = [
    Blocks(1, 1, 3, "", 1, 1),
    Blocks(2, 1, 3, "", 1, 3),
    Blocks(5, 2, 1, "", 2, 1),
    Blocks(2, 1, 2, "", 1, 1),
]


@pytest.mark.parametrize("blocks", CUTS, ids=lambda blocks: "-".join(map(str, blocks)))
def test_every_cut_gives_the_product(blocks):
    even = CUTS.index(blocks) % 2 == 0
    check_syrk(641, 300, "float32", "gen3", 2.0, 0.5 if even else 0.0, even, blocks)
    check_syr2k(641, 300, "float32", "gen3", 2.0, 0.0 if even else 0.5, not even, blocks)
    trans = (False, True) if even else (True, False)
    check_gemmt(641, 300, "float32", "gen3", even, 0.5 if even else 0.0, trans, blocks)


def test_c_keeps_its_asymmetry():
    a, c = np.zeros((200, 50), np.float32), values(200, 200)
    blocks = syrk_tiling(200, 50, "float32", "gen3").blocks
    assert np.array_equal(run(syrk, "gen3", a, c, 1.0, 1.0, False, blocks), c)


@each_case("generation", GENERATIONS)
def test_special_values_reach_their_row_and_column_only(generation):
    a = values(300, 140)
    a[5, 7], a[201, 9] = np.nan, np.inf
    blocks = syrk_tiling(300, 140, "float32", generation).blocks
    out = run(syrk, generation, a, None, 1.0, 0.0, False, blocks)
    bad = np.zeros(out.shape, bool)
    for i in (5, 201):
        bad[i], bad[:, i] = True, True
    assert np.array_equal(~np.isfinite(out), bad)
    assert np.isposinf(out[201, 201])


@each_case(("size", "generation"), [(2048, "gen3"), *((512, each) for each in GENERATIONS)])
def test_half_the_products_of_gemm(size, generation):
    x = np.zeros((size, 256), np.float32)
    t = size // 512
    whole = gemm_tiling(size, size, 256, "float32", generation, b_layout="columns")
    full = Count(gemm, generation, x, x, None, 1.0, 0.0, False, True, whole.blocks)
    plan = syrk_tiling(size, 256, "float32", generation)
    half = Count(syrk, generation, x, None, 1.0, 0.0, False, plan.blocks)
    assert half.instructions["nc_matmul"] == plan.products
    # Half of them and the diagonal: tiles of 512 columns, and of what they stream tiles of 128.
    assert half.instructions["nc_matmul"] * 2 * t == full.instructions["nc_matmul"] * (t + 1)
    assert half.moving_columns * 8 * t == full.moving_columns * (4 * t + 1)
    assert half.hbm_bytes == plan.hbm_bytes
    # The operand is read once instead of twice.
    assert half.hbm_bytes == x.nbytes + 4 * size * size < full.hbm_bytes
    assert half.instructions["nc_transpose"] == plan.transposes * (
        16 if generation == "gen2" else 1
    )


@each_case("shape", [(700, 300), (600, 4000)])
@each_case("operands", [1, 2])
def test_counts_are_those_of_the_plan(shape, operands):
    m, k = shape
    x, c = np.zeros((m, k), np.float32), np.zeros((m, m), np.float32)
    plan = syrk_tiling(m, k, "float32", "gen3", operands=operands)
    if operands == 1:
        count = Count(syrk, "gen3", x, c, 2.0, 3.0, False, plan.blocks)
    else:
        count = Count(syr2k, "gen3", x, x, c, 2.0, 3.0, False, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes + c.nbytes
    assert count.instructions["nc_matmul"] == plan.products
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


def test_gemmt_leaves_out_the_products_of_the_other_triangle():
    m, k = 2048, 128
    x = np.zeros((m, k), np.float32)
    plan = syrk_tiling(m, k, "float32", "gen3", operands=2)
    counts = [
        Count(gemmt, "gen3", x, x, None, 1.0, 0.0, False, True, upper, plan.blocks)
        for upper in (False, True)
    ]
    for count in counts:
        assert count.instructions["nc_matmul"] * 2 == plan.products
        assert count.hbm_bytes <= plan.hbm_bytes
        assert count.sbuf_bytes <= plan.sbuf_bytes
        assert count.psum_banks <= plan.psum_banks
