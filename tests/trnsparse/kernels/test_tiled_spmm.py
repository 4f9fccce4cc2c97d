"""Dense tiles that a matrix holds: their kernel, when it is chosen, and what plans predict."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import nkisim
import trnsci
import trnsparse
from each_case import each_case
from pairwise import in_turn
from trnsci.core.counters import counts
from trnsparse._kernels.bsr_spmm import BlockRows
from trnsparse._kernels.spmm import spmm_one_hot, spmm_segments
from trnsparse._kernels.tiled_spmm import tiled_spmm
from trnsparse._products import tiles as tiles_module
from trnsparse._products.row_order import plan_rows

from .harness import GENERATIONS, run
from .test_products import compare, one_hot_operands, row_problem, segment_operands


def tiled(problem):
    dense, *_, b = problem
    grid = -(-dense.shape[0] // 128), -(-dense.shape[1] // 128)
    padded = np.zeros((grid[0] * 128, grid[1] * 128), dense.dtype)
    padded[: dense.shape[0], : dense.shape[1]] = dense
    blocks = padded.reshape(grid[0], 128, grid[1], 128).transpose(0, 2, 1, 3)
    rows, columns = np.nonzero((blocks != 0).any((2, 3)))
    starts = np.searchsorted(rows, np.arange(grid[0] + 1))
    data = np.ascontiguousarray(blocks[rows, columns].transpose(2, 0, 1))
    return data, b, BlockRows(tuple(starts.tolist()), tuple(columns.tolist())), dense.shape[0]


@each_case("generation", GENERATIONS)
@each_case("dtype", ["float32", "bfloat16", "float16"])
def test_tiles_on_every_generation(generation, dtype):
    problem = row_problem(300, 270, 70, 0.001, dtype, heavy=True)
    compare(run(tiled_spmm, generation, *tiled(problem)), problem[0], problem[-1])


@each_case("shape", [(127, 129, 2), (128, 128, 513 + 1), (129, 127, 512), (130, 2200, 3)], ids=str)
@each_case("resident", [True, False])
def test_shapes_around_tiles_and_groups(shape, resident, monkeypatch):
    if not resident:
        monkeypatch.setattr("trnsparse._kernels.tiled_spmm.RESIDENT", 0)
    problem = row_problem(*shape, 0.05)
    compare(run(tiled_spmm, "gen3", *tiled(problem)), problem[0], problem[-1])


def matrix_of(problem):
    return trnsparse.from_dense(torch.from_numpy(problem[0]))


@pytest.fixture
def worth(monkeypatch):
    """Make tiles worth their memory for matrices that are small enough to simulate."""
    monkeypatch.setattr(tiles_module, "WORTH", 10.0)


def launched(call):
    before = counts()
    with trnsparse.backend("simulator"):
        result = call()
    return result, dict((counts() - before).launches)


def test_the_second_product_builds_tiles_and_changes_of_values_rebuild_them(worth):
    problem = row_problem(140, 150, 20, 0.05)
    matrix, b = matrix_of(problem), torch.from_numpy(problem[-1])
    for expected in ("spmm_one_hot", "tiled_spmm", "tiled_spmm"):
        result, launches = launched(lambda: trnsparse.spmm(matrix, b))
        assert launches == {expected: 1}
        compare(result.numpy(), problem[0], problem[-1])
    matrix.values.mul_(-2.0)
    result, launches = launched(lambda: trnsparse.spmm(matrix, b))
    assert launches == {"tiled_spmm": 1}
    compare(result.numpy(), -2.0 * problem[0], problem[-1])


def test_tiles_on_request_serve_the_first_product(worth):
    problem = row_problem(140, 150, 20, 0.05)
    matrix = matrix_of(problem).hold_tiles()
    _, launches = launched(lambda: trnsparse.spmm(matrix, torch.from_numpy(problem[-1])))
    assert launches == {"tiled_spmm": 1}
    assert matrix.product_plan(20).kernel == "tiles"


def test_no_tiles_beyond_the_limit_or_under_a_gradient(worth, monkeypatch):
    problem = row_problem(140, 150, 20, 0.05)
    matrix, b = matrix_of(problem), torch.from_numpy(problem[-1])
    for _ in range(2):
        _, launches = launched(lambda: trnsparse.spmm(matrix, b.clone().requires_grad_()))
        assert launches == {"spmm_one_hot": 1}
    monkeypatch.setattr(tiles_module, "LIMIT", 4 * 4 * 128 * 128 - 1)
    for _ in range(2):
        _, launches = launched(lambda: trnsparse.spmm(matrix, b))
        assert launches == {"spmm_one_hot": 1}
    monkeypatch.setattr("trnsparse.formats._storage.csr.LIMIT", 1)
    with pytest.raises(ValueError, match="tiles take 262,144 bytes"):
        matrix.hold_tiles()


def test_plan_and_explain_print_the_predicted_times():
    problem = row_problem(300, 270, 20, 0.05)
    matrix = matrix_of(problem)
    shown = str(matrix.product_plan(20))
    for name in ("one-hot", "segments", "tiles", "9 of 9 tiles"):
        assert name in shown
    with trnsparse.backend("simulator"):
        explained = str(trnsci.core.explain(trnsparse.spmm, matrix, torch.from_numpy(problem[-1])))
    assert "tiles" in explained
    assert f"{matrix.product_plan(20).tiles_ns / 1e3:,.1f} us" in explained


def predicted(kernel, generation, operands):
    return 1e3 * nkisim.profile(kernel, generation, advice=False)(*operands).latency_us


PROBLEMS = {
    "few": (256, 256, 64, 0.01, "float32"),
    "many": (640, 512, 128, 0.1, "float32"),
    "wide": (384, 300, 600, 0.05, "float32"),
    "narrow": (520, 900, 2, 0.05, "bfloat16"),
}


@each_case("name, generation", in_turn(PROBLEMS, GENERATIONS))
def test_predicted_times_of_a_plan_are_those_of_the_profile(name, generation):
    assert_times_of_the_profile(name, generation)


@pytest.mark.slow
@each_case("generation", GENERATIONS)
@each_case("name", PROBLEMS)
def test_predicted_times_on_every_generation(name, generation):
    assert_times_of_the_profile(name, generation)


def assert_times_of_the_profile(name, generation):
    """One constant stands for all waits and all first transfers, within 15 %."""
    *shape, columns, share, dtype = PROBLEMS[name]
    problem = row_problem(*shape, columns, share, dtype)
    plan = plan_rows(problem[4], columns, dtype, generation)
    found = {
        "one-hot": predicted(spmm_one_hot, generation, one_hot_operands(problem)),
        "segments": predicted(spmm_segments, generation, segment_operands(problem)),
        "tiles": predicted(tiled_spmm, generation, tiled(problem)),
    }
    values = torch.ones(len(problem[1]))
    matrix = trnsparse.CSRMatrix(
        values, torch.from_numpy(problem[3]), torch.from_numpy(problem[4]), tuple(shape)
    ).to(getattr(torch, dtype))
    planned = matrix.product_plan(columns, generation)
    expected = {
        "one-hot": plan.one_hot_ns,
        "segments": plan.segments_ns,
        "tiles": planned.tiles_ns,
    }
    for kernel, ns in expected.items():
        assert ns == pytest.approx(found[kernel], rel=0.15), kernel
