"""Kernels for factors: Cholesky, LU with pivots, QR and singular values."""

import numpy as np
import pytest
import scipy.linalg
import torch

import trnsolver
from each_case import each_case
from pairwise import in_turn
from trnsci.core.backend.launch import Launcher
from trnsci.core.numbers.planes import parts
from trnsci.core.testing import launched, strict_simulation
from trnsolver._eigen.tournament import packed_tables, sweep_bound
from trnsolver._factors.forms import joined_blocks
from trnsolver._kernels import limits
from trnsolver._kernels.cholesky import cholesky
from trnsolver._kernels.lu import lu
from trnsolver._kernels.qr import cholesky_qr
from trnsolver._kernels.svd import jacobi_svd
from trnsolver._library import LIBRARY
from trnsolver.factor import CHOLESKY, LU
from trnsolver.orthogonal import noise
from trnsolver.singular_values import SVD, _completed, svd_of_groups

from .harness_solver import (
    EPS,
    GENERATIONS,
    distance_from_orthogonal,
    lower_only,
    norm,
    run,
    symmetric,
    with_spectrum,
)


def definite(n, condition=100.0, seed=0):
    return with_spectrum(np.logspace(0, -np.log10(condition), n), seed)


def general(m, n, condition=100.0, seed=0):
    rng = np.random.default_rng((m, n, seed))
    u, _ = np.linalg.qr(rng.standard_normal((m, n)))
    v, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return ((u * np.logspace(0, -np.log10(condition), n)) @ v).astype(np.float32)


def assert_near(product, a, rows):
    """The backward error of a factorization is at most that of ``rows`` roundings."""
    wide = a.astype(np.float64)
    assert np.linalg.norm(product - wide, 2) <= 2 * rows * EPS * norm(a)


def assert_factored(a, factor):
    wide = factor.astype(np.float64)
    assert not np.triu(factor, 1).any()
    assert (np.diag(factor) > 0).all()
    assert_near(wide @ wide.T, a, a.shape[0])


@each_case("generation", GENERATIONS)
@each_case("n", [1, 2, 31])
def test_cholesky(n, generation):
    a = definite(n, 1e4)
    assert_factored(a, run(cholesky, generation, lower_only(a)[None], 1)[0])


@pytest.mark.parametrize(("n", "generation"), [(127, "gen2"), (128, "gen3"), (129, "gen4")])
def test_cholesky_around_a_block(n, generation):
    a = definite(n, 1e4)
    assert_factored(a, run(cholesky, generation, lower_only(a)[None], 1)[0])


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("n", [127, 128, 129, 255, 256, 257, 600])
def test_cholesky_of_several_blocks(n, generation):
    a = definite(n, 1e4)
    assert_factored(a, run(cholesky, generation, lower_only(a)[None], 1)[0])


@each_case("generation", GENERATIONS)
@each_case(("n", "copies", "batch"), [(1, 4, 5), (5, 3, 7), (16, 2, 2)])
def test_cholesky_of_matrices_that_share_a_tile(n, copies, batch, generation):
    a = np.stack([definite(n, 50, k) for k in range(batch)])
    found = run(cholesky, generation, lower_only(a), copies)
    for k in range(batch):
        assert_factored(a[k], found[k])


@each_case("generation", GENERATIONS)
@each_case(("n", "copies", "batch"), [(17, 7, 2), (33, 3, 3), (64, 2, 3)])
def test_cholesky_in_a_shared_tile_adds_to_no_sum_that_was_read(n, copies, batch, generation):
    """Panels are at most 16 columns: before the third one, the second one's sums were read."""
    a = np.stack([definite(n, 50, k) for k in range(batch)])
    found = run(cholesky, generation, lower_only(a), copies)
    for k in range(batch):
        assert_factored(a[k], found[k])


def test_cholesky_of_matrices_of_any_size_of_entries():
    a = np.stack([definite(5, 50, k) * np.float32(2.0 ** (40 * k - 80)) for k in range(5)])
    found = CHOLESKY.launch(Launcher("simulator"), torch.from_numpy(a)).numpy()
    for k in range(5):
        assert_factored(a[k], found[k])


@each_case("n, generation", in_turn([15, 16, 17, 257, 33, 130], GENERATIONS))
def test_cholesky_around_a_panel(n, generation):
    a = definite(n, 1e4)
    assert_factored(a, run(cholesky, generation, lower_only(a)[None], 1)[0])


