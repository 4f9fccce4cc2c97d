"""Every iterative solver of every library against dense solutions."""

import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import trnsolver
import trnsparse
from trnsci.core import explain
from trnsci.core.counters import counts
from trnsci.core.testing import random_tensor

N = 24
TOL = {torch.float32: 1e-5, torch.float64: 1e-10, torch.complex64: 1e-5, torch.complex128: 1e-10}


def matrix(kind, dtype):
    """Return a well-conditioned matrix: positive definite, Hermitian, or any."""
    wide = torch.complex128 if dtype.is_complex else torch.float64
    z = random_tensor(N, N, dtype=wide, seed=3) / N**0.5
    if kind == "positive":
        a = z @ z.mH + torch.eye(N)
    elif kind == "hermitian":
        _, v = torch.linalg.eigh(z + z.mH)
        values = torch.linspace(1, 3, N, dtype=torch.float64)
        values[::3] *= -1
        a = (v * values) @ v.mH
    else:
        a = z + 3 * torch.eye(N)
    return a.to(dtype)


def sparse(solver, make=trnsparse.from_dense):
    return lambda a, b, **options: solver(make(a), b, **options)


def in_blocks(a):
    return trnsparse.BSRMatrix.from_dense(a, 8)


SOLVERS = {
    "trnsolver.cg": (trnsolver.cg, "positive"),
    "trnsolver.minres": (trnsolver.minres, "hermitian"),
    "trnsolver.bicgstab": (trnsolver.bicgstab, "any"),
    "trnsolver.gmres": (trnsolver.gmres, "any"),
    "trnsolver.fgmres": (trnsolver.fgmres, "any"),
    "trnsparse.cg": (sparse(trnsparse.cg), "positive"),
    "trnsparse.cg in blocks": (sparse(trnsparse.cg, in_blocks), "positive"),
    "trnsparse.minres": (sparse(trnsparse.minres), "hermitian"),
}


def shifted(solver):
    """Return a method of fixed steps for matrices with eigenvalues around their diagonal."""

    def call(a, b, **_):
        size = float(a.diagonal().abs().mean())
        ends = torch.linalg.eigvalsh((a / size).to(torch.complex128)) * size
        low, high = float(ends[0]), float(ends[-1])
        if solver is trnsparse.chebyshev:
            steps = trnsparse.chebyshev_steps(low, high, TOL[a.dtype] / 10)
            return solver(trnsparse.from_dense(a), b, 0.99 * low, 1.01 * high, K=steps + 4)
        return solver(trnsparse.from_dense(a), b, 2 / (low + high), K=120)

    return call


FIXED = {
    "trnsparse.chebyshev": (shifted(trnsparse.chebyshev), "positive"),
    "trnsparse.richardson": (shifted(trnsparse.richardson), "positive"),
}


def check(solver, a, b, tol, **options):
    """Assert that a solution is as good as it says, and that it says what was asked for."""
    result = solver(a, b, tol=tol, **options)
    wide = torch.complex128 if a.is_complex() else torch.float64
    left = torch.linalg.vector_norm(b.to(wide) - a.to(wide) @ result.x.to(wide))
    true = float(left / torch.linalg.vector_norm(b.to(wide)))
    unit = torch.finfo(a.dtype).eps
    # The residual is computed in the dtype of b: sums of N products round.
    assert result.residual == pytest.approx(true, rel=1e-2, abs=4 * N * unit)
    assert true <= tol + 4 * N * unit
    want = torch.linalg.solve(a.to(wide), b.to(wide))
    error = torch.linalg.vector_norm(result.x.to(wide) - want) / torch.linalg.vector_norm(want)
    condition = float(torch.linalg.cond(a.to(wide)))
    assert float(error) <= 2 * condition * (tol + 4 * N * unit)
    assert result.x.dtype is b.dtype
    return result


# The narrowest range of real numbers, and the widest of complex ones.
FEW = (torch.float32, torch.complex128)
BY_DTYPE = pytest.mark.parametrize(
    "dtype", [d if d in FEW else pytest.param(d, marks=pytest.mark.slow) for d in TOL], ids=str
)


