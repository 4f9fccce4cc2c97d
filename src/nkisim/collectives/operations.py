"""Collectives of tensors of one shape on all ranks: reductions, gathers, exchanges."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.collectives import rules
from nkisim.collectives.groups import (
    GroupRank,
    Table,
    collective,
    complain,
    exchange,
    group_rank,
    world,
)
from nkisim.collectives.operands import (
    Array,
    check_dimension,
    check_divisible,
    check_extent,
    check_options,
    check_same_shape,
    operator,
    paired,
    read,
    reduced,
    run,
    write,
)
from nkisim.machine import current_core
from nkisim.spec.signatures import checked_call


@checked_call("all_reduce")
@collective
def all_reduce(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce the tensors of all ranks of a group; every rank gets the result."""
    check_options("all_reduce", priority, name)
    at, pairs = group_rank("all_reduce", replica_group), paired("all_reduce", srcs, dsts)
    check_same_shape("all_reduce", pairs)
    operator("all_reduce", op)

    def result(table: Table, i: int) -> Array:
        return reduced("all_reduce", op, pairs[i][0], [table[r].arrays[i] for r in at.group])

    run("all_reduce", at, pairs, repr(op), result)


@checked_call("all_gather")
@collective
def all_gather(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Concatenate the tensors of all ranks of a group along a dimension, on every rank."""
    check_options("all_gather", priority, name)
    at, pairs = group_rank("all_gather", replica_group), paired("all_gather", srcs, dsts)
    check_dimension("all_gather", collective_dim, pairs, gather=True)
    for src, dst in pairs:
        shape = list(src.shape)
        shape[collective_dim] *= len(at.group)
        check_extent("all_gather", dst, tuple(shape), len(at.group))

    def result(table: Table, i: int) -> Array:
        return np.concatenate([table[r].arrays[i] for r in at.group], axis=collective_dim)

    run("all_gather", at, pairs, collective_dim, result)


@checked_call("reduce_scatter")
@collective
def reduce_scatter(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: int,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce the tensors of all ranks of a group; each rank gets one slice."""
    check_options("reduce_scatter", priority, name)
    at, pairs = group_rank("reduce_scatter", replica_group), paired("reduce_scatter", srcs, dsts)
    check_dimension("reduce_scatter", collective_dim, pairs, gather=False)
    operator("reduce_scatter", op)
    size = len(at.group)
    for src, dst in pairs:
        check_divisible("reduce_scatter", src, size)
        check_extent("reduce_scatter", dst, (src.shape[0] // size, *src.shape[1:]), size)

    def result(table: Table, i: int) -> Array:
        rows = pairs[i][1].shape[0]
        own = slice(at.position * rows, (at.position + 1) * rows)
        return reduced(
            "reduce_scatter", op, pairs[i][0], [table[r].arrays[i][own] for r in at.group]
        )

    run("reduce_scatter", at, pairs, repr(op), result)


@checked_call("all_to_all")
@collective
def all_to_all(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send the i-th slice of each rank's tensor to the i-th rank of the group."""
    check_options("all_to_all", priority, name)
    at, pairs = (
        group_rank("all_to_all", replica_group),
        paired("all_to_all", srcs, dsts, only_hbm=True),
    )
    if collective_dim != 0:
        complain(
            rules.ALL_TO_ALL,
            "all_to_all",
            f"collective_dim is {collective_dim}",
            "use dimension 0",
            "collective_dim",
        )
    check_same_shape("all_to_all", pairs)
    size = len(at.group)
    for src, _ in pairs:
        check_divisible("all_to_all", src, size)

    def result(table: Table, i: int) -> Array:
        rows = pairs[i][0].shape[0] // size
        own = slice(at.position * rows, (at.position + 1) * rows)
        return np.concatenate([table[r].arrays[i][own] for r in at.group])

    run("all_to_all", at, pairs, collective_dim, result)


@checked_call("collective_permute")
@collective
def collective_permute(
    srcs: Any,
    dsts: Any,
    source_target_pairs: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send tensors along given pairs of ranks; other destinations are unchanged."""
    check_options("collective_permute", priority, name)
    name = "collective_permute"
    core = current_core(f"nki.collectives.{name}")
    rank, ranks = world(core)
    pairs = paired(name, srcs, dsts, only_hbm=True)
    check_same_shape(name, pairs)
    routes = [(int(s), int(t)) for s, t in source_target_pairs]
    sources, targets = [s for s, _ in routes], [t for _, t in routes]
    wrong = ""
    if len(pairs) != 1:
        wrong = f"there are {len(pairs)} tensors"
    elif len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        wrong = f"a rank is named twice as source or target in {routes}"
    elif any(not 0 <= r < ranks for r in (*sources, *targets)):
        wrong = f"ranks of {routes} must be below {ranks}"
    if wrong:
        complain(
            rules.PERMUTE, name, wrong, "name every source and target once", "source_target_pairs"
        )
    at = GroupRank(core, rank, tuple(range(ranks)))
    src, dst = pairs[0]

    def take(table: Table) -> None:
        for source, target in routes:
            if target == rank:
                write(at, dst, table[source].arrays[0])

    signature = (tuple(routes), src.shape)
    exchange(at, name, lambda: [read(at, src, name, "srcs[0]")], signature, take, ([src], [dst]))