@pytest.mark.parametrize("n", [3, 130])
def test_a_matrix_that_is_not_definite_has_no_factor(n):
    a = torch.from_numpy(definite(n))
    a[-1, -1] = -1.0
    found = CHOLESKY.launch(Launcher("simulator"), a[None])
    assert found[0].diagonal().isnan().any()


def assert_lu(a, p, lower, upper):
    n = a.shape[0]
    wide = [x.astype(np.float64) for x in (p, lower, upper)]
    assert not np.triu(lower, 1).any()
    assert not np.tril(upper, -1).any()
    assert np.array_equal(np.diag(lower), np.ones(n, np.float32))
    assert abs(lower).max() <= 1 / (1 - 2.0**-16)
    assert np.array_equal(p.sum(0), np.ones(n))
    assert np.array_equal(p.sum(1), np.ones(n))
    assert_near(wide[0] @ wide[1] @ wide[2], a, n)


@each_case("generation", GENERATIONS)
@each_case("n", [1, 2, 3, 17])
def test_lu(n, generation):
    a = np.random.default_rng(n).standard_normal((2, n, n)).astype(np.float32)
    found = run(lu, generation, a)
    for k in range(2):
        assert_lu(a[k], *(x[k] for x in found))
        assert np.array_equal(found[0][k], scipy.linalg.lu(a[k])[0])


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("n", [64, 127, 128, 129, 257])
def test_lu_around_a_block(n, generation):
    a = np.random.default_rng(n).standard_normal((1, n, n)).astype(np.float32)
    assert_lu(a[0], *(x[0] for x in run(lu, generation, a)))


def test_lu_needs_exchanges():
    a = np.array([[0, 2, 1], [1, 0, 0], [3, 1, 0]], np.float32)
    p, lower, upper = (x[0] for x in run(lu, "gen2", a[None]))
    assert np.array_equal(p @ lower @ upper, a)


@pytest.mark.parametrize("name", ["zeros", "ones", "a column of zeros"])
def test_lu_of_singular_matrices(name):
    a = {"zeros": np.zeros((3, 3)), "ones": np.ones((4, 4)), "a column of zeros": np.eye(4)}[name]
    a = a.astype(np.float32)
    if name == "a column of zeros":
        a[:, 1] = 0
    p, lower, upper = (x[0] for x in run(lu, "gen3", a[None]))
    assert np.array_equal(p @ lower @ upper, a)
    assert (np.diag(upper) == 0).any()


def exact_problems(shape, count, complex_too=False):
    """Matrices of small integers, with equal entries and dependent rows, and LAPACK's factors.

    Those are returned whose factors are multiples of 1/64, so that nothing is rounded.
    """
    rng, found = np.random.default_rng(shape), []
    while len(found) < count:
        a = rng.integers(-1, 2, shape) + (1j * rng.integers(-1, 2, shape) if complex_too else 0)
        factors = scipy.linalg.lu(a)
        numbers = np.concatenate([x.ravel().astype(complex).view(float) for x in factors]) * 64
        if np.array_equal(numbers, numbers.round()):
            found.append((a, factors))
    return found


@each_case(
    ("shape", "complex_too", "generation"),
    [
        (*case, GENERATIONS[i % 3])
        for i, case in enumerate(
            [((2, 2), True), ((5, 3), False), ((6, 6), False), ((9, 2), True), ((3, 7), False)]
        )
    ],
)
def test_lu_has_the_order_of_lapack_for_equal_entries_and_left_over_rows(
    shape, complex_too, generation
):
    problems = exact_problems(shape, 12, complex_too)
    dtype = torch.complex64 if complex_too else torch.float32
    a = torch.from_numpy(np.stack([a for a, _ in problems])).to(dtype)
    with trnsolver.backend("simulator"), strict_simulation(generation), launched("lu"):
        found = trnsolver.lu(a)
    for k, (_, factors) in enumerate(problems):
        for got, want in zip(found, factors, strict=True):
            assert np.array_equal(got[k].numpy(), want)


@pytest.mark.slow
def test_lu_has_the_order_of_lapack_in_several_blocks():
    a = np.random.default_rng(8).standard_normal((300, 40)).astype(np.float32)
    with trnsolver.backend("simulator"):
        found = trnsolver.lu(torch.from_numpy(a)).P
    assert np.array_equal(found.numpy(), scipy.linalg.lu(a)[0])


def complex_normal(*shape):
    rng = np.random.default_rng(shape)
    drawn = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return drawn.astype(np.complex64)


