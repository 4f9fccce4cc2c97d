"""The collectives: reductions, gathers, exchanges and rings over simulated ranks.

Reductions are computed in float32, in the order of the group, and rounded once into the
destination.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.collectives import rules
from nkisim.collectives.meeting import GroupRank, Table, complain, exchange, group_rank, world
from nkisim.isa import VirtualRegister
from nkisim.machine import commit, commit_where, current_core, prepare_read, resolve_static
from nkisim.machine.transfer import make_narrower, make_widener, overlaps
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm
from nkisim.spec import as_op
from nkisim.spec import rules as spec_rules
from nkisim.spec.signatures import checked_call

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
]

Array = np.ndarray
Result = Callable[[Table, int], Array]
"""Computes the result for the i-th tensor of this rank from the inputs of all ranks."""


def _tensors(
    name: str, srcs: Any, dsts: Any, *, only_hbm: bool = False
) -> list[tuple[NkiTensor, NkiTensor]]:
    """Return the pairs of a collective after checking memories and lists."""
    sources = [_static(name, t) for t in ([srcs] if isinstance(srcs, NkiTensor) else srcs)]
    targets = [_static(name, t) for t in ([dsts] if isinstance(dsts, NkiTensor) else dsts)]
    everything = [*sources, *targets]
    if len(sources) != len(targets) or not sources:
        complain(
            rules.COALESCED,
            name,
            f"{len(sources)} sources and {len(targets)} destinations",
            "give one destination per source",
            "dsts",
        )
    in_hbm = {is_hbm(t.buffer) for t in everything}
    if len(in_hbm) > 1 or any(t.buffer is MemoryRegion.psum for t in everything):
        kinds = ", ".join(t.buffer.value for t in everything)
        complain(rules.MIXED_MEMORY, name, f"tensors are in {kinds}", "use one memory", "srcs")
    if in_hbm == {False} and len(sources) > 1:
        complain(
            rules.COALESCED,
            name,
            f"{len(sources)} tensors in SBUF",
            "call the collective once per tensor, or use HBM",
            "srcs",
        )
    if only_hbm and in_hbm == {False}:
        rule = rules.PERMUTE if "permute" in name else rules.ALL_TO_ALL
        complain(rule, name, "tensors are in SBUF", "use HBM tensors", "srcs")
    for src, dst in zip(sources, targets, strict=True):
        if src.dtype != dst.dtype:
            complain(
                rules.SAME_SHAPE,
                name,
                f"source is {src.dtype}, destination {dst.dtype}",
                "give both one dtype",
                "dsts",
            )
        if src.storage is dst.storage and src.region != dst.region and overlaps(src, dst):
            complain(
                rules.PARTIAL_OVERLAP,
                name,
                "source and destination overlap in part",
                "use separate tensors, or exactly the same one",
                "dsts",
            )
    return list(zip(sources, targets, strict=True))


def _static(name: str, tensor: NkiTensor) -> NkiTensor:
    """Return a resolved view; rows cannot be gathered by index."""
    if tensor.indirect is not None and tensor.indirect.kind == "vector":
        complain(
            spec_rules.INDIRECT_OPERAND,
            name,
            f"{tensor.describe()} has a vector_offset",
            "gather with nisa.dma_copy first",
            "srcs",
        )
    return resolve_static(current_core(name), tensor, name, "srcs")


def _read(at: GroupRank, tensor: NkiTensor, name: str, operand: str) -> Array:
    """Read a tensor, record its use, and confirm garbage in it, since other ranks receive it."""
    tensor.life.last_use = at.core.clock
    if tensor.life.placed:
        tensor.life.reach(tensor)
    with at.core.tracked(name, read=tensor):
        return prepare_read(tensor, name, operand, decides=True)


def _write(at: GroupRank, tensor: NkiTensor, values: Array, where: Array | None = None) -> None:
    """Write elements to a tensor and record its use."""
    tensor.life.written(at.core.clock)
    if tensor.life.placed:
        tensor.life.reach(tensor)
    with at.core.tracked("collective", written=tensor):
        if where is None:
            commit(tensor, values.reshape(tensor.shape))
        else:
            commit_where(tensor, values.reshape(tensor.shape), where.reshape(tensor.shape))


def _run(
    name: str, at: GroupRank, pairs: list[tuple[NkiTensor, NkiTensor]], extra: Any, result: Result
) -> None:
    """Exchange tensors with the other ranks and write the results."""

    def bring() -> list[Array]:
        return [_read(at, src, name, f"srcs[{i}]") for i, (src, _) in enumerate(pairs)]

    def take(table: Table) -> None:
        for i, (_, dst) in enumerate(pairs):
            _write(at, dst, result(table, i))

    signature = (extra, *((src.shape, str(src.dtype)) for src, _ in pairs))
    exchange(at, name, bring, signature, take, per_core=not is_hbm(pairs[0][0].buffer))


def _operator(name: str, op: Any) -> Any:
    found = as_op(op)
    if found is None or found.name not in ("add", "minimum", "maximum"):
        complain(
            rules.OPERATOR, name, f"op is {op!r}", "use nl.add, nl.minimum or nl.maximum", "op"
        )
    assert found is not None and found.binary is not None
    return found.binary


def _reduced(name: str, op: Any, like: NkiTensor, parts: list[Array]) -> Array:
    """Return parts reduced in float32 and rounded into the type of ``like``."""
    function = _operator(name, op)
    widen = make_widener(like, "srcs", name, inexact=spec_rules.INEXACT_INTEGER)
    narrow = make_narrower(like, "dsts", name, inexact=spec_rules.INEXACT_INTEGER)
    total = widen(parts[0])
    for part in parts[1:]:
        total = function(total, widen(part))
    return narrow(total)


def _dimension(name: str, dim: Any, pairs: list[tuple[NkiTensor, NkiTensor]], gather: bool) -> None:
    on_chip = not is_hbm(pairs[0][0].buffer)
    legal = (0, 1) if gather and on_chip else (0,)
    if dim not in legal:
        complain(
            rules.DIMENSION,
            name,
            f"collective_dim is {dim}, supported: {legal}",
            "use dimension 0 and rearrange afterwards",
            "collective_dim",
        )


def _divisible(name: str, src: NkiTensor, size: int) -> None:
    if src.shape[0] % size:
        complain(
            rules.EXTENT,
            name,
            f"extent {src.shape[0]} is not divisible by the group of {size}",
            "pad the tensor",
            "srcs",
        )


def _extent(name: str, dst: NkiTensor, wanted: tuple[int, ...], group: int) -> None:
    if dst.shape != wanted:
        complain(
            rules.EXTENT,
            name,
            f"destination has shape {dst.shape}, a group of {group} needs {wanted}",
            f"allocate the destination as {wanted}",
            "dsts",
        )


def _same_shape(name: str, pairs: list[tuple[NkiTensor, NkiTensor]]) -> None:
    for src, dst in pairs:
        if src.shape != dst.shape:
            complain(
                rules.SAME_SHAPE,
                name,
                f"source has shape {src.shape}, destination {dst.shape}",
                "give both one shape",
                "dsts",
            )


@checked_call("all_reduce")
def all_reduce(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    op: Any,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Reduce the tensors of all ranks of a group; every rank gets the result."""
    at, pairs = group_rank("all_reduce", replica_group), _tensors("all_reduce", srcs, dsts)
    _same_shape("all_reduce", pairs)
    _operator("all_reduce", op)

    def result(table: Table, i: int) -> Array:
        return _reduced("all_reduce", op, pairs[i][0], [table[r].arrays[i] for r in at.group])

    _run("all_reduce", at, pairs, repr(op), result)


