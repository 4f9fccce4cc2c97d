"""Operands of collectives: their checks, and reads and writes of tensors that ranks exchange.

Reductions are computed in float32, in the order of the group, and rounded once into the
destination.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.collectives import rules
from nkisim.collectives.groups import GroupRank, Table, complain, exchange
from nkisim.diagnostics import flag
from nkisim.machine import (
    NkiInstruction,
    commit,
    commit_where,
    current_core,
    handle_of,
    prepare_read,
    resolve_static,
)
from nkisim.machine.calls.transfer import make_narrower, make_widener, overlaps
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm
from nkisim.removed import refuse_argument
from nkisim.spec import as_op
from nkisim.spec import rules as spec_rules
from nkisim.versions import since

Array = np.ndarray
Result = Callable[[Table, int], Array]
"""Computes the result for the i-th tensor of this rank from the inputs of all ranks."""

_PRIORITIES = range(4)


def check_options(name: str, priority: Any, label: Any) -> None:
    """Check the options of a collective, which have no effect on results.

    Args:
        name: Name of the collective.
        priority: Priority of the transfers: None, or 0 to 3 on gen4.
        label: Argument ``name`` of the call: None or text.
    """
    core = current_core(f"nki.collectives.{name}")
    if label is not None and not isinstance(label, str):
        refuse_argument(name, "name", label, "None or text", "leave name out")
    if priority is None:
        return
    whole = isinstance(priority, (int, np.integer)) and not isinstance(priority, bool)
    if not whole or priority not in _PRIORITIES:
        allowed = "None, 0 (first) to 3 (last)"
        refuse_argument(
            name, "priority", priority, allowed, "leave priority out", got=repr(priority)
        )
    if core.generation.number < 4:
        flag(
            spec_rules.GENERATION,
            f"{name} has no priority on {core.generation}",
            instruction=name,
            operand="priority",
            seen=core.generation,
            allowed="gen4 or newer",
            fix="leave priority out, or run on gen4",
        )


def collective(function: Callable[..., None]) -> Callable[..., NkiInstruction | None]:
    """Decorate a collective: check its last two arguments, and return its handle.

    The last two arguments are ``priority`` and ``name``. Before NKI 0.7.0 it returns None.
    """

    @functools.wraps(function)
    def run(*values: Any) -> NkiInstruction | None:
        name = function.__name__
        check_options(name, *values[-2:])
        function(*values)
        return handle_of(current_core(name), name) if since("0.7.0") else None

    return run


def paired(
    name: str, srcs: Any, dsts: Any, *, only_hbm: bool = False
) -> list[tuple[NkiTensor, NkiTensor]]:
    """Return the pairs of a collective after checking memories and lists."""
    sources = [static(name, t) for t in ([srcs] if isinstance(srcs, NkiTensor) else srcs)]
    targets = [static(name, t) for t in ([dsts] if isinstance(dsts, NkiTensor) else dsts)]
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
    if in_hbm == {True} and name in ("all_reduce", "all_gather") and since("0.7.0"):
        _check_regions(name, sources, targets)
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
        if src._storage is dst._storage and src.region != dst.region and overlaps(src, dst):
            complain(
                rules.PARTIAL_OVERLAP,
                name,
                "source and destination overlap in part",
                "use separate tensors, or exactly the same one",
                "dsts",
            )
    return list(zip(sources, targets, strict=True))


def static(name: str, tensor: NkiTensor) -> NkiTensor:
    """Return a view with its offset applied; flag one whose rows an index selects."""
    if tensor.indirection is not None and tensor.indirection.kind != "scalar":
        complain(
            spec_rules.INDIRECT_OPERAND,
            name,
            f"{tensor.describe()} is selected by an index",
            "gather with nisa.dma_copy first",
            "srcs",
        )
    return resolve_static(current_core(name), tensor, name, "srcs")


def read(at: GroupRank, tensor: NkiTensor, name: str, operand: str) -> Array:
    """Read a tensor, record its use, and confirm garbage in it, since other ranks receive it."""
    tensor.life.last_use = at.core.clock
    if tensor.life.placed:
        tensor.life.reach(tensor)
    with at.core.tracked(name, read=tensor):
        return prepare_read(tensor, name, operand, decides=True)


def write(at: GroupRank, tensor: NkiTensor, values: Array, where: Array | None = None) -> None:
    """Write elements to a tensor and record its use."""
    tensor.life.written(at.core.clock)
    if tensor.life.placed:
        tensor.life.reach(tensor)
    with at.core.tracked("collective", written=tensor):
        if where is None:
            commit(tensor, values.reshape(tensor.shape))
        else:
            commit_where(tensor, values.reshape(tensor.shape), where.reshape(tensor.shape))


def _check_regions(name: str, sources: list[NkiTensor], targets: list[NkiTensor]) -> None:
    """Flag lists that mix private and shared HBM, and shared HBM of a single core."""
    alone = current_core(f"nki.collectives.{name}").num_programs == 1
    allowed = os.environ.get("NKI_LNC1_SHARED_HBM") == "1"
    for operand, tensors in (("srcs", sources), ("dsts", targets)):
        regions = {tensor.buffer for tensor in tensors}
        # Kernels do not choose the memory of arguments, and NKI does not document it.
        own = {tensor.buffer for tensor in tensors if not tensor.origin.is_argument}
        shared = alone and MemoryRegion.shared_hbm in own
        if len(regions) > 1:
            fix = "use nl.private_hbm, or nl.shared_hbm, for the whole list"
            complain(rules.REGION, name, f"{operand} are in private and shared HBM", fix, operand)
        elif shared and not (operand == "dsts" and allowed):
            fix = "use nl.private_hbm"
            fix += ", or set NKI_LNC1_SHARED_HBM=1" if operand == "dsts" else ""
            complain(rules.REGION, name, f"{operand} are in shared HBM at LNC 1", fix, operand)


def run(
    name: str, at: GroupRank, pairs: list[tuple[NkiTensor, NkiTensor]], extra: Any, result: Result
) -> None:
    """Exchange tensors with the other ranks and write the results."""

    def bring() -> list[Array]:
        return [read(at, src, name, f"srcs[{i}]") for i, (src, _) in enumerate(pairs)]

    def take(table: Table) -> None:
        for i, (_, dst) in enumerate(pairs):
            write(at, dst, result(table, i))

    signature = (extra, *((src.shape, str(src.dtype)) for src, _ in pairs))
    moved = [src for src, _ in pairs], [dst for _, dst in pairs]
    exchange(at, name, bring, signature, take, moved, per_core=not is_hbm(pairs[0][0].buffer))


def operator(name: str, op: Any) -> Any:
    """Return the function of a reduction's operator."""
    found = as_op(op)
    if found is None or found.name not in ("add", "minimum", "maximum"):
        complain(
            rules.OPERATOR, name, f"op is {op!r}", "use nl.add, nl.minimum or nl.maximum", "op"
        )
    assert found is not None and found.binary is not None
    return found.binary


