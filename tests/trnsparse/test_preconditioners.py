"""Preconditioners of sparse matrices: their formulas, every kind of matrix, and their size."""

import pickle
import sys

import pytest
import scipy.sparse
import torch

import trnsolver
import trnsparse as ts

from .cases import laplacian_1d, random_dense

N = 24
SPARSE = {
    "jacobi": ts.jacobi_preconditioner,
    "block jacobi": ts.block_jacobi_preconditioner,
    "ssor": lambda A: ts.ssor_preconditioner(A, 1.0),
    "ichol": ts.ichol_preconditioner,
    "ilu": ts.ilu_preconditioner,
}
DENSE = {
    "jacobi": trnsolver.jacobi_preconditioner,
    "block jacobi": trnsolver.block_jacobi_preconditioner,
    "ssor": trnsolver.ssor_preconditioner,
    "ichol": trnsolver.ichol_preconditioner,
}


def sparse_spd(dtype=torch.float64):
    """Return a positive definite matrix with about a fifth of its entries."""
    half = random_dense(N, N, 0.1, seed=2)
    dense = half + half.T + torch.diag(half.abs().sum(0) + half.abs().sum(1) + 1)
    if dtype.is_complex:
        dense = dense + 0.5j * (half - half.T)
    return dense.to(dtype)


