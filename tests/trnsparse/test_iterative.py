"""Iterative methods: what they promise, and iteration counts against theory."""

import numpy as np
import pytest
import torch

import trnsparse as ts

from .cases import FORMATS, in_format, laplacian_1d, random_dense, spd_dense

N = 40


def laplacian_2d(m):
    one, eye = laplacian_1d(m), torch.eye(m, dtype=torch.float64)
    return torch.kron(one, eye) + torch.kron(eye, one)


def krylov_iterations(A, b, tol):
    """When the A-optimal vector of the Krylov space meets the tolerance, by its definition."""
    A, b = A.numpy(), b.numpy()
    basis = np.zeros((len(b), 0))
    vector = b
    for step in range(1, len(b) + 1):
        for _ in range(2):  # orthogonal to rounding
            vector = vector - basis @ (basis.T @ vector)
        basis = np.column_stack([basis, vector / np.linalg.norm(vector)])
        x = basis @ np.linalg.solve(basis.T @ A @ basis, basis.T @ b)
        if np.linalg.norm(b - A @ x) <= tol * np.linalg.norm(b):
            return step
        vector = A @ basis[:, -1]
    return len(b)


# -- theory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dense", [laplacian_1d(60), laplacian_2d(9)], ids=["1-D", "2-D"])
@pytest.mark.parametrize("tol", [1e-4, 1e-8])
def test_conjugate_gradients_take_the_iterations_of_theory(dense, tol):
    b = random_dense(dense.shape[0], 1, 1.0, seed=3)[:, 0]
    found = ts.cg(ts.from_dense(dense), b, tol=tol)
    want = krylov_iterations(dense, b, tol)
    assert found.converged
    assert abs(found.iterations - want) <= 0.05 * want
    eigenvalues = torch.linalg.eigvalsh(dense)
    kappa = (eigenvalues[-1] / eigenvalues[0]).item()
    # The bound for the energy norm of the error, carried over to the residual.
    assert found.iterations <= 0.5 * kappa**0.5 * np.log(2 * kappa**0.5 / tol) + 1


@pytest.mark.parametrize("n", [30, 60])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_chebyshev_takes_the_steps_of_theory(n, tol):
    dense = laplacian_1d(n)
    k = torch.arange(1, n + 1, dtype=torch.float64)
    ends = [2 - 2 * np.cos(j * np.pi / (n + 1)) for j in (1, n)]
    # The smoothest eigenvector is the slowest: its error is the optimum 1 / T_K exactly.
    b = torch.sin(k * np.pi / (n + 1))
    steps = ts.chebyshev_steps(*ends, tol)
    A = ts.from_dense(dense)
    center = (ends[1] + ends[0]) / (ends[1] - ends[0])
    for count in (1, 2, 3, steps - 1, steps):
        residual = ts.chebyshev(A, b, *ends, K=count).residual
        assert residual == pytest.approx(1 / np.cosh(count * np.arccosh(center)), rel=1e-6)
    assert residual <= tol
    assert ts.chebyshev(A, b, *ends, K=int(0.95 * steps)).residual > tol


def test_chebyshev_coefficients_have_the_factor_of_the_second_step():
    alpha, beta = ts.chebyshev_coeffs(1.0, 100.0, 30)
    assert alpha.shape == beta.shape == (30,)
    assert alpha.dtype is beta.dtype is torch.float32
    d, c = 50.5, 49.5
    assert alpha[0].item() == pytest.approx(1 / d)
    assert beta[0] == 0
    t = (c / d) ** 2 / 2
    assert alpha[1].item() == pytest.approx(1 / (d - t * d))
    assert beta[1].item() == pytest.approx(t / (1 - t), rel=1e-5)


def test_richardson_contracts_as_its_spectrum_says():
    dense = torch.diag(torch.linspace(1, 4, N, dtype=torch.float64))
    b = torch.zeros(N, dtype=torch.float64)
    b[0] = 1.0
    found = ts.richardson(ts.from_dense(dense), b, 2 / 5, K=20)
    assert found.residual == pytest.approx((3 / 5) ** 20)
    assert (
        ts.richardson(ts.from_dense(dense), b + 1, 2.5 / 4, K=40, on_failure="ignore").residual > 1
    )


