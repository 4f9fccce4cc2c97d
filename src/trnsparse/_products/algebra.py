"""Sums, common entries and products of two CSR matrices, without a dense intermediate."""

from __future__ import annotations

import torch
from torch import Tensor

from trnsci.core.arguments import broadcast
from trnsci.core.numbers.values import shapes_are_static
from trnsparse._patterns.conversions import united
from trnsparse._patterns.index import counted, group_sums, keys_of
from trnsparse._patterns.layouts import as_scipy_csr, parts_of_scipy, suits_scipy
from trnsparse._patterns.pattern import Pattern


def added(a: Tensor, of_a: Pattern, b: Tensor, of_b: Pattern) -> tuple[Tensor, Pattern]:
    """Return the sum on the union of two patterns; entries that cancel are stored as zeros."""
    if of_a is of_b:
        return a + b, of_a
    keys = torch.cat([of_a.keys, of_b.keys])
    pattern, groups = united(keys, of_a.shape, of_a.indices.dtype)
    batch = broadcast(a.shape[:-1], b.shape[:-1]) or ()
    both = torch.cat([a.expand(*batch, -1), b.expand(*batch, -1)], dim=-1)
    return group_sums(both, groups, pattern.entries), pattern


def multiplied(a: Tensor, of_a: Pattern, b: Tensor, of_b: Pattern) -> tuple[Tensor, Pattern]:
    """Return elementwise products of two matrices after ``sum_duplicates``, on common entries.

    In a graph of torch.compile, whose shapes do not depend on indices, the result has the pattern
    of the first matrix, with explicit zeros.
    """
    if not (of_a.entries and of_b.entries):
        none = Pattern(torch.zeros_like(of_a.pointers), of_a.indices[:0], of_a.shape)
        return a[..., :0] * b[..., :0], none
    place = torch.searchsorted(of_b.keys, of_a.keys).clamp(max=of_b.entries - 1)
    found = of_b.keys[place] == of_a.keys
    if shapes_are_static():
        found = found & of_a.first
        # Both factors are masked: a product with an infinity that is masked out has no gradient.
        right = torch.where(found, b.index_select(-1, place), 0.0)
        return torch.where(found, a, 0.0) * right, of_a
    left = found.nonzero().squeeze(-1)
    pattern, _ = united(of_a.keys[left], of_a.shape, of_a.indices.dtype)
    return a.index_select(-1, left) * b.index_select(-1, place[left]), pattern


def sparse_product(a: Tensor, of_a: Pattern, b: Tensor, of_b: Pattern) -> tuple[Tensor, Pattern]:
    """Return the entries of a product of two matrices, and its pattern."""
    if not (suits_scipy(a, of_a.indices) and suits_scipy(b, of_b.indices)):
        return _expanded_product(a, of_a, b, of_b)
    product = as_scipy_csr(a, of_a) @ as_scipy_csr(b, of_b)
    dtype = torch.promote_types(of_a.indices.dtype, of_b.indices.dtype)
    return parts_of_scipy(product, (of_a.rows, of_b.columns), dtype)


def _expanded_product(a: Tensor, of_a: Pattern, b: Tensor, of_b: Pattern) -> tuple[Tensor, Pattern]:
    """Return a differentiable product, as the sum over all pairs of matching entries.

    Memory is proportional to the number of multiplications.
    """
    lengths = counted(of_b.pointers)[of_a.indices]
    total = int(lengths.sum())
    left = torch.repeat_interleave(
        torch.arange(of_a.entries, device=a.device), lengths, output_size=total
    )
    ends = torch.cumsum(lengths, 0)
    inside = torch.arange(total, device=a.device) - (ends - lengths)[left]
    right = of_b.pointers[of_a.indices[left]] + inside
    shape = (of_a.rows, of_b.columns)
    keys = keys_of(of_a.row_indices[left], of_b.indices[right], shape[1])
    pattern, groups = united(keys, shape, of_a.indices.dtype)
    if a.dtype in (torch.float16, torch.bfloat16):  # products are exact in float32
        terms = a.float().index_select(-1, left) * b.float().index_select(-1, right)
    else:
        terms = a.index_select(-1, left) * b.index_select(-1, right)
    return group_sums(terms, groups, pattern.entries).to(a.dtype), pattern
