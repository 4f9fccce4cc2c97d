"""The lowering of a contraction of two tensors to one batched matrix product.

Every index of a pair is of one of four groups: *batch* (in both and in the result), *rows* (in the
left and the result), *columns* (in the right and the result), *depth* (in both, summed). Indices
that occur in one operand only are summed first. With the dimensions of each group merged, a pair is

    result[batch, rows, columns] = sum_depth left[batch, rows, depth] right[batch, depth, columns]

If the result has its columns before its rows, the operands are exchanged: that transposes the
product at no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from trnsci.core.numbers.products import bmm, mm

Pairwise = Callable[[Tensor, Tensor], Tensor]
Function = Callable[[Tensor], Tensor]


class Groups(NamedTuple):
    """The index groups of a pair, and whether the operands are exchanged.

    Attributes:
        batch, rows, columns, depth: The groups; the first operand has ``rows``.
        swapped: Whether the product is computed as right times left.
    """

    batch: str
    rows: str
    columns: str
    depth: str
    swapped: bool

    @property
    def order(self) -> str:
        """The indices of the computed product, in order."""
        if self.swapped:
            return self.batch + self.columns + self.rows
        return self.batch + self.rows + self.columns

    def extents(self, sizes: Mapping[str, int]) -> tuple[int, int, int, int]:
        """Return the sizes of batch, rows, columns and depth."""
        batch, rows, columns, depth = (prod(sizes[x] for x in group) for group in self[:4])
        return batch, rows, columns, depth


def result_labels(a: str, b: str, needed: str, sizes: Mapping[str, int] | None = None) -> str:
    """Return the indices of a pair's result in the cheapest order.

    The larger operand is used without a copy: if its summed indices come first it is the right
    factor, and its own indices are the last of the result.
    """
    both = [x for x in a if x in b and x in needed]
    rows = [x for x in a if x not in b]
    columns = [x for x in b if x not in a]
    if sizes is not None:
        larger = a if prod(sizes[x] for x in a) >= prod(sizes[x] for x in b) else b
        first = next((x for x in larger if x not in both), "")
        if first and (first in a and first in b) == (larger is a):
            return "".join((*both, *columns, *rows))
    return "".join((*both, *rows, *columns))


def around(labels: str, depth: str) -> tuple[str, str] | None:
    """Return the indices of an operand before and after its summed ones, if it has both."""
    first = labels.find(depth)
    if not depth or first < 1:
        return None
    lead, rest = labels[:first], labels[first + len(depth) :]
    return (lead, rest) if rest else None


def groups_of(a: str, b: str, out: str, sizes: Mapping[str, int]) -> Groups:
    """Return the groups of a pair; each index is in two of a, b and out, none twice in one.

    If both tensors that have a group have its indices in one order, this is the order of the group.
    Otherwise the group has the order of the larger tensor, because its copy would cost more.
    """
    large_a = prod(sizes[x] for x in a) >= prod(sizes[x] for x in b)
    first, second = (a, b) if large_a else (b, a)
    batch = "".join(x for x in out if x in a and x in b)
    depth = "".join(x for x in first if x in second and x not in out)
    rows = _ordered("".join(x for x in a if x not in b), out)
    columns = _ordered("".join(x for x in b if x not in a), out)
    trailing = [x for x in out if x in rows or x in columns]
    swapped = bool(rows and columns and trailing and trailing[-1] in rows)
    return Groups(batch, rows, columns, depth, swapped)


def _ordered(own: str, out: str) -> str:
    """Return a group in the order of the result if it is contiguous there."""
    run = "".join(x for x in out if x in own)
    return run if run in out else own


class Unary(NamedTuple):
    """Preparation of one operand before its contraction: squeeze, diagonals, sums.

    Attributes:
        labels: Its indices.
        kept: The indices that remain, in their order.
        dropped: Positions of dimensions of size 1 that broadcast, which are removed.
        diagonals: Pairs of positions; the diagonal of each pair is taken, in sequence.
        summed: Positions to sum after that.
        strides: Strides of the operand; None if it is contiguous.
    """

    labels: str
    kept: str
    dropped: tuple[int, ...]
    diagonals: tuple[tuple[int, int], ...]
    summed: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @property
    def trivial(self) -> bool:
        """Whether the operand needs no preparation."""
        return self.labels == self.kept


def unary_of(labels: str, shape: tuple[int, ...], needed: str, sizes: Mapping[str, int]) -> Unary:
    """Return the preparation of an operand that keeps the indices in ``needed``."""
    dropped = tuple(
        at for at, (x, n) in enumerate(zip(labels, shape, strict=True)) if n == 1 != sizes[x]
    )
    names = [x for at, x in enumerate(labels) if at not in dropped]
    diagonals = []
    for x in dict.fromkeys(names):
        while names.count(x) > 1:
            first = names.index(x)
            second = names.index(x, first + 1)
            diagonals.append((first, second))
            del names[second], names[first]
            names.append(x)
    summed = tuple(at for at, x in enumerate(names) if x not in needed)
    kept = "".join(x for x in names if x in needed)
    return Unary(labels, kept, dropped, tuple(diagonals), summed)


def unary_call(unary: Unary) -> Function:
    """Return the function that prepares an operand."""
    dropped, diagonals, summed = unary.dropped, unary.diagonals, unary.summed

    def prepare(x: Tensor) -> Tensor:
        if dropped:
            x = x.squeeze(dropped)
        for first, second in diagonals:
            x = x.diagonal(0, first, second)
        # Sums of narrow integers stay in their dtype, as products of them do.
        return x.sum(summed, dtype=x.dtype) if summed else x

    return prepare


def prepared(unaries: Sequence[Unary], operands: Sequence[Tensor]) -> list[Tensor]:
    """Return the operands of a contraction after their preparation."""
    return [x if u.trivial else unary_call(u)(x) for x, u in zip(operands, unaries, strict=True)]


def pair_call(a: str, b: str, out: str, sizes: Mapping[str, int]) -> Pairwise:
    """Return the function that contracts two prepared tensors."""
    groups = groups_of(a, b, out, sizes)
    if not groups.depth:
        return _product_call(a, b, out)
    if not groups.batch:
        if around(a, groups.depth):
            return _around_call(a, b, groups.columns, groups.depth, out, sizes)
        if around(b, groups.depth):
            reversed_call = _around_call(b, a, groups.rows, groups.depth, out, sizes)
            return lambda x, y: reversed_call(y, x)
    if groups.swapped:
        inner = _matrix_call(b, a, groups.batch, groups.columns, groups.rows, groups.depth, sizes)
        call: Pairwise = lambda x, y: inner(y, x)  # noqa: E731
    else:
        call = _matrix_call(a, b, groups.batch, groups.rows, groups.columns, groups.depth, sizes)
    finish = _finish(groups, out, sizes)
    return call if finish is None else lambda x, y: finish(call(x, y))


def _product_call(a: str, b: str, out: str) -> Pairwise:
    """Return the function of a product without a sum: element-wise or outer."""
    left, right = _broadcast_view(a, out), _broadcast_view(b, out)
    if left is None:
        return torch.mul if right is None else lambda x, y: x * right(y)
    if right is None:
        return lambda x, y: left(x) * y
    return lambda x, y: left(x) * right(y)


def _broadcast_view(labels: str, out: str) -> Function | None:
    """Return the view function to the dimensions of the result; None if it is the identity."""
    order = [labels.index(x) for x in out if x in labels]
    at = tuple(slice(None) if x in labels else None for x in out)
    first = next((i for i, entry in enumerate(at) if entry is not None), len(at))
    at = at[first:]  # missing leading dimensions broadcast implicitly
    permuted = order != sorted(order)
    if None in at:
        return (lambda x: x.permute(order)[at]) if permuted else (lambda x: x[at])
    return (lambda x: x.permute(order)) if permuted else None


def _matrix_call(
    a: str, b: str, batch: str, rows: str, columns: str, depth: str, sizes: Mapping[str, int]
) -> Pairwise:
    """Return the function of the matrix product, with its groups in the given order."""
    if batch:
        left = _merged(a, (batch, rows, depth), sizes)
        right = _merged(b, (batch, depth, columns), sizes)
        return composed(bmm, left, right)
    left = _merged(a, (rows, depth) if rows else (depth,), sizes)
    right = _merged(b, (depth, columns) if columns else (depth,), sizes)
    if rows and columns:
        return composed(mm, left, right)
    if rows:
        return composed(torch.mv, left, right)
    if columns:
        merged = _merged(b, (columns, depth), sizes)
        swapped = composed(torch.mv, merged, left)
        return lambda x, y: swapped(y, x)
    return composed(torch.dot, left, right)


def _around_call(
    a: str, b: str, columns: str, depth: str, out: str, sizes: Mapping[str, int]
) -> Pairwise:
    """Return the function for a left operand with the summed indices between its own.

    The indices before them are a batch that shares the right operand; merging all indices of that
    operand would copy it.
    """
    found = around(a, depth)
    assert found is not None
    lead, rest = found
    shape = [prod(sizes[x] for x in group) for group in (lead, depth, rest)]
    left = _merged(a, (lead, depth, rest), sizes)
    last = bool(columns) and out[-1:] in columns
    right = _merged(b, (depth, columns) if last else (columns, depth), sizes)
    have = lead + rest + columns if last else lead + columns + rest
    full = [sizes[x] for x in have]
    order = [have.index(x) for x in out]

    def call(x: Tensor, y: Tensor) -> Tensor:
        x = x if left is None else left(x)
        y = (y if right is None else right(y)).expand(shape[0], -1, -1)
        product = bmm(x.mT, y) if last else bmm(y, x)
        return product.reshape(full).permute(order)

    return call


def _merged(labels: str, groups: tuple[str, ...], sizes: Mapping[str, int]) -> Function | None:
    """Return the reshape function to one dimension per group; None if it is the identity.

    Reshaping copies the operand if its strides do not allow a view.
    """
    order = [labels.index(x) for group in groups for x in group]
    shape = [prod(sizes[x] for x in group) for group in groups]
    permuted = order != sorted(order)
    if all(len(group) == 1 for group in groups):
        if not permuted:
            return None
        if order == [1, 0]:
            return torch.t
        return lambda x: x.permute(order)
    if permuted:
        return lambda x: x.permute(order).reshape(shape)
    return lambda x: x.reshape(shape)


def composed(
    function: Callable[[Tensor, Tensor], Tensor], left: Function | None, right: Function | None
) -> Pairwise:
    """Return a product of two operands, each through its view function."""
    if left is None:
        if right is None:
            return function
        return lambda x, y: function(x, right(y))
    if right is None:
        return lambda x, y: function(left(x), y)
    return lambda x, y: function(left(x), right(y))


def _finish(groups: Groups, out: str, sizes: Mapping[str, int]) -> Function | None:
    """Return the function from the matrix product to the result; None if it is the identity."""
    have = groups.order
    shape = [sizes[x] for x in have]
    kept = all(len(group) <= 1 for group in groups[:3])
    dims = 3 if groups.batch else bool(groups.rows) + bool(groups.columns)
    reshaped = not kept or dims != len(have)
    order = [have.index(x) for x in out]
    permuted = order != sorted(order)
    if permuted:
        if reshaped:
            return lambda x: x.reshape(shape).permute(order)
        return lambda x: x.permute(order)
    if reshaped:
        return lambda x: x.reshape(shape)
    return None