def test_power_iteration_converges_at_the_ratio_of_eigenvalues():
    dense = torch.diag(torch.tensor([-10.0, 5.0, 1.0], dtype=torch.float64))
    start = torch.ones(3, dtype=torch.float64)
    value, vector, iterations = ts.power_iteration(ts.from_dense(dense), start, tol=1e-12)
    assert value == pytest.approx(-10, abs=1e-10)
    assert abs(vector[0]) == pytest.approx(1, abs=1e-6)
    # The Rayleigh quotient gains a factor of four with each step.
    want = np.log(22.5 / 1e-12) / np.log(4)
    assert abs(iterations - want) <= 2


# -- every format, every start ---------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_every_method_solves_in_every_format(name):
    dense = spd_dense(N)
    A = in_format(dense, name)
    b = random_dense(N, 1, 1.0, 5)[:, 0]
    want = torch.linalg.solve(dense, b)
    ends = torch.linalg.eigvalsh(dense)
    low, high = ends[0].item(), ends[-1].item()
    for found in (
        ts.cg(A, b, tol=1e-10),
        ts.cg(A, b, tol=1e-10, M=ts.jacobi_preconditioner(A)),
        ts.minres(A, b, tol=1e-10),
        ts.minres(A, b, tol=1e-10, M=ts.jacobi_preconditioner(A)),
        ts.chebyshev(A, b, low, high, K=ts.chebyshev_steps(low, high, 1e-11)),
        ts.richardson(A, b, 2 / (low + high), K=400),
    ):
        torch.testing.assert_close(found.x, want, atol=1e-8, rtol=1e-8)
        true = torch.linalg.norm(b - dense @ found.x) / torch.linalg.norm(b)
        assert found.residual == pytest.approx(true.item(), abs=1e-12)


def test_operators_and_starts():
    dense = spd_dense(N)
    b = random_dense(N, 1, 1.0, 5)[:, 0]
    inverse = torch.linalg.inv(dense)
    assert ts.cg(lambda v: dense @ v, b).converged
    assert ts.cg(dense, b).converged
    assert ts.cg(dense, b, M=inverse, tol=1e-12).iterations <= 2
    begun = ts.cg(dense, b, x0=inverse @ b)
    assert (begun.iterations, begun.converged) == (0, True)
    x0 = torch.ones_like(b)
    ts.cg(dense, b, x0=x0)
    assert torch.equal(x0, torch.ones_like(b))


def test_minres_solves_indefinite_systems():
    dense = torch.diag(torch.cat([torch.linspace(-3, -1, 10), torch.linspace(1, 4, 10)]).double())
    b = random_dense(20, 1, 1.0, 6)[:, 0]
    found = ts.minres(ts.from_dense(dense), b, tol=1e-10)
    assert found.converged
    torch.testing.assert_close(found.x, b / dense.diagonal(), atol=1e-8, rtol=1e-8)
    residuals = np.array(found.info.residuals[:-1])
    assert (np.diff(residuals) <= 1e-12).all()


@pytest.mark.parametrize("tol", [-1e-3, float("nan")])
def test_tolerances_that_nothing_meets(tol):
    A = ts.eye_sparse(3)
    for call in (ts.cg, ts.minres, lambda A, b, tol: ts.power_iteration(A, b, tol=tol)):
        with pytest.raises(ValueError, match="tol must be at least 0"):
            call(A, torch.ones(3), tol=tol)


def test_power_iteration_needs_a_direction():
    with pytest.raises(ValueError, match="v0 must have a length"):
        ts.power_iteration(ts.eye_sparse(3), torch.zeros(3))


# -- ends ------------------------------------------------------------------------------------------


def test_breakdown_reports_the_iterations_done():
    A = ts.from_dense(torch.zeros(4, 4, dtype=torch.float64))
    found = ts.cg(A, torch.ones(4, dtype=torch.float64), on_failure="ignore")
    assert (found.iterations, found.info.reason, found.converged) == (0, "breakdown", False)
    assert found.residual == 1.0
    A, b = ts.from_dense(laplacian_1d(60)), torch.ones(60, dtype=torch.float64)
    limited = ts.cg(A, b, max_iter=3, on_failure="ignore")
    assert (limited.iterations, limited.info.reason) == (3, "limit")
    assert len(limited.info.residuals) == 4


