"""The calls that need no look at their arguments: one torch routine, at once.

Looking at two tensors takes longer than multiplying them when they are small. So where factors are
plain floats and options plain booleans or known words, torch is called as it is. It refuses what
does not fit, except a meta tensor beside a real one; None then sends the caller to its own checks,
whose errors name the argument.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trnblas._arguments import Scalar
from trnblas._flags import LEFT, UNIT, UPPER

__all__ = ["quick_product", "quick_products", "quick_solution", "quick_vector"]

# What torch, and the attributes of something that is no tensor, raise.
_REFUSALS = (AttributeError, IndexError, RuntimeError, TypeError)


def quick_product(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    trans_a: bool | str,
    trans_b: bool | str,
) -> Tensor | None:
    """Return ``gemm`` of two matrices, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        if A.ndim != 2 or B.ndim != 2 or A.device != B.device:
            return None
        if trans_a is True:
            A = A.mT
        elif trans_a is not False:
            return None
        if trans_b is True:
            B = B.mT
        elif trans_b is not False:
            return None
        if C is None:
            if alpha == 1.0:
                return torch.mm(A, B)
            # beta=0 leaves the first argument unread.
            return torch.addmm(A.new_empty(()), A, B, alpha=alpha, beta=0)
        if type(beta) is not float or beta == 0.0 or C.device != A.device:
            return None
        return torch.addmm(C, A, B, alpha=alpha, beta=beta)
    except _REFUSALS:
        return None


def quick_products(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    trans_a: bool | str,
    trans_b: bool | str,
) -> Tensor | None:
    """Return ``gemm`` of batches with one dimension, or of a batch and a matrix, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        shared = A.ndim + B.ndim == 5
        if (not shared and (A.ndim != 3 or B.ndim != 3)) or A.device != B.device:
            return None
        if trans_a is True:
            A = A.mT
        elif trans_a is not False:
            return None
        if trans_b is True:
            B = B.mT
        elif trans_b is not False:
            return None
        if shared:
            return (
                torch.matmul(A, B) if alpha == 1.0 and C is None and A.ndim > 1 < B.ndim else None
            )
        if C is None:
            if alpha == 1.0:
                return torch.bmm(A, B)
            return torch.baddbmm(A.new_empty(()), A, B, alpha=alpha, beta=0)
        if type(beta) is not float or beta == 0.0 or C.device != A.device:
            return None
        return torch.baddbmm(C, A, B, alpha=alpha, beta=beta)
    except _REFUSALS:
        return None


def quick_vector(
    alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None, trans: bool | str
) -> Tensor | None:
    """Return ``gemv``, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        if trans is True:
            A = A.mT
        elif trans is not False:
            return None
        if y is None:
            return torch.mv(A, x) if alpha == 1.0 else None
        if type(beta) is not float or beta == 0.0:
            return None
        return torch.addmv(y, A, x, alpha=alpha, beta=beta)
    except _REFUSALS:
        return None


def quick_solution(
    alpha: Scalar, A: Tensor, B: Tensor, side: str, uplo: str, trans: bool | str, diag: str
) -> Tensor | None:
    """Return ``trsm``, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        left, upper, unit = LEFT.get(side), UPPER.get(uplo), UNIT.get(diag)
        if left is None or upper is None or unit is None:
            return None
        if trans is True:
            A, upper = A.mT, not upper
        elif trans is not False:
            return None
        if A.dtype is not B.dtype or A.device != B.device:
            return None
        right = B if alpha == 1.0 else B * alpha
        solve = torch.linalg.solve_triangular
        return solve(A, right, upper=upper, left=left, unitriangular=unit)
    except _REFUSALS:
        return None