@checked_call("all_gather")
def all_gather(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    collective_dim: int,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Concatenate the tensors of all ranks of a group along a dimension, on every rank."""
    at, pairs = group_rank("all_gather", replica_group), _tensors("all_gather", srcs, dsts)
    _dimension("all_gather", collective_dim, pairs, gather=True)
    for src, dst in pairs:
        shape = list(src.shape)
        shape[collective_dim] *= len(at.group)
        _extent("all_gather", dst, tuple(shape), len(at.group))

    def result(table: Table, i: int) -> Array:
        return np.concatenate([table[r].arrays[i] for r in at.group], axis=collective_dim)

    _run("all_gather", at, pairs, collective_dim, result)


@checked_call("reduce_scatter")
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
    at, pairs = group_rank("reduce_scatter", replica_group), _tensors("reduce_scatter", srcs, dsts)
    _dimension("reduce_scatter", collective_dim, pairs, gather=False)
    _operator("reduce_scatter", op)
    size = len(at.group)
    for src, dst in pairs:
        _divisible("reduce_scatter", src, size)
        _extent("reduce_scatter", dst, (src.shape[0] // size, *src.shape[1:]), size)

    def result(table: Table, i: int) -> Array:
        rows = pairs[i][1].shape[0]
        own = slice(at.position * rows, (at.position + 1) * rows)
        return _reduced(
            "reduce_scatter", op, pairs[i][0], [table[r].arrays[i][own] for r in at.group]
        )

    _run("reduce_scatter", at, pairs, repr(op), result)


@checked_call("all_to_all")
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
        _tensors("all_to_all", srcs, dsts, only_hbm=True),
    )
    if collective_dim != 0:
        complain(
            rules.ALL_TO_ALL,
            "all_to_all",
            f"collective_dim is {collective_dim}",
            "use dimension 0",
            "collective_dim",
        )
    _same_shape("all_to_all", pairs)
    size = len(at.group)
    for src, _ in pairs:
        _divisible("all_to_all", src, size)

    def result(table: Table, i: int) -> Array:
        rows = pairs[i][0].shape[0] // size
        own = slice(at.position * rows, (at.position + 1) * rows)
        return np.concatenate([table[r].arrays[i][own] for r in at.group])

    _run("all_to_all", at, pairs, collective_dim, result)


@checked_call("all_to_all_v")
def all_to_all_v(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send runs of elements of different lengths between all ranks of a group.

    Row 0 of the metadata holds the number of elements for each rank, row 1 their start; rows 2 and
    3, if enabled, the same for received elements. Elements that no rank sends are unchanged.
    """
    name = "all_to_all_v"
    at, pairs = group_rank(name, replica_group), _tensors(name, srcs, dsts, only_hbm=True)
    rows = 4 if has_rdispls else 3 if recv_counts_known else 2
    if has_rdispls and at.core.generation.number >= 4:
        complain(
            rules.RECEIVED_PLACES,
            name,
            "has_rdispls has no effect on this target",
            "receive the runs one behind the other and move them afterwards",
            "has_rdispls",
        )
    _, ranks = world(at.core)
    wrong = ""
    if len(pairs) != 1:
        wrong = f"there are {len(pairs)} tensors"
    elif not isinstance(metadata_tensor, NkiTensor) or metadata_tensor.dtype != "uint32":
        wrong = "the metadata tensor is not uint32"
    elif (
        len(metadata_tensor.shape) != 2
        or metadata_tensor.shape[0] < rows
        or (metadata_tensor.shape[1] != ranks)
    ):
        wrong = f"metadata has shape {metadata_tensor.shape}, needs ({rows}, {ranks})"
    if wrong:
        complain(
            rules.ALL_TO_ALL_V, name, wrong, "pass one tensor and uint32 counts per rank", "srcs"
        )
    src, dst = pairs[0]

    def bring() -> list[Array]:
        meta = _read(at, metadata_tensor, name, "metadata_tensor")
        sends = meta[0].astype(np.int64) + meta[1]
        if at.core.values and (sends[list(at.group)] > src.size).any():
            complain(
                rules.ALL_TO_ALL_V,
                name,
                f"rank {at.rank} sends elements up to {int(sends.max())} of {src.size}",
                "keep counts and displacements inside the source",
                "metadata_tensor",
            )
        return [_read(at, src, name, "srcs[0]"), meta]

    def take(table: Table) -> None:
        if not at.core.values:  # the counts are unknown
            _write(at, dst, dst.array)
            return
        meta = table[at.rank].arrays[1]
        target = np.array(dst.array).reshape(-1)
        touched = np.zeros(target.size, bool)
        position = 0
        for r in at.group:
            flat, theirs = table[r].arrays[0].reshape(-1), table[r].arrays[1].astype(np.int64)
            count, first = int(theirs[0, at.rank]), int(theirs[1, at.rank])
            expected = int(meta[2, r]) if recv_counts_known else count
            start = int(meta[3, r]) if has_rdispls else position
            if expected != count or start + count > target.size:
                complain(
                    rules.ALL_TO_ALL_V,
                    name,
                    f"rank {r} sends {count} elements to rank {at.rank}, which expects {expected} "
                    f"at {start} of {target.size}",
                    "make send and receive counts agree, inside the buffers",
                    "metadata_tensor",
                )
            target[start : start + count] = flat[first : first + count]
            touched[start : start + count] = True
            position = start + count
        _write(at, dst, target, touched)

    exchange(at, name, bring, (rows, str(src.dtype)), take)


@checked_call("collective_permute")
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
    pairs = _tensors(name, srcs, dsts, only_hbm=True)
    _same_shape(name, pairs)
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
                _write(at, dst, table[source].arrays[0])

    signature = (tuple(routes), src.shape)
    exchange(at, name, lambda: [_read(at, src, name, "srcs[0]")], signature, take)


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
    dsts: list[NkiTensor],
    bring: Callable[[], list[Array]],
    signature: Any,
) -> None:
    """Send to the successor and receive from the predecessor, on every channel."""

    def take(table: Table) -> None:
        before = at.group[at.position - 1]
        for i, dst in enumerate(dsts):
            _write(at, dst, table[before].arrays[i])

    exchange(at, name, bring, signature, take, per_core=not is_hbm(dsts[0].buffer))


