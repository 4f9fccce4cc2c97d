"""Sums and common entries of two CSR matrices, and sums with a dense one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trnsci.core.arguments import agree, broadcast
from trnsci.core.errors import OperandError, ShapeError
from trnsci.core.numbers.values import shapes_are_static
from trnsparse._patterns.conversions import merged, united
from trnsparse._patterns.index import group_sums
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


def common_batch(function: str, *batches: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that the shapes of batches broadcast to.

    Raises:
        ShapeError: They do not broadcast.
    """
    found: tuple[int, ...] = ()
    for batch in batches:
        both = broadcast(found, batch)
        if both is None:
            shown = ", ".join(str(tuple(b)) for b in batches)
            raise ShapeError(f"{function}: the batches must broadcast, got {shown}")
        found = both
    return found


def added_to_dense(values: Tensor, pattern: Pattern, dense: Tensor, sign: int = 1) -> Tensor:
    """Return ``dense`` plus or minus a matrix, as a dense tensor.

    Raises:
        OperandError: ``dense`` does not broadcast to the shape of the matrix.
    """
    agree("add", "the matrix", values, "the dense operand", dense)
    if broadcast(dense.shape[-2:], pattern.shape) != pattern.shape:
        raise OperandError(
            f"add: the dense operand must broadcast to {pattern.shape}, got {tuple(dense.shape)}"
        )
    values, pattern = merged(values, pattern)  # so that an element is rounded twice at most
    batch = common_batch("add", values.shape[:-1], dense.shape[:-2])
    flat = dense.expand(*batch, *pattern.shape).flatten(-2)
    entries = values.expand(*batch, -1)
    added = flat.index_add(-1, pattern.keys, entries, alpha=sign)
    return added.reshape(*batch, *pattern.shape)


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
