"""DMA: dma_copy, dma_transpose, dma_compute.

Transfers move bytes between HBM and SBUF. With different types on both sides the DMA engine
converts through float32; hardware descriptor generation (hwdge) cannot convert.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.isa.elementwise import same_bits_or_fp32
from nkisim.isa.movement import dma_rules as broken
from nkisim.machine import Partial, Rows, instruction
from nkisim.memory import NkiTensor
from nkisim.memory import rules as memory_rules
from nkisim.spec import HBM, SBUF, Constraint, In, Op, Out, as_op, rules, unconverted
from nkisim.spec.constraints import same_dtype
from nkisim.spec.cost import transfer
from nkisim.spec.enums import dge_mode as DgeMode
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import oob_mode as OobMode
from nkisim.spec.signatures import Removal

Array = np.ndarray


def _flag_skipped(dst: Any, where: Array, name: str) -> None:
    """Flag elements that a transfer skips and that were not written before."""
    hidden = dst._storage.unwritten(dst.region) if isinstance(dst, NkiTensor) else None
    if hidden is not None and (hidden & ~where.reshape(hidden.shape)).any():
        flag(
            memory_rules.SKIPPED_UNWRITTEN,
            f"{name} skipped {int((~where).sum())} elements of `{dst.name}` that nothing had "
            "written",
            instruction=name,
            operand="dst",
            seen=f"{int((~where).sum())} skipped elements",
            fix="nisa.memset the destination before the transfer",
        )


_COPY_REQUIRES = (
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
)
_PRIORITY_0_4 = broken.priority(needs_descriptors=True)
_PRIORITY = broken.priority(needs_descriptors=False)


@instruction(
    engines=(Engine.dma,),
    operands={
        "dst": Out(SBUF, HBM, buffer_rule=broken.DMA_IN_PSUM, flat=True, gathers=True),
        "src": In(SBUF, HBM, buffer_rule=broken.DMA_FROM_PSUM, flat=True, gathers=True),
    },
    require=_COPY_REQUIRES,
    choose_engine=lambda call: Engine.dma,
    arithmetic=same_bits_or_fp32("dst", "src"),
    moves=True,
    spread="elements",
    cost=transfer(over="src"),
    removed={
        "dst_rmw_op": Removal(
            rules.REMOVED_RMW,
            "use nisa.dma_compute(dst, [src, dst], reduce_op=nl.add)",
        ),
        "unique_indices": Removal(
            rules.REMOVED_RMW, "use nisa.dma_compute(..., unique_indices=True)"
        ),
    },
    source="nki.isa.dma_copy, 0.3.0",
    changes={
        "0.4.0": {"require": (*_COPY_REQUIRES, _PRIORITY_0_4)},
        "0.5.0": {"require": (*_COPY_REQUIRES, _PRIORITY)},
    },
)
def dma_copy(
    dst: Any,
    src: Any,
    oob_mode: OobMode = OobMode.error,
    dge_mode: DgeMode = DgeMode.unknown,
    engine: Engine = Engine.unknown,
    name: str | None = None,
    priority: int | None = None,
) -> Any:
    """Copy ``src`` to ``dst``; rows may be gathered or scattered by indices held in SBUF.

    Args:
        dst: Tensor in HBM or SBUF that is written; its rows may be selected by indices.
        src: Tensor in HBM or SBUF with as many elements as ``dst``; its rows may be selected by
            indices.
        engine: Engine whose queue starts the transfer, ``sync`` or ``scalar`` with ``hwdge``;
            ``unknown`` leaves it to the compiler.
    """
    if type(src) is Partial:
        _flag_skipped(dst, src.where, "dma_copy")
    return src


_PERMUTATIONS = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}


def _transpose_requires(*more: Constraint, **options: Any) -> tuple[Constraint, ...]:
    """Return the constraints of dma_transpose; ``options`` go to ``transpose_arguments``."""
    exact = "; dst of the permuted rank" if options.get("same_rank") else ""
    shapes = f"; hwdge src {options['blocks'][1]}" if "blocks" in options else ""
    return (
        same_dtype("dst", "src"),
        Constraint(
            "axes (1, 0), (2, 1, 0) or (3, 1, 2, 0); elements of 2 or 4 bytes; hwdge and gather "
            "forms have fixed blocks of 2-byte elements" + exact + shapes,
            (
                broken.TRANSPOSE_AXES,
                broken.TRANSPOSE_HWDGE,
                broken.TRANSPOSE_INDIRECT,
                broken.TRANSPOSE_WIDTH,
            ),
            functools.partial(broken.transpose_arguments, **options),
        ),
        *more,
    )


@instruction(
    engines=(Engine.dma,),
    operands={
        "dst": Out(SBUF, buffer_rule=rules.BUFFER_UNREACHABLE, flat=True, masked=True),
        "src": In(SBUF, HBM, buffer_rule=broken.DMA_IN_PSUM, flat=True, gathers=True),
    },
    require=_transpose_requires(),
    arithmetic=unconverted,
    moves=True,
    spread="transpose",
    cost=transfer(over="src"),
    source="nki.isa.dma_transpose, 0.3.0",
    changes={
        "0.4.0": {"require": _transpose_requires(_PRIORITY_0_4, same_rank=True)},
        "0.5.0": {"require": _transpose_requires(_PRIORITY, same_rank=True)},
        "0.6.0": {
            "require": _transpose_requires(_PRIORITY, same_rank=True, blocks=broken.FROM_0_6)
        },
    },
)
def dma_transpose(
    dst: Any,
    src: Any,
    axes: Any = None,
    dge_mode: DgeMode = DgeMode.unknown,
    oob_mode: OobMode = OobMode.error,
    name: str | None = None,
    priority: int | None = None,
) -> Any:
    """Copy ``src`` with first and last dimension exchanged; its rows may be gathered.

    Args:
        dst: Tile in SBUF that receives the transposed tensor.
        src: Tensor in HBM or SBUF with 2 to 4 dimensions, of the dtype of ``dst``, whose elements
            have 2 or 4 bytes; in hwdge mode or with gathered rows they have 2 bytes.
        axes: Order of the dimensions of ``src`` in ``dst``, which their number determines:
            (1, 0), (2, 1, 0) or (3, 1, 2, 0); None is the same.
    """
    if type(src) is not Partial:
        return src.transpose(_PERMUTATIONS[src.ndim])
    outside = ~src.where.reshape(len(src.where), -1)[:, 0]
    if not outside.all():
        flag(
            broken.TRANSPOSE_MIXED_BOUNDS,
            "dma_transpose has valid and out-of-bounds indices in one transfer",
            instruction="dma_transpose",
            operand="src",
            seen=f"{int(outside.sum())} of {outside.size} indices out of bounds",
            fix="clip the indices",
        )
    # A skipped source row is a column of dst, which is unchanged.
    moved = Partial(*(part.transpose(_PERMUTATIONS[part.ndim]) for part in src))
    _flag_skipped(dst, moved.where, "dma_transpose")
    return moved


_COMPUTE_ORDER = Constraint(
    "reduce_op before scales", (broken.COMPUTE_ORDER,), broken.compute_order, first=True
)
_COMPUTE_ARGUMENTS = Constraint(
    "reduce_op add, scales 1.0, 1 to 16 sources of equal size",
    (broken.COMPUTE_FIELDS, broken.DMA_COUNT),
    broken.compute_arguments,
)


@instruction(
    engines=(Engine.dma,),
    operands={
        "dst": Out(SBUF, HBM, buffer_rule=broken.DMA_IN_PSUM, flat=True, gathers=True),
        "srcs": In(SBUF, HBM, many=True, flat=True, gathers=True),
    },
    require=(_COMPUTE_ORDER, _COMPUTE_ARGUMENTS),
    inexact=broken.COMPUTE_INTEGER,
    spread="elements",
    cost=transfer(over="dst"),
    source="nki.isa.dma_compute, 0.3.0",
    changes={
        "0.4.0": {
            "require": (
                _COMPUTE_ORDER,
                _COMPUTE_ARGUMENTS,
                Constraint(
                    "oob_mode.skip with a vector_offset only",
                    (rules.BAD_CALL,),
                    broken.skips_indirect_only,
                ),
            )
        }
    },
)
def dma_compute(
    dst: Any,
    srcs: Any,
    reduce_op: Op,
    scales: Any = None,
    unique_indices: bool = True,
    name: str | None = None,
    oob_mode: OobMode = OobMode.error,
) -> Any:
    """Write the float32 sum of the sources to ``dst``; one may be gathered by index.

    From NKI 0.4.0 on ``oob_mode.skip`` leaves rows of ``dst`` unchanged whose index is out of
    bounds, in ``dst`` or in a source.

    Args:
        dst: Tensor in HBM or SBUF that receives the sum; its rows may be selected by indices.
        srcs: List of 1 to 16 tensors in HBM or SBUF, each with as many elements as ``dst``.
        reduce_op: Operator that combines the sources, ``nl.add``.
        scales: One factor per source, each 1.0; None is the same.
        unique_indices: Whether no index of ``dst`` occurs twice; the simulator checks this.
    """
    function = as_op(reduce_op)
    assert function is not None
    assert function.binary is not None
    total: Any = None
    where: Array | None = None
    for i, src in enumerate(srcs):
        whole = src
        if type(src) is Partial:
            whole, inside = src.values, src.where.reshape(-1)
            where = inside if where is None else where & inside
        scale = 1.0 if scales is None else float(scales[i])
        values = whole.reshape(-1) if scale == 1.0 else whole.reshape(-1) * np.float32(scale)
        total = values if total is None else function.binary(total, values)
    if type(dst) is Rows:
        if unique_indices:
            _check_unique(dst.indices[dst.inside])
        return total if where is None else Partial(total, where)
    if where is None:
        return total.reshape(dst.shape)
    _flag_skipped(dst, where, "dma_compute")
    return Partial(total.reshape(dst.shape), where.reshape(dst.shape))


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
