"""Terms of the derivatives of factorizations, which are computed from their results.

Derivatives are products and triangular solutions; nothing is factorized again. In their docstrings
G is the gradient by a result and T a tangent. ``^T`` is the adjoint of a complex matrix, whose
eigenvectors and singular vectors have free phases, and whose triangles have real diagonals. A
triangle that a factorization does not read has the same derivatives as in ``torch.linalg``.

Products and solutions are computed by torch, except at doublefloat, where the kernels of trnblas
compute them if kernels computed the factorization.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnblas import backend, batched_gemm, batched_trsm
from trnsolver._library import kernels_wanted


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b`` for batches of matrices."""
    choice = kernels_wanted()
    if choice is None or not choice.widening:
        return a @ b
    with backend(choice.path):
        return batched_gemm(1.0, a, b, precision="doublefloat")


def solution(triangle: Tensor, right: Tensor, *, upper: bool, left: bool = True) -> Tensor:
    """Return X with ``triangle @ X = right``, or ``X @ triangle = right``, as torch does."""
    choice = kernels_wanted()
    if choice is None or not choice.widening:
        return torch.linalg.solve_triangular(triangle, right, upper=upper, left=left)
    sides: dict[str, Any] = {"side": "left" if left else "right"}
    sides["uplo"] = "upper" if upper else "lower"
    with backend(choice.path):
        return batched_trsm(1.0, triangle, right, **sides, precision="doublefloat")


def given(tangent: Tensor | None) -> Tensor:
    """Return the tangent of the only tensor of an operation."""
    assert tangent is not None, "an operation of one tensor is differentiated by it"
    return tangent


def or_zeros(grad: Tensor | None, result: Tensor) -> Tensor:
    """Return the gradient by a result, zeros for None."""
    return torch.zeros_like(result) if grad is None else grad


def over_differences(values: Tensor) -> Tensor:
    """Return ``1 / (values_j - values_i)``, and 0 on the diagonal."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    n = values.shape[-1]
    diagonal = torch.eye(n, dtype=torch.bool, device=values.device)
    return 1 / gaps.masked_fill(diagonal, float("inf"))


def real_diagonal(values: Tensor) -> Tensor:
    """Return the real parts of diagonals."""
    diagonal = values.diagonal(dim1=-2, dim2=-1)
    return diagonal.real if diagonal.is_complex() else diagonal


def skew(values: Tensor) -> Tensor:
    """Return ``X - X.mH``."""
    return values - values.mH