def test_float32_stagnates_where_it_must_and_says_so():
    A = ts.from_dense(laplacian_1d(200, torch.float32))
    b = random_dense(200, 1, 1.0, dtype=torch.float32)[:, 0]
    found = ts.cg(A, b, tol=1e-12, max_iter=5000, on_failure="ignore")
    assert (found.converged, found.info.reason) == (False, "stagnated")
    assert found.iterations < 2000


def test_fixed_steps_of_none():
    A, b = ts.from_dense(spd_dense(5)), torch.ones(5, dtype=torch.float64)
    assert ts.chebyshev(A, b, 1.0, 2.0, K=0).iterations == 0
    assert ts.chebyshev(A, b, 2.0, 2.0, K=1, on_failure="ignore").iterations == 1
    assert ts.richardson(A, b, 0.1, K=0).residual == 1.0
    value, _, iterations = ts.power_iteration(A, b, max_iter=0, on_failure="ignore")
    assert iterations == 0
    assert value == pytest.approx((b @ (A @ b) / 5).item())
    assert ts.power_iteration(ts.from_dense(torch.zeros(3, 3))).value == 0.0


def test_arguments_that_make_no_sense():
    A, b = ts.from_dense(spd_dense(5)), torch.ones(5, dtype=torch.float64)
    for call, message in (
        (lambda: ts.chebyshev(A, b, -1.0, 2.0), "lam_min"),
        (lambda: ts.chebyshev(A, b, 1.0, 2.0, K=-1), "K must be"),
        (lambda: ts.cg(A, b, max_iter=-1), "max_iter"),
        (lambda: ts.cg(A, b[:3]), "A must be square and fit b"),
        (lambda: ts.cg(A, b, x0=b[:3]), "x0 must have the shape"),
        (lambda: ts.minres(A, b[:, None]), "b must be a vector"),
        (lambda: ts.power_iteration(lambda v: v), "v0 must be given"),
        (lambda: ts.jacobi_preconditioner(ts.from_dense(torch.zeros(2, 2))), "diagonal"),
        (lambda: ts.chebyshev_steps(1.0, 2.0, 2.0), "tol"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="one dtype"):
        ts.cg(A, b.float())


# -- preconditioners -------------------------------------------------------------------------------


def test_jacobi_needs_no_more_iterations_than_none():
    dense = spd_dense(N) + torch.diag(torch.linspace(0, 500, N, dtype=torch.float64))
    A, b = ts.from_dense(dense), torch.ones(N, dtype=torch.float64)
    plain, scaled = ts.cg(A, b), ts.cg(A, b, M=ts.jacobi_preconditioner(A))
    assert scaled.iterations < plain.iterations


@pytest.mark.parametrize("n", [N, N - 3])
def test_block_jacobi_solves_its_blocks(n):
    dense = torch.block_diag(*[spd_dense(8, seed) for seed in range(5)])[:n, :n]
    A = ts.BSRMatrix.from_dense(dense, block_size=8)
    M = ts.block_jacobi_preconditioner(A)
    b = random_dense(n, 2, 1.0, 7)
    torch.testing.assert_close(M(b), torch.linalg.solve(dense, b))
    assert ts.cg(A, b[:, 0], M=M, tol=1e-10).iterations <= 2


def test_multigrid_cycles_make_iterations_independent_of_the_size():
    pytest.importorskip("pyamg")
    counts = []
    for m in (8, 16):
        A = ts.from_dense(laplacian_2d(m))
        b = torch.ones(m * m, dtype=torch.float64)
        found = ts.cg(A, b, tol=1e-8, M=ts.amg_preconditioner(A, max_coarse=10))
        assert found.converged
        counts.append(found.iterations)
    assert counts[1] <= counts[0] + 4
    assert counts[1] < 0.5 * ts.cg(A, b, tol=1e-8).iterations