@BY_DTYPE
@pytest.mark.parametrize("name", [*SOLVERS, *FIXED])
def test_solutions_at_every_scale(name, dtype):
    solver, kind = {**SOLVERS, **FIXED}[name]
    a, b = matrix(kind, dtype), random_tensor(N, dtype=dtype, seed=1)
    inverse = 1 / a.diagonal().abs()
    for of_a in (1e-30, 1.0, 1e30):
        for of_b in (1e-30, 1.0, 1e30):
            if abs(math.log10(of_b / of_a)) > 30 and torch.finfo(dtype).max < 1e60:
                continue  # the solution is not representable
            result = check(solver, a * of_a, b * of_b, TOL[dtype])
            if name in FIXED:
                assert result.info.reason == "limit"
                continue
            assert result.info.reason == "converged", (of_a, of_b)
            assert result.residual <= TOL[dtype]
            assert len(result.info.residuals) >= 2
            if of_b == 1.0:
                scaled = inverse / of_a
                check(solver, a * of_a, b, TOL[dtype], M=lambda r, s=scaled: r * s)


@pytest.mark.parametrize("name", SOLVERS)
def test_every_keyword_has_one_meaning(name):
    solver, kind = SOLVERS[name]
    a, b = matrix(kind, torch.float64), random_tensor(N, dtype=torch.float64, seed=1)
    plain = solver(a, b, tol=1e-8)
    for options in ({"rtol": 1e-8, "tol": 1.0}, {"tol": 0.0, "atol": 1e-8 * float(b.norm())}):
        same = solver(a, b, **options)
        assert (same.iterations, same.converged) == (plain.iterations, True)
    seen = []
    solver(a, b, tol=1e-8, callback=seen.append)
    assert [p.iteration for p in seen] == list(range(1, len(seen) + 1))
    assert [p.residual for p in seen[:-1]] == list(plain.info.residuals[1:-1])
    for limit in ({"maxiter": 0}, {"max_iter": 0}):
        stopped = solver(a, b, **limit, on_failure="ignore")
        assert (stopped.iterations, stopped.residual, stopped.info.reason) == (0, 1.0, "limit")
        assert not stopped.x.any()
    begun = solver(a, b, tol=1e-6, x0=torch.linalg.solve(a, b))
    assert begun.converged
    assert begun.info.matvecs <= 2
    zero = solver(a, torch.zeros_like(b), x0=b)
    assert not zero.x.any()
    assert (zero.iterations, zero.residual, zero.converged) == (0, 0.0, True)


@BY_DTYPE
@pytest.mark.parametrize("name", SOLVERS)
def test_what_overflows_or_is_no_number_is_not_solved(name, dtype):
    solver, kind = SOLVERS[name]
    a, b = matrix(kind, dtype), random_tensor(N, dtype=dtype, seed=1)
    for bad_a, bad_b in (
        (a * math.nan, b),
        (a, b * math.nan),
        (a, b * math.inf),
        (a * math.inf, b),
        (a * (torch.finfo(dtype).max / 2), b),
    ):
        result = solver(bad_a, bad_b, on_failure="ignore")
        assert not result.converged
        assert not result.residual <= 0.5


@pytest.mark.parametrize("dtype", TOL, ids=str)
@pytest.mark.parametrize("solver", [trnsolver.minres, sparse(trnsparse.minres)])
def test_minres_of_a_singular_system_has_the_least_residual(solver, dtype):
    singular = torch.diag(torch.tensor([1.0, 0.0, 2.0, -3.0], dtype=dtype))
    b = torch.ones(4, dtype=dtype)
    x, iterations, residual = result = solver(singular, b, on_failure="ignore")
    assert residual == pytest.approx(0.5, rel=1e-4)
    assert iterations <= 6
    assert result.info.reason == "stagnated"
    want = torch.tensor([1.0, 0.0, 0.5, -1 / 3], dtype=dtype)
    torch.testing.assert_close(x * torch.tensor([1, 0, 1, 1]), want, rtol=0, atol=1e-4)


