"""Triangular solutions with Cholesky factors, by trnblas where kernels are wanted."""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas import trsm
from trnsolver._library import kernels_wanted


def factor_solved(factor: Tensor, right: Tensor, adjoint: bool = False) -> Tensor:
    """Return the solution of a system of a lower factor, or of its adjoint."""
    if kernels_wanted():
        return trsm(1.0, factor, right, uplo="lower", trans="C" if adjoint else "N")
    return torch.linalg.solve_triangular(factor.mH if adjoint else factor, right, upper=adjoint)
