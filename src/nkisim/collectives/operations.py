"""Collectives of tensors of one shape on all ranks: reductions, gathers, exchanges, rings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.collectives import rules
from nkisim.collectives.groups import (
    GroupRank,
    Moved,
    Table,
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
    collective,
    operator,
    paired,
    read,
    reduced,
    run,
    write,
)
from nkisim.isa import VirtualRegister
from nkisim.machine import current_core
from nkisim.memory import is_hbm
from nkisim.spec.signatures import Removal, checked_call


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


def _channels(name: str, lists: list[Any], channel_ids: Any, group: int, ranks: int) -> None:
    limit = 4 if group == ranks else 2
    ids = list(channel_ids)
    wrong = ""
    if ids != list(range(len(ids))):
        wrong = f"channel_ids are {ids}, not 0 to n-1"
    elif len(ids) > limit:
        wrong = f"there are {len(ids)} channels, this group has {limit}"
    elif any(len(part) != len(ids) for part in lists):
        wrong = f"{len(ids)} channels, but lists of {[len(part) for part in lists]}"
    elif any(len(inner) != 1 for part in lists for inner in part):
        wrong = "a channel has several tensors"
    if wrong:
        complain(
            rules.CHANNELS, name, wrong, "give each channel one list with one tensor", "channel_ids"
        )


def _ring(
    name: str,
    at: GroupRank,
    moved: Moved,
    bring: Callable[[], list[Array]],
    signature: Any,
) -> None:
    """Send to the successor and receive from the predecessor, on every channel."""
    dsts = moved[1]

    def take(table: Table) -> None:
        before = at.group[at.position - 1]
        for i, dst in enumerate(dsts):
            write(at, dst, table[before].arrays[i])

    exchange(at, name, bring, signature, take, moved, per_core=not is_hbm(dsts[0].buffer))


@checked_call("collective_permute_implicit")
@collective
def collective_permute_implicit(
    srcs_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: Any,
    channel_ids: Any = [0],  # noqa: B006
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send tensors to the next rank of the group's ring, and receive from the previous one."""
    name = "collective_permute_implicit"
    at = group_rank(name, replica_group)
    _channels(
        name, [srcs_by_channel, dsts_by_channel], channel_ids, len(at.group), world(at.core)[1]
    )
    pairs = [
        paired(name, src, dst)[0] for src, dst in zip(srcs_by_channel, dsts_by_channel, strict=True)
    ]
    check_same_shape(name, pairs)

    def bring() -> list[Array]:
        return [read(at, src, name, "srcs_by_channel") for src, _ in pairs]

    moved = [src for src, _ in pairs], [dst for _, dst in pairs]
    _ring(name, at, moved, bring, tuple(src.shape for src, _ in pairs))


@checked_call("collective_permute_implicit_reduce")
@collective
def collective_permute_implicit_reduce(
    srcs0_by_channel: Any,
    srcs1_by_channel: Any,
    dsts_by_channel: Any,
    replica_group: Any,
    op: Any,
    channel_ids: Any = [0],  # noqa: B006
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Combine two tensors, send the result to the next rank, and receive the previous rank's."""
    name = "collective_permute_implicit_reduce"
    at = group_rank(name, replica_group)
    lists = [srcs0_by_channel, srcs1_by_channel, dsts_by_channel]
    _channels(name, lists, channel_ids, len(at.group), world(at.core)[1])
    channels = []
    for first, second, dst in zip(*lists, strict=True):
        pairs = [*paired(name, first, dst), *paired(name, second, dst)]
        check_same_shape(name, pairs)
        channels.append(pairs)
    operator(name, op)

    def bring() -> list[Array]:
        brought = []
        for pairs in channels:
            parts = [read(at, src, name, "srcs_by_channel") for src, _ in pairs]
            brought.append(reduced(name, op, pairs[0][0], parts))
        return brought

    dsts = [pairs[0][1] for pairs in channels]
    moved = [src for pairs in channels for src, _ in pairs], dsts
    _ring(name, at, moved, bring, (repr(op), tuple(dst.shape for dst in dsts)))


@checked_call(
    "collective_permute_implicit_current_processing_rank_id",
    {
        "num_channels": Removal(
            rules.REMOVED_CHANNELS,
            "drop it, and pass channel_ids=[...] to collective_permute_implicit",
        )
    },
)
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: Any, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """Return, as a register, the rank whose data this rank holds in an iteration of the ring."""
    check_options("collective_permute_implicit_current_processing_rank_id", None, name)
    name = "collective_permute_implicit_current_processing_rank_id"
    at = group_rank(name, replica_group)
    step = int(iteration_id)
    if not 0 <= step < len(at.group):
        complain(
            rules.ITERATION,
            name,
            f"iteration_id is {step} in a group of {len(at.group)}",
            f"use 0 to {len(at.group) - 1}",
            "iteration_id",
        )
    return VirtualRegister(at.group[(at.position - step) % len(at.group)])


@checked_call("rank_id")
def rank_id(name: str | None = None) -> VirtualRegister:
    """Return the rank of the running core, as a register."""
    check_options("rank_id", None, name)
    return VirtualRegister(world(current_core("nki.collectives.rank_id"))[0])
