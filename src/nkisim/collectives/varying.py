"""Collectives whose ranks send runs of different lengths, given by a metadata tensor.

Tensors are flat buffers of elements. The rows of the metadata are, for each rank: the number of
elements to send, their start in the source, the number of received elements, and their start in the
destination. Elements that no rank sends are unchanged.

In NKI 0.3.0 the metadata has a column for every rank of the world and two to four rows. Row 2 is an
input, and received runs are stored back to back. From 0.4.0 on the metadata has a column for every
rank of the group and three or four rows. Row 2 is an output, row 3 is read with ``has_rdispls``
only; otherwise received runs are in slots of equal size. The metadata may be in SBUF. Core 0 of a
rank reads and writes the metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from nkisim.collectives import rules
from nkisim.collectives.groups import (
    GroupRank,
    Table,
    complain,
    exchange,
    group_rank,
    world,
)
from nkisim.collectives.operands import Array, check_options, collective, paired, read, write
from nkisim.machine import Core, NkiInstruction, current_core, handle_of
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm
from nkisim.spec.signatures import checked_call
from nkisim.versions import at as by_version
from nkisim.versions import in_force, since

_RANKS_OF_A_DEVICE = 4  # each rank has two cores


class Call(NamedTuple):
    """The arguments of one collective.

    Attributes:
        name: Name of the collective.
        at: The running rank in its group.
        src, dst: The tensors.
        metadata: The metadata tensor.
        known: The argument ``recv_counts_known``: with it NKI 0.3.0 reads row 2, and later versions
            do not write row 2.
        placed: Whether row 3 has the starts of received runs.
    """

    name: str
    at: GroupRank
    src: NkiTensor
    dst: NkiTensor
    metadata: NkiTensor
    known: bool
    placed: bool

    @property
    def size(self) -> int:
        """Number of ranks in the group."""
        return len(self.at.group)


class Fault(NamedTuple):
    """The reason why a call is not supported: an argument, what is wrong, and the fix."""

    operand: str
    why: str
    fix: str


class Layout(NamedTuple):
    """Metadata and received runs of a version.

    Attributes:
        grouped: True for NKI 0.4.0 and later: one column per rank of the group. False for 0.3.0:
            one column per rank of the world.
        limits: Yields the reasons why a call is not supported.
    """

    grouped: bool
    limits: Callable[[Call], Iterator[Fault]]

    def rows(self, known: bool, placed: bool) -> tuple[int, int]:
        """Return the smallest and the largest number of rows of the metadata."""
        if self.grouped:
            return 4 if placed else 3, 4  # row 3 is ignored without placed
        return 4 if placed else 3 if known else 2, 4


def _no_limits(call: Call) -> Iterator[Fault]:
    yield from ()


def _two_cores(call: Call) -> Iterator[Fault]:
    if call.at.core.num_programs != 2:
        yield Fault("replica_group", "it needs two cores", "launch with kernel[2]")


def _of_switches(call: Call) -> Iterator[Fault]:
    """Yield the reasons why gen4, whose chips are connected by switches, refuses all_to_all_v."""
    group, whole = call.at.group, _RANKS_OF_A_DEVICE
    if call.at.core.generation.number < 4:
        return
    yield from _two_cores(call)
    fix = f"list consecutive ranks, all {whole} of several devices, and let some send nothing"
    if sorted(group) != list(range(min(group), min(group) + len(group))):
        yield Fault("replica_group", f"ranks {list(group)} are not consecutive", fix)
    if len(group) % whole or len(group) == whole:
        why = f"a group of {len(group)} ranks is not several devices of {whole}"
        yield Fault("replica_group", why, fix)


def _placed_on_switches(call: Call) -> Iterator[Fault]:
    yield from _of_switches(call)
    if call.placed and call.at.core.generation.number < 4:
        yield _not_placed(f"has_rdispls is not supported on {call.at.core.generation}")


def _not_placed(why: str) -> Fault:
    return Fault("has_rdispls", why, "leave has_rdispls out; runs then lie in slots of equal size")


def _of_one_device(call: Call) -> Iterator[Fault]:
    """Yield the reasons why all_gather_v is refused."""
    if call.placed:
        yield _not_placed("has_rdispls is not supported")
    yield from _two_cores(call)
    if call.size != _RANKS_OF_A_DEVICE:
        why = f"a group has {_RANKS_OF_A_DEVICE} ranks, not {call.size}"
        yield Fault("replica_group", why, "use groups of the ranks of one device, or all_gather")


_FIRST = Layout(False, _no_limits)
_GATHER = Layout(True, _of_one_device)
_ALL_TO_ALL = {
    "0.4.0": Layout(True, _of_switches),
    "0.6.0": Layout(True, _placed_on_switches),
    "0.7.0": Layout(True, _of_switches),  # and C046 for has_rdispls
}


@checked_call("all_to_all_v")
@collective
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

    Row 0 of the metadata holds the number of elements that this rank sends to each rank, and row 1
    their start in the source. Rows 2 and 3 hold the number and start of received elements. Elements
    that no rank sends are unchanged.
    """
    at = group_rank("all_to_all_v", replica_group)
    layout = by_version(in_force(), _FIRST, _ALL_TO_ALL)
    if has_rdispls and not layout.grouped and at.core.generation.number >= 4:
        complain(
            rules.RECEIVED_PLACES,
            "all_to_all_v",
            "has_rdispls has no effect on this target",
            "receive the runs one behind the other and move them afterwards",
            "has_rdispls",
        )
    call = _call("all_to_all_v", at, srcs, dsts, metadata_tensor, recv_counts_known, has_rdispls)
    _send(call, layout, _sent_to_each)


