"""Replica groups, and the exchange of arrays between their ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from nkisim.collectives import rules
from nkisim.diagnostics import Place, Rule, flag, user_place
from nkisim.machine import Core, Event, current_core
from nkisim.memory import NkiTensor, is_hbm
from nkisim.objects import NKIObject
from nkisim.spec.enums import engine as Engine
from nkisim.versions.rules import is_off


class rg_partition_op(Enum):
    """Operation that splits ranks into groups: ranks with equal results form one."""

    bitwise_and = "bitwise_and"
    div = "div"
    mod = "mod"


_PARTITIONS: dict[rg_partition_op, Callable[[int, int], int]] = {
    rg_partition_op.bitwise_and: operator.and_,
    rg_partition_op.div: operator.floordiv,
    rg_partition_op.mod: operator.mod,
}


class ReplicaGroup(NKIObject):
    """Groups of ranks that communicate with each other.

    Attributes:
        groups: One list of ranks per group; no rank appears twice.
    """

    groups: Any = None

    @staticmethod
    def from_partition_op(world_size: int, op: Any, operand: int) -> ReplicaGroup:
        """Return the groups of ranks with equal ``op(rank, operand)``, from NKI 0.7.0 on.

        Args:
            world_size: Number of ranks.
            op: A member of ``rg_partition_op``.
            operand: Its second operand.
        """
        if not isinstance(op, rg_partition_op):
            accepted = ", ".join(f"rg_partition_op.{member.name}" for member in rg_partition_op)
            raise TypeError(f"from_partition_op: op is {op!r}, accepted: {accepted}")
        groups: dict[int, list[int]] = {}
        for rank in range(world_size):
            groups.setdefault(_PARTITIONS[op](rank, operand), []).append(rank)
        return ReplicaGroup(list(groups.values()))


class GroupRank(NamedTuple):
    """The running rank in its group."""

    core: Core
    rank: int
    group: tuple[int, ...]

    @property
    def position(self) -> int:
        """Index of the rank in its group."""
        return self.group.index(self.rank)


class Contribution(NamedTuple):
    """Input of one rank to a collective."""

    name: str
    arrays: list[np.ndarray]
    signature: tuple[Any, ...]
    place: Place


Table = dict[int, Contribution]
"""Inputs by rank of a group."""

Moved = tuple[Sequence[NkiTensor], Sequence[NkiTensor]]
"""Tensors that a collective reads, and tensors that it writes."""


def complain(rule: Rule, name: str, why: str, fix: str, operand: str = "replica_group") -> None:
    """Flag a broken collective."""
    flag(rule, f"{name}: {why}", instruction=name, operand=operand, seen=why, fix=fix)


def world(core: Core) -> tuple[int, int]:
    """Return the rank of a core and the number of ranks."""
    member = core.member
    return (0, 1) if member is None else (member.rank, member.cluster.ranks)


def group_rank(name: str, replica_group: Any) -> GroupRank:
    """Return the running rank in its group, after checking the groups."""
    core = current_core(f"nki.collectives.{name}")
    rank, ranks = world(core)
    groups = getattr(replica_group, "groups", replica_group)
    try:
        members = [tuple(int(r) for r in group) for group in groups]
    except TypeError:
        complain(
            rules.GROUP,
            name,
            f"replica_group is {replica_group!r}",
            "pass ReplicaGroup([[0, 1, ...]])",
        )
        raise
    flat = [r for group in members for r in group]
    why = ""
    if len(set(flat)) != len(flat):
        why = f"a rank appears twice in {members}"
    elif len({len(group) for group in members}) > 1:
        why = f"groups have different sizes: {members}"
    elif any(not 0 <= r < ranks for r in flat):
        why = f"ranks of {members} must be below the world size {ranks}"
    elif rank not in flat:
        why = f"rank {rank} is in no group of {members}"
    if why:
        complain(rules.GROUP, name, why, "list every rank once, in groups of one size")
    return GroupRank(core, rank, next(group for group in members if rank in group))


def exchange(
    at: GroupRank,
    name: str,
    bring: Callable[[], Sequence[np.ndarray]],
    signature: tuple[Any, ...],
    take: Callable[[Table], None],
    moved: Moved,
    *,
    per_core: bool = False,
) -> None:
    """Exchange arrays between the ranks of a group.

    HBM is shared by both cores of a rank: core 0 takes part once core 1 has reached the collective,
    and core 1 waits until it is done. SBUF tensors are exchanged ``per_core``.

    Args:
        at: The running rank in its group.
        name: Name of the collective.
        bring: Reads the tensors, once all cores of the rank have reached the collective.
        signature: Properties that must be equal on all ranks.
        take: Writes the results, given the arrays of all ranks.
        moved: The tensors that are read, and the tensors that are written.
        per_core: Whether each core of a rank takes part separately.
    """
    core, member = at.core, at.core.member
    core.begin(shared=not per_core)
    place = user_place()
    _check_moved(core, name, moved, place)
    _emit(at, name, moved, place, per_core)
    if member is None:
        take({at.rank: Contribution(name, _copies(bring()), signature, place)})
        return
    kind = ("collective", at.group, per_core)
    number = member.count(kind)
    other = 1 - member.core if member.cluster.cores > 1 and not per_core else None
    if other is not None:
        awaited = ("done", *kind) if member.core else kind
        member.wait(
            lambda: member.counted(member.rank, other, awaited) >= number,
            f"core {other} in {name}",
            rules.MISSING_RANK,
        )
        if member.core:
            return
    mail, key = member.cluster.mail, (*kind, number, member.core)
    table: Table = mail.setdefault(key, {})
    table[at.rank] = Contribution(name, _copies(bring()), signature, place)
    if len(table) == len(at.group):
        del mail[key]  # complete: every rank has a reference to the table
    member.wait(
        lambda: len(table) == len(at.group),
        f"{name} number {number} of ranks {list(at.group)}",
        rules.MISSING_RANK,
    )
    _compare(at, name, table)
    take(table)
    if other is not None:
        member.count(("done", *kind))
        member.notify()


def _check_moved(core: Core, name: str, moved: Moved, place: Place) -> None:
    """Flag operands that a collective cannot have; those in HBM may be outputs: see below."""
    found = []
    for operand, tensors in zip(("srcs", "dsts"), moved, strict=True):
        for i, tensor in enumerate(tensors):
            part = f"{operand}[{i}]"
            if tensor.origin.is_argument:
                _refuse_io(name, part, tensor.name, "an argument of the kernel", place)
            elif is_hbm(tensor.buffer):
                found.append((part, tensor.life))
                if not (tensor.life.name or is_off("C044")):
                    why = f"{part} `{tensor.name}` was made without name="
                    complain(
                        rules.UNNAMED, name, why, "make it with nl.ndarray(..., name=...)", part
                    )
    core.exchanged.append((place, name, found))
    alone = core.num_programs == 1 and core.lnc == 2
    if alone and not is_hbm(moved[0][0].buffer):
        why = "tensors are in SBUF, and the kernel is launched on one of the two cores of LNC 2"
        complain(rules.REGION, name, why, "launch with kernel[2], or compile for LNC 1", "srcs")


def check_exchanged(core: Core, returned: Collection[NkiTensor]) -> None:
    """Flag the collectives of a finished core that read or wrote outputs of the kernel."""
    outputs = {tensor.life for tensor in returned}
    for place, name, operands in core.exchanged:
        for part, life in operands:
            if life in outputs:
                _refuse_io(name, part, life.label, "an output of the kernel", place)


def _refuse_io(name: str, part: str, label: str, what: str, place: Place) -> None:
    reads = part.startswith("srcs")
    flag(
        rules.IO_TENSOR,
        f"{name} {'reads' if reads else 'writes'} {part} `{label}`, {what}",
        instruction=name,
        operand=part,
        seen=what,
        allowed="a tensor that the kernel makes and does not return",
        fix="copy it to a tensor of your own first, with nisa.dma_copy"
        if reads
        else "write a tensor of your own, and copy that with nisa.dma_copy",
        place=place,
    )


def _emit(at: GroupRank, name: str, moved: Moved, place: Place, per_core: bool) -> None:
    """Pass a collective to the watchers."""
    core, (sources, targets) = at.core, moved
    if not core.watchers:
        return
    sizes = tuple(t.size * t.itemsize for t in (*sources, *targets))
    event = Event(
        core.clock,
        name,
        Engine.dma,
        tuple((f"srcs[{i}]", tensor) for i, tensor in enumerate(sources)),
        tuple((f"dsts[{i}]", tensor) for i, tensor in enumerate(targets)),
        place,
        core.program_id,
        {"ranks": len(at.group)},
        (name, len(at.group), len(sources), sizes),
        core.no_reorder_depth > 0,
        at.rank,
        ("collective", at.group, core.program_id if per_core else None),
        core.scope,
    )
    core.emit(event)


def _copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [np.array(a) for a in arrays]


def _compare(at: GroupRank, name: str, table: Table) -> None:
    """Flag ranks that issue different collectives."""
    first = table[at.group[0]]
    for rank in at.group:
        theirs = table[rank]
        if (theirs.name, theirs.signature) != (first.name, first.signature):
            complain(
                rules.MISMATCH,
                name,
                f"rank {at.group[0]} issues {first.name} {first.signature} at {first.place}, "
                f"rank {rank} issues {theirs.name} {theirs.signature} at {theirs.place}",
                "issue the same collectives in the same order on every rank",
            )