def run_complex_lu(generation, a):
    """Return the factors of the kernel for complex matrices."""
    p, lower, upper = run(lu, generation, parts(torch.from_numpy(a)).numpy(), True)
    assert np.array_equal(p[..., ::2], p[..., 1::2])
    blocks = (joined_blocks(torch.from_numpy(x)).numpy() for x in (lower, upper))
    return p[..., ::2], *blocks


def assert_complex_lu(a, p, lower, upper):
    n = a.shape[0]
    wide = [x.astype(np.complex128) for x in (p, lower, upper)]
    assert not np.triu(lower, 1).any()
    assert not np.tril(upper, -1).any()
    assert np.array_equal(np.diag(lower), np.ones(n))
    # By |re| + |im| a pivot is at least the size of x up to 1 - 2^-16, and so |x| up to sqrt(2).
    assert abs(lower).max() <= 2**0.5 / (1 - 2.0**-15)
    assert set(np.unique(p)) <= {0, 1}
    assert np.array_equal(p.sum(0), np.ones(n))
    assert np.array_equal(p.sum(1), np.ones(n))
    product = wide[0] @ wide[1] @ wide[2] - a
    # A real part is a sum of 2 n products; sqrt(2) for both parts.
    size = np.linalg.norm(a.astype(np.complex128), 2)
    assert np.linalg.norm(product, 2) <= 2 * 2**0.5 * 2 * n * EPS * size


@each_case("generation", GENERATIONS)
@each_case("n", [1, 2, 3, 17])
def test_complex_lu(n, generation):
    a = complex_normal(2, n, n)
    found = run_complex_lu(generation, a)
    for k in range(2):
        assert_complex_lu(a[k], *(x[k] for x in found))
        # LAPACK's pivots, which are those of the largest |re| + |im|.
        assert np.array_equal(found[0][k], scipy.linalg.lu(a[k])[0])


@pytest.mark.slow
@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize("n", [63, 64, 65, 127, 128, 129])
def test_complex_lu_around_a_block(n, generation):
    a = complex_normal(1, n, n)
    assert_complex_lu(a[0], *(x[0] for x in run_complex_lu(generation, a)))


def test_complex_lu_needs_exchanges():
    a = np.array([[0, 2, 1j], [1, 0, 0], [4j, 1, 0]], np.complex64)
    p, lower, upper = (x[0] for x in run_complex_lu("gen2", a[None]))
    assert np.array_equal(p @ lower @ upper, a)


def test_complex_pivots_are_the_first_of_the_largest_size():
    """5 is as large as 3 + 4i by modulus, and smaller by |re| + |im|."""
    a = np.array([[5, 1], [3 + 4j, 1], [-4 + 3j, 2], [1, 1]], np.complex64)
    a = np.concatenate([a, np.eye(4)[:, 2:]], 1).astype(np.complex64)
    p, lower, _ = (x[0] for x in run_complex_lu("gen3", a[None]))
    assert np.array_equal(p[:, 0], [0, 1, 0, 0])
    np.testing.assert_allclose((p @ lower)[:, 0] * a[1, 0], a[:, 0], rtol=4 * EPS)


@pytest.mark.parametrize("name", ["zeros", "equal", "a column of zeros", "dependent"])
def test_complex_lu_of_singular_matrices(name):
    a = {
        "zeros": np.zeros((3, 3)),
        "equal": 2j * np.ones((4, 4)),
        "a column of zeros": (1j * np.eye(4)) * [1, 0, 1, 1],
        "dependent": np.outer([1, 1j, -2], [2, 4j, 1]),
    }[name].astype(np.complex64)
    p, lower, upper = (x[0] for x in run_complex_lu("gen3", a[None]))
    assert np.array_equal(p @ lower @ upper, a)
    assert (np.diag(upper) == 0).any()


def test_complex_lu_of_a_matrix_singular_to_rounding():
    a = np.full((4, 4), 1 + 3j, np.complex64)
    p, lower, upper = (x[0] for x in run_complex_lu("gen3", a[None]))
    assert_complex_lu(a, p, lower, upper)
    # Entries of later rows of U are rounding errors of multiples that should be 1.
    assert abs(upper[1:]).max() <= 8 * EPS * abs(a).max()


