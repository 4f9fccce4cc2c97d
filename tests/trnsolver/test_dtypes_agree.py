"""Operands of two dtypes are refused, as in torch.linalg, by every solver of linear systems."""

import pytest
import torch

import trnblas
import trnsolver
import trnsparse

SOLVERS = {
    **{
        f"trnsolver.{name}": getattr(trnsolver, name)
        for name in ("solve", "solve_spd", "lstsq", "cg", "minres", "bicgstab", "gmres", "fgmres")
    },
    "trnsolver.solve to a target": lambda a, b: trnsolver.solve(a, b, target_forward_error=1e-3),
    "trnblas.trsv": trnblas.trsv,
    "trnblas.trsm": lambda a, b: trnblas.trsm(1.0, a, b.unsqueeze(-1)),
    **{
        f"trnsparse.{name}": lambda a, b, name=name: getattr(trnsparse, name)(
            trnsparse.from_dense(a), b
        )
        for name in ("spsolve", "sptrsv", "cg", "minres")
    },
}
PAIRS = [
    (torch.float32, torch.float64),
    (torch.float64, torch.float32),
    (torch.bfloat16, torch.float32),
    (torch.float32, torch.complex128),
    (torch.float64, torch.int64),
]


@pytest.mark.parametrize("name", SOLVERS)
def test_two_dtypes_are_refused(name):
    for of_matrix, of_side in PAIRS:
        a, b = 2 * torch.eye(3, dtype=of_matrix), torch.ones(3, dtype=of_side)
        with pytest.raises(TypeError, match=f"{of_matrix}|{of_side}"):
            SOLVERS[name](a, b)