@checked_call("all_gather_v")
@collective
def all_gather_v(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> None:
    """Send one run of elements of each rank, of different lengths, to all ranks of a group.

    The first columns of rows 0 and 1 of the metadata hold the length and the start of this rank's
    run. The destination has a slot of equal size for each rank. Row 2 receives the number of
    elements from each rank, unless ``recv_counts_known``.
    """
    at = group_rank("all_gather_v", replica_group)
    call = _call("all_gather_v", at, srcs, dsts, metadata_tensor, recv_counts_known, has_rdispls)
    _send(call, _GATHER, _sent_to_all)


def _sent_to_each(rows: Array, column: int) -> tuple[int, int]:
    return int(rows[0, column]), int(rows[1, column])


def _sent_to_all(rows: Array, column: int) -> tuple[int, int]:
    return int(rows[0, 0]), int(rows[1, 0])


class _Prepared(NamedTuple):
    """A collective whose metadata has been read; ``handle`` is the result of the prepare call."""

    handle: NkiInstruction | None
    call: Call
    layout: Layout
    sent: Sent
    metadata: tuple[list[NkiTensor], Callable[[], Array]]


def _prepare(name: str, layout: Layout, sent: Sent, given: tuple[Any, ...]) -> NkiInstruction:
    """Read the metadata of a collective and store the collective in ``core.prepared``."""
    srcs, dsts, replica_group, metadata_tensor, known, placed, priority, label = given
    check_options(name, priority, label)
    at = group_rank(name, replica_group)
    call = _call(name, at, srcs, dsts, metadata_tensor, known, placed)
    if at.core.generation.number >= 4:
        fix = f"use {name.removesuffix('_prepare')}"
        complain(rules.VARYING_LIMIT, name, "it needs chips without switches", fix)
    if at.core.prepared is not None:
        first = at.core.prepared.call.name
        why = f"{first} has not been triggered"
        complain(rules.SPLIT, name, why, f"trigger {first} first", "prepare_instr")
    rows, read_rows = _metadata(call, layout)
    at.core.begin(shared=True)
    meta = read_rows()
    handle = handle_of(at.core, name)
    assert handle is not None
    at.core.prepared = _Prepared(handle, call, layout, sent, (rows, lambda: meta))
    return handle


def _trigger(name: str, prepare_instr: Any, label: str | None) -> NkiInstruction | None:
    """Run the collective in ``core.prepared``."""
    check_options(name, None, label)
    core = current_core(f"nki.collectives.{name}")
    found = core.prepared
    kind = name.removesuffix("_trigger")
    if found is None or found.handle is not prepare_instr or not found.call.name.startswith(kind):
        why = "its prepare has been triggered, or is not the last one"
        fix = f"pass what {kind}_prepare returned, once"
        complain(rules.SPLIT, name, why, fix, "prepare_instr")
        return handle_of(core, name)
    core.prepared = None
    _transfer(found.call, found.layout, found.sent, found.metadata)
    return handle_of(core, name)


@checked_call("all_to_all_v_prepare")
def all_to_all_v_prepare(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Read the metadata of an ``all_to_all_v``; the trigger moves the elements.

    The tensors are not read, so they may be filled after this call.
    """
    given = (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls)
    layout = by_version(in_force(), _FIRST, _ALL_TO_ALL)
    return _prepare("all_to_all_v_prepare", layout, _sent_to_each, (*given, priority, name))


@checked_call("all_gather_v_prepare")
def all_gather_v_prepare(
    srcs: Any,
    dsts: Any,
    replica_group: Any,
    metadata_tensor: Any,
    recv_counts_known: bool = False,
    has_rdispls: bool = False,
    priority: int | None = None,
    name: str | None = None,
) -> NkiInstruction:
    """Read the metadata of an ``all_gather_v``; the trigger moves the elements.

    The tensors are not read, so they may be filled after this call.
    """
    given = (srcs, dsts, replica_group, metadata_tensor, recv_counts_known, has_rdispls)
    return _prepare("all_gather_v_prepare", _GATHER, _sent_to_all, (*given, priority, name))


@checked_call("all_to_all_v_trigger")
def all_to_all_v_trigger(prepare_instr: Any, name: str | None = None) -> NkiInstruction | None:
    """Move the elements of the ``all_to_all_v`` that was prepared last.

    Args:
        prepare_instr: Handle that ``all_to_all_v_prepare`` returned; each is triggered once.
        name: For messages.
    """
    return _trigger("all_to_all_v_trigger", prepare_instr, name)


@checked_call("all_gather_v_trigger")
def all_gather_v_trigger(prepare_instr: Any, name: str | None = None) -> NkiInstruction | None:
    """Move the elements of the ``all_gather_v`` that was prepared last.

    NKI documents the name only; the parameters are assumed to equal ``all_to_all_v_trigger``'s.

    Args:
        prepare_instr: Handle that ``all_gather_v_prepare`` returned; each is triggered once.
        name: For messages.
    """
    return _trigger("all_gather_v_trigger", prepare_instr, name)


def check_triggered(core: Core) -> None:
    """Flag a prepared collective that the kernel of a core has not triggered."""
    if core.prepared is not None:
        name = core.prepared.call.name
        fix = f"call {name.removesuffix('_prepare')}_trigger with its result"
        complain(rules.SPLIT, name, "the kernel ends without its trigger", fix, "prepare_instr")


def _call(
    name: str, at: GroupRank, srcs: Any, dsts: Any, metadata: Any, known: bool, placed: bool
) -> Call:
    """Return the arguments of a collective, after checking tensors and dtypes."""
    pairs = paired(name, srcs, dsts, only_hbm=True)
    if len(pairs) != 1:
        _misfit(name, f"there are {len(pairs)} tensors", "srcs")
    if not isinstance(metadata, NkiTensor) or metadata.dtype != "uint32":
        _misfit(name, "the metadata tensor is not uint32", "srcs")
    return Call(name, at, *pairs[0], metadata, bool(known), bool(placed))


def _misfit(name: str, wrong: str, operand: str) -> None:
    fix = "pass one tensor and uint32 counts per rank"
    complain(rules.ALL_TO_ALL_V, name, wrong, fix, operand)


def _row_views(call: Call, layout: Layout, columns: int) -> list[NkiTensor]:
    """Return a view of each row of the metadata, after checking its shape and memory."""
    least, most = layout.rows(call.known, call.placed)
    metadata, shape = call.metadata, call.metadata.shape
    in_sbuf = metadata.buffer is MemoryRegion.sbuf
    rows = str(least) if least == most else f"{least} to {most}"
    wanted = f"({rows}, {columns})"
    if layout.grouped:
        wanted += f" in HBM, (1, {rows}, {columns}) in SBUF"
    rank = 3 if in_sbuf and layout.grouped else 2
    legal = len(shape) == rank and least <= shape[-2] <= most and shape[-1] == columns
    legal = (
        legal and (is_hbm(metadata.buffer) or layout.grouped) and shape[: rank - 2] in ((), (1,))
    )
    if not legal or metadata.buffer is MemoryRegion.psum:
        where = f" in {metadata.buffer.value}" if layout.grouped else ""
        _misfit(call.name, f"metadata has shape {shape}{where}, needs {wanted}", "srcs")
    dense = (columns * metadata.itemsize, metadata.itemsize)
    if layout.grouped and metadata.form.strides[-2:] != dense:
        _misfit(call.name, "the metadata does not lie contiguously in memory", "metadata_tensor")
    if rank == 3:
        return [metadata[0:1, i : i + 1] for i in range(shape[-2])]
    return [metadata[i : i + 1] for i in range(shape[-2])]


Sent = Callable[[Array, int], tuple[int, int]]
"""Returns length and start of the run that a rank sends, from its metadata and a column."""


class _Run(NamedTuple):
    """A received run: the sender's column, the elements, and their start in the destination."""

    column: int
    elements: Array
    start: int


def _send(call: Call, layout: Layout, sent: Sent) -> None:
    """Exchange the runs of all ranks of the group."""
    _transfer(call, layout, sent, _metadata(call, layout))


def _metadata(call: Call, layout: Layout) -> tuple[list[NkiTensor], Callable[[], Array]]:
    """Return the rows of the metadata and a function that reads them, after the checks."""
    for fault in layout.limits(call):
        complain(rules.VARYING_LIMIT, call.name, fault.why, fault.fix, fault.operand)
    if call.name.startswith("all_to_all_v") and since("0.7.0"):
        _check_placement(call)
    columns = call.size if layout.grouped else world(call.at.core)[1]
    rows = _row_views(call, layout, columns)
    used = [0, 1, *((3,) if call.placed else ())] if layout.grouped else range(len(rows))

    def read_rows() -> Array:
        meta = np.zeros((4, columns), np.int64)
        for i in used:
            meta[i] = read(call.at, rows[i], call.name, "metadata_tensor").reshape(-1)
        return meta

    return rows, read_rows


def _check_placement(call: Call) -> None:
    """Flag places within a node, and without places a destination that is not ranks times src."""
    src, dst, size = call.src, call.dst, call.size
    if call.placed and call.at.core.generation.number < 4:
        fix = "leave has_rdispls out, unless every group has ranks of several nodes"
        complain(rules.PLACED_IN_NODE, call.name, "has_rdispls is True", fix, "has_rdispls")
    elif not call.placed and dst.size != size * src.size:
        why = f"dsts[0] has {dst.size} elements, not {size} ranks times {src.size} of srcs[0]"
        fix = f"make the destination of {size * src.size} elements"
        complain(rules.VARYING_SIZE, call.name, why, fix, "dsts[0]")


def _transfer(
    call: Call, layout: Layout, sent: Sent, metadata: tuple[list[NkiTensor], Callable[[], Array]]
) -> None:
    """Exchange the runs that the metadata describes."""
    at, name, dst = call.at, call.name, call.dst
    rows, read_rows = metadata
    columns = call.size if layout.grouped else world(at.core)[1]
    reports = layout.grouped and not call.known

    def bring() -> list[Array]:
        meta = read_rows()
        _check_source(call, [sent(meta, _column(at, layout, r)) for r in at.group])
        return [read(at, call.src, name, "srcs[0]"), meta]

    def take(table: Table) -> None:
        if not at.core.values:  # the counts are unknown
            write(at, dst, dst._elements)
            if reports:
                write(at, rows[2], rows[2]._elements)
            return
        target = np.array(dst._elements).reshape(-1)
        touched = np.zeros(target.size, bool)
        counts = np.zeros(columns, np.uint32)
        for run in _received(call, layout, sent, table):
            place = slice(run.start, run.start + run.elements.size)
            target[place] = run.elements
            touched[place] = True
            counts[run.column] = run.elements.size
        write(at, dst, target, touched)
        if reports:
            write(at, rows[2], counts)

    signature = (layout.rows(call.known, call.placed)[0], str(call.src.dtype))
    exchange(at, name, bring, signature, take, ([call.src], [dst]))


def _column(at: GroupRank, layout: Layout, rank: int) -> int:
    """Return the column of a rank."""
    return at.group.index(rank) if layout.grouped else rank


def _received(call: Call, layout: Layout, sent: Sent, table: Table) -> Iterator[_Run]:
    """Yield the runs that this rank receives, in the order of the group."""
    at, size = call.at, call.dst.size
    meta = table[at.rank].arrays[1]
    slot, end = size // call.size, 0
    for i, rank in enumerate(at.group):
        flat, theirs = table[rank].arrays[0].reshape(-1), table[rank].arrays[1]
        column = _column(at, layout, rank)
        count, first = sent(theirs, _column(at, layout, at.rank))
        expected = int(meta[2, column]) if call.known and not layout.grouped else count
        if call.placed:
            start, most = int(meta[3, column]), size
        elif layout.grouped:
            start, most = i * slot, (i + 1) * slot
        else:
            start, most = end, size
        end = start + count
        if expected != count or end > most:
            complain(
                rules.ALL_TO_ALL_V,
                call.name,
                f"rank {rank} sends {count} elements to rank {at.rank}, which expects {expected} "
                f"at {start} of {size}" + ("" if most == size else f", up to {most}"),
                "make send and receive counts agree, inside the buffers",
                "metadata_tensor",
            )
        yield _Run(column, flat[first : first + count], start)


def _check_source(call: Call, runs: list[tuple[int, int]]) -> None:
    """Flag runs that reach beyond the source."""
    last = max(count + first for count, first in runs)
    if call.at.core.values and last > call.src.size:
        complain(
            rules.ALL_TO_ALL_V,
            call.name,
            f"rank {call.at.rank} sends elements up to {last} of {call.src.size}",
            "keep counts and displacements inside the source",
            "metadata_tensor",
        )
