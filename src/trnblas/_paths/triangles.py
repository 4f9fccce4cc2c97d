"""Matrices given by one triangle, and products computed for one triangle."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from trnblas._paths.arguments import TRANSPOSED, Trans
from trnsci.core.numbers.products import matmul
from trnsci.core.numbers.values import inert

# Below this order, one product and a mask cost less than four products and their assembly.
_LEAF = 512
# Rows and columns of blocks that stay in a processor's cache.
_PANEL = 128


class Triangle(NamedTuple):
    """How a triangular A enters a product or a system: the flags of their operations, in order.

    Attributes:
        left: Whether A is on the left.
        upper: Whether its upper triangle is read.
        trans: ``"N"``, ``"T"`` or ``"C"``.
        unit: Whether its diagonal is ones, and is not read.
    """

    left: bool
    upper: bool
    trans: Trans
    unit: bool

    def transposed(self) -> Triangle:
        """Return the flags of the transpose of a real op(A)."""
        return self._replace(trans=TRANSPOSED[self.trans])

    def elements(self, matrix: Tensor) -> Tensor:
        """Return the elements of a matrix that are read, and zeros."""
        return one_triangle(matrix, self.upper, 1 if self.unit else 0)

    def by_a(self, grad: Tensor, other: Tensor) -> tuple[Tensor, Tensor, str, str]:
        """Return the two operands, and their transpositions, whose product is the gradient by A.

        ``grad`` is the gradient by the result ``op(A) @ other`` if ``left``, else by the result
        ``other @ op(A)``. The product is the gradient by all elements of A, before ``elements``.
        """
        if self.left:
            return (grad, other, "N", "T") if self.trans == "N" else (other, grad, "N", "T")
        return (other, grad, "T", "N") if self.trans == "N" else (grad, other, "T", "N")


def one_triangle(A: Tensor, upper: bool, diagonal: int = 0) -> Tensor:
    """Return one triangle of A without its first ``diagonal`` diagonals; zeros elsewhere."""
    return torch.triu(A, diagonal) if upper else torch.tril(A, -diagonal)


def mirrored(A: Tensor, upper: bool, conjugate: bool = False) -> Tensor:
    """Return the symmetric matrix, or the Hermitian one, with the chosen triangle of A."""
    if _plain(A):
        return completed(A.clone(memory_format=torch.contiguous_format), upper, conjugate)
    other = one_triangle(A, upper, 1)
    if not conjugate:
        return one_triangle(A, upper) + other.mT
    return other + other.mH + torch.diag_embed(torch.diagonal(A, dim1=-2, dim2=-1).real)


def completed(A: Tensor, upper: bool, conjugate: bool = False) -> Tensor:
    """Return ``mirrored`` of a matrix that the caller owns, in the same memory where possible."""
    if not _plain(A):
        return mirrored(A, upper, conjugate)
    order = A.shape[-1]
    for first in range(0, order, _PANEL):
        here, beyond = slice(first, first + _PANEL), slice(first + _PANEL, order)
        block = A[here, here]
        other = one_triangle(block, upper, 1).mT
        (block.triu_() if upper else block.tril_()).add_(other.conj() if conjugate else other)
        if first + _PANEL < order:
            rows, columns = (here, beyond) if upper else (beyond, here)
            image, source = A[columns, rows], A[rows, columns].mT
            torch.conj_physical(source, out=image) if conjugate else image.copy_(source)
    if conjugate:
        A.diagonal().imag.zero_()
    return A


def _plain(A: Tensor) -> bool:
    """Return whether A is one matrix on a CPU whose elements may be copied one by one."""
    return A.is_cpu and A.ndim == 2 and inert(A)


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