@checked_call("collective_permute_implicit")
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
        _tensors(name, src, dst)[0]
        for src, dst in zip(srcs_by_channel, dsts_by_channel, strict=True)
    ]
    _same_shape(name, pairs)

    def bring() -> list[Array]:
        return [_read(at, src, name, "srcs_by_channel") for src, _ in pairs]

    _ring(name, at, [dst for _, dst in pairs], bring, tuple(src.shape for src, _ in pairs))


@checked_call("collective_permute_implicit_reduce")
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
        pairs = [*_tensors(name, first, dst), *_tensors(name, second, dst)]
        _same_shape(name, pairs)
        channels.append(pairs)
    _operator(name, op)

    def bring() -> list[Array]:
        brought = []
        for pairs in channels:
            parts = [_read(at, src, name, "srcs_by_channel") for src, _ in pairs]
            brought.append(_reduced(name, op, pairs[0][0], parts))
        return brought

    dsts = [pairs[0][1] for pairs in channels]
    _ring(name, at, dsts, bring, (repr(op), tuple(dst.shape for dst in dsts)))


@checked_call(
    "collective_permute_implicit_current_processing_rank_id",
    {
        "num_channels": (
            rules.REMOVED_CHANNELS,
            "drop it, and pass channel_ids=[...] to collective_permute_implicit",
        )
    },
)
def collective_permute_implicit_current_processing_rank_id(
    iteration_id: int, replica_group: Any, channel_id: int = 0, name: str | None = None
) -> VirtualRegister:
    """Return, as a register, the rank whose data this rank holds in an iteration of the ring."""
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
    return VirtualRegister(world(current_core("nki.collectives.rank_id"))[0])
