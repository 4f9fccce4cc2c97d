"""Conjugate gradients on the device, in strict simulation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import trnsparse
from trnsci.core.counters import counts
from trnsci.core.testing import refusals_expected
from trnsparse._kernels.bsr_cg import bsr_cg

from .harness import GENERATIONS, Count, values
from .harness import run as run_kernel


def system(grid, size, width=1):
    """Return a positive definite matrix with blocks near the diagonal, and its blocks."""
    n = grid * size
    near = np.abs(np.arange(grid)[:, None] - np.arange(grid)) <= width
    dense = np.where(np.kron(near, np.ones((size, size))), values(n, n), 0)
    dense = (dense + dense.T) / 2
    dense = (dense + np.eye(n) * (1 + 0.7 * np.abs(dense).sum(1).max())).astype(np.float32)
    rows, columns = np.nonzero(near)
    cut = dense.reshape(grid, size, grid, size).transpose(0, 2, 1, 3)
    entries = tuple(
        tuple((int(k), int(rows[k])) for k in np.flatnonzero(columns == i)) for i in range(grid)
    )
    return dense, np.ascontiguousarray(cut[rows, columns]), entries


def run(*arguments):
    return run_kernel(*arguments, decided_by_values=True)


def limits(b, tol):
    return (tol * tol * (b.astype(np.float64) ** 2).sum(0))[None].astype(np.float32)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("grid", "size"), [(2, 128), (4, 7)])
def test_every_generation(generation, grid, size):
    dense, blocks, entries = system(grid, size)
    b = values(len(dense), 3)
    b[:, 2] = 0  # solved before it begins
    x, steps, squares = run(
        bsr_cg, generation, blocks, b, np.zeros_like(b), limits(b, 1e-5), entries, 50
    )
    norms = np.linalg.norm(b, axis=0)
    rest = np.linalg.norm(b - dense.astype(np.float64) @ x, axis=0)
    # The recurrence stops at the tolerance; the residual itself is a few roundings of A x away.
    assert (rest[:2] <= 2e-5 * norms[:2]).all()
    assert np.allclose(np.sqrt(squares[0]), rest, rtol=1e-2, atol=1e-6 * norms.max())
    assert not x[:, 2].any()
    assert steps[0, 2] == 0
    assert 0 < steps.max() < 50


def test_columns_stop_one_by_one_and_at_the_limit():
    dense, blocks, entries = system(4, 8)
    b = values(len(dense), 2)
    start = np.linalg.solve(dense.astype(np.float64), b).astype(np.float32)
    start[:, 1] = 0
    arguments = blocks, b, start, limits(b, 1e-5), entries
    x, steps, _ = run(bsr_cg, "gen3", *arguments, 3)
    assert steps.tolist() == [[0.0, 3.0]]
    assert np.array_equal(x[:, 0], start[:, 0])


def test_a_matrix_that_is_not_definite_stands_still():
    _, blocks, entries = system(2, 8)
    b = values(16, 2)
    x, steps, _ = run(bsr_cg, "gen3", -blocks, b, np.zeros_like(b), limits(b, 1e-5), entries, 9)
    assert not x.any()
    assert not steps.any()


def test_the_matrix_is_read_once():
    counts_of = {}
    for tol in (1e-1, 1e-6):
        dense, blocks, entries = system(4, 16)
        b = values(len(dense), 2)
        arguments = blocks, b, np.zeros_like(b), limits(b, tol), entries, 50
        count = Count(bsr_cg, "gen3", *arguments, decided_by_values=True)
        counts_of[tol] = count.hbm_bytes
    assert counts_of[1e-1] == counts_of[1e-6]


@pytest.mark.parametrize("sides", [0, 1, 3])
def test_cg_of_a_matrix_in_blocks(sides):
    dense = torch.from_numpy(system(4, 8)[0])[:27, :27]  # the last blocks are cut
    matrix = trnsparse.BSRMatrix.from_dense(dense, 8)
    matrix.blocks[-1, 3:] = 5.0  # outside of the matrix
    b = torch.from_numpy(values(27, max(sides, 1)))
    b = b[:, 0] if sides == 0 else b
    before = counts()
    with trnsparse.backend("simulator"):
        got = trnsparse.cg(matrix, b, tol=1e-5)
    assert dict((counts() - before).launches) == {"bsr_cg": 1}
    with trnsparse.backend("pytorch"):
        want = trnsparse.cg(trnsparse.from_dense(dense), b, tol=1e-5)
    assert got.converged
    assert got.residual <= 1e-5
    assert abs(got.iterations - want.iterations) <= 1
    assert torch.allclose(got.x, want.x, rtol=0, atol=1e-4 * float(want.x.abs().max()))


@refusals_expected()
def test_what_does_not_stay_in_sbuf_is_refused():
    n = 128 * 18
    blocks = torch.zeros(324, 128, 128)
    grid = torch.arange(18)
    matrix = trnsparse.BSRMatrix(
        blocks, grid.repeat(18), torch.arange(0, 325, 18), (n, n), 128, validate=False
    )
    before = counts()
    with trnsparse.backend("simulator"):
        trnsparse.cg(matrix, torch.ones(n), max_iter=0, on_failure="ignore")
    (reason,) = (counts() - before).refusals
    assert "SBUF" in str(reason)
