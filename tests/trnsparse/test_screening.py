"""Screening: masks, exact counts, and the screened product."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import trnsparse as ts
from drawn import examples
from each_case import each_case
from trnsci.core.counters import counts
from trnsci.core.testing import refusals_expected

few = examples(30)


def bounds(n, seed=0):
    rng = np.random.default_rng(seed)
    half = np.exp(rng.uniform(-12, 3, (n, n)))
    return torch.from_numpy((half + half.T) / 2)


def test_bounds_are_roots_of_magnitudes():
    assert torch.equal(ts.schwarz_bounds(torch.tensor([[4.0, -9.0]])), torch.tensor([[2.0, 3.0]]))


def test_pairs_above_the_root_of_the_threshold():
    Q = torch.tensor([[1.0, 0.5], [0.5, 1.0]])
    assert torch.equal(ts.screen_quartets(Q, 0.3**2 + 0.2), torch.eye(2, dtype=torch.bool))
    assert ts.screen_quartets(Q, 0).all()
    assert not ts.screen_quartets(Q, 1e30).any()


def test_the_safe_mode_keeps_small_pairs_beside_large_ones():
    Q = torch.tensor([[1e6, 1e-9], [1e-9, 1e-17]], dtype=torch.float64)
    assert not ts.screen_quartets(Q, 1e-10)[0, 1]
    safe = ts.screen_quartets(Q, 1e-10, mode="safe")
    assert torch.equal(safe, torch.tensor([[True, True], [True, False]]))


@few
@given(n=st.integers(0, 7), exponent=st.integers(-12, 4), seed=st.integers(0, 99))
def test_quartets_are_counted_exactly_and_no_safe_pair_is_missed(n, exponent, seed):
    Q, threshold = bounds(n, seed), 10.0**exponent
    products = torch.outer(Q.reshape(-1), Q.reshape(-1))
    want = int((products > threshold).sum())
    assert ts.count_quartets(Q, threshold) == want
    part_of_one = (products > threshold).any(1).reshape(n, n)
    assert torch.equal(ts.screen_quartets(Q, threshold, mode="safe"), part_of_one)
    stats = ts.sparsity_stats(Q, threshold)
    assert stats["significant_quartets"] == want
    assert stats["significant_quartets_upper"] == stats["significant_pairs"] ** 2
    assert stats["total_quartets"] == n**4


def test_counts_at_products_that_equal_the_threshold():
    Q = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    for a in Q:
        for b in Q:
            threshold = (a * b).item()
            want = int((torch.outer(Q, Q) > threshold).sum())
            assert ts.count_quartets(Q, threshold) == want
    other = torch.tensor([1.0, 0.05], dtype=torch.float64)
    assert ts.count_quartets(Q, 0.15, other) == int((torch.outer(Q, other) > 0.15).sum())


def test_a_density_never_hides_a_pair_that_matters():
    Q, P = bounds(6), bounds(6, 1)
    kept = ts.density_screen(Q, P, 0.5)
    exceeding = Q.reshape(-1, 1) * (P * Q).reshape(1, -1) > 0.5
    assert torch.equal(kept.reshape(-1), exceeding.any(1))
    assert ts.density_screen(Q, P, 0).all()
    assert not ts.density_screen(Q, P, 1e30).any()


def test_stats_of_a_full_set():
    stats = ts.sparsity_stats(torch.ones(3, 3))
    assert stats["n_shells"] == 3
    assert (stats["total_pairs"], stats["significant_pairs"]) == (9, 9)
    assert stats["pair_sparsity"] == stats["quartet_sparsity"] == 0.0


@each_case("threshold", [0.0, 0.5, 0.9, 1e30])
@each_case("shape", [(64, 64), (40, 70)])
def test_screened_products(threshold, shape):
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
    B = torch.randn(shape[1], 5, generator=generator, dtype=torch.float64).requires_grad_()
    rows, columns = (torch.rand(n, generator=generator, dtype=torch.float64) for n in shape)
    rows[: shape[0] // 2] = 0
    if shape[0] == shape[1]:
        columns = rows
    mask = torch.outer(rows, columns).sqrt() > threshold**0.5
    found = ts.screened_spmm(A, rows, B, threshold, col_integrals=columns)
    torch.testing.assert_close(found, (A * mask) @ B)
    G = torch.randn(shape[0], 5, generator=generator, dtype=torch.float64)
    by_a, by_b = torch.autograd.grad((found * G).sum(), (A, B))
    torch.testing.assert_close(by_a, (G @ B.detach().T) * mask)
    torch.testing.assert_close(by_b, (A.detach() * mask).T @ G)


@refusals_expected()
@each_case("where", ["pytorch", "simulator"])
@each_case("dtype", [torch.int64, torch.int32])
def test_bounds_of_integers_are_no_integers(where, dtype):
    """sqrt(2) sqrt(3) is above sqrt(5), while bounds rounded to integers give 1 and 1."""
    A, B = torch.tensor([[7, 5], [3, 2]], dtype=dtype), torch.tensor([[1], [10]], dtype=dtype)
    before = counts()
    with ts.backend(where):
        for integrals in (torch.tensor([2, 3]), torch.tensor([2.0, 3.0], dtype=torch.float64)):
            found = ts.screened_spmm(A, integrals, B, 5.0)
            assert torch.equal(found, torch.tensor([[50], [23]], dtype=dtype))
    spent = counts() - before
    assert not spent.fallbacks
    assert not spent.launches
    reason = "trnsparse.screened_spmm", f"the kernel does not take {dtype}"
    assert spent.refusals == ({reason: 2} if where == "simulator" else {})


def test_what_is_screened_out_does_not_matter():
    A = torch.full((2, 2), torch.inf)
    A[0, 0] = 2.0
    found = ts.screened_spmm(A, torch.tensor([1.0, 0.0]), torch.ones(2, 1), 0.5)
    assert torch.equal(found, torch.tensor([[2.0], [0.0]]))


def test_wrong_arguments():
    Q = torch.ones(2, 2)
    for call in (
        lambda: ts.screen_quartets(Q, -1.0),
        lambda: ts.density_screen(Q, Q, -1.0),
        lambda: ts.sparsity_stats(Q, -1.0),
        lambda: ts.count_quartets(Q, float("nan")),
        lambda: ts.screened_spmm(Q, torch.ones(2), Q, -1.0),
    ):
        with pytest.raises(ValueError, match="threshold must be at least 0"):
            call()
    with pytest.raises(ValueError, match="mode must be"):
        ts.screen_quartets(Q, mode="bold")
    for rows, A in ((torch.ones(3), Q), (torch.ones(2), torch.ones(2, 3)), (Q, Q)):
        with pytest.raises(AssertionError, match="integrals must be"):
            ts.screened_spmm(A, rows, torch.ones(A.shape[1], 1), 0.1)
    with pytest.raises(AssertionError, match="matrices that fit"):
        ts.screened_spmm(Q, torch.ones(2), torch.ones(3, 1), 0.1)


def test_derivatives_of_bounds_are_zero_where_there_is_nothing():
    x = torch.tensor([0.0, 4.0, -9.0, torch.nan], dtype=torch.float64, requires_grad=True)
    bounds = ts.schwarz_bounds(x)
    assert torch.equal(bounds[:3], torch.tensor([0.0, 2.0, 3.0], dtype=torch.float64))
    assert bool(bounds[3].isnan())
    (slope,) = torch.autograd.grad(bounds[:3].sum(), x, create_graph=True)
    assert slope[:3].tolist() == pytest.approx([0.0, 1 / 4, -1 / 6])
    (curvature,) = torch.autograd.grad(slope[:3].sum(), x)
    assert curvature[:3].tolist() == pytest.approx([0.0, -1 / 32, -1 / 108])
    _, tangent = torch.func.jvp(ts.schwarz_bounds, (x.detach()[:2],), (torch.ones_like(x[:2]),))
    assert tangent.tolist() == pytest.approx([0.0, 1 / 4])


@each_case("backend", ["pytorch", "simulator"])
def test_a_screened_product_has_no_derivative_by_the_bounds(backend):
    Q, tangent = torch.tensor([1.0, 0.5, 0.1]), torch.ones(3)
    with ts.backend(backend):
        found, moved = torch.func.jvp(
            lambda q: ts.screened_spmm(torch.ones(3, 3), q, torch.ones(3, 2), 0.2), (Q,), (tangent,)
        )
    assert found.any()
    assert not moved.any()
