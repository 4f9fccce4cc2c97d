"""Products with a pattern by rows, seen by whoever transforms or differentiates them.

A product is computed by a kernel where nobody transforms it, as one node of autograd's graph where
somebody differentiates it, and by gathering and scattering where torch must see every step: under
torch.compile, ``vmap``, forward mode and fake tensors. None of them makes a dense matrix of a
sparse one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import broadcast
from trnsci.core.eager import readable, settled, untracked
from trnsparse._cpu import NATIVE, product_by_rule
from trnsparse._layouts import as_torch_csr
from trnsparse._patterns import REAL, Pattern

__all__ = [
    "csr_product",
    "is_usual",
    "product_again",
    "sampled_product",
    "usual_product",
]

_NARROW = (torch.float16, torch.bfloat16)


def csr_product(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return the product of a matrix by rows and a dense vector (n,) or matrix (..., n, N).

    Args:
        values: Its entries, (nnz,), or (..., nnz) for several matrices of one pattern.
        pattern: Where they are.
        b: The dense operand, of the same dtype on the same device.
    """
    if values.ndim == 1 and b.ndim <= 2:
        return _product(values, pattern, b)
    if b.ndim == 1:
        return csr_product(values, pattern, b.unsqueeze(-1)).squeeze(-1)
    if values.ndim == 1:  # one matrix: the columns of all right-hand sides side by side
        wide = b.movedim(-2, 0)
        flat = _product(values, pattern, wide.reshape(b.shape[-2], -1))
        return flat.reshape(pattern.rows, *wide.shape[1:]).movedim(0, -2)
    batch = broadcast(values.shape[:-1], b.shape[:-2]) or ()
    if not (untracked(values) and untracked(b)):
        return _gathered(values, pattern, b)
    each = [
        _product(v, pattern, right)
        for v, right in zip(
            values.expand(*batch, -1).reshape(-1, values.shape[-1]),
            b.expand(*batch, *b.shape[-2:]).reshape(-1, *b.shape[-2:]),
            strict=True,
        )
    ]
    if not each:
        return b.new_zeros(*batch, pattern.rows, b.shape[-1])
    return torch.stack(each).reshape(*batch, pattern.rows, b.shape[-1])


