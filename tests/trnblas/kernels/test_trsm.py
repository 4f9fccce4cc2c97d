"""TRSM kernels against float64: every flag, ragged shapes, batches, and what they cost."""

import itertools

import numpy as np
import pytest

import nkisim
from comparing import assert_within
from each_case import each_case
from oracles import blas_triangular as oracle
from pairwise import in_turn, pairwise
from trnblas._kernels import trsm as module
from trnblas._kernels.trsm import batched_trsm, trsm

from .harness_products import DTYPES, Count, run

FLAGS = list(itertools.product([True, False], repeat=4))
GENERATIONS = ("gen2", "gen3", "gen4")


def system(order, columns, left=True, dtype="float32", seed=0):
    """A matrix with three large entries in each row beside its diagonal, and right-hand sides.

    An entry of 0.15 anywhere is far above the error bounds, so a block that is dropped, or taken
    twice, is seen.
    """
    rng = np.random.default_rng((order, columns, seed))
    a = 0.3 / order * rng.uniform(-1, 1, (order, order))
    large = np.arange(order)[:, None], rng.integers(0, order, (order, 3))
    a[large] = rng.choice([-0.15, 0.15], (order, 3))
    np.fill_diagonal(a, rng.choice([-1, 1], order) * rng.uniform(1, 2, order))
    b = rng.standard_normal((order, columns) if left else (columns, order))
    return a.astype(DTYPES[dtype]), b.astype(DTYPES[dtype])


def assert_solved(order, columns, flags, *, alpha=2.5, dtype="float32", generation="gen3"):
    """The kernel solves a system in which everything it must not read is NaN."""
    left, upper, _, unit = flags
    a, b = system(order, columns, left, dtype)
    got = run(trsm, generation, oracle.hidden(a, upper, unit), b, alpha, *flags)
    assert got.dtype == b.dtype
    assert_within(got, *oracle.solve(a, b, alpha, *flags))


@each_case("flags", FLAGS)
@each_case("shape", [(7, 5), (130, 3)])
def test_every_combination_of_flags(flags, shape):
    assert_solved(*shape, flags)


@each_case("flags", pairwise(*[(True, False)] * 4))
def test_three_blocks_and_two_strips(flags):
    assert_solved(257, 129, flags)


@each_case(("flags", "generation"), in_turn(FLAGS[::3], GENERATIONS))
def test_every_generation(generation, flags):
    assert_solved(200, 150, flags, generation=generation)


@each_case("flags", [(True, True, False, False), (True, False, True, True)])
@each_case("shape", [(128, 128), (256, 128), (512, 256), (200, 150)])
def test_published_shapes(shape, flags):
    assert_solved(*shape, flags)


@each_case("left", [True, False])
@each_case("order", [1, 2, 3, 64, 65, 127, 128, 129, 255, 256])
def test_orders_around_a_block(order, left):
    assert_solved(order, 4, (left, False, False, False))


@each_case("left", [True, False])
@each_case("columns", [1, 2, 127, 128, 129, 511, 512, 513, 1031])
def test_columns_around_a_strip(columns, left):
    assert_solved(131, columns, (left, True, False, False))


@pytest.mark.parametrize("left", [True, False])
def test_more_columns_than_a_panel_has(left):
    assert_solved(130, 2049, (left, False, True, False))


@each_case("generation", GENERATIONS)
@each_case("flags", [(True, True, False, False), (False, False, False, True)])
def test_bfloat16_is_rounded_once(flags, generation):
    assert_solved(193, 70, flags, dtype="bfloat16", generation=generation)
    assert_solved(130, 70, flags, dtype="float16", generation=generation)


def test_identity_on_the_right_gives_the_inverse():
    a, _ = system(384, 1)
    flags = (True, False, False, False)
    eye = np.eye(384, dtype=np.float32)
    got = run(trsm, "gen3", a, eye, 1.0, *flags)
    assert_within(got, *oracle.solve(a, eye, 1.0, *flags))
    assert not np.triu(got, 1).any()


@pytest.mark.slow
@pytest.mark.parametrize("flags", FLAGS)
def test_large_systems(flags):
    assert_solved(1000, 700, flags, alpha=-1.0)


def test_residual_of_a_cholesky_factor():
    # The residual of X is at most |A| times the error of X, entry by entry.
    rng = np.random.default_rng(5)
    q = rng.standard_normal((300, 300))
    factor = np.linalg.cholesky(q @ q.T / 300 + np.eye(300)).astype(np.float32)
    b = rng.standard_normal((300, 40)).astype(np.float32)
    flags = (True, False, False, False)
    got = run(trsm, "gen3", factor, b, 1.0, *flags)
    _, bound = oracle.solve(factor, b, 1.0, *flags)
    wide = np.tril(factor).astype(np.float64)
    assert (abs(wide @ got - b) <= abs(wide) @ bound).all()


@pytest.mark.parametrize("left", [True, False])
def test_alpha_zero_reads_nothing(left):
    nothing = np.full((130, 130), np.nan, np.float32)
    got = run(
        trsm, "gen3", nothing, nothing[:, :70] if left else nothing[:70], 0.0, left, *FLAGS[0][1:]
    )
    assert got.shape == ((130, 70) if left else (70, 130))
    assert not got.any()


@pytest.mark.parametrize("flags", [(True, True, False, False), (False, True, False, False)])
def test_a_singular_matrix_gives_no_finite_solution_and_no_exception(flags):
    a, b = system(200, 6, flags[0])
    a[150, 150] = 0
    got = nkisim.simulate(trsm, strictness="strict", target="gen3")(a, b, 1.0, *flags)
    assert not np.isfinite(got[150] if flags[0] else got[:, 150]).any()


