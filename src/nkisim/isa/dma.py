"""DMA: dma_copy, dma_transpose, dma_compute.

Transfers move bytes between HBM and SBUF. With different types on both sides the DMA engine
converts through float32; hardware descriptor generation (hwdge) cannot convert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.isa import dma_rules as broken
from nkisim.isa.elementwise import same_bits_or_fp32
from nkisim.machine import Core, commit, commit_where, instruction, prepare_read
from nkisim.machine.transfer import make_narrower, make_widener
from nkisim.memory import NkiTensor, resolve_scalar, vector_rows
from nkisim.memory import rules as memory_rules
from nkisim.spec import HBM, SBUF, Constraint, In, Op, Out, as_op, rules, unconverted
from nkisim.spec.constraints import same_dtype
from nkisim.spec.cost import transfer
from nkisim.spec.enums import dge_mode as DgeMode
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import oob_mode as OobMode

__all__ = ["dma_compute", "dma_copy", "dma_transpose"]

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a transfer after its dynamic offset was read.

    Attributes:
        table: A static view; with ``indices`` its first dimension is what they select from.
        indices: Row of the table for each row of the transfer, or None for the view as it is.
        inside: Which of the indices are in bounds.
    """

    table: NkiTensor
    indices: Array | None = None
    inside: Array | None = None


def _side(
    tensor: NkiTensor, instruction_name: str, operand: str, *, skip: bool = False
) -> _Side | None:
    """Resolve a tensor's dynamic offset; None when a scalar offset is skipped."""
    if tensor.indirect is None:
        return _Side(tensor)
    if tensor.indirect.kind == "scalar":
        view = resolve_scalar(tensor, skip=skip, instruction=instruction_name, operand=operand)
        return None if view is None else _Side(view)
    return _Side(*vector_rows(tensor, skip=skip, instruction=instruction_name, operand=operand))


def _gather(side: _Side, instruction_name: str, operand: str) -> Array:
    """Return a side's elements in storage form; rows out of bounds hold anything."""
    if side.indices is None:
        return prepare_read(side.table, instruction_name, operand)
    assert side.inside is not None
    if not side.inside.any():
        return np.zeros((len(side.indices), *side.table.shape[1:]), side.table.array.dtype)
    rows = np.where(side.inside, side.indices, side.indices[side.inside][0])
    if side.table.storage.complete:
        return side.table.array[rows]
    read = [prepare_read(_row(side.table, int(row)), instruction_name, operand) for row in rows]
    return np.concatenate(read)


def _scatter(side: _Side, stored: Array, valid: Array | None, instruction_name: str) -> None:
    """Put stored elements into a side; rows not ``valid`` or out of bounds stay as they are."""
    if side.indices is None and valid is None:
        commit(side.table, stored.reshape(side.table.shape))
        return
    rows = side.table.shape[0] if side.indices is None else len(side.indices)
    stored = stored.reshape(rows, *side.table.shape[1:])
    keep = np.ones(rows, bool) if valid is None else valid
    if side.inside is not None:
        keep = keep & side.inside
    where = np.arange(rows) if side.indices is None else side.indices
    for i in np.flatnonzero(keep):
        commit(_row(side.table, int(where[i])), stored[i : i + 1])
    if side.indices is None and not keep.all():
        _flag_skipped(side.table, int((~keep).sum()), instruction_name)


def _row(table: NkiTensor, row: int) -> NkiTensor:
    """Return one row of a table as a tensor."""
    shape = (1, *table.shape[1:])
    return NkiTensor(
        table.alloc, shape, table.dtype, table.start + row * table.strides[0], table.strides
    )


def _flag_skipped(dst: NkiTensor, skipped: int, instruction_name: str) -> None:
    if dst.storage.unwritten(*dst.region) is not None:
        flag(
            memory_rules.SKIPPED_UNWRITTEN,
            f"{instruction_name} skipped {skipped} rows of `{dst.name}` that nothing had written",
            instruction=instruction_name,
            operand="dst",
            seen=f"{skipped} skipped rows",
            fix="nisa.memset the destination before the transfer",
        )


def _convert(stored: Array, src: NkiTensor, dst: NkiTensor, instruction_name: str) -> Array:
    """Return elements of ``src`` as ``dst`` stores them: the same bits, or via float32."""
    if src.dtype == dst.dtype:
        return stored
    values = make_widener(src, "src", instruction_name, inexact=rules.INEXACT_MOVE)(stored)
    return make_narrower(dst, "dst", instruction_name, inexact=rules.INEXACT_MOVE)(values)


