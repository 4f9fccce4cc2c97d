"""Solvers of trnsparse compared with those of torch-sla and SciPy, in one run.

    python benchmarks/bench_sparse_solvers.py                     print the table
    python benchmarks/bench_sparse_solvers.py --preconditioners   setup, iterations and time of each

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
    rows = []
    for name, made in (("cg", iterative), ("spsolve", direct), ("gradient", gradients)):
        for n in GRIDS:
            rows += rows_of(name, n, made(laplacian(n), right_side(n)))
    show(rows, ("solver", "time", "", ""))


if __name__ == "__main__":
    main()
