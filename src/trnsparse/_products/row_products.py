"""Products with a CSR matrix, and their derivatives.

Tensors that are neither transformed nor differentiated go to the fastest public routine. In reverse
mode a product is one autograd node. Under torch.compile, ``vmap``, forward mode and fake tensors it
is a gather and a scatter in torch operations. No path makes the sparse matrix dense.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from trnsci.core.arguments import broadcast
from trnsci.core.interop import forward_level
from trnsci.core.numbers.conversions import array_of
from trnsci.core.numbers.values import concrete, inert, one_cotangent
from trnsparse._patterns.layouts import (
    NATIVE,
    as_scipy_csc,
    as_scipy_csr,
    as_torch_csr,
    has_mkl,
    suits_scipy,
)
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.tiles import TileHolder

NARROW = (torch.float16, torch.bfloat16)
"""Dtypes that are summed in float32 and rounded once."""

# torch and MKL clear and write every row of the result, SciPy only rows with entries: three times
# as fast on one core of an x86-64 if at most a quarter of the rows has entries.
_MOSTLY_EMPTY = 4

Maker: TypeAlias = Callable[[Tensor, Pattern], Any]


class RowMatrix:
    """Stored entries by rows, with cached torch and SciPy matrices on the same memory.

    Attributes:
        tiles: Its dense tiles for products on kernels.

    Args:
        values: Entries (nnz,), blocks (nb, s, s) or slots (m, w); leading dimensions for several
            matrices of one pattern.
        pattern: Positions of the entries or blocks.
    """

    __slots__ = ("_held", "pattern", "tiles", "values")

    def __init__(self, values: Tensor, pattern: Pattern) -> None:
        self.values = values
        self.pattern = pattern
        self.tiles = TileHolder()
        self._held: dict[Maker, tuple[int, Any]] = {}

    @classmethod
    def reused(cls, held: RowMatrix | None, values: Tensor, pattern: Pattern) -> RowMatrix:
        """Return ``held`` if it has these values and this pattern, otherwise a new matrix."""
        if held is not None and held.values is values and held.pattern is pattern:
            return held
        return cls(values, pattern)

    def made_by(self, maker: Maker) -> Any:
        """Return the cached result of ``maker`` on the memory of the values."""
        memory = self.values.data_ptr()  # changes on assignment to ``values.data``
        held = self._held.get(maker)
        if held is not None and held[0] == memory:
            return held[1]
        plain = self.values.detach().resolve_conj().resolve_neg().contiguous()
        made = maker(plain, self.pattern)
        if plain.data_ptr() == memory:  # a copy would not follow changes of the values in place
            self._held[maker] = memory, made
        return made


def csr_product(matrix: RowMatrix, b: Tensor) -> Tensor:
    """Return the product with a dense vector (n,) or matrix (..., n, N) of its dtype and device."""
    values, pattern = matrix.values, matrix.pattern
    if values.ndim == 1 and b.ndim <= 2:
        return _computed(matrix, b) if _is_plain(matrix, b) else _traced(matrix, b)
    if b.ndim == 1:
        return csr_product(matrix, b.unsqueeze(-1)).squeeze(-1)
    if values.ndim == 1:  # one matrix: concatenate the columns of all right-hand sides
        wide = b.movedim(-2, 0)
        flat = csr_product(matrix, wide.reshape(b.shape[-2], -1))
        return flat.reshape(pattern.rows, *wide.shape[1:]).movedim(0, -2)
    batch = broadcast(values.shape[:-1], b.shape[:-2]) or ()
    if not inert(values, b):
        return _gathered(values, pattern, b)
    each = [
        csr_product(RowMatrix(v, pattern), right)
        for v, right in zip(
            values.expand(*batch, -1).reshape(-1, values.shape[-1]),
            b.expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:]),
            strict=True,
        )
    ]
    if not each:
        return b.new_zeros(*batch, pattern.rows, b.shape[-1])
    return torch.stack(each).reshape(*batch, pattern.rows, b.shape[-1])


def products_like(matrix: RowMatrix, b: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function of products with operands like b.

    While gradients are disabled, its routine is chosen here, not in each product.
    """
    plain = matrix.values.ndim == 1 and b.ndim <= 2 and not torch.is_grad_enabled()
    return partial(_computed if plain and _is_plain(matrix, b) else csr_product, matrix)


def column_product(transposed: RowMatrix, b: Tensor) -> Tensor | None:
    """Return the product of a CSC matrix and a vector, or None if SciPy cannot compute it.

    The CSC entries of a matrix are the CSR entries of its transpose, so nothing is converted.

    Args:
        transposed: The transpose of the matrix, by rows.
        b: The vector.
    """
    if b.ndim != 1 or not (suits_scipy(transposed.values, transposed.pattern.indices) and inert(b)):
        return None
    return torch.from_numpy(transposed.made_by(as_scipy_csc) @ array_of(b))


def slot_product(slots: RowMatrix, b: Tensor) -> Tensor | None:
    """Return the product of padded rows and a vector, or None if SciPy cannot compute it.

    Values are read where they are: those of empty slots are multiplied by an appended zero.

    Args:
        slots: Slots (m, w), and their pattern, where empty ones have the column after the last.
        b: The vector.
    """
    one = slots.values.ndim == 2 and b.ndim == 1
    if not (one and suits_scipy(slots.values.reshape(-1), slots.pattern.indices) and inert(b)):
        return None
    x = array_of(b)
    padded = np.concatenate([x, np.zeros(1, x.dtype)])
    return torch.from_numpy(slots.made_by(as_scipy_csr) @ padded)


