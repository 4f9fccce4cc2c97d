"""Matrices given by one triangle, and products computed for one triangle."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.products import matmul

__all__ = [
    "elements_read",
    "mirrored",
    "one_triangle",
    "triangle_gradient",
    "triangle_product",
    "triangular",
]

# Below this order, one product and a mask cost less than four products and their assembly.
_LEAF = 512


def one_triangle(A: Tensor, upper: bool, diagonal: int = 0) -> Tensor:
    """Return one triangle of A without its first ``diagonal`` diagonals; zeros elsewhere."""
    return torch.triu(A, diagonal) if upper else torch.tril(A, -diagonal)


def elements_read(matrix: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return the elements that are read: the triangle, without its diagonal if ``unit``."""
    return one_triangle(matrix, upper, 1 if unit else 0)


def mirrored(A: Tensor, upper: bool, conjugate: bool = False) -> Tensor:
    """Return the symmetric matrix, or the Hermitian one, with the chosen triangle of A."""
    other = one_triangle(A, upper, 1)
    if not conjugate:
        return one_triangle(A, upper) + other.mT
    return other + other.mH + torch.diag_embed(torch.diagonal(A, dim1=-2, dim2=-1).real)


def triangular(A: Tensor, upper: bool, unit: bool) -> Tensor:
    """Return the chosen triangle of A, its diagonal replaced by ones if ``unit``."""
    if not unit:
        return one_triangle(A, upper)
    ones = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return one_triangle(A, upper, 1) + ones


def triangle_product(A: Tensor, B: Tensor, upper: bool) -> Tensor:
    """Return the chosen triangle of ``A @ B``, zeros elsewhere; large products cost half."""
    n = A.shape[-2]
    if n <= _LEAF:
        return one_triangle(matmul(A, B), upper)
    half = n // 2
    first, last = slice(None, half), slice(half, None)
    # The off-diagonal block, above or below the diagonal.
    rows, columns = (first, last) if upper else (last, first)
    block = matmul(A[..., rows, :], B[..., :, columns])
    zeros = torch.zeros_like(block).mT
    top = triangle_product(A[..., first, :], B[..., :, first], upper)
    bottom = triangle_product(A[..., last, :], B[..., :, last], upper)
    above, below = (block, zeros) if upper else (zeros, block)
    return torch.cat([torch.cat([top, above], dim=-1), torch.cat([below, bottom], dim=-1)], dim=-2)


def triangle_gradient(
    grad: Tensor, other: Tensor, left: bool, trans: str
) -> tuple[Tensor, Tensor, str, str]:
    """Return the operands and transpositions of a product: the gradient by A, triangular or not.

    That of op(A) times ``other``, or of ``other`` times op(A), where ``grad`` is by the result.
    """
    if left:
        return (grad, other, "N", "T") if trans == "N" else (other, grad, "N", "T")
    return (other, grad, "T", "N") if trans == "N" else (grad, other, "T", "N")
