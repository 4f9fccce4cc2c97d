"""The GEMM kernel against float64, on all generations, and what it moves and counts."""

from __future__ import annotations

import itertools

import numpy as np

from comparing import assert_within
from each_case import each_case
from oracles.blas_kernels import product, special_values, transposed
from pairwise import in_turn, pairwise
from trnblas._kernels.gemm import gemm
from trnsci.core.tiles.tiling import Blocks, fewest_bytes
from trnsci.core.tiles.tiling_gemm import gemm_tiling

from .harness_products import DTYPES, Count, run, values

GENERATIONS = ("gen2", "gen3", "gen4")
TRANSPOSES = list(itertools.product((False, True), repeat=2))

# (M, K, N)
PUBLISHED = [
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (256, 128, 512),
    (1024, 256, 128),
    (200, 137, 400),
    (256, 200, 128),
    (137, 128, 256),
    (128, 128, 200),
    (300, 250, 175),
]
EDGES = [
    (127, 127, 511),
    (129, 129, 513),
    (1, 1, 1),
    (1, 300, 700),
    (300, 700, 1),
    (257, 1, 2),
    (2, 128, 1025),
    (131, 521, 1031),
]


def tiling(m, k, n, dtype="float32", generation="gen3", trans_a=False, trans_b=False):
    return gemm_tiling(
        m,
        n,
        k,
        dtype,
        generation,
        a_layout="rows" if trans_a else "columns",
        b_layout="columns" if trans_b else "rows",
    )


def operands(m, k, n, dtype="float32", trans_a=False, trans_b=False):
    a = values(*((k, m) if trans_a else (m, k)), dtype=dtype, seed=1)
    b = values(*((n, k) if trans_b else (k, n)), dtype=dtype, seed=2)
    return a, b


def check(m, k, n, dtype, generation, alpha=1.0, beta=0.0, trans=(False, False), blocks=None):
    a, b = operands(m, k, n, dtype, *trans)
    c = None if beta == 0.0 else values(m, n, dtype=dtype, seed=3)
    blocks = blocks or tiling(m, k, n, dtype, generation, *trans).blocks
    out = run(gemm, generation, a, b, c, alpha, beta, *trans, blocks)
    assert out.dtype == DTYPES[dtype]
    want = product(transposed(a, trans[0]), transposed(b, trans[1]), alpha, beta, c)
    assert_within(out, want.value, want.tolerance)


@each_case(("shape", "dtype"), in_turn(PUBLISHED + EDGES, DTYPES), ids=str)
def test_product(shape, dtype):
    check(*shape, dtype, "gen3")


@each_case("generation", GENERATIONS)
@each_case(
    ("dtype", "shape", "trans"),
    [
        ("float32", (200, 137, 400), (False, False)),
        ("bfloat16", (129, 257, 513), (False, True)),
        ("float16", (129, 257, 513), (False, True)),
        ("float16", (130, 70, 1), (True, False)),
        ("float32", (131, 300, 1), (True, True)),
        ("bfloat16", (1, 300, 131), (True, False)),
    ],
)
def test_every_generation(generation, dtype, shape, trans):
    check(*shape, dtype, generation, alpha=2.0, beta=0.5, trans=trans)


@each_case(
    ("trans", "scales", "dtype"),
    pairwise(TRANSPOSES, [(1.0, 1.0), (-0.37, 1.0), (1.0, 0.5), (3.1, -2.3)], list(DTYPES)),
)
def test_scales_and_transposes(dtype, trans, scales):
    check(150, 140, 530, dtype, "gen3", *scales, trans=trans)


# One tile at a time, either operand resident, and blocks of the result that stay.
CUTS = [
    Blocks(1, 1, 3, "a", 1, 1),
    Blocks(1, 1, 3, "b", 1, 2),
    Blocks(3, 2, 3, "a", 2, 3),
    Blocks(2, 3, 3, "b", 2, 3),
    Blocks(1, 1, 1, "", 1, 1),
    Blocks(3, 2, 2, "", 2, 1),
    Blocks(2, 3, 1, "", 3, 1),
]


@each_case(("blocks", "trans"), in_turn(CUTS, TRANSPOSES), ids=str)
def test_every_cut_gives_the_product(blocks, trans):
    check(257, 257, 1025, "float32", "gen3", 1.5, -0.5, trans, blocks)


def test_long_contraction_keeps_the_result_on_chip():
    m, k, n = 300, 128 * 17 + 5, 600
    blocks = tiling(m, 128 * 48 + 5, n, generation="gen2").blocks
    assert blocks.depth_tiles == 16
    check(m, k, n, "float32", "gen2", blocks=blocks)


def test_identity_and_zeros_are_exact():
    a = values(256, 128)
    blocks = tiling(256, 128, 128).blocks
    identity = np.eye(128, dtype=np.float32)
    assert np.array_equal(run(gemm, "gen3", a, identity, None, 1.0, 0.0, False, False, blocks), a)
    zeros = np.zeros((128, 128), np.float32)
    assert not run(gemm, "gen3", a, zeros, None, 1.0, 0.0, False, False, blocks).any()


