"""Products and triangular solutions by trnblas, at every level of precision.

trnblas refuses complex operands at ``"doublefloat"``. Solvers compute them in complex128 on torch,
rounded to their dtype, as in their other operations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import trnblas
from trnsolver._library import kernels_wanted


def gemm(
    alpha: float, A: Tensor, B: Tensor, beta: float = 0.0, C: Tensor | None = None, **options: Any
) -> Tensor:
    """Return ``trnblas.gemm``."""
    return _called(trnblas.gemm, alpha, A, B, beta, C, **options)


def trsm(alpha: float, A: Tensor, B: Tensor, **options: Any) -> Tensor:
    """Return ``trnblas.trsm``."""
    return _called(trnblas.trsm, alpha, A, B, **options)


def factor_solved(factor: Tensor, right: Tensor, adjoint: bool = False) -> Tensor:
    """Return the solution of a system of a lower factor, or of its adjoint."""
    if kernels_wanted():
        return trsm(1.0, factor, right, uplo="lower", trans="C" if adjoint else "N")
    return torch.linalg.solve_triangular(factor.mH if adjoint else factor, right, upper=adjoint)


def _called(
    function: Callable[..., Tensor], alpha: float, A: Tensor, *rest: Any, **options: Any
) -> Tensor:
    if not A.is_complex() or trnblas.get_precision() != "doublefloat":
        return function(alpha, A, *rest, **options)
    wide = [x.to(torch.complex128) if isinstance(x, Tensor) else x for x in (A, *rest)]
    return function(alpha, *wide, precision="float32", **options).to(A.dtype)
