"""Iterative solvers: residuals, counts, stopping rules, preconditioners, gradients."""

import math

import numpy as np
import pytest
import scipy.sparse.linalg
import torch

import trnsolver
import trnsparse
from each_case import each_case
from oracles.solver_matrices import with_condition, with_values
from required import requiring
from trnsci.core.counters import counts
from trnsci.core.errors import BackendError, DerivativeError
from trnsci.core.testing import random_tensor, refusals_expected

N = 32
POSITIVE = with_values(np.logspace(0, 2, N))
INDEFINITE = with_values(np.concatenate([-np.logspace(0, 1, 8), np.logspace(0, 1, N - 8)]))
GENERAL = random_tensor(N, N, dtype=torch.float64) + N**0.5 * 2 * torch.eye(N)
B = random_tensor(N, dtype=torch.float64, seed=1)

SOLVERS = {
    "cg": (trnsolver.cg, POSITIVE),
    "minres": (trnsolver.minres, INDEFINITE),
    "bicgstab": (trnsolver.bicgstab, GENERAL),
    "gmres": (trnsolver.gmres, GENERAL),
    "fgmres": (trnsolver.fgmres, GENERAL),
}


def relative_residual(a, x, b):
    return float(torch.linalg.vector_norm(b - a @ x) / torch.linalg.vector_norm(b))


@each_case("name", SOLVERS)
@each_case("kind", ["dense", "function", "operator", "scipy", "sparse"])
def test_every_kind_of_operator(name, kind):
    solver, a = SOLVERS[name]
    given = {
        "dense": a,
        "function": lambda v: a @ v,
        "operator": trnsolver.LinearOperator(lambda v: a @ v, lambda v: a.mT @ v, N),
        "scipy": _Matvec(a),
        "sparse": _sparse(a),
    }[kind]
    x, iterations, residual = result = solver(given, B, tol=1e-10)
    assert result.info.converged
    assert result.info.reason == "converged"
    actual = relative_residual(a, x, B)
    assert residual == pytest.approx(actual, rel=1e-6)
    assert actual <= 1e-10
    assert isinstance(iterations, int)
    assert isinstance(residual, float)
    assert iterations > 0
    # The error is at most the condition number times the residual.
    want = torch.linalg.solve(a, B)
    bound = float(torch.linalg.cond(a)) * actual * float(torch.linalg.vector_norm(want))
    assert float(torch.linalg.vector_norm(x - want)) <= bound * (1 + 1e-6)


@pytest.mark.parametrize("name", SOLVERS)
def test_sparse_matrices_of_trnsparse_and_their_gradients(name):
    solver, a = SOLVERS[name]
    sparse = trnsparse.from_dense(a)
    b = B.clone().requires_grad_()
    x = solver(sparse, b, tol=1e-11).x
    assert relative_residual(a, x.detach(), B) <= 1e-11
    x.sum().backward()
    want = torch.linalg.solve(a.mT, torch.ones(N, dtype=torch.float64))
    assert torch.allclose(b.grad, want, rtol=0, atol=1e-8 * float(want.abs().max()))


class _Matvec:
    def __init__(self, a):
        self.a, self.shape = a, a.shape

    def matvec(self, v):
        return self.a @ v


def _sparse(a):
    return a.to_sparse()


@pytest.mark.parametrize("name", SOLVERS)
def test_the_limit_is_visible(name):
    solver, a = SOLVERS[name]
    options = {"restart": 2} if "gmres" in name else {}
    result = solver(a, B, tol=1e-14, max_iter=2, on_failure="ignore", **options)
    assert not result.converged
    assert result.info.reason == "limit"
    assert result.residual > 1e-14
    assert result.residual == pytest.approx(relative_residual(a, result.x, B), rel=1e-6)
    assert len(result.info.residuals) == (5 if "gmres" in name else 3)