@pytest.mark.parametrize("exponent", [-100, -60, 60, 100])
def test_complex_lu_of_entries_of_any_size(exponent):
    a = complex_normal(1, 5, 5) * np.float32(2.0) ** exponent
    a[0, :, 2] *= np.float32(2.0) ** -20
    p, *blocks = LU.launch(Launcher("simulator"), parts(torch.from_numpy(a)), True)
    factors = [p[0].numpy(), *(joined_blocks(x)[0].numpy() for x in blocks)]
    wide = [x.astype(np.complex128) for x in factors]
    assert_complex_lu(a[0] * 2.0**-exponent, *factors[:2], factors[2] * 2.0**-exponent)
    # The error of an entry is of the size of its column.
    left = abs(wide[0] @ wide[1] @ wide[2] - a[0]).max(0)
    assert (left <= 2 * 2**0.5 * 2 * 5 * EPS * abs(a[0]).max(0)).all()


@pytest.mark.parametrize(
    ("m", "n", "condition", "generation"),
    [
        *((*case, g) for case in [(1, 1, 1), (5, 3, 10), (20, 20, 1e6)] for g in GENERATIONS),
        (130, 7, 1e3, "gen3"),
    ],
)
def test_qr(m, n, condition, generation):
    a = general(m, n, condition)
    q, r = (x[0] for x in run(cholesky_qr, generation, a[None], noise(m, n)))
    assert not np.tril(r, -1).any()
    assert distance_from_orthogonal(q) <= 20 * EPS * n
    assert_near(q.astype(np.float64) @ r, a, m)


@pytest.mark.parametrize("name", ["zeros", "ones", "rank two", "a column of zeros", "unit"])
def test_qr_of_any_rank(name):
    rng = np.random.default_rng(6)
    a = {
        "zeros": np.zeros((5, 3)),
        "ones": np.ones((6, 4)),
        "rank two": rng.standard_normal((9, 2)) @ rng.standard_normal((2, 5)),
        "a column of zeros": rng.standard_normal((7, 4)) * [1, 0, 1, 1],
        "unit": np.eye(4)[:, [2, 2, 1]],
    }[name].astype(np.float32)
    q, r = (x[0] for x in run(cholesky_qr, "gen3", a[None], noise(*a.shape)))
    assert distance_from_orthogonal(q) <= 20 * EPS * a.shape[1]
    assert_near(q.astype(np.float64) @ r, a, a.shape[0])


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(128, 128), (129, 129), (300, 140)])
def test_qr_of_several_blocks(m, n):
    a = general(m, n, 1e5)
    q, r = (x[0] for x in run(cholesky_qr, "gen3", a[None], noise(m, n)))
    assert distance_from_orthogonal(q) <= 20 * EPS * n
    assert_near(q.astype(np.float64) @ r, a, m)


def assert_svd(a, u, s, vh):
    bound = 20 * EPS * a.shape[0]
    assert (np.diff(s) <= 0).all()
    assert distance_from_orthogonal(u) <= bound
    assert distance_from_orthogonal(vh.T) <= bound
    back = (u.astype(np.float64) * s) @ vh
    assert np.linalg.norm(back - a, 2) <= bound * norm(a)


@pytest.mark.parametrize("generation", GENERATIONS)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 2), (9, 5)])
def test_svd(m, n, generation):
    a = np.random.default_rng((m, n)).standard_normal((2, m, n)).astype(np.float32)
    tables = packed_tables(n + n % 2, 1)
    u, s, vh, rest = run(jacobi_svd, generation, a, tables, sweep_bound(n) + 2, True)
    for k in range(2):
        assert_svd(a[k], u[k], s[k], vh[k])
        assert rest[k, 0] <= 4 * EPS * m


def test_small_singular_values_are_right_to_their_own_size():
    scales = np.logspace(0, -8, 6)
    a = (general(12, 6, 1.0) * scales).astype(np.float32)
    want = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    _, s, _ = SVD.launch(Launcher("simulator"), torch.from_numpy(a[None]), 12)
    np.testing.assert_allclose(s[0].numpy(), want, rtol=100 * EPS)


@pytest.mark.parametrize("name", ["condition 1e6", "ones", "zeros", "rank two"])
def test_svd_of_matrices_near_singular(name):
    rng = np.random.default_rng(2)
    a = {
        "condition 1e6": general(10, 8, 1e6),
        "ones": np.ones((6, 4)),
        "zeros": np.zeros((5, 3)),
        "rank two": rng.standard_normal((9, 2)) @ rng.standard_normal((2, 5)),
    }[name].astype(np.float32)
    found = SVD.launch(Launcher("simulator"), torch.from_numpy(a[None]), 12)
    assert_svd(a, *(x[0].numpy() for x in found))


