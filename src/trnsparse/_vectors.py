"""What iterative methods are made of: operators, inner products in float64, checked vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from trnsci.core.arguments import agree
from trnsci.core.errors import DTypeError, OperandError
from trnsparse.formats import SparseMatrix

__all__ = ["Operator", "dots", "norms", "operator_of", "preconditioner_of", "start"]

Operator: TypeAlias = Callable[[Tensor], Tensor]

_WIDE = {torch.complex64: torch.complex128, torch.complex128: torch.complex128}


def operator_of(function: str, A: SparseMatrix | Tensor | Operator, b: Tensor) -> Operator:
    """Return the product with A as a function, outside of autograd's graph.

    A may be a sparse matrix of any format, a dense one, or a function itself.
    """
    if not isinstance(b, Tensor) or b.ndim not in (1, 2):
        kind = f"shape {tuple(b.shape)}" if isinstance(b, Tensor) else type(b).__name__
        raise OperandError(f"{function}: b must be a vector or a matrix of columns, got {kind}")
    if not (b.is_floating_point() or b.is_complex()):
        raise DTypeError(f"{function}: b must be floating point or complex, got {b.dtype}")
    if isinstance(A, (SparseMatrix, Tensor)):
        if A.shape[0] != A.shape[1] or A.shape[1] != b.shape[0]:
            raise OperandError(
                f"{function}: A must be square and fit b, got {tuple(A.shape)} and {tuple(b.shape)}"
            )
        data = A._data if isinstance(A, SparseMatrix) else A
        agree(function, "A", data, "b", b)
        return A.detach()._operator(b) if isinstance(A, SparseMatrix) else A.detach().__matmul__
    if not callable(A):
        raise DTypeError(
            f"{function}: A must be a sparse or dense matrix or a function, got {type(A).__name__}"
        )
    return A


def preconditioner_of(function: str, M: SparseMatrix | Tensor | Operator | None) -> Operator:
    """Return the application of an approximate inverse, the identity for None."""
    if M is None:
        return lambda r: r
    if isinstance(M, (SparseMatrix, Tensor)):
        return M.detach().__matmul__
    if not callable(M):
        raise DTypeError(
            f"{function}: M must be a function, an inverted matrix or None, got {type(M).__name__}"
        )
    return M


def start(function: str, b: Tensor, x0: Tensor | None) -> Tensor:
    """Return where an iteration begins, in memory of its own."""
    if x0 is None:
        return torch.zeros_like(b)
    agree(function, "b", b, "x0", x0)
    if x0.shape != b.shape:
        raise OperandError(
            f"{function}: x0 must have the shape of b, got {tuple(x0.shape)} and {tuple(b.shape)}"
        )
    return x0.detach().clone()


def dots(a: Tensor, b: Tensor) -> Tensor:
    """Return the inner product, of each column where there are several, summed in float64."""
    if a.ndim == 1 and a.dtype is torch.float64:
        return torch.dot(a, b)
    wide = _WIDE.get(a.dtype, torch.float64)
    if a.ndim == 1:
        found = torch.vdot(a.to(wide), b.to(wide))
    else:
        found = torch.linalg.vecdot(a.to(wide), b.to(wide), dim=0)
    return found.real if a.is_complex() else found


def norms(a: Tensor) -> Tensor:
    """Return the norm, of each column where there are several, summed in float64."""
    return dots(a, a).sqrt()