@pytest.mark.parametrize("name", SOLVERS)
def test_batches_and_columns(name):
    solver, a = SOLVERS[name]
    many = torch.stack([a, 2 * a])
    x = solver(many, torch.stack([B, -B]), tol=1e-10).x
    want = torch.linalg.solve(a, B)
    assert torch.allclose(x[0], want, rtol=0, atol=1e-8)
    assert torch.allclose(x[1], -want / 2, rtol=0, atol=1e-8)
    columns = torch.stack([B, 3 * B, B + 1], -1)
    result = solver(a, columns, tol=1e-10)
    assert torch.allclose(result.x, torch.linalg.solve(a, columns), rtol=0, atol=1e-8)
    assert len(result.info.details["systems"]) == 3
    assert all(info.converged for info in result.info.details["systems"])


@pytest.mark.parametrize("name", ["cg", "minres", "bicgstab", "gmres"])
def test_steps_and_stopping_are_those_of_scipy(name):
    solver, a = SOLVERS[name]
    theirs = getattr(scipy.sparse.linalg, name)
    steps = []
    options = {"callback_type": "pr_norm", "restart": N} if name == "gmres" else {}
    if name == "minres":
        x, failed = theirs(a.numpy(), B.numpy(), rtol=1e-8, callback=steps.append)
    else:
        x, failed = theirs(a.numpy(), B.numpy(), rtol=1e-6, callback=steps.append, **options)
    assert failed == 0
    mine = solver(a, B, rtol=1e-6, **({"restart": N} if name == "gmres" else {}))
    assert mine.converged
    if name != "minres":  # SciPy stops it by another rule
        assert abs(len(mine.info.residuals) - 1 - len(steps)) <= 1
    assert np.linalg.norm(mine.x.numpy() - x) <= 1e-4 * np.linalg.norm(x)


def test_cg_on_a_matrix_that_is_not_positive_says_so():
    result = trnsolver.cg(torch.zeros(4, 4), torch.ones(4), on_failure="ignore")
    assert result.info.reason == "breakdown"
    assert result.iterations == 0
    result = trnsolver.cg(INDEFINITE, B, tol=1e-12, on_failure="ignore")
    assert result.info.reason in ("breakdown", "converged")
    assert result.residual == pytest.approx(relative_residual(INDEFINITE, result.x, B), rel=1e-6)


def test_gmres_ends_a_cycle_when_it_is_done():
    assert trnsolver.gmres(2 * torch.eye(50), torch.ones(50)).info.matvecs <= 3
    singular = torch.diag(torch.tensor([1.0, 2.0, 0.0]))
    result = trnsolver.gmres(singular, torch.ones(3), on_failure="ignore")
    assert not result.converged
    assert result.info.reason in ("breakdown", "stagnated")
    assert math.isfinite(result.residual)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@refusals_expected()
def test_cg_on_kernel_paths_computes_other_dtypes_by_torch(dtype):
    z = random_tensor(20, 20, dtype=dtype)
    a, b = z @ z.mH / 20 + torch.eye(20), random_tensor(20, dtype=dtype, seed=1)
    before = counts()
    with trnsolver.backend("simulator"):
        result = trnsolver.cg(a, b, tol=1e-5)
    assert result.converged
    assert relative_residual(a, result.x, b) <= 2e-5
    change = counts() - before
    assert not change.launches
    assert [str(dtype) in str(reason) for reason in change.refusals] == [True]
    refused = pytest.raises(BackendError, match=str(dtype))
    with requiring("trnsolver"), trnsolver.backend("simulator"), refused:
        trnsolver.cg(a, b)


def test_progress_is_reported_and_drawn():
    seen = []
    result = trnsolver.cg(POSITIVE, B, callback=seen.append)
    assert [p.iteration for p in seen] == list(range(1, result.iterations + 1))
    assert [p.residual for p in seen[:-1]] == pytest.approx(list(result.info.residuals[1:-1]))
    assert seen[-1].x is not None
    axes = trnsolver.plot_residuals({"cg": result.info})
    assert len(axes.lines[0].get_ydata()) == result.iterations + 1


# -- preconditioners -------------------------------------------------------------------------------

LAPLACIAN = 2 * torch.eye(64, dtype=torch.float64)
LAPLACIAN = LAPLACIAN - torch.diag(torch.ones(63), 1) - torch.diag(torch.ones(63), -1)
SIDE = random_tensor(64, dtype=torch.float64, seed=2)


