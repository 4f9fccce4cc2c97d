"""Jacobi's method on the simulator: every order, spectra that are hard, and what a launch costs."""

from itertools import product

import numpy as np
import pytest
import torch
from scipy.linalg import hilbert

from each_case import each_case
from trnsci.core.backend.launch import Launcher
from trnsolver._eigen.tournament import packed_tables, slot_permutation, sweep_bound
from trnsolver._kernels.eigh_blocks import block_jacobi_eigh
from trnsolver._kernels.eigh_tile import jacobi_eigh
from trnsolver._kernels.jacobi import rotate_pairs_kernel
from trnsolver.eigen import EIGH

from .harness_solver import (
    EPS,
    GENERATIONS,
    diagonalises,
    lower_only,
    run,
    symmetric,
    with_spectrum,
)


def eigh(generation, *matrices, copies=1, sweeps=None):
    """Run the kernel for small orders on matrices whose upper triangles are NaN."""
    a = np.stack(matrices)
    n = a.shape[1]
    tables = packed_tables(n + n % 2, copies)
    return run(jacobi_eigh, generation, lower_only(a), tables, sweeps or sweep_bound(n))


def eigh_by_blocks(generation, a, groups, sweeps=None):
    """Run the kernel for large orders with a given number of groups."""
    n = a.shape[0]
    tables = packed_tables(2 * -(-n // groups), 1)
    moves = tuple(slot_permutation(groups))
    w, v, rest = run(
        block_jacobi_eigh, generation, lower_only(a)[None], tables, moves, sweeps or sweep_bound(n)
    )
    return w[0], v[0], rest[0]


@pytest.mark.parametrize(
    ("n", "generation"), [*product([1, 2, 3, 8], GENERATIONS), (16, "gen2"), (31, "gen4")]
)
def test_small_orders(n, generation):
    a = symmetric(n)
    w, v, rest = eigh(generation, a)
    assert diagonalises(a, w[0], v[0])
    assert rest[0, 0] <= 4 * EPS * n


@pytest.mark.parametrize(
    ("n", "groups", "generation"), [(8, 4, "gen2"), (9, 4, "gen4"), (11, 6, "gen3")]
)
def test_blocks_of_few_rows(n, groups, generation):
    a = symmetric(n)
    w, v, rest = eigh_by_blocks(generation, a, groups)
    assert diagonalises(a, w, v)
    assert rest[0] <= 4 * EPS * n


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("n", [64, 100, 128, 129, 256])
def test_large_orders_on_every_generation(n, generation):
    a = symmetric(n, seed=1)
    if n <= 128:
        w, v, _ = (x[0] for x in eigh(generation, a))
    else:
        w, v, _ = eigh_by_blocks(generation, a, 2 * -(-n // 128))
    assert diagonalises(a, w, v)


SPECTRA = {
    "clustered": np.repeat([1.0, 1.0 + 1e-6, 2.0, -3.0], 6),
    "graded": np.logspace(0, -12, 24),
    "condition 1e12, both signs": np.logspace(0, -12, 24) * np.tile([1, -1], 12),
    "rank three": np.r_[np.zeros(21), 1.0, 2.0, 3.0],
    "one far away": np.r_[1e4, np.linspace(0, 1, 23)],
}


def test_spectra():
    matrices = [with_spectrum(values) for values in SPECTRA.values()]
    w, v, _ = eigh("gen3", *matrices, copies=5)  # one tile
    for k, name in enumerate(SPECTRA):
        assert diagonalises(matrices[k], w[k], v[k]), name


FEW_VALUES = {
    "reflection": (1.0, -1.0),
    "four values": (1.0, 1.5, 2.0, -3.0),
    "two of them near": (1.0, 1.0 + 1e-6, 2.0, -3.0),
}


def test_few_distinct_eigenvalues_take_no_more_sweeps():
    matrices = [with_spectrum(np.sort(np.resize(v, 40))) for v in FEW_VALUES.values()]
    w, v, rest = eigh("gen3", *matrices, copies=3)  # one tile
    for k, name in enumerate(FEW_VALUES):
        assert rest[k, 0] <= 4 * EPS * 40, name
        assert diagonalises(matrices[k], w[k], v[k]), name


def test_a_full_tile():
    a = np.diag(np.linspace(-1, 1, 128)).astype(np.float32) + symmetric(128) * np.float32(1e-5)
    w, v, _ = eigh("gen3", a, sweeps=2)
    assert diagonalises(a, w[0], v[0])


# A full tile is what needs the most sweeps.
@pytest.mark.slow
@each_case("n", (64, 100, 128, 130))
@pytest.mark.parametrize("name", FEW_VALUES)
def test_few_distinct_eigenvalues_of_large_matrices(name, n):
    a = with_spectrum(np.sort(np.resize(FEW_VALUES[name], n)))
    w, v = EIGH.launch(Launcher("simulator"), torch.from_numpy(a)[None], 10)
    assert diagonalises(a, w[0].numpy(), v[0].numpy())


def wilkinson(n):
    a = np.diag(abs(np.arange(n) - (n - 1) / 2)) + np.eye(n, k=1) + np.eye(n, k=-1)
    return a.astype(np.float32)


MATRICES = {
    "zeros": np.zeros((6, 6), np.float32),
    "identity": np.eye(7, dtype=np.float32),
    "equal diagonal": np.full((8, 8), 0.5, np.float32),
    "hilbert": hilbert(12).astype(np.float32),
    "wilkinson": wilkinson(21),
    "two by two with equal diagonal": np.array([[1, 2], [2, 1]], np.float32),
    "tiny": symmetric(10) * np.float32(2.0**-90),
    "huge": symmetric(10) * np.float32(2.0**90),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices_with_structure(name):
    a = MATRICES[name]
    w, v, _ = eigh("gen2", a)
    assert diagonalises(a, w[0], v[0])


def test_a_diagonal_matrix_is_sorted_and_not_rounded():
    values = np.array([3.0, -1.5, 0.1, 7.3, 0.1, -1e-20, 1e10], np.float32)
    w, v, _ = eigh("gen3", np.diag(values))
    assert np.array_equal(w[0], np.sort(values))
    assert np.array_equal(np.sort(abs(v[0]), 0)[-1], np.ones(7, np.float32))


@pytest.mark.parametrize(
    ("n", "copies", "batch", "generation"),
    [
        (1, 5, 5, "gen2"),
        *((4, 3, 8, generation) for generation in GENERATIONS),
        (5, 2, 3, "gen4"),
        (15, 8, 8, "gen3"),
    ],
)
def test_matrices_that_share_a_tile(n, copies, batch, generation):
    # Sizes that differ by 2^40: each matrix is scaled by itself.
    matrices = [symmetric(n, seed=k) * np.float32(2.0 ** (40 * (k % 2))) for k in range(batch)]
    w, v, _ = eigh(generation, *matrices, copies=copies)
    for k in range(batch):
        assert diagonalises(matrices[k], w[k], v[k])


def test_nan_in_one_matrix_leaves_matrices_of_other_tiles():
    matrices = [symmetric(4, seed=k) for k in range(4)]
    matrices[0][2, 1] = np.nan
    w, v, _ = eigh("gen3", *matrices, copies=2)
    assert np.isnan(w[0]).any()
    for k in (2, 3):
        assert diagonalises(matrices[k], w[k], v[k])


@pytest.mark.parametrize(("n", "batch"), [(3, 1), (5, 4)])
def test_a_batch_is_one_launch(n, batch):
    launch = Launcher("simulator")
    a = torch.from_numpy(np.stack([symmetric(n, seed=k) for k in range(batch)]))
    w, v = EIGH.launch(launch, a, 10)
    assert launch.launches == 1
    assert w.shape == (batch, n)
    for k in range(batch):
        assert diagonalises(a[k].numpy(), w[k].numpy(), v[k].numpy())


def test_too_few_sweeps_give_no_eigenvalues():
    a = torch.from_numpy(symmetric(16)[None])
    w, _ = EIGH.launch(Launcher("simulator"), a, 2)
    assert w.isnan().all()


class NoiseLauncher(Launcher):
    """Runs a kernel, and returns noise of the same shapes instead of some of its results."""

    def __init__(self, *replaced):
        super().__init__("simulator")
        self._replaced = replaced

    def __call__(self, kernel, *args):
        noise = torch.Generator().manual_seed(5)
        results = super().__call__(kernel, *args)
        return tuple(
            torch.randn(x.shape, generator=noise) if i in self._replaced else x
            for i, x in enumerate(results)
        )


@pytest.mark.parametrize("replaced", [(0,), (1,), (0, 1)])
def test_noise_in_the_place_of_a_kernel_is_seen(replaced):
    a = torch.from_numpy(symmetric(8)[None])
    honest = EIGH.launch(NoiseLauncher(), a, 10)
    assert diagonalises(*(x[0].numpy() for x in (a, *honest)))
    noisy = EIGH.launch(NoiseLauncher(*replaced), a, 10)
    assert not diagonalises(*(x[0].numpy() for x in (a, *noisy)))


@pytest.mark.parametrize("part", ["round_matrix", "angles"])
def test_noise_in_the_place_of_rotations_is_seen(part, monkeypatch):
    from trnsci.core.nki import nisa, nl
    from trnsolver._kernels import jacobi

    real = getattr(jacobi, part)

    def wrong(*args):
        results = real(*args)
        tiles = results if isinstance(results, tuple) else (results,)
        for tile in tiles:
            nisa.iota(dst=tile, pattern=[[3, tile.shape[1]]], offset=1, channel_multiplier=-1)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.0078125)
        return results

    monkeypatch.setattr(jacobi, part, wrong)
    a = symmetric(8)
    w, v, _ = eigh("gen3", a, sweeps=2)
    assert not diagonalises(a, w[0], v[0])


@each_case("generation", GENERATIONS)
@each_case(("rows", "columns"), [(1, 1), (5, 7), (127, 3), (128, 4), (129, 2049)])
def test_rotated_pairs(rows, columns, generation):
    rng = np.random.default_rng((rows, columns))
    even, odd = rng.standard_normal((2, rows, columns)).astype(np.float32)
    angle = rng.uniform(-3, 3, (rows, 1))
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    first, second = run(rotate_pairs_kernel, generation, even, odd, c, s)
    wide = [x.astype(np.float64) for x in (even, odd, c, s)]
    # Two products and a sum, each rounded: an error of at most three halves of eps for each term.
    bound = 1.5 * EPS * (abs(wide[2] * wide[0]) + abs(wide[3] * wide[1])) + EPS
    assert (abs(first - (wide[2] * wide[0] - wide[3] * wide[1])) <= bound).all()
    bound = 1.5 * EPS * (abs(wide[3] * wide[0]) + abs(wide[2] * wide[1])) + EPS
    assert (abs(second - (wide[3] * wide[0] + wide[2] * wide[1])) <= bound).all()
