"""Solvers of trnsparse compared with those of torch-sla and SciPy, in one run.

    python benchmarks/bench_sparse_solvers.py                     print the table
    python benchmarks/bench_sparse_solvers.py --preconditioners   setup, iterations and time of each
    python benchmarks/bench_sparse_solvers.py --eigsh             six eigenpairs of ten matrices

The systems are Laplacians of square grids in float64. Iterative methods stop at one tolerance; a
row has milliseconds, iterations and the relative residual, or for gradients the difference from
those of trnsparse. torch-sla and pyamg are optional: if one is not installed, its rows are omitted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
import torch
from runner import measure, show
from torch import Tensor

import trnsolver
import trnsparse as ts

GRIDS = (32, 64, 128)
TOLERANCE = 1e-10
ROUNDS = 9

Answer = tuple[Tensor, int | None]
Solver = Callable[[], Answer]


def laplacian(n: int) -> sp.csr_array:
    """Return the Laplacian of a grid of n x n points."""
    one = sp.diags_array([-np.ones(n - 1), 2 * np.ones(n), -np.ones(n - 1)], offsets=(-1, 0, 1))
    eye = sp.eye_array(n)
    return (sp.kron(one, eye) + sp.kron(eye, one)).tocsr()


def iterative(S: sp.csr_array, b: Tensor) -> dict[str, Solver]:
    """Return the conjugate gradient solvers, without a preconditioner."""
    A, right = ts.from_scipy(S), b.numpy()

    def ours() -> Answer:
        x, iterations, _ = ts.cg(A, b, tol=TOLERANCE)
        return x, iterations

    def scipys() -> Answer:
        steps: list[None] = []
        x, _ = spl.cg(S, right, rtol=TOLERANCE, callback=lambda _: steps.append(None))
        return torch.from_numpy(x), len(steps)

    found = {"trnsparse": ours, "scipy": scipys}
    if find_spec("torch_sla"):
        import torch_sla

        coo = A.to_coo()
        parts = coo.values, coo.row_indices.long(), coo.col_indices.long(), A.shape

        def theirs() -> Answer:
            x, info = torch_sla.solve(
                parts,
                b,
                backend="pytorch",
                method="cg",
                preconditioner="none",
                atol=0.0,
                rtol=TOLERANCE,
                return_info=True,
            )
            return x, info.iter_count

        found["torch-sla"] = theirs
    return found


def direct(S: sp.csr_array, b: Tensor) -> dict[str, Solver]:
    """Return the solvers by LU factorization."""
    A, right = ts.from_scipy(S), b.numpy()
    found: dict[str, Solver] = {
        "trnsparse": lambda: (ts.spsolve(A, b), None),
        "scipy": lambda: (torch.from_numpy(spl.splu(S.tocsc()).solve(right)), None),
    }
    if find_spec("torch_sla"):
        import torch_sla

        coo = A.to_coo()
        parts = coo.values, coo.row_indices.long(), coo.col_indices.long(), A.shape, b
        found["torch-sla"] = lambda: (torch_sla.spsolve(*parts, backend="scipy", method="lu"), None)
    return found


def gradients(S: sp.csr_array, b: Tensor) -> dict[str, Solver]:
    """Return the gradients of the sum of a solution with respect to the matrix entries."""
    A = ts.from_scipy(S)
    leaf = A.values.clone().requires_grad_()

    def ours() -> Answer:
        return torch.autograd.grad(ts.spsolve(A.with_values(leaf), b).sum(), leaf)[0], None

    found = {"trnsparse": ours}
    if find_spec("torch_sla"):
        import torch_sla

        coo = A.to_coo()
        places = coo.row_indices.long(), coo.col_indices.long(), A.shape, b

        def theirs() -> Answer:
            x = torch_sla.spsolve(leaf, *places, backend="scipy", method="lu")
            return torch.autograd.grad(x.sum(), leaf)[0], None

        found["torch-sla"] = theirs
    return found


def rows_of(name: str, n: int, solvers: dict[str, Solver]) -> list[tuple[str, str, str, str]]:
    """Return a row for each solver of a problem."""
    timings = measure(solvers, ROUNDS, time.thread_time)
    A = ts.from_scipy(laplacian(n))
    b = right_side(n)
    rows, reference = [], solvers["trnsparse"]()[0]
    for who, solver in solvers.items():
        x, iterations = solver()
        if x.shape == b.shape:
            error = f"residual {float((b - A @ x).norm() / b.norm()):.1e}"
        else:
            error = f"{float((x - reference).abs().max()):.1e} apart"
        steps = "" if iterations is None else f"{iterations} iterations"
        rows.append((f"{name}, {n} x {n}, {who}", f"{1e3 * timings[who].p50:.2f} ms", steps, error))
    return rows


def preconditioned(n: int) -> list[tuple[str, str, str, str]]:
    """Return a row for conjugate gradients with each preconditioner, and for SciPy without one.

    SciPy's only preconditioner, ``spilu``, is not symmetric: ``cg`` does not converge with it.
    """
    S, b = laplacian(n), torch.ones(n * n, dtype=torch.float64)
    A, right = ts.from_scipy(S), b.numpy()
    makers: dict[str, Callable[[], object] | None] = {
        "none": None,
        "jacobi_preconditioner": lambda: ts.jacobi_preconditioner(A),
        "block_jacobi_preconditioner": lambda: ts.block_jacobi_preconditioner(A),
        "ssor_preconditioner": lambda: ts.ssor_preconditioner(A),
        "ichol_preconditioner": lambda: ts.ichol_preconditioner(A),
        "ilu_preconditioner": lambda: ts.ilu_preconditioner(A),
        "scipy, none": None,
    }
    if find_spec("pyamg"):
        makers["amg_preconditioner"] = lambda: ts.amg_preconditioner(A)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in makers}
    steps: dict[str, int] = {}
    for _ in range(3):
        for name, make in makers.items():
            begun = time.thread_time()
            M = None if make is None else make()
            if name.startswith("scipy"):
                done: list[None] = []
                prepared = time.thread_time()
                spl.cg(S, right, rtol=1e-8, callback=lambda _, d=done: d.append(None))
                steps[name] = len(done)
            else:
                if M is not None:
                    M(b)  # triangles are prepared at their first use
                prepared = time.thread_time()
                steps[name] = ts.cg(A, b, tol=1e-8, max_iter=5000, M=M).iterations
            found[name].append((prepared - begun, time.thread_time() - prepared))
    rows = []
    for name, turns in found.items():
        setup, solve = 1e3 * np.median(np.array(turns), axis=0)
        times = f"{setup:.0f} + {solve:.0f} = {setup + solve:.0f} ms"
        rows.append((f"{name}, {n} x {n}", times, f"{steps[name]} iterations", ""))
    return rows


def grid(*sides: int) -> sp.csr_array:
    """Return the Laplacian of a grid of any number of dimensions."""
    found = sp.csr_array((1, 1))
    for side in sides:
        one = sp.diags_array(
            [-np.ones(side - 1), 2 * np.ones(side), -np.ones(side - 1)], offsets=(-1, 0, 1)
        )
        found = sp.kron(found, sp.eye_array(side)) + sp.kron(sp.eye_array(found.shape[0]), one)
    return found.tocsr()


def eigenproblems() -> dict[str, tuple[sp.csr_array | np.ndarray, dict[str, object]]]:
    """Return matrices with the options of ``eigsh``."""
    drawn = np.random.default_rng(0)

    def sparse(n: int, density: float, imaginary: bool = False) -> sp.csr_array:
        found = sp.random_array(
            (n, n), density=density, rng=drawn, data_sampler=drawn.standard_normal
        )
        if imaginary:
            found = found + 1j * sp.random_array((n, n), density=density, rng=drawn)
        return (found + found.conj().T).tocsr()

    links = abs(sparse(5000, 1e-3)).sign()
    dense = drawn.standard_normal((1000, 1000))
    q = np.linalg.qr(drawn.standard_normal((800, 800)))[0]
    clustered = (q * np.concatenate([1 + 1e-6 * np.arange(780), 2 + 1e-3 * np.arange(20)])) @ q.T
    repeated = (
        q * np.concatenate([np.full(4, 5.0), np.full(4, 4.0), np.linspace(0, 3, 792)])
    ) @ q.T
    return {
        "1-D Laplacian 2000, near 0": (grid(2000), {"sigma": 0.0}),
        "2-D Laplacian 100 x 100, largest": (grid(100, 100), {"which": "LA"}),
        "3-D Laplacian 20 x 20 x 20, both ends": (grid(20, 20, 20), {"which": "BE"}),
        "graph 5000, smallest": (
            (sp.diags_array(links.sum(1)) - links).tocsr(),
            {"which": "SA"},
        ),
        "sparse random 5000": (sparse(5000, 1e-3), {}),
        "dense random 1000": (dense + dense.T, {}),
        "dense clustered 800": ((clustered + clustered.T) / 2, {"which": "LA"}),
        "2-D Laplacian 100 x 100, inside": (grid(100, 100), {"sigma": 2.9}),
        "complex random 3000": (sparse(3000, 2e-3, True), {"which": "LA"}),
        "dense multiple 800": ((repeated + repeated.T) / 2, {}),
    }


def bounds_hold(S: sp.csr_array | np.ndarray, found: trnsolver.lanczos.BoundedEigenpairs) -> bool:
    """Return whether LAPACK finds a value within each bound.

    Of a matrix that is large, the residual in long double must be within the bound.
    """
    w, v, bounds = found[0].numpy(), found[1].numpy(), np.array(found.info.bounds)
    if S.shape[0] > 1000:
        image = S.astype(np.clongdouble if np.iscomplexobj(S) else np.longdouble) @ v
        rests = np.sqrt((abs(image - v * w) ** 2).sum(0))
        return bool((rests <= bounds * np.linalg.norm(v, axis=0)).all())
    exact = np.linalg.eigvalsh(S)
    rounding = S.shape[0] * np.finfo(float).eps * abs(exact).max()
    return all(
        abs(exact - value).min() <= bound + rounding for value, bound in zip(w, bounds, strict=True)
    )


def eigenpairs(k: int = 6) -> list[tuple[str, ...]]:
    """Return a row for each matrix: times, ratio, residuals over the norm, products, bounds."""
    rows = []
    for name, (S, options) in eigenproblems().items():
        A = torch.from_numpy(S) if isinstance(S, np.ndarray) else ts.from_scipy(S)
        ours = lambda A=A, o=options: trnsolver.eigsh(A, k, **o)  # noqa: E731
        theirs = lambda S=S, o=options: spl.eigsh(S, k, **o)  # noqa: E731
        timings = measure({"ours": ours, "scipy": theirs}, 5, time.thread_time)
        found, (w, v) = ours(), theirs()
        size = spl.norm(S, 1) if sp.issparse(S) else np.linalg.norm(S, 1)
        residuals = [
            float(np.linalg.norm(S @ vectors - vectors * values, axis=0).max() / size)
            for values, vectors in ((found[0].numpy(), found[1].numpy()), (w, v))
        ]
        own, other = (1e3 * timings[who].p50 for who in ("ours", "scipy"))
        apart = float(abs(np.sort(w) - found[0].numpy()).max() / size)
        rows.append(
            (
                name,
                f"{own:.1f} ms",
                f"{other:.1f} ms",
                f"{own / other:.2f}",
                f"{residuals[0]:.0e} {residuals[1]:.0e}",
                f"{apart:.0e}",
                f"{max(found.info.bounds) / size:.0e}"
                + ("" if bounds_hold(S, found) else " broken"),
            )
        )
    return rows


def right_side(n: int) -> Tensor:
    """Return the right-hand side of a grid."""
    return torch.randn(n * n, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    if "--preconditioners" in sys.argv[1:]:
        rows = [row for n in (100, 317) for row in preconditioned(n)]
        show(rows, ("preconditioner", "setup + solve", "", ""))
        return
    if "--eigsh" in sys.argv[1:]:
        show(
            eigenpairs(),
            ("six pairs", "trnsolver", "scipy", "ratio", "residuals", "apart", "bound"),
        )
        return
    rows = []
    for name, made in (("cg", iterative), ("spsolve", direct), ("gradient", gradients)):
        for n in GRIDS:
            rows += rows_of(name, n, made(laplacian(n), right_side(n)))
    show(rows, ("solver", "time", "", ""))


if __name__ == "__main__":
    main()