def reduced(name: str, op: Any, like: NkiTensor, parts: list[Array]) -> Array:
    """Return parts reduced in float32 and rounded into the type of ``like``."""
    function = operator(name, op)
    widen = make_widener(like, "srcs", name, inexact=spec_rules.INEXACT_INTEGER)
    narrow = make_narrower(like, "dsts", name, inexact=spec_rules.INEXACT_INTEGER)
    total = widen(parts[0])
    for part in parts[1:]:
        total = function(total, widen(part))
    return narrow(total)


def check_dimension(
    name: str, dim: Any, pairs: list[tuple[NkiTensor, NkiTensor]], gather: bool
) -> None:
    """Flag a dimension along which a collective does not split or join."""
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


def check_divisible(name: str, src: NkiTensor, size: int) -> None:
    """Flag a tensor that a group cannot divide evenly."""
    if src.shape[0] % size:
        complain(
            rules.EXTENT,
            name,
            f"extent {src.shape[0]} is not divisible by the group of {size}",
            "pad the tensor",
            "srcs",
        )


def check_extent(name: str, dst: NkiTensor, wanted: tuple[int, ...], group: int) -> None:
    """Flag a destination of another shape than the result."""
    if dst.shape != wanted:
        complain(
            rules.EXTENT,
            name,
            f"destination has shape {dst.shape}, a group of {group} needs {wanted}",
            f"allocate the destination as {wanted}",
            "dsts",
        )


def check_same_shape(name: str, pairs: list[tuple[NkiTensor, NkiTensor]]) -> None:
    """Flag a destination of another shape than its source."""
    for src, dst in pairs:
        if src.shape != dst.shape:
            complain(
                rules.SAME_SHAPE,
                name,
                f"source has shape {src.shape}, destination {dst.shape}",
                "give both one shape",
                "dsts",
            )