@each_case(("trans", "generation", "dtype"), pairwise(TRANSPOSES, GENERATIONS, list(DTYPES)))
def test_special_values_reach_their_rows_and_columns_only(generation, dtype, trans):
    """A transpose by a product with the identity would spread them over a tile."""
    a, b = operands(140, 150, 160, dtype, *trans)
    left, right = transposed(a, trans[0]), transposed(b, trans[1])  # views
    left[3, 5], left[70, 9], left[139, 149] = np.nan, np.inf, -np.inf
    right[20, 33], right[149, 159] = np.inf, np.nan
    left[9, 20] = 0.0  # 0 * inf
    blocks = tiling(140, 150, 160, dtype, generation, *trans).blocks
    out = run(gemm, generation, a, b, None, 1.0, 0.0, *trans, blocks)
    nan, up, down = special_values(left, right)
    assert np.array_equal(np.isnan(out), nan)
    assert np.array_equal(np.isposinf(out), up)
    assert np.array_equal(np.isneginf(out), down)
    finite = ~(nan | up | down)
    assert finite.any()
    with np.errstate(all="ignore"):
        want = product(left, right)
    assert_within(out[finite], want.value[finite], want.tolerance[finite])


def test_subnormal_values_pass_the_transpose():
    tiny = np.float32(2.0**-149) * np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    identity = np.eye(128, dtype=np.float32)
    blocks = tiling(128, 128, 128).blocks
    assert np.array_equal(
        run(gemm, "gen3", tiny, identity, None, 1.0, 0.0, False, False, blocks), tiny
    )


def test_c_is_not_read_when_beta_is_zero():
    a, b = operands(130, 40, 50)
    c = np.full((130, 50), np.nan, np.float32)
    out = run(gemm, "gen3", a, b, c, 1.0, 0.0, False, False, tiling(130, 40, 50).blocks)
    want = product(a, b)
    assert_within(out, want.value, want.tolerance)


def test_arguments_are_not_modified():
    a, b = operands(130, 140, 50)
    c = values(130, 50)
    kept = [x.copy() for x in (a, b, c)]
    run(gemm, "gen3", a, b, c, 2.0, 3.0, False, False, tiling(130, 140, 50).blocks)
    assert all(np.array_equal(x, y) for x, y in zip((a, b, c), kept, strict=True))


@each_case(
    ("generation", "dtype", "trans"),
    in_turn(GENERATIONS, list(DTYPES), [(False, False), (True, True)]),
)
def test_2048_moves_no_more_than_it_must(dtype, generation, trans):
    n = 2048
    plan = tiling(n, n, n, dtype, generation, *trans)
    x = np.zeros((n, n), DTYPES[dtype])
    count = Count(gemm, generation, x, x, None, 1.0, 0.0, *trans, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes
    # The aim is 1.3 times; both operands pass once, so it is the bound itself.
    assert count.hbm_bytes == fewest_bytes(n, n, n, dtype, generation)
    assert count.instructions["nc_matmul"] == plan.products == 16 * 16 * 4
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


@each_case("shape", [(300, 250, 175), (1, 300, 700), (700, 300, 1), (260, 2100, 600)])
@each_case("trans", [(False, False), (True, True)], ids=str)
def test_counts_are_those_of_the_plan(shape, trans):
    m, k, n = shape
    plan = tiling(m, k, n, "float32", "gen3", *trans)
    a, b = operands(m, k, n, "float32", *trans)
    count = Count(gemm, "gen3", a, b, None, 1.0, 0.0, *trans, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes
    assert count.instructions["nc_matmul"] == plan.products
    assert count.instructions["nc_transpose"] == plan.transposes
    with_c = Count(gemm, "gen3", a, b, np.zeros((m, n), np.float32), 2.0, 3.0, *trans, plan.blocks)
    assert with_c.hbm_bytes == plan.hbm_bytes + 4 * m * n
    assert with_c.sbuf_bytes <= plan.sbuf_bytes
    assert with_c.psum_banks <= plan.psum_banks


def test_operands_in_place_need_no_transpose_and_nothing_is_transposed_on_the_way_in():
    a, b = operands(300, 200, 600, trans_a=True)
    plan = tiling(300, 200, 600, trans_a=True)
    count = Count(gemm, "gen3", a, b, None, 1.0, 0.0, True, False, plan.blocks)
    assert "nc_transpose" not in count.instructions
    for trans in TRANSPOSES:
        a, b = operands(300, 200, 600, "float32", *trans)
        count = Count(gemm, "gen3", a, b, None, 1.0, 0.0, *trans, plan.blocks)
        assert "dma_transpose" not in count.instructions


def test_scales_cost_no_extra_pass_over_hbm():
    a, b = operands(256, 256, 256)
    blocks = tiling(256, 256, 256).blocks
    plain = Count(gemm, "gen3", a, b, None, 1.0, 0.0, False, False, blocks)
    scaled = Count(gemm, "gen3", a, b, None, 2.5, 0.0, False, False, blocks)
    assert plain.hbm_bytes == scaled.hbm_bytes
    assert plain.instructions.total() == scaled.instructions.total()
