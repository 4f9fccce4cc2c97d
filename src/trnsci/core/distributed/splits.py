"""Changes of the split of a tensor along one mesh dimension, each by its collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor

from trnsci.core.distributed.collectives import (
    all_gather,
    all_reduce,
    exchange,
    own_part,
    reduce_scatter,
    replicate,
)
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import even_sizes
from trnsci.core.distributed.schedule import Move, Schedule


def contracted_part(x: Tensor, operand: int, plan: Schedule, ranks: Sequence[Ranks]) -> Tensor:
    """Return the part of an operand that this rank contracts; gradients move back."""
    shape = plan.shapes[operand]
    for move in plan.before[operand]:
        split = bool(plan.by[move.mesh_dim])
        x = moved(x, move, shape, ranks, gradient="partial" if split else "replicated")
    for mesh_dim, group in enumerate(ranks):
        for dim in plan.places(operand, mesh_dim)[1:]:
            x = _sliced(x, dim, shape[dim], group)
    return x


def moved(
    x: Tensor,
    move: Move,
    shape: Sequence[int],
    ranks: Sequence[Ranks],
    *,
    gradient: Literal["partial", "replicated"] = "replicated",
) -> Tensor:
    """Return this rank's part of a tensor in another split; gradients move back.

    Args:
        x: This rank's part, or its term of a sum.
        move: The change of the split.
        shape: Shape of the whole tensor.
        ranks: The ranks along each mesh dimension.
        gradient: Of a gathered tensor, as for ``all_gather``. The slice of a tensor that was
            gathered has no gradient to gather if it is ``"partial"``.
    """
    group, (old, new) = ranks[move.mesh_dim], move.dims
    if move.kind == "replicate":
        return replicate(x, group)
    if move.kind == "all_reduce":
        return all_reduce(x, group)
    if move.kind == "all_gather":
        assert old is not None
        return all_gather(x, group, even_sizes(shape[old], group.size), old, gradient=gradient)
    assert new is not None
    if move.kind == "slice" and gradient == "partial" and not move.whole:
        return _sliced(x, new, shape[new], group)
    after = even_sizes(shape[new], group.size)
    if move.kind == "slice":
        return own_part(x, group, after, new)
    if move.kind == "reduce_scatter":
        return reduce_scatter(x, group, after, new)
    assert old is not None
    return exchange(x, group, old, new, even_sizes(shape[old], group.size), after)


def _sliced(x: Tensor, dim: int, size: int, group: Ranks) -> Tensor:
    sizes = even_sizes(size, group.size)
    return x.narrow(dim, sum(sizes[: group.rank]), sizes[group.rank])
