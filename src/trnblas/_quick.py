"""The calls that need no look at their arguments: one torch routine, at once.

Looking at two tensors takes longer than multiplying them when they are small. So where factors are
plain floats and options plain booleans or known words, torch is called as it is. It refuses what
does not fit, except a meta tensor beside a real one; None then sends the caller to its own checks,
whose errors name the argument.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from trnblas._arguments import Scalar
from trnblas._flags import LEFT, UNIT, UPPER

__all__ = ["quick_product", "quick_solution", "quick_vector"]

# What torch, and the attributes of something that is no tensor, raise.
_REFUSALS = (AttributeError, IndexError, RuntimeError, TypeError)

_SHARED = ((2, 3), (3, 2))
# Of numbers that torch would take for a factor of integers it drops the fraction.
_FIELDS = frozenset(
    getattr(torch, name)
    for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
)


def quick_product(
    alpha: Scalar,
    A: Tensor,
    B: Tensor,
    beta: Scalar,
    C: Tensor | None,
    trans_a: bool | str,
    trans_b: bool | str,
) -> Tensor | None:
    """Return ``gemm`` of matrices, of batches with one dimension, or of one of each, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        if A.device != B.device:
            return None
        A, B = _turned(A, trans_a), _turned(B, trans_b)
        dimensions = A.ndim, B.ndim
        plain: Callable[..., Tensor]
        added: Callable[..., Tensor]
        if dimensions == (2, 2):
            plain, added = torch.mm, torch.addmm
        elif dimensions == (3, 3):
            plain, added = torch.bmm, torch.baddbmm
        elif dimensions in _SHARED and alpha == 1.0 and C is None:
            return torch.matmul(A, B) if type(beta) is float and beta == 0.0 else None
        else:
            return None
        if type(beta) is not float:
            return None
        if C is None:
            if beta != 0.0:
                return None
            if alpha == 1.0:
                return plain(A, B)
            if A.dtype not in _FIELDS:
                return None
            # beta=0 leaves the first argument unread.
            return added(A.new_empty(()), A, B, alpha=alpha, beta=0)
        if beta == 0.0 or C.device != A.device or A.dtype not in _FIELDS:
            return None
        return added(C, A, B, alpha=alpha, beta=beta)
    except _REFUSALS:
        return None


def quick_vector(
    alpha: Scalar, A: Tensor, x: Tensor, beta: Scalar, y: Tensor | None, trans: bool | str
) -> Tensor | None:
    """Return ``gemv``, or None."""
    if type(alpha) is not float or alpha == 0.0:
        return None
    try:
        A = _turned(A, trans)
        if type(beta) is not float:
            return None
        if y is None:
            return torch.mv(A, x) if alpha == 1.0 and beta == 0.0 else None
        if beta == 0.0 or A.dtype not in _FIELDS:
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
        A, upper = _turned(A, trans), upper != trans
        if A.dtype is not B.dtype or A.device != B.device:
            return None
        right = B if alpha == 1.0 else B * alpha
        solve = torch.linalg.solve_triangular
        return solve(A, right, upper=upper, left=left, unitriangular=unit)
    except _REFUSALS:
        return None


def _turned(matrix: Tensor, trans: bool | str) -> Tensor:
    """Return the matrix as a boolean option says; any other option is one of the refusals."""
    if trans is False:
        return matrix
    if trans is True:
        return matrix.mT
    raise TypeError("not a boolean")