@BY_DTYPE
def test_columns_share_products_and_stop_one_by_one(dtype):
    a = trnsparse.from_dense(matrix("positive", dtype))
    sides = random_tensor(N, 4, dtype=dtype, seed=1) * torch.tensor([1e-30, 1.0, 1e20, 0.0])
    start = torch.ones_like(sides)
    for given in (None, start):
        for M in (None, trnsparse.jacobi_preconditioner(a)):
            found = trnsparse.cg(a, sides, given, TOL[dtype], M=M)
            assert found.converged
            assert not found.x[:, 3].any()
            each = [trnsparse.cg(a, sides[:, k].clone(), tol=TOL[dtype], M=M) for k in range(3)]
            for k, one in enumerate(each):
                close = torch.linalg.vector_norm(found.x[:, k] - one.x)
                assert float(close) <= 20 * TOL[dtype] * float(torch.linalg.vector_norm(one.x))
            if given is None:
                assert found.info.matvecs <= max(one.info.matvecs for one in each) + 1
    broken = trnsparse.cg(trnsparse.from_dense(-a.to_dense()), sides, on_failure="ignore")
    assert (broken.info.reason, broken.iterations) == ("breakdown", 0)


# -- kernels ---------------------------------------------------------------------------------------

KERNELS = {
    "cg": (trnsolver.cg, "TRNSOLVER_REQUIRE_NKI", trnsolver, {"max_iter": 25}),
    "bsr_cg": (sparse(trnsparse.cg, in_blocks), "TRNSPARSE_REQUIRE_NKI", trnsparse, {}),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_solve_at_every_scale_in_one_launch(name, monkeypatch):
    solver, variable, library, options = KERNELS[name]
    a, b = matrix("positive", torch.float32), random_tensor(N, seed=1)
    monkeypatch.setenv(variable, "1")
    for of_a, of_b in ((1.0, 1.0), (1e-30, 1e-30), (1e30, 1e30), (1e30, 1.0), (1.0, 1e-30)):
        before = counts()
        with library.backend("simulator"):
            result = check(solver, a * of_a, b * of_b, 1e-5, **options)
        assert sum((counts() - before).launches.values()) == 1
        assert result.converged


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_on_kernel_paths_are_those_of_torch(name):
    solver, _, library, options = KERNELS[name]
    a, b = matrix("positive", torch.float32), random_tensor(N, seed=1).requires_grad_()
    before = counts()
    with library.backend("simulator"):
        (found,) = torch.autograd.grad(solver(a, b, tol=1e-6, **options).x.sum(), b)
    assert sum((counts() - before).launches.values()) >= 2
    want = torch.linalg.solve(a, torch.ones(N))
    assert float((found - want).abs().max()) <= 1e-4 * float(want.abs().max())


@pytest.mark.parametrize("name", KERNELS)
def test_an_explanation_names_the_kernel(name):
    library = KERNELS[name][2]
    a, b = matrix("positive", torch.float32), random_tensor(N, seed=1)
    with library.backend("simulator"):
        steps = explain(library.cg, in_blocks(a) if name == "bsr_cg" else a, b).steps
    assert [(step.operation, step.path) for step in steps] == [
        (f"{library.__name__}.{name}", "simulator")
    ]


def test_compiled_functions_solve_outside_of_the_graph():
    a, b = matrix("positive", torch.float64), random_tensor(N, dtype=torch.float64, seed=1)
    for solver, given in ((trnsolver.cg, a), (trnsparse.cg, trnsparse.from_dense(a))):
        compiled = torch.compile(lambda b, s=solver, g=given: 2 * s(g, b).x, backend="eager")
        torch.testing.assert_close(compiled(b), 2 * solver(given, b).x)


def test_modes_that_observe_operations_do_not_hide_values():
    a, b = matrix("positive", torch.float64), random_tensor(N, dtype=torch.float64, seed=1)
    for solver, given in ((trnsolver.minres, a), (trnsparse.cg, trnsparse.from_dense(a))):
        with FlopCounterMode(display=False):
            found = solver(given, b)
        torch.testing.assert_close(found.x, solver(given, b).x)