def sampled_product(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    """Return ``(c @ d.mT)`` at the entries of a pattern, (..., nnz).

    Args:
        pattern: The elements to compute.
        c: Rows of the left factor, (..., m, N).
        d: Rows of the right factor, (..., n, N).
    """
    if c.ndim == d.ndim == 2:
        if inert(c, d):
            return _sampled(pattern, c, d)
        if one_node(c, d):
            return _sampled_node(c, d, pattern)
    return _sampled_gathered(pattern, c, d)


def one_node(a: Tensor, b: Tensor) -> bool:
    """Return whether an operation on these can be one autograd node."""
    return concrete(a, b) and forward_level() < 0


# -- products --------------------------------------------------------------------------------------


def _is_plain(matrix: RowMatrix, b: Tensor) -> bool:
    return b.dtype not in NARROW and inert(matrix.values, b)


def _traced(matrix: RowMatrix, b: Tensor) -> Tensor:
    """Return the product of one matrix with 16-bit operands, or with operands torch records."""
    if b.dtype in NARROW:
        wide = RowMatrix(matrix.values.float(), matrix.pattern)
        return csr_product(wide, b.float()).to(b.dtype)
    if b.ndim == 1:
        return _traced(matrix, b.unsqueeze(-1)).squeeze(-1)
    if one_node(matrix.values, b):
        return _product_node(matrix.values, b, matrix)
    return _gathered(matrix.values, matrix.pattern, b)


def _computed(matrix: RowMatrix, b: Tensor) -> Tensor:
    """Return a product by the fastest public routine."""
    pattern = matrix.pattern
    if not pattern.entries or 0 in b.shape:
        return b.new_zeros(pattern.rows, *b.shape[1:])
    if b.dtype not in NATIVE:
        wide = b if b.ndim == 2 else b.unsqueeze(-1)
        return _gathered(matrix.values, pattern, wide).reshape(pattern.rows, *b.shape[1:])
    if b.dtype.is_complex:
        b = b.resolve_conj()
    if b.ndim == 1:
        return torch.mv(matrix.made_by(as_torch_csr), b)
    if not b.is_cpu:
        return torch.mm(matrix.made_by(as_torch_csr), b)
    if _scipy_is_faster(pattern):
        return torch.from_numpy(matrix.made_by(as_scipy_csr) @ array_of(b))
    # torch.mm clears the result before MKL writes it; with short rows that takes as long as the
    # product.
    result = b.new_empty(pattern.rows, b.shape[1])
    return result.addmm_(matrix.made_by(as_torch_csr), b, beta=0)


def _scipy_is_faster(pattern: Pattern) -> bool:
    """Return whether SciPy's product with a dense matrix is faster than torch's on a CPU.

    torch uses MKL. Without MKL, as on Arm, torch takes up to eight times as long as SciPy; products
    with a vector take the same time.
    """
    return not has_mkl() or _MOSTLY_EMPTY * pattern.entries <= pattern.rows


def _gathered(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return a product in torch operations, differentiable in every mode."""
    if b.dtype in NARROW:
        return _gathered(values.float(), pattern, b.float()).to(b.dtype)
    terms = values.unsqueeze(-1) * b.index_select(-2, pattern.indices)
    zeros = terms.new_zeros(*terms.shape[:-2], pattern.rows, terms.shape[-1])
    return zeros.index_add(-2, pattern.row_indices, terms)


class _Product(torch.autograd.Function):
    """A product as one autograd node; its gradients are products and sampled products."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, b: Tensor, matrix: RowMatrix) -> Tensor:
        """Return the product."""
        ctx.save_for_backward(values, b)
        ctx.pattern = matrix.pattern
        with torch.autocast(b.device.type, enabled=False):
            return _computed(matrix, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the values and by the dense operand."""
        one_cotangent("trnsparse.spmm", *grads)
        (values, b), pattern, (grad,) = ctx.saved_tensors, ctx.pattern, grads
        by_values = by_b = None
        if ctx.needs_input_grad[0]:
            by_values = sampled_product(pattern, grad, b.conj())
        if ctx.needs_input_grad[1]:
            transposed, order = pattern.transposed
            adjoint = RowMatrix(values.index_select(0, order).conj(), transposed)
            by_b = csr_product(adjoint, grad)
        return by_values, by_b, None


_product_node: Any = _Product.apply


# -- sampled products ------------------------------------------------------------------------------


def _sampled(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    if c.dtype not in (torch.float32, torch.float64) or not (pattern.entries and c.shape[1]):
        if c.dtype in NARROW:
            return _sampled_gathered(pattern, c.float(), d.float()).to(c.dtype)
        return _sampled_gathered(pattern, c, d)
    mask = as_torch_csr(c.new_zeros(pattern.entries), pattern)
    found: Tensor = torch.sparse.sampled_addmm(mask, c, d.mT, beta=0.0)
    return found.values()


def _sampled_gathered(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    rows = c.index_select(-2, pattern.row_indices)
    return (rows * d.index_select(-2, pattern.indices)).sum(-1)


class _Sampled(torch.autograd.Function):
    """A sampled product as one autograd node."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, d: Tensor, pattern: Pattern) -> Tensor:
        """Return the sampled product."""
        ctx.save_for_backward(c, d)
        ctx.pattern = pattern
        with torch.autocast(c.device.type, enabled=False):
            return _sampled(pattern, c, d)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by both factors."""
        one_cotangent("trnsparse.sddmm", *grads)
        (c, d), pattern, (grad,) = ctx.saved_tensors, ctx.pattern, grads
        by_c = by_d = None
        if ctx.needs_input_grad[0]:
            by_c = csr_product(RowMatrix(grad, pattern), d.conj())
        if ctx.needs_input_grad[1]:
            transposed, order = pattern.transposed
            by_d = csr_product(RowMatrix(grad.index_select(0, order), transposed), c.conj())
        return by_c, by_d, None


_sampled_node: Any = _Sampled.apply