@instruction(
    engines=(Engine.dma,),
    operands={
        "dst": Out(SBUF, HBM, buffer_rule=broken.DMA_IN_PSUM),
        "src": In(SBUF, HBM, buffer_rule=broken.DMA_FROM_PSUM),
    },
    require=(
        Constraint("src and dst hold as many elements", (broken.DMA_COUNT,), broken.same_count),
        Constraint(
            "hwdge: gen3+, equal dtypes, no gather; engine= with hwdge only",
            (
                broken.HWDGE_DTYPE,
                broken.DGE_ENGINE,
                broken.DGE_CONFLICT,
                broken.SBUF_DYNAMIC_SOURCE,
            ),
            broken.descriptor_mode,
        ),
    ),
    choose_engine=lambda call: Engine.dma,
    arithmetic=same_bits_or_fp32("dst", "src"),
    memory=True,
    moves=True,
    cost=transfer(over="src"),
    removed={
        "dst_rmw_op": (
            rules.REMOVED_RMW,
            "use nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)",
        ),
        "unique_indices": (rules.REMOVED_RMW, "use nisa.dma_compute(..., unique_indices=True)"),
    },
    source="nki.isa.dma_copy, 0.3.0",
)
def dma_copy(
    core: Core,
    dst: NkiTensor,
    src: NkiTensor,
    oob_mode: OobMode = OobMode.error,
    dge_mode: DgeMode = DgeMode.unknown,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> None:
    """Copy ``src`` to ``dst``; rows may be gathered or scattered by indices held in SBUF.

    With ``oob_mode.skip``, rows whose index is out of bounds keep their bytes.
    """
    if src.indirect is None and dst.indirect is None:
        stored = prepare_read(src, "dma_copy", "src")
        if src.dtype != dst.dtype:
            stored = _convert(stored, src, dst, "dma_copy")
        commit(dst, stored if src.shape == dst.shape else stored.reshape(dst.shape))
        return
    skip = oob_mode is OobMode.skip
    source, target = (
        _side(src, "dma_copy", "src", skip=skip),
        _side(dst, "dma_copy", "dst", skip=skip),
    )
    if source is not None and target is not None:
        stored = _convert(_gather(source, "dma_copy", "src"), src, dst, "dma_copy")
        _scatter(target, stored, source.inside, "dma_copy")


_PERMUTATIONS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


@instruction(
    engines=(Engine.dma,),
    operands={
        "dst": Out(SBUF, buffer_rule=rules.BUFFER_UNREACHABLE),
        "src": In(SBUF, HBM, buffer_rule=broken.DMA_IN_PSUM),
    },
    require=(
        same_dtype("dst", "src"),
        Constraint(
            "axes (1, 0), (2, 1, 0) or (3, 1, 2, 0); hwdge and gather forms have fixed blocks",
            (
                broken.TRANSPOSE_AXES,
                broken.TRANSPOSE_HWDGE,
                broken.TRANSPOSE_INDIRECT,
                broken.TRANSPOSE_WIDTH,
            ),
            broken.transpose_arguments,
        ),
    ),
    arithmetic=unconverted,
    memory=True,
    moves=True,
    cost=transfer(over="src"),
    source="nki.isa.dma_transpose, 0.3.0",
)
def dma_transpose(
    core: Core,
    dst: NkiTensor,
    src: NkiTensor,
    axes: Any = None,
    dge_mode: DgeMode = DgeMode.unknown,
    oob_mode: OobMode = OobMode.error,
    name: str | None = None,
) -> None:
    """Copy ``src`` with first and last dimension exchanged; its rows may be gathered."""
    side = _side(src, "dma_transpose", "src", skip=oob_mode is OobMode.skip)
    if side is None:
        return
    stored = _gather(side, "dma_transpose", "src")
    moved = stored.transpose(_PERMUTATIONS[stored.ndim])
    if side.inside is None or side.inside.all():
        commit(dst, moved.reshape(dst.shape))
        return
    if side.inside.any():
        flag(
            broken.TRANSPOSE_MIXED_BOUNDS,
            "dma_transpose has valid and out-of-bounds indices in one transfer",
            instruction="dma_transpose",
            operand="src",
            seen=f"{int((~side.inside).sum())} of {side.inside.size} indices out of bounds",
            fix="clip the indices",
        )
    # A skipped source row is a column of dst: it keeps its bytes.
    keep = np.broadcast_to(side.inside, moved.shape).reshape(dst.shape)
    commit_where(dst, moved.reshape(dst.shape), keep)
    _flag_skipped(dst, int((~side.inside).sum()), "dma_transpose")


@instruction(
    engines=(Engine.dma,),
    operands={"dst": Out(SBUF, HBM, buffer_rule=broken.DMA_IN_PSUM)},
    require=(
        Constraint(
            "reduce_op add, scales 1.0, 1 to 16 sources of equal size",
            (broken.COMPUTE_FIELDS, broken.COMPUTE_ORDER, broken.DMA_COUNT),
            broken.compute_arguments,
        ),
    ),
    memory=True,
    cost=transfer(over="dst"),
    source="nki.isa.dma_compute, 0.3.0",
)
def dma_compute(
    core: Core,
    dst: NkiTensor,
    srcs: Any,
    reduce_op: Op,
    scales: Any = None,
    unique_indices: bool = True,
    name: str | None = None,
) -> None:
    """Write the float32 sum of the sources to ``dst``; one may be gathered by index."""
    function = as_op(reduce_op)
    assert function is not None and function.binary is not None
    total: Any = None
    for i, src in enumerate(srcs):
        src.alloc.life.read(core.clock)
        side = _side(src, "dma_compute", f"srcs[{i}]")
        assert side is not None
        stored = _gather(side, "dma_compute", f"srcs[{i}]").reshape(dst.shape)
        values = make_widener(src, f"srcs[{i}]", "dma_compute", inexact=broken.COMPUTE_INTEGER)(
            stored
        )
        scale = 1.0 if scales is None else float(scales[i])
        values = values if scale == 1.0 else values * np.float32(scale)
        total = values if total is None else function.binary(total, values)
    target = _side(dst, "dma_compute", "dst")
    assert target is not None
    if target.indices is not None and unique_indices:
        _check_unique(target.indices)
    stored = make_narrower(dst, "dst", "dma_compute", inexact=broken.COMPUTE_INTEGER)(total)
    _scatter(target, stored, None, "dma_compute")


def _check_unique(indices: Array) -> None:
    values, counts = np.unique(indices, return_counts=True)
    if (counts > 1).any():
        repeated = int(values[np.argmax(counts > 1)])
        rows = [int(r) for r in np.flatnonzero(indices == repeated)]
        flag(
            broken.REPEATED_INDEX,
            f"dma_compute scatters rows {rows} to the same index {repeated}",
            instruction="dma_compute",
            operand="dst",
            seen=f"index {repeated} for rows {rows}",
            allowed="every index once",
            fix="combine rows with equal indices first",
        )