@pytest.mark.parametrize(("order", "rank"), [(12, 1), pytest.param(50, 1, marks=pytest.mark.slow)])
def test_svd_of_low_rank_converges(order, rank):
    rng = np.random.default_rng(1)
    for _ in range(2):
        a = rng.standard_normal((order, rank)) @ rng.standard_normal((rank, order))
        a = a.astype(np.float32)
        found = SVD.launch(Launcher("simulator"), torch.from_numpy(a[None]), 12)
        assert_svd(a, *(x[0].numpy() for x in found))
        want = np.linalg.svd(a.astype(np.float64), compute_uv=False)
        assert np.abs(found[1][0].numpy() - want).max() <= 20 * EPS * want[0]


@pytest.mark.parametrize("name", ["normal", "graded", "rank three", "zeros"])
def test_svd_of_groups_of_columns(name):
    rng = np.random.default_rng(4)
    a = {
        "normal": rng.standard_normal((2, 12, 7)),
        "graded": (general(12, 7, 1.0) * np.logspace(0, -7, 7))[None],
        "rank three": rng.standard_normal((1, 10, 3)) @ rng.standard_normal((1, 3, 6)),
        "zeros": np.zeros((1, 9, 5)),
    }[name].astype(np.float32)
    launch = Launcher("simulator")
    u, s, vh, rest = svd_of_groups(launch, torch.from_numpy(a), 4, 12)
    assert launch.launches % 3 == 0
    assert launch.launches <= 36
    filled = _completed(launch, u, s)
    for k in range(len(a)):
        assert_svd(a[k], *(x[k].numpy() for x in (filled, s, vh)))
    assert (rest <= 4 * EPS * a.shape[1]).all()


@pytest.mark.slow
def test_svd_of_more_columns_than_a_tile_has():
    a = np.random.default_rng(5).standard_normal((1, 140, 130)).astype(np.float32)
    found = SVD.launch(Launcher("simulator"), torch.from_numpy(a), 12)
    assert_svd(a[0], *(x[0].numpy() for x in found))


@pytest.mark.slow
@pytest.mark.parametrize(("m", "n"), [(130, 6), (31, 31), (200, 64), (128, 128)])
def test_svd_of_many_columns(m, n):
    a = np.random.default_rng((m, n)).standard_normal((m, n)).astype(np.float32)
    found = SVD.launch(Launcher("simulator"), torch.from_numpy(a[None]), 12)
    assert_svd(a, *(x[0].numpy() for x in found))


@pytest.mark.parametrize("name", ["cholesky", "lu", "qr", "svd"])
def test_a_batch_is_one_launch(name):
    a = torch.from_numpy(np.stack([definite(4, seed=k) for k in range(3)]))
    launch = Launcher("simulator")
    LIBRARY.operations[name].launch(launch, a, *((12,) if name == "svd" else ()))
    assert launch.launches == 1


def test_a_batch_of_complex_lu_is_one_launch_unless_its_program_is_too_long(monkeypatch):
    a = parts(torch.from_numpy(complex_normal(3, 4, 4)))
    whole, cut = Launcher("simulator"), Launcher("simulator")
    want = LU.launch(whole, a, True)
    monkeypatch.setattr(limits, "PROGRAM", 100)
    found = LU.launch(cut, a, True)
    assert (whole.launches, cut.launches) == (1, 3)
    for left, right in zip(want, found, strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("name", ["cholesky", "lu", "qr", "svd", "eigh"])
def test_a_batch_of_too_long_a_program_is_cut(name, monkeypatch):
    a = torch.from_numpy(np.stack([definite(4, seed=k) for k in range(3)]))
    arguments = (a, 12) if name in ("svd", "eigh") else (a,)
    whole = LIBRARY.operations[name].launch(Launcher("simulator"), *arguments)
    monkeypatch.setattr(limits, "PROGRAM", 100)
    launch = Launcher("simulator")
    cut = LIBRARY.operations[name].launch(launch, *arguments)
    assert launch.launches > 1
    for left, right in zip(whole, cut, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-5)


def test_complex_lu_of_what_is_not_finite():
    a = torch.from_numpy(complex_normal(1, 4, 4))
    a[0, 2, 1] = complex(1, torch.nan)
    assert LU.launch(Launcher("simulator"), parts(a), True)[-1].isnan().any()


def test_what_is_not_finite_is_not_hidden():
    a = torch.from_numpy(symmetric(4)[None].copy())
    a[0, 2, 1] = torch.nan
    for name in ("cholesky", "lu", "qr"):
        found = LIBRARY.operations[name].launch(Launcher("simulator"), a)
        last = found if isinstance(found, torch.Tensor) else found[-1]
        assert last.isnan().any()