def test_jacobi_halves_the_steps_on_a_diagonal_and_others_beat_it():
    diagonal = torch.diag(torch.logspace(0, 4, 64, dtype=torch.float64))
    plain = trnsolver.cg(diagonal, SIDE).iterations
    assert 2 * trnsolver.cg(diagonal, SIDE, M=trnsolver.jacobi_preconditioner(diagonal))[1] < plain
    jacobi = trnsolver.cg(LAPLACIAN, SIDE, M=trnsolver.jacobi_preconditioner(LAPLACIAN)).iterations
    for make in (trnsolver.ssor_preconditioner, trnsolver.ichol_preconditioner):
        assert trnsolver.cg(LAPLACIAN, SIDE, M=make(LAPLACIAN)).iterations < jacobi
    core = random_tensor(8, 8, 8, dtype=torch.float64, seed=3)
    blocks = torch.block_diag(*(c @ c.mT + 0.01 * torch.eye(8) for c in core))
    m = trnsolver.block_jacobi_preconditioner(blocks, 8)
    assert trnsolver.cg(blocks, SIDE, M=m).iterations <= 2
    assert trnsolver.cg(blocks, SIDE, M=trnsolver.jacobi_preconditioner(blocks))[1] > 2


def test_preconditioners_are_what_their_formulas_say():
    a, r = POSITIVE, B
    got = trnsolver.block_jacobi_preconditioner(a, N)(r)
    assert torch.allclose(got, torch.linalg.solve(a, r), rtol=1e-12)
    got = trnsolver.block_jacobi_preconditioner(a, 1)(r)
    assert torch.allclose(got, trnsolver.jacobi_preconditioner(a)(r), rtol=1e-14)
    got = trnsolver.block_jacobi_preconditioner(a, 5)(r)
    assert torch.allclose(got[30:], torch.linalg.solve(a[30:, 30:], r[30:]), rtol=1e-12)
    omega = 1.3
    d, low = torch.diag(a.diagonal()), a.tril(-1)
    left = torch.linalg.inv(d + omega * low)
    want = left.mT @ (omega * (2 - omega) * d) @ left @ r
    assert torch.allclose(trnsolver.ssor_preconditioner(a, omega)(r), want, rtol=1e-12)
    # With every entry kept, an incomplete factor is the factor.
    assert torch.allclose(
        trnsolver.ichol_preconditioner(a)(r), torch.linalg.solve(a, r), rtol=1e-10
    )


def test_incomplete_factors_have_the_pattern_of_the_matrix():
    a = LAPLACIAN + torch.eye(64)
    a[0, 40] = a[40, 0] = -0.5
    got = trnsolver.ichol_preconditioner(a)(SIDE)
    kept = (a != 0).tril()
    lower = torch.zeros_like(a)
    for j in range(64):  # the definition, entry by entry
        for i in range(j, 64):
            if kept[i, j]:
                value = a[i, j] - (lower[i, :j] * lower[j, :j]).sum()
                lower[i, j] = value.sqrt() if i == j else value / lower[j, j]
    want = torch.cholesky_solve(SIDE[:, None], lower)[:, 0]
    assert torch.allclose(got, want, rtol=1e-10)


@pytest.mark.parametrize("omega", [0.0, 2.0, -1.0])
def test_omega_is_between_zero_and_two(omega):
    with pytest.raises(ValueError, match="omega"):
        trnsolver.ssor_preconditioner(LAPLACIAN, omega)


def test_preconditioners_name_what_they_cannot_do():
    zero = torch.diag(torch.tensor([1.0, 0.0]))
    for make in (trnsolver.jacobi_preconditioner, trnsolver.ssor_preconditioner):
        with pytest.raises(ValueError, match="diagonal"):
            make(zero)
    with pytest.raises(ValueError, match="block 1"):
        trnsolver.block_jacobi_preconditioner(torch.diag(torch.tensor([1.0, 1.0, -1.0])), 2)
    with pytest.raises(trnsolver.NotPositiveDefiniteError):
        trnsolver.ichol_preconditioner(-torch.eye(3))