def laplacian(m):
    """Return the five-point Laplacian of m by m points, of order m^2."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m))
    eye = scipy.sparse.eye_array(m)
    return ts.from_scipy((scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line)).tocsr())


def kinds(dense):
    csr = ts.from_dense(dense)
    return {
        "csr": csr,
        "csc": csr.to_csc(),
        "coo": csr.to_coo(),
        "bsr": ts.BSRMatrix.from_dense(dense, 16),
        "ell": csr.to_ell(),
        "torch coo": dense.to_sparse(),
        "torch csr": csr.to_torch_sparse(),
        "scipy": csr.to_scipy(),
        "dense": dense,
    }


@pytest.mark.parametrize("name", SPARSE)
def test_every_kind_of_matrix_has_one_preconditioner(name):
    dense = sparse_spd()
    r = random_dense(N, 3, 1.0, 4)
    want = SPARSE[name](ts.from_dense(dense))(r)
    for kind, matrix in kinds(dense).items():
        M = SPARSE[name](matrix)
        torch.testing.assert_close(M(r), want, msg=kind)
        torch.testing.assert_close(M(r[:, 0]), want[:, 0], msg=kind)
        if name in DENSE:
            torch.testing.assert_close(DENSE[name](matrix)(r[:, 0]), want[:, 0], msg=kind)
        again = pickle.loads(pickle.dumps(M))
        assert torch.equal(again(r), M(r))
        for solver in (ts.cg, trnsolver.cg):
            assert solver(ts.from_dense(dense), r[:, 0], M=M, tol=1e-10).converged


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SPARSE)
def test_dtypes(name, dtype):
    dense = sparse_spd(dtype)
    r = random_dense(N, 1, 1.0, 4, dtype=torch.float64)[:, 0].to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    found = SPARSE[name](ts.from_dense(dense))(r)
    want = SPARSE[name](ts.from_dense(dense.to(wide)))(r.to(wide))
    assert found.dtype is dtype
    error = float((found.to(wide) - want).abs().max())
    assert error <= 4 * N * torch.finfo(dtype).eps * float(want.abs().max())
    both = torch.complex(r.real.float(), r.real.float())
    if dtype is torch.float32:  # a real matrix, complex vectors
        torch.testing.assert_close(SPARSE[name](ts.from_dense(dense))(both).imag, found)


def test_incomplete_factors_are_exact_on_their_pattern():
    dense = sparse_spd()
    a = dense + torch.triu(dense, 1) * random_dense(N, N, 1.0, 7)  # symmetric pattern, any values
    stored = (a != 0).tolist()
    L, U = torch.eye(N, dtype=torch.float64), torch.zeros(N, N, dtype=torch.float64)
    for i in range(N):  # the definition, entry by entry
        for j in range(N):
            if stored[i][j]:
                value = a[i, j] - L[i, : min(i, j)] @ U[: min(i, j), j]
                if j < i:
                    L[i, j] = value / U[j, j]
                else:
                    U[i, j] = value
    r = random_dense(N, 2, 1.0, 4)
    want = torch.linalg.solve(U, torch.linalg.solve(L, r))
    torch.testing.assert_close(ts.ilu_preconditioner(ts.from_dense(a))(r), want)
    # That of a symmetric matrix is its incomplete Cholesky factor.
    A = ts.from_dense(dense)
    torch.testing.assert_close(ts.ilu_preconditioner(A)(r), ts.ichol_preconditioner(A)(r))
    # With every entry stored it is the factor.
    half = random_dense(N, N, 1.0)
    full = half @ half.T + torch.eye(N)
    for make in (ts.ilu_preconditioner, ts.ichol_preconditioner):
        torch.testing.assert_close(make(ts.from_dense(full))(r), torch.linalg.solve(full, r))


def test_a_breakdown_is_repaired_by_a_shift():
    # Positive definite, with an incomplete factor that has a negative pivot (Kershaw 1978).
    a = torch.tensor([[3.0, -2, 0, 2], [-2, 3, -2, 0], [0, -2, 3, -2], [2, 0, -2, 3]]).double()
    assert float(torch.linalg.eigvalsh(a)[0]) > 0
    M = ts.ichol_preconditioner(ts.from_dense(a))
    x = ts.cg(a, torch.ones(4, dtype=torch.float64), M=M, tol=1e-12)
    assert x.converged


def test_matrices_without_a_preconditioner_are_named():
    zero = ts.from_dense(torch.diag(torch.tensor([1.0, 0.0, 2.0])))
    wide = ts.from_dense(torch.ones(2, 3))
    bad = ts.from_dense(torch.tensor([[1.0, torch.nan], [0.0, 1.0]]))
    for make, matrix, message in (
        (ts.jacobi_preconditioner, zero, "no zero on its diagonal, got 0.0 at 1"),
        (ts.ssor_preconditioner, zero, "no zero on its diagonal"),
        (ts.ichol_preconditioner, zero, "positive diagonal"),
        (ts.ilu_preconditioner, zero, "no zero pivots"),
        (ts.ilu_preconditioner, bad, "A must be finite"),
        (ts.block_jacobi_preconditioner, zero, "block 0 on the diagonal"),
        (lambda a: ts.block_jacobi_preconditioner(a, 0), zero, "block_size must be"),
        (lambda a: ts.ssor_preconditioner(a, 2.0), zero, "omega must be between 0 and 2"),
        *((make, wide, "one square matrix, got shape") for make in SPARSE.values()),
    ):
        with pytest.raises(ValueError, match=message):
            make(matrix)
    with pytest.raises(TypeError, match="A must be a matrix, got str"):
        ts.jacobi_preconditioner("A")


def test_graded_diagonals_are_no_zeros():
    for dtype in (torch.float32, torch.float64):
        tiny = torch.finfo(dtype).tiny
        a = torch.diag(torch.tensor([1.0, 4 * tiny], dtype=dtype))
        M = ts.jacobi_preconditioner(ts.from_dense(a))
        assert torch.equal(M(a.diagonal()), torch.ones(2, dtype=dtype))


def test_better_preconditioners_take_fewer_iterations():
    A = laplacian(20)
    b = random_dense(400, 1, 1.0, 5)[:, 0]
    counts = {}
    for name, make in SPARSE.items():
        found = ts.cg(A, b, tol=1e-8, M=make(A))
        assert found.converged
        counts[name] = found.iterations
    plain = ts.cg(A, b, tol=1e-8).iterations
    assert counts["block jacobi"] < counts["jacobi"] <= plain
    assert counts["ichol"] == counts["ilu"] < counts["ssor"] < counts["block jacobi"]
    line = ts.from_dense(laplacian_1d(60))
    assert ts.cg(line, b[:60], M=ts.ichol_preconditioner(line)).iterations <= 2


def shifted(A, shift):
    return A + shift * ts.eye_sparse(A.shape[0], A.dtype)


def neumann(m):
    """Return a singular Laplacian, of a grid without a boundary condition; each row sums to 0."""
    line = scipy.sparse.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(m, m)).tolil()
    line[0, 0] = line[m - 1, m - 1] = 1.0
    eye = scipy.sparse.eye_array(m)
    return ts.from_scipy((scipy.sparse.kron(line, eye) + scipy.sparse.kron(eye, line)).tocsr())


def scaled(A):
    """Return a matrix whose unknowns have units that differ by up to 1e4."""
    S = scipy.sparse.diags_array(10.0 ** random_dense(A.shape[0], 1, 1.0, 8)[:, 0].numpy())
    return ts.from_scipy((S @ A.to_scipy() @ S).tocsr())


RELAXED = {
    "laplacian": laplacian(30),
    "shifted": shifted(laplacian(30), 4.0),
    "singular": neumann(30),
    "scaled": scaled(laplacian(30)),
    "one row": ts.from_dense(torch.tensor([[2.0]]).double()),
    "complex": ts.from_dense(sparse_spd(torch.complex128)),
}


@pytest.mark.parametrize("name", RELAXED)
def test_the_default_relaxation_is_near_the_best_one(name):
    A = RELAXED[name]
    b = A @ random_dense(A.shape[0], 1, 1.0, 5, dtype=A.dtype)[:, 0]

    def iterations(omega):
        found = ts.cg(A, b, tol=1e-8, M=ts.ssor_preconditioner(A, omega))
        assert found.converged
        return found.iterations

    # The number of iterations is flat near the best relaxation: a quarter more, or 2 of a few.
    best = min(iterations(omega) for omega in (1.0, 1.3, 1.6, 1.75, 1.85, 1.93))
    assert iterations(None) <= max(1.25 * best, best + 2)


def test_the_default_relaxation_reads_the_lower_triangle_of_any_matrix():
    A = laplacian(10)
    below = ts.from_dense(A.to_dense().tril() + 7 * A.to_dense().triu(1))
    r = random_dense(100, 1, 1.0, 4)[:, 0]
    assert torch.equal(ts.ssor_preconditioner(below)(r), ts.ssor_preconditioner(A)(r))
    for value in (-4.0, torch.nan, torch.inf):  # no eigenvalue to estimate: omega is 1
        odd = A.with_values(torch.where(A.values == -1, value, A.values))
        if value == -4.0:
            odd = -1.0 * A
        want = ts.ssor_preconditioner(odd, 1.0)(r)
        torch.testing.assert_close(ts.ssor_preconditioner(odd)(r), want, equal_nan=True)


def test_multigrid_without_pyamg_names_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyamg", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'nkisim\[amg\]'"):
        ts.amg_preconditioner(laplacian(5))


# A dense matrix of this order takes 80 GB.
@pytest.mark.slow
@pytest.mark.parametrize("name", [*SPARSE, "amg"])
def test_an_order_that_no_dense_matrix_has(name):
    if name == "amg":
        pytest.importorskip("pyamg")
    make = {**SPARSE, "amg": ts.amg_preconditioner}[name]
    A = laplacian(317)
    assert A.shape[0] > 100_000
    b = torch.ones(A.shape[0], dtype=torch.float64)
    found = ts.cg(A, b, tol=1e-6, M=make(A))
    assert found.converged
    rest = torch.linalg.vector_norm(b - A @ found.x) / torch.linalg.vector_norm(b)
    assert found.residual == pytest.approx(float(rest), rel=1e-6)
