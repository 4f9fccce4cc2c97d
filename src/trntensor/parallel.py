"""Contractions of sharded tensors in one process.

A shard is a part of a tensor along one of its dimensions. ``einsum`` takes sharded operands: if the
index of that dimension is in the result, the result is sharded too; if it is summed, the shards are
contracted one by one and added.

``trntensor.distributed`` contracts over the ranks of a process group. Its operands are DTensors,
which are divided among the ranks, and tensors that every rank has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from trnsci.core.arguments import tensor as check_tensor
from trnsci.core.arguments import whole
from trnsci.core.distributed.layout import Layout
from trnsci.core.errors import DTypeError, ShapeError
from trntensor._planning.subscripts import parse, sizes_of

__all__ = ["ShardedTensor", "gather", "scatter", "shard_boundaries"]


@dataclass(frozen=True)
class ShardedTensor:
    """A tensor in shards along one dimension.

    Attributes:
        chunks: The shards, which may have different sizes along ``partition_dim``, and be on
            different devices.
        partition_dim: The sharded dimension.
    """

    chunks: Sequence[Tensor]
    partition_dim: int

    def __post_init__(self) -> None:
        """Check that the shards are compatible."""
        if not self.chunks:
            raise ShapeError("ShardedTensor: there must be at least one chunk")
        first = self.chunks[0]
        if not 0 <= self.partition_dim < first.ndim:
            raise ShapeError(
                f"ShardedTensor: partition_dim must be from 0 to {first.ndim - 1}, "
                f"got {self.partition_dim}"
            )
        rest = [_without(chunk.shape, self.partition_dim) for chunk in self.chunks]
        if any(shape != rest[0] for shape in rest):
            shapes = [tuple(chunk.shape) for chunk in self.chunks]
            raise ShapeError(
                f"ShardedTensor: chunks must differ in dimension {self.partition_dim} alone, "
                f"got {shapes}"
            )
        if any(chunk.dtype is not first.dtype for chunk in self.chunks):
            raise DTypeError("ShardedTensor: chunks must have one dtype")

    @property
    def layout(self) -> Layout:
        """The shape of the whole tensor and the offsets of the shards."""
        dim = self.partition_dim
        offsets = [0]
        for chunk in self.chunks:
            offsets.append(offsets[-1] + chunk.shape[dim])
        shape = list(self.chunks[0].shape)
        shape[dim] = offsets[-1]
        return Layout(tuple(shape), dim, tuple(offsets))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return self.layout.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.chunks[0].ndim

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of all shards."""
        return self.chunks[0].dtype

    def to(self, *args: Any, **options: Any) -> ShardedTensor:
        """Return a copy with ``Tensor.to`` applied to every shard."""
        return ShardedTensor([c.to(*args, **options) for c in self.chunks], self.partition_dim)

    @property
    def starts(self) -> tuple[int, ...]:
        """Offsets of the shards, followed by the end of the last one."""
        return self.layout.offsets


def scatter(tensor: Tensor, dim: int, n_shards: int) -> ShardedTensor:
    """Split a tensor into ``n_shards`` views along a dimension, as ``torch.chunk`` does.

    Raises:
        ShapeError: The dimension does not exist, or has fewer elements than shards.
    """
    check_tensor("scatter", "tensor", tensor)
    dim = (
        whole("scatter", "dim", dim, -tensor.ndim, tensor.ndim - 1, error=ShapeError) % tensor.ndim
    )
    size = tensor.shape[dim]
    n_shards = whole("scatter", "n_shards", n_shards, 1, max(size, 1), error=ShapeError)
    layout = Layout.even(tensor.shape, dim, n_shards)
    return ShardedTensor([layout.part(tensor, at) for at in range(n_shards)], dim)


def gather(st: ShardedTensor) -> Tensor:
    """Return the whole tensor, on the device of its first shard."""
    home = st.chunks[0].device
    return torch.cat([chunk.to(home) for chunk in st.chunks], st.partition_dim)


def shard_boundaries(st: ShardedTensor) -> list[tuple[int, int]]:
    """Return the (start, end) of each shard along the dimension."""
    return list(pairwise(st.starts))


# -- shards ----------------------------------------------------------------------------------------


def sharded_einsum(contract: Any, text: str, operands: Sequence[Any]) -> Tensor | ShardedTensor:
    """Return a contraction in which some operands are sharded.

    Args:
        contract: Contraction of plain tensors, ``contract(subscripts, *tensors)``.
        text: The subscripts.
        operands: Tensors and sharded tensors.
    """
    equation = parse("einsum", text, tuple(x.ndim for x in operands))
    sizes_of("einsum", equation, [x.shape for x in operands])
    parts: list[Any] = []
    cuts: dict[str, set[int]] = {}
    for term, x in zip(equation.inputs, operands, strict=True):
        if isinstance(x, ShardedTensor):
            label = term[x.partition_dim]
            if term.count(label) > 1:  # a diagonal crosses shards
                x = gather(x)
            else:
                cuts.setdefault(label, set()).update(x.starts)
        parts.append(x)
    ranges = {label: list(pairwise(sorted(cuts[label]))) or [(0, 0)] for label in cuts}
    output = equation.output
    order = [x for x in output if x in cuts] + [x for x in cuts if x not in output]

    def within(at: dict[str, tuple[int, int]]) -> list[Tensor]:
        """Return the results for each range of the next sharded index, inside the ranges ``at``."""
        label, last = order[len(at)], len(at) + 1 == len(order)
        found = []
        for bounds in ranges[label]:
            inside = {**at, label: bounds}
            if last:
                taken = [_taken(x, t, inside) for x, t in zip(parts, equation.inputs, strict=True)]
                found.append(contract(equation.plain, *taken))
            else:
                found.append(joined(order[len(inside)], within(inside)))
        return found

    def joined(label: str, found: list[Tensor]) -> Tensor:
        if label in output:
            return torch.cat(found, output.index(label))
        return sum(found[1:], found[0])

    if not order:
        result: Tensor = contract(equation.plain, *parts)
        return result
    found = within({})
    if order[0] in output:
        return ShardedTensor(found, output.index(order[0]))
    return joined(order[0], found)


def _taken(x: Any, term: str, at: dict[str, tuple[int, int]]) -> Tensor:
    """Return the slice of an operand within the given index ranges."""
    whole_range = {label: bounds for label, bounds in at.items() if label in term}
    if isinstance(x, ShardedTensor):
        label = term[x.partition_dim]
        start, stop = whole_range.pop(label)
        for chunk, (first, last) in zip(x.chunks, shard_boundaries(x), strict=True):
            if first <= start and stop <= last and (first < last or start == stop):
                x = chunk.narrow(term.index(label), start - first, stop - start)
                break
    for label, (start, stop) in whole_range.items():
        for dim, name in enumerate(term):
            if name == label and x.shape[dim] != 1:
                x = x.narrow(dim, start, stop - start)
    found: Tensor = x
    return found


def _without(shape: Sequence[int], dim: int) -> tuple[int, ...]:
    return tuple(size for at, size in enumerate(shape) if at != dim)