@each_case("generation", GENERATIONS)
@each_case("left", [True, False])
def test_nan_in_one_right_hand_side_leaves_the_others(left, generation):
    flags = (left, False, False, False)
    a, b = system(200, 6, left)
    want, bound = oracle.solve(a, b, 1.0, *flags)
    b[(30, 2) if left else (2, 30)] = np.nan
    simulated = run(trsm, generation, a, b, 1.0, *flags)
    got, want, bound = (simulated, want, bound) if left else (simulated.T, want.T, bound.T)
    # A lower matrix on the left is solved forwards, on the right backwards.
    assert np.isnan(got[30:, 2] if left else got[:31, 2]).all()
    others = [0, 1, 3, 4, 5]
    assert_within(got[:, others], want[:, others], bound[:, others])


def test_arguments_are_left_alone():
    a, b = system(130, 9)
    before = a.copy(), b.copy()
    run(trsm, "gen3", a, b, 2.0, True, True, False, False)
    assert np.array_equal(a, before[0])
    assert np.array_equal(b, before[1])


def batch(count, order, columns, left, dtype="float32"):
    systems = [system(order, columns, left, dtype, seed) for seed in range(count)]
    return np.stack([a for a, _ in systems]), np.stack([b for _, b in systems])


@each_case("flags", FLAGS[1::4])
@each_case("dtype", ["float32", "bfloat16", "float16"])
def test_batches_with_a_matrix_each(flags, dtype):
    left, upper, _, unit = flags
    a, b = batch(3, 140, 9, left, dtype)
    poisoned = np.stack([oracle.hidden(matrix, upper, unit) for matrix in a])
    got = run(batched_trsm, "gen3", poisoned, b, 0.5, *flags)
    for k in range(3):
        assert_within(got[k], *oracle.solve(a[k], b[k], 0.5, *flags))


@each_case(
    "generation, columns, flags",
    pairwise(
        GENERATIONS, [1, 7, 170, 600], [(True, True, False, False), (False, False, False, True)]
    ),
)
def test_batches_around_a_lock_step(flags, columns, generation):
    # 17 systems of one block, nine of two blocks of which the second has 72 rows.
    left, upper, _, unit = flags
    for count, order in ((17, 33), (9, 200)):
        a, b = batch(count, order, columns, left)
        poisoned = np.stack([oracle.hidden(matrix, upper, unit) for matrix in a])
        got = run(batched_trsm, generation, poisoned, b, 0.5, *flags)
        for k in range(count):
            assert_within(got[k], *oracle.solve(a[k], b[k], 0.5, *flags))


def test_a_lock_step_of_matrices_takes_three_transfers():
    a, b = zeros(32, 128, 128), zeros(32, 128, 64)
    count = Count(batched_trsm, "gen2", a, b, 1.0, True, True, False, False)
    assert count.instructions["dma_copy"] == 2 * 3


# From the left and from the right, by a triangle of either kind.
@each_case("columns", [1, 70, 600, 2050])
@each_case("flags", [(True, True, True, False), (False, False, True, False)])
def test_batches_with_a_shared_matrix(flags, columns):
    left, upper, _, unit = flags
    count = 5 if columns < 512 else 2
    matrices, b = batch(count, 140, columns, left)
    a = matrices[0]
    got = run(batched_trsm, "gen3", oracle.hidden(a, upper, unit), b, 0.5, *flags)
    for k in range(count):
        assert_within(got[k], *oracle.solve(a, b[k], 0.5, *flags))


def test_too_large_an_order_is_refused(monkeypatch):
    monkeypatch.setattr(module, "MAX_ORDER", 128)
    a, b = system(129, 2)
    with pytest.raises(AssertionError, match="trsm: A must have order at most 128, got 129"):
        run(trsm, "gen3", a, b, 1.0, True, True, False, False)


def zeros(*shape):
    return np.zeros(shape, np.float32)


@pytest.mark.parametrize("trans", [True, False])
def test_products_are_those_of_the_blocks_of_the_triangle(trans):
    count = Count(trsm, "gen2", zeros(512, 512), zeros(512, 512), 1.0, True, True, trans, False)
    blocks = 4
    off_diagonal = blocks * (blocks - 1) // 2
    # Three for each doubling; the first one does not multiply by X_1, the last one gives only X^T.
    inversions = blocks * (3 * 7 - 2)
    assert count.instructions["nc_matmul"] == off_diagonal + blocks + inversions


def test_every_block_of_the_triangle_and_every_right_hand_side_is_read_once():
    count = Count(trsm, "gen2", zeros(512, 512), zeros(512, 2048), 1.0, True, True, False, False)
    triangle = (4 * 5 // 2) * 128 * 128
    assert count.hbm_bytes == 4 * (triangle + 2 * 512 * 2048)


def test_a_shared_matrix_is_read_once_for_many_narrow_systems():
    a, b = zeros(256, 256), zeros(32, 256, 64)
    count = Count(batched_trsm, "gen2", a, b, 1.0, True, True, False, False)
    assert count.hbm_bytes == 4 * (3 * 128 * 128 + 2 * b.size)


@pytest.mark.parametrize("left", [True, False])
def test_a_full_panel_fits_the_smallest_sbuf(left):
    # 20 blocks: 128 columns of inverses and 1715 of the panel are all of the 144 KiB.
    b = zeros(2560, 1715) if left else zeros(1715, 2560)
    Count(trsm, "gen2", zeros(2560, 2560), b, 1.0, left, True, False, False)