def usual_product(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor | None:
    """Return a product by the measured rule and nothing else, None where it is not a usual one."""
    return product_by_rule(values, pattern, b) if is_usual(values, pattern, b) else None


def product_again(
    values: Tensor, pointers: Tensor, indices: Tensor, pattern: Pattern, b: Tensor
) -> Tensor | None:
    """Return a usual product with a matrix that was multiplied before, else None.

    All is asked in one place, of constants that are still what they were: behind a product that
    empties the caches each further function takes half a microsecond.
    """
    last = pattern.last
    if (
        last is None
        or not last.plain
        or last.owner() is not values
        or last.memory != values.data_ptr()
        or values.requires_grad
        or b.requires_grad
        or pointers is not pattern.pointers
        or indices is not pattern.indices
        or not (pattern.constant or pattern.versions == (pointers._version, indices._version))
    ):
        return None
    if b.ndim == 1 and last.made is not None:
        try:
            return torch.mv(last.made, b)
        except RuntimeError:
            return None  # what does not fit is said by the checks, transforms see other steps
    if b.ndim != 2 or b.shape[0] != pattern.columns or b.dtype is not values.dtype or not b.is_cpu:
        return None
    return product_by_rule(values, pattern, b) if pattern.entries and settled() else None


def is_usual(values: Tensor, pattern: Pattern, b: Tensor) -> bool:
    """Return whether a product is the usual one.

    Usual is one matrix of real numbers on a CPU, which nobody watches, and a vector or a matrix
    that fits.
    """
    if not readable(values, b):
        return False
    dtype = b.dtype
    if dtype is not values.dtype or dtype not in REAL or values.ndim != 1:
        return False
    shape = b.shape
    return 0 < len(shape) < 3 and shape[0] == pattern.columns and pattern.entries > 0


def sampled_product(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    """Return ``(c @ d.mT)`` at the entries of a pattern, (..., nnz).

    Args:
        pattern: Which elements are wanted.
        c: Rows of the left factor, (..., m, N).
        d: Rows of the right factor, (..., n, N).
    """
    if c.ndim == d.ndim == 2:
        if untracked(c) and untracked(d):
            return _sampled_by_kernel(pattern, c, d)
        if _one_node(c, d):
            return _sampled_node(c, d, pattern)
    return _sampled_gathered(pattern, c, d)


# -- with derivatives ------------------------------------------------------------------------------


def _product(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return the product of one matrix with a vector or a matrix."""
    if readable(values, b):
        return _on_cpu(values, pattern, b)
    if b.ndim == 1:
        return _product(values, pattern, b.unsqueeze(-1)).squeeze(-1)
    if b.dtype in _NARROW:  # sums of float16 and bfloat16 are rounded once
        return _product(values.float(), pattern, b.float()).to(b.dtype)
    if untracked(values) and untracked(b):
        return _by_kernel(values, pattern, b)
    if _one_node(values, b):
        return _product_node(values, b, pattern)
    return _gathered(values, pattern, b)


def _one_node(a: Tensor, b: Tensor) -> bool:
    """Return whether nothing but autograd backwards watches these tensors."""
    return untracked(a.detach()) and untracked(b.detach())


class _Product(torch.autograd.Function):
    """A product as one node, whose gradients are products and sampled products again."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, b: Tensor, pattern: Pattern) -> Tensor:
        """Return the product."""
        ctx.save_for_backward(values, b)
        ctx.pattern = pattern
        return _by_kernel(values, pattern, b)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the values and by the dense operand."""
        (values, b), pattern, (grad,) = ctx.saved_tensors, ctx.pattern, grads
        by_values = by_b = None
        if ctx.needs_input_grad[0]:
            by_values = sampled_product(pattern, grad, b.conj())
        if ctx.needs_input_grad[1]:
            turned, order = pattern.transposed
            by_b = _product(values.index_select(0, order).conj(), turned, grad)
        return by_values, by_b, None


class _Sampled(torch.autograd.Function):
    """A sampled product as one node."""

    @staticmethod
    def forward(ctx: Any, c: Tensor, d: Tensor, pattern: Pattern) -> Tensor:
        """Return the sampled product."""
        ctx.save_for_backward(c, d)
        ctx.pattern = pattern
        return _sampled_by_kernel(pattern, c, d)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by both factors."""
        (c, d), pattern, (grad,) = ctx.saved_tensors, ctx.pattern, grads
        by_c = by_d = None
        if ctx.needs_input_grad[0]:
            by_c = _product(grad, pattern, d.conj())
        if ctx.needs_input_grad[1]:
            turned, order = pattern.transposed
            by_d = _product(grad.index_select(0, order), turned, c.conj())
        return by_c, by_d, None


_product_node: Any = _Product.apply
_sampled_node: Any = _Sampled.apply


def _gathered(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return a product by steps that torch knows everything about."""
    if b.dtype in _NARROW:
        return _gathered(values.float(), pattern, b.float()).to(b.dtype)
    terms = values.unsqueeze(-1) * b.index_select(-2, pattern.indices)
    zeros = terms.new_zeros(*terms.shape[:-2], pattern.rows, terms.shape[-1])
    return zeros.index_add(-2, pattern.row_indices, terms)


def _sampled_gathered(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    rows = c.index_select(-2, pattern.row_indices)
    return (rows * d.index_select(-2, pattern.indices)).sum(-1)


# -- without ---------------------------------------------------------------------------------------


def _by_kernel(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return a product of tensors that nobody watches, wherever they are, in their dtype."""
    kind = b.device.type
    if torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):
            return _by_kernel(values, pattern, b)
    if b.is_cpu:
        return _on_cpu(values, pattern, b)
    if not pattern.entries or not b.numel():
        return b.new_zeros(pattern.rows, *b.shape[1:])
    return pattern.as_torch(values.resolve_conj()) @ b.resolve_conj()


def _on_cpu(values: Tensor, pattern: Pattern, b: Tensor) -> Tensor:
    """Return a product on a CPU, by the kernel of the measured rule."""
    dtype, entries, rows = values.dtype, pattern.entries, pattern.rows
    if dtype not in NATIVE:
        if dtype in _NARROW:
            return _on_cpu(values.float(), pattern, b.float()).to(dtype)
        wide = b if b.ndim == 2 else b.unsqueeze(-1)
        return _gathered(values, pattern, wide).reshape(rows, *b.shape[1:])
    if not entries:
        return b.new_zeros(rows, *b.shape[1:])
    if dtype.is_complex:
        values, b = values.resolve_conj(), b.resolve_conj()
    return product_by_rule(values, pattern, b)


def _sampled_by_kernel(pattern: Pattern, c: Tensor, d: Tensor) -> Tensor:
    if c.dtype not in (torch.float32, torch.float64) or not (pattern.entries and c.shape[1]):
        if c.dtype in _NARROW:
            return _sampled_gathered(pattern, c.float(), d.float()).to(c.dtype)
        return _sampled_gathered(pattern, c, d)
    mask = as_torch_csr(c.new_zeros(pattern.entries), pattern)
    found: Tensor = torch.sparse.sampled_addmm(mask, c, d.mT, beta=0.0)
    return found.values()