@pytest.mark.parametrize("name", SOLVERS)
def test_any_preconditioner_leads_to_the_same_solution(name):
    solver, a = SOLVERS[name]
    diagonal = a.diagonal().abs()
    for m in (torch.diag(1 / diagonal), lambda r: r / diagonal):
        result = solver(a, B, tol=1e-10, M=m, max_iter=500)
        assert result.converged
        assert relative_residual(a, result.x, B) <= 1e-10


def test_flexible_gmres_takes_an_iteration_for_a_preconditioner():
    a = with_condition(1e3, 60)
    a = a @ a.mT + 1e-2 * torch.eye(60)
    b = random_tensor(60, dtype=torch.float64)
    inner = lambda r: trnsolver.cg(a, r, tol=1e-2, max_iter=8, on_failure="ignore").x  # noqa: E731
    plain = trnsolver.fgmres(a, b, tol=1e-8, restart=20)
    nested = trnsolver.fgmres(a, b, tol=1e-8, restart=20, M=inner)
    assert nested.converged
    assert nested.info.matvecs < plain.info.matvecs


def test_recycled_directions_save_products():
    values = np.concatenate([np.logspace(-4, -2, 6), np.linspace(1, 2, 94)])
    a = with_values(values)
    first = trnsolver.fgmres(a, random_tensor(100, dtype=torch.float64), tol=1e-8, keep=8)
    b = random_tensor(100, dtype=torch.float64, seed=4)
    cold = trnsolver.fgmres(a, b, tol=1e-8)
    warm = trnsolver.fgmres(a, b, tol=1e-8, keep=8, recycle=first.info.details["recycle"])
    assert first.converged
    assert warm.converged
    assert relative_residual(a, warm.x, b) <= 1e-8
    assert 2 * warm.info.matvecs < cold.info.matvecs


# -- derivatives -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOLVERS)
def test_gradients_are_those_of_the_solution(name):
    solver, big = SOLVERS[name]
    a, b = big[:3, :3].clone(), B[:3].clone()
    if name in ("cg", "minres"):
        a = 0.5 * (a + a.mT)

    def mine(a, b):
        a = 0.5 * (a + a.mT) if name in ("cg", "minres") else a
        return solver(a, b, tol=1e-13).x

    assert torch.autograd.gradcheck(
        mine, (a.requires_grad_(), b.requires_grad_()), check_forward_ad=True, atol=1e-5, rtol=1e-5
    )
    assert torch.autograd.gradgradcheck(mine, (a, b), atol=1e-4, rtol=1e-4, fast_mode=True)


def test_second_derivatives_are_right_or_refused():
    z = random_tensor(5, 5, dtype=torch.float64)
    fixed = z @ z.mT + torch.eye(5)
    b = random_tensor(5, dtype=torch.float64, seed=1).requires_grad_()
    for solver in (trnsolver.cg, trnsolver.gmres):
        # In b a solution is linear, also where A is a function.
        assert torch.autograd.gradgradcheck(
            lambda b, solver=solver: solver(lambda v: fixed @ v, b, tol=1e-14).x ** 2, b
        )
        z_tracked = z.clone().requires_grad_()
        x = solver(lambda v, z=z_tracked: z @ (z.mT @ v) + v, b, tol=1e-14).x
        first = torch.autograd.grad(x.sum(), z_tracked, retain_graph=True)[0]
        dense = solver(z_tracked @ z_tracked.mT + torch.eye(5), b, tol=1e-14).x
        want = torch.autograd.grad(dense.sum(), z_tracked)[0]
        assert float((first - want).abs().max()) <= 1e-10
        with pytest.raises(DerivativeError, match="first derivatives"):
            torch.autograd.grad(x.sum(), z_tracked, create_graph=True)


def test_results_without_gradients_have_none():
    assert not trnsolver.cg(POSITIVE, B).x.requires_grad
    assert not trnsolver.cg(lambda v: POSITIVE @ v, B).x.requires_grad
