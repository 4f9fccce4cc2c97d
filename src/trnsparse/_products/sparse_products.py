"""Products of two sparse matrices, without a dense intermediate.

SciPy multiplies on a CPU; in reverse mode that is one autograd node. Elsewhere a product is the sum
over all pairs of matching entries in torch operations, differentiable in every mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trnsci.core.numbers.values import inert
from trnsparse._patterns.conversions import united
from trnsparse._patterns.index import counted, group_sums, keys_of, outside_transforms
from trnsparse._patterns.layouts import as_scipy_csr, parts_of_scipy, suits_scipy
from trnsparse._patterns.pattern import Pattern
from trnsparse._products.row_products import NARROW, RowMatrix


def sparse_product(a: RowMatrix, b: RowMatrix) -> tuple[Tensor, Pattern]:
    """Return the entries of a product of two matrices, and its pattern."""
    if a.values.dtype in NARROW:  # products are exact in float32, and sums are rounded once
        wide = (RowMatrix(x.values.float(), x.pattern) for x in (a, b))
        values, pattern = sparse_product(*wide)
        return values.to(a.values.dtype), pattern
    if not all(suits_scipy(x.values.detach(), x.pattern.indices) for x in (a, b)):
        return _summed(a, b)
    if inert(a.values, b.values):
        return _computed(a, b)
    pattern = _structure(a.pattern, b.pattern)
    return _product_node(a.values, b.values, a, b, pattern), pattern


def _computed(a: RowMatrix, b: RowMatrix) -> tuple[Tensor, Pattern]:
    """Return a product by SciPy, which omits sums that are exactly zero."""
    product = a.made_by(as_scipy_csr) @ b.made_by(as_scipy_csr)
    return _parts(product, a.pattern, b.pattern)


def _parts(product: Any, of_a: Pattern, of_b: Pattern) -> tuple[Tensor, Pattern]:
    dtype = torch.promote_types(of_a.indices.dtype, of_b.indices.dtype)
    return parts_of_scipy(product, (of_a.rows, of_b.columns), dtype)


def _structure(of_a: Pattern, of_b: Pattern) -> Pattern:
    """Return the pattern of a product, sums that are zero included."""
    left, right = (as_scipy_csr(torch.ones(p.entries, device="cpu"), p) for p in (of_a, of_b))
    return _parts(left @ right, of_a, of_b)[1]


def _positions(pattern: Pattern, keys: Tensor) -> Tensor:
    """Return the entry of a pattern at each of the keys."""
    by_key, order = pattern.sorted
    found = torch.searchsorted(by_key.keys, keys)
    return found if order is None else order[found]


class _SparseProduct(torch.autograd.Function):
    """The values of a product at its structural pattern, as one autograd node.

    A gradient by a sum that is zero is one like any other, so SciPy's zeros are put back.
    """

    @staticmethod
    def forward(
        ctx: Any, values: Tensor, others: Tensor, a: RowMatrix, b: RowMatrix, pattern: Pattern
    ) -> Tensor:
        """Return the values."""
        ctx.save_for_backward(values, others)
        ctx.patterns = a.pattern, b.pattern, pattern
        found, places = _computed(a, b)
        if torch.equal(places.indices, pattern.indices):
            return found
        full = found.new_zeros(pattern.entries)
        full[_positions(pattern, places.keys)] = found
        return full

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients by the entries of both matrices."""
        (values, others), (of_a, of_b, pattern), (grad,) = ctx.saved_tensors, ctx.patterns, grads
        terms = matching(of_a, of_b)
        each = grad.index_select(-1, _positions(pattern, terms.keys))
        by_a = by_b = None
        if ctx.needs_input_grad[0]:
            right = others.index_select(-1, terms.right).conj()
            by_a = group_sums(each * right, terms.left, of_a.entries)
        if ctx.needs_input_grad[1]:
            left = values.index_select(-1, terms.left).conj()
            by_b = group_sums(each * left, terms.right, of_b.entries)
        return by_a, by_b, None, None, None


_product_node: Any = _SparseProduct.apply


@dataclass(frozen=True)
class Terms:
    """All pairs of an entry (i, k) of one matrix and an entry (k, j) of another.

    Attributes:
        left, right: The two entries of each pair.
        keys: The place (i, j) of each pair in the product, as in ``keys_of``.
    """

    left: Tensor
    right: Tensor
    keys: Tensor


@outside_transforms
def matching(of_a: Pattern, of_b: Pattern) -> Terms:
    """Return the terms of a product; their number is that of its multiplications."""
    lengths = counted(of_b.pointers)[of_a.indices]
    total = int(lengths.sum())
    entries = torch.arange(of_a.entries, device=lengths.device)
    left = torch.repeat_interleave(entries, lengths, output_size=total)
    ends = torch.cumsum(lengths, 0)
    inside = torch.arange(total, device=lengths.device) - (ends - lengths)[left]
    right = of_b.pointers[of_a.indices[left]] + inside
    return Terms(left, right, keys_of(of_a.row_indices[left], of_b.indices[right], of_b.columns))


def _summed(a: RowMatrix, b: RowMatrix) -> tuple[Tensor, Pattern]:
    """Return a product in torch operations."""
    terms, shape = matching(a.pattern, b.pattern), (a.pattern.rows, b.pattern.columns)
    pattern, groups = united(terms.keys, shape, a.pattern.indices.dtype)
    products = a.values.index_select(-1, terms.left) * b.values.index_select(-1, terms.right)
    return group_sums(products, groups, pattern.entries), pattern
