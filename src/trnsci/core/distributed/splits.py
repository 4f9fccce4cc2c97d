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
)
from trnsci.core.distributed.groups import Ranks
from trnsci.core.distributed.layout import even_sizes

__all__ = ["resplit"]


def resplit(
    x: Tensor,
    kind: str,
    ranks: Ranks,
    shape: Sequence[int],
    old: int | None,
    new: int | None,
    *,
    gradient: Literal["partial", "replicated"] = "replicated",
) -> Tensor:
    """Return this rank's part of a tensor in another split; gradients move back.

    Args:
        x: This rank's part, or its term of a sum.
        kind: ``"all_gather"``, ``"all_to_all"``, ``"reduce_scatter"``, ``"all_reduce"``, or
            ``"slice"`` of a tensor that every rank has.
        ranks: The ranks along the mesh dimension.
        shape: Shape of the whole tensor.
        old: The dimension that is split; None for none.
        new: The dimension that is split afterwards; None for none.
        gradient: Of a gathered tensor, as for ``all_gather``.
    """
    if kind == "all_reduce":
        return all_reduce(x, ranks)
    if kind == "all_gather":
        assert old is not None
        return all_gather(x, ranks, even_sizes(shape[old], ranks.size), old, gradient=gradient)
    assert new is not None
    after = even_sizes(shape[new], ranks.size)
    if kind == "slice":
        return own_part(x, ranks, after, new)
    if kind == "reduce_scatter":
        return reduce_scatter(x, ranks, after, new)
    assert old is not None
    return exchange(x, ranks, old, new, even_sizes(shape[old], ranks.size), after)
