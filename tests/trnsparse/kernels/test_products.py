"""Kernels of sparse products in strict simulation, and what they count."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnsparse
from drawn import examples
from each_case import each_case
from required import requiring
from trnsci.core.counters import counts
from trnsci.core.testing import unit_roundoff
from trnsparse._kernels import bsr_spmm as block_module
from trnsparse._kernels import sddmm as sampled_module
from trnsparse._kernels.bsr_spmm import BlockRows, bsr_spmm
from trnsparse._kernels.screened_spmm import screened_spmm
from trnsparse._kernels.sddmm import bsr_sddmm, sddmm
from trnsparse._kernels.spmm import spmm_one_hot, spmm_segments
from trnsparse._products.row_order import (
    chunk_columns,
    chunk_counts,
    in_order,
    plan_rows,
    segment_order,
    tile_starts,
)
from trnsparse.screening import _kept_tiles

from .harness import GENERATIONS, Count, run, values


def compare(got, left, right):
    """Hold a product against the same in float64, by the sizes of its terms."""
    left, right = left.astype(np.float64), right.astype(np.float64)
    dtype = getattr(torch, got.dtype.name)
    terms = np.abs(left) @ np.abs(right)
    # float32 sums of up to K terms, in any order, and one rounding of the result.
    depth = max(int((left != 0).sum(1).max(initial=1)), 1)
    bound = depth * unit_roundoff(torch.float32) * terms + unit_roundoff(dtype) * terms
    assert (np.abs(got.astype(np.float64) - left @ right) <= bound + 1e-30).all()


# -- in blocks -------------------------------------------------------------------------------------


def block_problem(m, n, size, columns, dtype="float32", share=0.4):
    grid = -(-m // size), -(-n // size)
    chosen = np.random.default_rng((m, n, size)).random(grid) < share
    chosen[0], chosen[-1] = False, True
    starts = tuple(np.concatenate([[0], np.cumsum(chosen.sum(1))]).tolist())
    rows, places = np.nonzero(chosen)
    blocks = values(len(rows), size, size, dtype=dtype)
    dense = np.zeros((grid[0] * size, grid[1] * size), np.float64)
    for k, (i, j) in enumerate(zip(rows, places, strict=True)):
        dense[i * size : (i + 1) * size, j * size : (j + 1) * size] = blocks[k]
    b = values(n, columns, dtype=dtype, seed=1)
    return blocks, b, BlockRows(starts, tuple(places.tolist())), dense[:m, :n]


def check_blocks(m, n, size, columns, generation, dtype="float32"):
    blocks, b, pattern, dense = block_problem(m, n, size, columns, dtype)
    compare(run(bsr_spmm, generation, blocks, b, pattern, m), dense, b)


@each_case("generation", GENERATIONS)
@each_case("dtype", ["float32", "bfloat16", "float16"])
def test_blocks_on_every_generation(generation, dtype):
    check_blocks(300, 260, 128, 70, generation, dtype)


@each_case("shape", [(127, 129, 128), (128, 128, 128), (129, 257, 128)], ids=str)
@each_case("columns", [2, 511, 513 + 1])
def test_blocks_around_tiles(shape, columns):
    check_blocks(*shape, columns, "gen3")


@pytest.mark.parametrize("shape", [(40, 50, 8), (100, 140, 48), (300, 300, 200)], ids=str)
def test_other_block_sizes(shape):
    check_blocks(*shape, 20, "gen3")


def test_a_dense_operand_that_does_not_stay(monkeypatch):
    monkeypatch.setattr(block_module, "RESIDENT", 0)
    check_blocks(300, 260, 128, 2050, "gen3")


@pytest.mark.parametrize("generation", GENERATIONS)
def test_work_grows_with_stored_blocks(generation):
    def count(n, pattern):
        starts = tuple(np.concatenate([[0], np.cumsum(pattern.sum(1))]).tolist())
        rows = BlockRows(starts, tuple(np.nonzero(pattern)[1].tolist()))
        blocks = np.zeros((starts[-1], 128, 128), np.float32)
        found = Count(
            bsr_spmm, generation, blocks, np.zeros((n * 128, 64), np.float32), rows, n * 128
        )
        return found.instructions["nc_matmul"], found.hbm_bytes

    block = 128 * 128 * 4
    operands = 2 * 128 * 64 * 4  # rows of the dense operand and of the result
    for n in (4, 8):
        assert count(n, np.eye(n, dtype=bool)) == (n, n * (block + operands))
    # One full row costs its blocks: 183 slots of the longest row's length would be 1024.
    full = np.eye(8, dtype=bool)
    full[0] = True
    assert count(8, full) == (15, 15 * block + 8 * operands)


# -- by rows ---------------------------------------------------------------------------------------


def row_problem(m, n, columns, share, dtype="float32", heavy=False):
    rng = np.random.default_rng((m, n))
    chosen = rng.random((m, n)) < share
    chosen[min(1, m - 1)] = False
    if heavy:
        chosen[-1] = True
    dense = np.where(chosen, values(m, n, dtype=dtype), 0).astype(values(1, dtype=dtype).dtype)
    rows, places = np.nonzero(chosen)
    pointers = np.concatenate([[0], np.cumsum(chosen.sum(1))])
    return dense, dense[rows, places], rows, places, pointers, values(n, columns, dtype=dtype)


def both_ways(problem, generation):
    one_hot = run(spmm_one_hot, generation, *one_hot_operands(problem))
    return one_hot, run(spmm_segments, generation, *segment_operands(problem))


def one_hot_operands(problem):
    dense, entries, rows, places, pointers, b = problem
    starts = tile_starts(pointers)
    at = chunk_columns(chunk_counts(starts))
    local = (rows % 128).astype(np.float32)
    index = places.astype(np.uint32)
    return entries[at], local[at], index[at], b, tuple(starts.tolist()), len(dense)


def segment_operands(problem):
    dense, entries, _, places, pointers, b = problem
    order, place, slots = segment_order(pointers)
    at = place[chunk_columns(np.array([n for group in slots for n in group]))]
    index = places.astype(np.uint32)
    targets = None
    if not in_order(pointers):
        targets = order[chunk_columns(chunk_counts(np.array([0, len(dense)])))].astype(np.uint32)
    return entries[at], index[at], targets, b, slots, len(dense)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rows_on_every_generation(generation, dtype):
    problem = row_problem(140, 90, 20, 0.05, dtype, heavy=True)
    for result in both_ways(problem, generation):
        compare(result, problem[0], problem[-1])


@pytest.mark.parametrize(
    "shape", [(127, 40, 2), (128, 40, 514), (129, 3, 20), (1, 140, 4)], ids=str
)
@pytest.mark.parametrize("share", [0.02, 0.6])
def test_rows_around_tiles(shape, share):
    problem = row_problem(*shape, share, heavy=True)
    for result in both_ways(problem, "gen3"):
        compare(result, problem[0], problem[-1])


@each_case("generation", GENERATIONS)
def test_rows_in_order_are_stored_without_a_scatter(generation):
    dense = np.tril(values(140, 140), -1)[::-1].copy()
    rows, places = np.nonzero(dense)
    pointers = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    problem = dense, dense[rows, places], rows, places, pointers, values(140, 6)
    assert segment_operands(problem)[2] is None
    for result in both_ways(problem, generation):
        compare(result, dense, problem[-1])


def test_segments_keep_a_nan_in_its_rows():
    problem = row_problem(140, 30, 4, 0.2)
    problem[-1][7, 2] = np.nan
    _, segments = both_ways(problem, "gen2")
    assert np.array_equal(np.isnan(segments[:, 2]), problem[0][:, 7] != 0)
    assert not np.isnan(segments[:, [0, 1, 3]]).any()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_rule_counts_what_the_kernels_execute(generation):
    problem = row_problem(300, 200, 70, 0.05, heavy=True)
    plan = plan_rows(problem[4], 70, "float32", generation)
    one_hot = Count(spmm_one_hot, generation, *one_hot_operands(problem))
    assert one_hot.instructions["nc_matmul"] == plan.one_hot
    segments = Count(spmm_segments, generation, *segment_operands(problem))
    done = segments.instructions["scalar_tensor_tensor"] + segments.instructions["tensor_scalar"]
    assert done == plan.segments
    assert plan.kernel == "one-hot"  # one heavy row would be a slot of its own for every entry


@pytest.mark.parametrize("generation", GENERATIONS)
def test_rows_of_one_length_go_by_segments(generation):
    pointers = np.arange(0, 5 * 256 + 1, 5)
    assert plan_rows(pointers, 64, "float32", generation).kernel == "segments"


def test_work_grows_with_entries_and_not_with_columns():
    def count(n, entries):
        pointers = np.concatenate([[0], np.full(128, entries)])
        zeros = np.zeros((128, entries), np.float32)
        found = Count(
            spmm_one_hot,
            "gen3",
            zeros,
            zeros,
            zeros.astype(np.uint32),
            np.zeros((n, 64), np.float32),
            tuple(tile_starts(pointers).tolist()),
            128,
        )
        return found.instructions["nc_matmul"], found.instructions.total()

    assert count(1000, 256) == count(100_000, 256)
    assert count(1000, 512)[0] == 2 * count(1000, 256)[0]


# -- sampled ---------------------------------------------------------------------------------------


@each_case("generation", GENERATIONS)
@each_case("dtype", ["float32", "bfloat16", "float16"])
def test_sampled_on_every_generation(generation, dtype):
    _, _, rows, places, _, _ = row_problem(130, 90, 2, 0.1)
    c, d = values(130, 70, dtype=dtype), values(90, 70, dtype=dtype, seed=1)
    at = chunk_columns(chunk_counts(np.array([0, len(rows)])))
    index = [x.astype(np.uint32)[at] for x in (rows, places)]
    got = run(sddmm, generation, c, d, *index).T.reshape(-1)[: len(rows)]
    wide_c, wide_d = c[rows].astype(np.float64), d[places].astype(np.float64)
    unit = unit_roundoff(torch.float32) * 70 + unit_roundoff(getattr(torch, dtype))
    bound = unit * (np.abs(wide_c) * np.abs(wide_d)).sum(1)
    assert (np.abs(got.astype(np.float64) - (wide_c * wide_d).sum(1)) <= bound).all()


@pytest.mark.parametrize("columns", [1, 2049])
def test_sampled_with_any_number_of_columns(columns):
    c, d = values(3, columns), values(4, columns, seed=1)
    at = chunk_columns(np.array([3]))
    index = np.array([0, 2, 2], np.uint32)[at], np.array([3, 0, 1], np.uint32)[at]
    got = run(sddmm, "gen3", c, d, *index)[:3, 0]
    want = (c.astype(np.float64) @ d.astype(np.float64).T)[[0, 2, 2], [3, 0, 1]]
    assert np.allclose(got, want, rtol=0, atol=columns * 2.0**-24 * 16)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(
    ("size", "columns", "resident"), [(128, 140, True), (8, 3, True), (200, 20, False)]
)
def test_sampled_blocks(generation, size, columns, resident, monkeypatch):
    if not resident:
        monkeypatch.setattr(sampled_module, "RESIDENT", 0)
    c, d = values(3 * size, columns), values(2 * size, columns, seed=1)
    got = run(bsr_sddmm, generation, c, d, BlockRows((0, 2, 2, 3), (0, 1, 1)), size)
    full = c.astype(np.float64) @ d.astype(np.float64).T
    sizes = np.abs(c.astype(np.float64)) @ np.abs(d.astype(np.float64)).T
    for block, i, j in zip(got, (0, 0, 2), (0, 1, 1), strict=True):
        part = np.s_[i * size : (i + 1) * size, j * size : (j + 1) * size]
        assert (np.abs(block - full[part]) <= columns * 2.0**-24 * sizes[part]).all()


def test_gradients_of_products_launch_kernels():
    x = torch.from_numpy(row_problem(30, 21, 1, 0.2, heavy=True)[0])
    b = torch.from_numpy(values(21, 3)).requires_grad_()
    for matrix, kernels in (
        (trnsparse.from_dense(x), {"spmm_one_hot": 2, "sddmm": 1}),
        (trnsparse.BSRMatrix.from_dense(x, 8), {"bsr_spmm": 2, "bsr_sddmm": 1}),
    ):
        held = matrix._with_data(matrix._data.clone().requires_grad_())
        before = counts()
        with trnsparse.backend("simulator"):
            product = trnsparse.spmm(held, b)
        # The gradients take the path of the product, also after the block.
        got = torch.autograd.grad(product.square().sum(), (held._data, b))
        assert dict((counts() - before).launches) == kernels
        with trnsparse.backend("pytorch"):
            product = trnsparse.spmm(held, b)
        want = torch.autograd.grad(product.square().sum(), (held._data, b))
        for one, other in zip(got, want, strict=True):
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


# -- screened --------------------------------------------------------------------------------------


def check_screened(m, n, columns, cutoff, generation, dtype="float32"):
    a, b = values(m, n, dtype=dtype), values(n, columns, dtype=dtype, seed=1)
    rng = np.random.default_rng(m)
    rows = np.sort(rng.random(m)).astype(a.dtype)
    across = rng.random(n).astype(a.dtype)
    as_tensor = [
        torch.from_numpy(x.astype(np.float32)).to(getattr(torch, dtype)) for x in (rows, across)
    ]
    limit = float(torch.tensor(cutoff, dtype=as_tensor[0].dtype))
    chosen = (torch.outer(*as_tensor) > limit).numpy()
    a[~chosen] = np.inf  # leaves no trace
    kept = _kept_tiles(*as_tensor, limit)
    out = run(screened_spmm, generation, a, rows[:, None], across[None], b, limit, kept)
    compare(out, np.where(chosen, a, 0), b)
    return kept


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_screened_on_every_generation(generation, dtype):
    kept = check_screened(300, 260, 70, 0.5, generation, dtype)
    assert [len(row) for row in kept] == [0, 3, 3]  # small bounds are skipped, row by row


@each_case("cutoff", [0.0, 0.9, 2.0])
@each_case("shape", [(127, 129, 2), (128, 128, 514), (129, 127, 20)], ids=str)
def test_screened_around_tiles(shape, cutoff):
    check_screened(*shape, cutoff, "gen3")


def test_skipped_tiles_cost_nothing():
    a, b = np.zeros((512, 512), np.float32), np.zeros((512, 64), np.float32)
    ones = np.ones((512, 1), np.float32)
    found = []
    for kept in [
        (((0, True),), (), (), ()),
        tuple(tuple((j, True) for j in range(4)) for _ in range(4)),
    ]:
        count = Count(screened_spmm, "gen3", a, ones, ones.T, b, 0.5, kept)
        found.append(count.instructions["nc_matmul"])
    assert found == [1, 16]


# -- from the outside ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "kernel"),
    [
        (lambda x: trnsparse.from_dense(x), "spmm_one_hot"),
        (lambda x: trnsparse.from_dense(torch.ones(128, 21)), "spmm_segments"),
        (lambda x: trnsparse.BSRMatrix.from_dense(x, 8), "bsr_spmm"),
    ],
    ids=["one-hot", "segments", "blocks"],
)
@pytest.mark.parametrize("columns", [1, 3])
def test_products_launch_one_kernel(made, kernel, columns):
    x = torch.from_numpy(row_problem(30, 21, 1, 0.2, heavy=True)[0])
    matrix, b = made(x), torch.from_numpy(values(21, columns))
    with trnsparse.backend("simulator"):
        before = counts()
        got = trnsparse.spmm(matrix, b)
        assert dict((counts() - before).launches) == {kernel: 1}
    compare(got.numpy(), matrix.to_dense().numpy(), b.numpy())


def test_a_screened_product_launches_one_kernel():
    a, b = torch.from_numpy(values(20, 20)), torch.from_numpy(values(20, 1))
    diagonal = torch.from_numpy(values(20, seed=2))
    with trnsparse.backend("simulator"):
        before = counts()
        got = trnsparse.screened_spmm(a, diagonal, b, 0.25)
        assert dict((counts() - before).launches) == {"screened_spmm": 1}
    root = diagonal.abs().sqrt()
    compare(got.numpy(), np.where(torch.outer(root, root) > 0.5, a, 0), b.numpy())


@st.composite
def entries(draw):
    """Draw a shape and entries in any order: twice the same, rows without any, one full row."""
    m, n = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    place = st.tuples(st.integers(0, m - 1), st.integers(0, n - 1))
    places = draw(st.lists(place, max_size=30))
    if draw(st.booleans()):
        row = draw(st.integers(0, m - 1))
        places += [(row, j) for j in range(n)]
    return (m, n), places


@examples(25)
@given(entries(), st.integers(1, 3), st.integers(1, 5))
def test_any_pattern_of_any_format(problem, columns, size):
    shape, places = problem
    rows, cols = (torch.tensor([p[i] for p in places], dtype=torch.int64) for i in (0, 1))
    numbers = torch.from_numpy(values(max(len(places), 1)))[: len(places)]
    coo = trnsparse.COOMatrix(numbers, rows, cols, shape)
    b = torch.from_numpy(values(shape[1], columns, seed=1))
    dense = coo.to_dense()
    with requiring("trnsparse"), trnsparse.backend("simulator"):
        for matrix in (coo.to_csr(), coo.to_bsr(size)):
            got = trnsparse.spmm(matrix, b)
            assert torch.allclose(got, dense @ b, rtol=1e-5, atol=1e-5)
