"""The batched GEMM kernel: one launch for a batch, a shared operand read once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from comparing import assert_within
from each_case import each_case
from oracles.blas_kernels import product, transposed
from pairwise import pairwise
from trnblas._kernels.batched import batched_gemm
from trnsci.core.tiles.tiling import Blocks
from trnsci.core.tiles.tiling_gemm import gemm_tiling

from .harness_products import DTYPES, Count, run, values

TRANSPOSES = list(itertools.product((False, True), repeat=2))


def tiling(batch, m, k, n, dtype="float32", generation="gen3", shared="", trans=(False, False)):
    return gemm_tiling(
        m,
        n,
        k,
        dtype,
        generation,
        a_layout="rows" if trans[0] else "columns",
        b_layout="columns" if trans[1] else "rows",
        batch=batch,
        shared=shared,
    )


def operands(batch, m, k, n, dtype="float32", shared="", trans=(False, False)):
    a = values(*((k, m) if trans[0] else (m, k)), dtype=dtype, seed=1)
    b = values(*((n, k) if trans[1] else (k, n)), dtype=dtype, seed=2)
    if shared != "a":
        a = values(batch, *a.shape, dtype=dtype, seed=3)
    if shared != "b":
        b = values(batch, *b.shape, dtype=dtype, seed=4)
    return a, b


def check(batch, m, k, n, dtype, generation, shared="", trans=(False, False), beta=0.0, cut=None):
    a, b = operands(batch, m, k, n, dtype, shared, trans)
    c = None if beta == 0.0 else values(batch, m, n, dtype=dtype, seed=5)
    blocks = cut or tiling(batch, m, k, n, dtype, generation, shared, trans).blocks
    out = run(batched_gemm, generation, a, b, c, 2.0, beta, *trans, blocks)
    want = product(transposed(a, trans[0]), transposed(b, trans[1]), 2.0, beta, c)
    assert out.shape == (batch, m, n)
    assert_within(out, want.value, want.tolerance)


@pytest.mark.parametrize("batch", [4, 16, pytest.param(32, marks=pytest.mark.slow)])
def test_published_batches(batch):
    check(batch, 256, 128, 256, "float32", "gen3", beta=0.5)


def test_published_edge_batch():
    check(8, 200, 137, 400, "float32", "gen3", beta=0.5)


@each_case("generation", ["gen2", "gen3", "gen4"])
@each_case("shared", ["", "a", "b"])
def test_every_generation(generation, shared):
    check(3, 130, 140, 70, "bfloat16", generation, shared, (False, True), 1.5)


@each_case("dtype, shared, trans", pairwise(DTYPES, ["", "a", "b"], TRANSPOSES))
def test_transposes_and_shared_operands(dtype, shared, trans):
    check(2, 129, 150, 140, dtype, "gen3", shared, trans)


@each_case("shape", [(1, 1, 1, 1), (3, 131, 130, 1), (3, 1, 130, 131), (1, 5, 3, 7)])
@each_case("shared", ["", "a", "b"])
def test_vectors(shape, shared):
    check(*shape, "float32", "gen3", shared, beta=0.5)


CUTS = [
    Blocks(1, 1, 2, "a", 1, 1),
    Blocks(1, 1, 2, "b", 1, 1),
    Blocks(2, 2, 1, "", 1, 1),
]


@each_case("cut", CUTS, ids=lambda cut: "-".join(map(str, cut)))
@each_case("shared", ["", "a", "b"])
def test_every_cut_gives_the_products(cut, shared):
    check(2, 300, 200, 600, "float32", "gen3", shared, beta=0.5, cut=cut)


@each_case(
    "generation, trans, shape",
    pairwise(
        ["gen2", "gen3", "gen4"],
        TRANSPOSES,
        [(5, 127, 129, 128), (3, 129, 128, 257), (4, 1, 3, 2)],
    ),
)
def test_whole_matrices_in_a_transfer(shape, trans, generation):
    blocks = tiling(*shape, generation=generation, trans=trans).blocks
    assert blocks.matrices > 0
    cut = blocks._replace(matrices=2)
    check(*shape, "float32", generation, trans=trans, beta=0.5, cut=cut)


def test_a_group_of_matrices_takes_three_transfers():
    batch, n = 10, 256
    plan = tiling(batch, n, n, n)
    a, b = operands(batch, n, n, n)
    count = Count(batched_gemm, "gen3", a, b, None, 1.0, 0.0, False, False, plan.blocks)
    assert count.instructions["dma_copy"] == 3 * -(-batch // plan.blocks.matrices)
    assert count.hbm_bytes == plan.hbm_bytes
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


def test_c_may_be_shared():
    a, b = operands(3, 40, 50, 60)
    c = values(40, 60)
    blocks = tiling(3, 40, 50, 60).blocks
    out = run(batched_gemm, "gen3", a, b, c, 1.0, 2.0, False, False, blocks)
    want = product(a, b, 1.0, 2.0, np.broadcast_to(c, (3, 40, 60)))
    assert_within(out, want.value, want.tolerance)


@each_case("shared", ["a", "b"])
@each_case("trans", [(False, False), (True, True)], ids=str)
def test_shared_operand_is_read_once(shared, trans):
    batch, m, k, n = 6, 256, 384, 640
    plan = tiling(batch, m, k, n, shared=shared, trans=trans)
    a, b = operands(batch, m, k, n, "float32", shared, trans)
    count = Count(batched_gemm, "gen3", a, b, None, 1.0, 0.0, *trans, plan.blocks)
    assert count.hbm_bytes == plan.hbm_bytes == a.nbytes + b.nbytes + 4 * batch * m * n
    assert count.instructions["nc_matmul"] == plan.products
    assert count.instructions["nc_transpose"] == plan.transposes
    assert count.sbuf_bytes <= plan.sbuf_bytes
    assert count.psum_banks <= plan.psum_banks


def test_special_values_stay_in_their_matrix():
    a, b = operands(3, 130, 140, 150)
    a[1, 7, 9], b[2, 3, 4] = np.nan, np.inf
    blocks = tiling(3, 130, 140, 150, generation="gen2").blocks
    out = run(batched_gemm, "gen2", a, b, None, 1.0, 0.0, False, False, blocks)
    bad = np.zeros(out.shape, bool)
    bad[1, 7], bad[2, :, 4] = True, True
    assert np.array_equal(~np.isfinite(out), bad)
