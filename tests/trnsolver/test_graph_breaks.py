"""Functions whose steps depend on values run between two graphs, and name themselves in one."""

import pytest
import torch

import trnsolver
from trnsci.core.testing import random_tensor

ROOT = random_tensor(6, 6, dtype=torch.float64)
A = ROOT @ ROOT.mT + 6 * torch.eye(6, dtype=torch.float64)
B = random_tensor(6, dtype=torch.float64, seed=1)

CALLS = {
    "block_jacobi_preconditioner": lambda a, b: trnsolver.block_jacobi_preconditioner(a, 4)(b),
    "cg": lambda a, b: trnsolver.cg(a, b, tol=1e-12).x,
    "eigsh": lambda a, b: trnsolver.eigsh(a, 2).eigenvalues,
    "svds": lambda a, b: trnsolver.svds(a, 2).s,
    "eigh with tol": lambda a, b: trnsolver.eigh(a, 1e-12).eigenvalues,
    "ichol_preconditioner": lambda a, b: trnsolver.ichol_preconditioner(a)(b),
    "jacobi_preconditioner": lambda a, b: trnsolver.jacobi_preconditioner(a)(b),
    "lobpcg": lambda a, b: trnsolver.lobpcg(a, 2).eigenvalues,
    "polar by qdwh": lambda a, b: trnsolver.polar(a, method="qdwh")[0],
    "schur": lambda a, b: trnsolver.schur(a)[0],
    "solve with target_forward_error": lambda a, b: (
        trnsolver.solve(a, b, target_forward_error=1e-10).x
    ),
    "ssor_preconditioner": lambda a, b: trnsolver.ssor_preconditioner(a)(b),
}


def test_they_run_between_two_graphs():
    torch.compiler.reset()
    for name, call in CALLS.items():
        compiled = torch.compile(lambda a, b, c=call: c(a + 0, 2 * b) + 1, backend="eager")
        torch.testing.assert_close(
            compiled(A, B), call(A, 2 * B) + 1, msg=lambda text, n=name: f"{n}: {text}"
        )


def test_one_graph_names_them():
    for name in (
        "eigh with tol",
        "eigsh",
        "lobpcg",
        "svds",
        "schur",
        "jacobi_preconditioner",
        "polar by qdwh",
    ):
        torch.compiler.reset()
        compiled = torch.compile(CALLS[name], fullgraph=True, backend="eager")
        with pytest.raises(Exception, match=f"{name}: cannot be part of a compiled graph"):
            compiled(A, B)
