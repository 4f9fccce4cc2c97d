"""Constraints of the DMA instructions, with their rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nkisim.diagnostics import declare
from nkisim.memory import NkiTensor, is_hbm
from nkisim.spec import Call, Constraint, rules
from nkisim.spec.enums import dge_mode as DgeMode
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import oob_mode as OobMode

DMA_IN_PSUM = declare(
    "M018",
    "dma-in-psum",
    "An operand of a DMA is in PSUM.",
    "DMA engines have no path to PSUM",
    meaningless=True,
)
DMA_FROM_PSUM = declare(
    "A001",
    "dma-from-psum",
    "dma_copy reads PSUM.",
    "0.3.0 removed direct reads of PSUM by DMA",
    meaningless=True,
)
HWDGE_DTYPE = declare(
    "A002",
    "hwdge-dtype",
    "dma_copy in hwdge mode has different types on both sides.",
    "hardware descriptors move bytes and do not convert",
    meaningless=True,
)
DGE_ENGINE = declare(
    "A035",
    "dge-engine",
    "dma_copy names an engine without hwdge, or one that cannot generate descriptors.",
    "only the Sync and Scalar queues drive hardware descriptor generation",
    meaningless=True,
)
DGE_CONFLICT = declare(
    "A036",
    "dge-conflict",
    "The descriptor mode does not fit the access or the generation.",
    "hwdge cannot gather, none has no dynamic addresses, gen2 has no hwdge",
)
DMA_COUNT = declare(
    "S058",
    "dma-count",
    "Source and destination of a DMA hold different numbers of elements.",
    "a transfer moves every element of src to one of dst",
    meaningless=True,
)
SBUF_DYNAMIC_SOURCE = declare(
    "M039",
    "sbuf-dynamic-source",
    "dma_copy reads SBUF with a dynamic offset.",
    "the compiler crashes on it",
)
TRANSPOSE_AXES = declare(
    "S041",
    "dma-transpose-axes",
    "dma_transpose has axes or a destination shape that it does not support.",
    "the permutations are (1, 0), (2, 1, 0) and (3, 1, 2, 0)",
    meaningless=True,
)
TRANSPOSE_HWDGE = declare(
    "S042",
    "dma-transpose-hwdge",
    "dma_transpose in hwdge mode has a shape that the hardware does not take.",
    "up to NKI 0.5.0 hwdge transposes need src.shape[0] == 16 and a last dimension that is a "
    "multiple of 128; from 0.6.0 on at most 128 columns, 16 rows of 2 dimensions, or 1, 2, 4, 8 "
    "or 16 of more",
    meaningless=True,
)
TRANSPOSE_INDIRECT = declare(
    "S043",
    "dma-transpose-indirect",
    "An indirect dma_transpose breaks one of its conditions.",
    "the gather transpose has fixed block sizes",
    meaningless=True,
)
TRANSPOSE_MIXED_BOUNDS = declare(
    "M038",
    "dma-transpose-mixed-bounds",
    "An indirect dma_transpose in skip mode mixes valid and out-of-bounds indices.",
    "the DMA was seen to abort",
    severity="warning",
    on_values=True,
)
TRANSPOSE_WIDTH = declare(
    "D034",
    "dma-transpose-width",
    "dma_transpose has a type of 1 byte, or of another width than 2 bytes in hwdge or indirect "
    "mode.",
    "DMA engines transpose elements of 2 and 4 bytes, in these modes of 2 bytes",
    meaningless=True,
)
COMPUTE_FIELDS = declare(
    "D028",
    "dma-compute-fields",
    "dma_compute has an operator, scale or number of sources that it does not take.",
    "DMA engines add up to 16 sources, with all scales 1.0",
)
COMPUTE_ORDER = declare(
    "A007",
    "dma-compute-order",
    "dma_compute is called with the argument order of Beta 2.",
    "0.3.0 has reduce_op before scales",
    meaningless=True,
)
REPEATED_INDEX = declare(
    "M040",
    "repeated-index",
    "A scatter that declares its indices unique repeats one.",
    "updates of the same row are lost",
    on_values=True,
    silent=True,
)
COMPUTE_INTEGER = declare(
    "D047",
    "dma-compute-integer",
    "dma_compute adds integers beyond 2^24.",
    "DMA engines add in float32",
    on_values=True,
    whole_call=True,
    silent=True,
)


def same_count(call: Call) -> None:
    """Check that both sides have the same number of elements."""
    src, dst = call.operand("src"), call.operand("dst")
    if src.size != dst.size:
        call.fail(
            DMA_COUNT,
            f"requires src and dst to have the same number of elements, got src={src.size}, "
            f"dst={dst.size}",
            operand="dst",
            seen=f"src {src.shape}, dst {dst.shape}",
            fix="slice both sides to the same extent",
        )


def descriptor_mode(call: Call) -> None:
    """Check dge_mode and engine of a dma_copy against each other and against the access."""
    src, dst = call.operand("src"), call.operand("dst")
    mode = call["dge_mode"]
    dynamic = {t.indirection.kind for t in (src, dst) if t.indirection is not None}
    if mode is DgeMode.hwdge:
        if call.generation.number < 3:
            _conflict(call, "hwdge needs gen3 or newer", "leave dge_mode unknown")
        if src.dtype != dst.dtype:
            call.fail(
                HWDGE_DTYPE,
                f"in hwdge mode needs equal dtypes, got src {src.dtype} and dst {dst.dtype}",
                operand="dst",
                seen=f"{src.dtype} to {dst.dtype}",
                fix="reinterpret with .view(), or convert with dge_mode swdge, none or unknown",
            )
        if "vector" in dynamic:
            _conflict(call, "hwdge cannot gather or scatter", "use swdge or unknown")
    if mode is DgeMode.none and dynamic:
        _conflict(call, "dge_mode none has no dynamic addresses", "use swdge or unknown")
    engine = call["engine"]
    if engine is not Engine.unknown and (
        mode is not DgeMode.hwdge or engine not in (Engine.sync, Engine.scalar)
    ):
        call.fail(
            DGE_ENGINE,
            f"engine={engine} needs dge_mode hwdge and one of sync and scalar, got {mode}",
            operand="engine",
            seen=f"{engine}, {mode}",
            allowed="engine.sync or engine.scalar with dge_mode.hwdge",
            fix="leave engine unknown",
        )
    if src.indirection is not None and not is_hbm(src.buffer):
        call.fail(
            SBUF_DYNAMIC_SOURCE,
            "reads SBUF with a dynamic offset",
            operand="src",
            seen=src.describe(),
            fix="keep the tensor in HBM, and load the part from there",
        )


def _conflict(call: Call, why: str, fix: str) -> None:
    call.fail(
        DGE_CONFLICT,
        why,
        operand="dge_mode",
        seen=f"{call['dge_mode']} on {call.generation}",
        fix=fix,
    )


def priority(*, needs_descriptors: bool) -> Constraint:
    """Return the check of ``priority``: None, or 0 to 3 on gen4.

    With ``needs_descriptors`` it is also refused where dge_mode is none, as in NKI 0.4.0.
    """

    def check(call: Call) -> None:
        value = call["priority"]
        if value is None:
            return
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or not 0 <= value <= 3:
            call.fail_call(
                rules.BAD_CALL,
                f"priority must be None or 0 to 3, got {value!r}",
                operand="priority",
                seen=repr(value),
                allowed="None, 0 (first) to 3 (last)",
                fix="leave priority out",
            )
        if call.generation.number < 4:
            call.fail(
                rules.GENERATION,
                f"has no priority on {call.generation}",
                operand="priority",
                seen=call.generation,
                allowed="gen4 or newer",
                fix="leave priority out, or run on gen4",
            )
        if needs_descriptors and call["dge_mode"] is DgeMode.none:
            _conflict(call, "priority needs descriptor generation", "leave dge_mode unknown")

    says = "priority None, or 0 to 3 on gen4"
    if not needs_descriptors:
        return Constraint(says, (rules.BAD_CALL, rules.GENERATION), check)
    return Constraint(
        f"{says}, not with dge_mode none", (rules.BAD_CALL, rules.GENERATION, DGE_CONFLICT), check
    )


def skips_indirect_only(call: Call) -> None:
    """Check that dma_compute skips only where an operand is selected by indices."""
    dst, srcs = call.tensor("dst"), call["srcs"]
    indirect = any(getattr(t, "indirection", None) is not None for t in (dst, *srcs))
    if call["oob_mode"] is OobMode.skip and not indirect:
        call.fail_call(
            rules.BAD_CALL,
            "has oob_mode.skip without a tensor that indices select",
            operand="oob_mode",
            seen="skip",
            allowed="oob_mode.error, or a vector_offset",
            fix="drop oob_mode",
        )


def compute_order(call: Call) -> None:
    """Check that the third argument of a dma_compute is not a list of scales."""
    op = call["reduce_op"]
    if op is None or isinstance(op, (list, tuple)):
        call.fail_call(
            COMPUTE_ORDER,
            "takes (dst, srcs, reduce_op, scales=None); the third argument is a list of scales",
            operand="reduce_op",
            seen=repr(op),
            allowed="nl.add",
            fix="pass reduce_op=nl.add and scales=... by keyword",
        )


def compute_arguments(call: Call) -> None:
    """Check reduce_op, scales and the number of sources of a dma_compute."""
    srcs, op, scales = call["srcs"], call["reduce_op"], call["scales"]
    if not isinstance(srcs, (list, tuple)) or not srcs:
        call.fail_call(
            rules.BAD_CALL,
            f"srcs must be a list of tensors, got {type(srcs).__name__}",
            operand="srcs",
            seen=repr(srcs)[:80],
            allowed="a non-empty list of tensors",
            fix="pass srcs=[a, b]",
        )
    found = call.op("reduce_op")
    if found is None:
        call.fail(
            rules.OPERATOR_KIND,
            f"reduce_op must be nl.add, got {op!r}",
            operand="reduce_op",
            seen=repr(op),
            allowed="nl.add",
            fix="pass reduce_op=nl.add",
        )
    assert found is not None
    problem = ""
    if found.name != "add":
        problem = f"reduce_op is {found!r}"
    elif len(srcs) > 16:
        problem = f"there are {len(srcs)} sources"
    elif scales is not None and any(float(s) != 1.0 for s in scales):
        problem = f"scales are {list(scales)}"
    if problem:
        call.fail(
            COMPUTE_FIELDS,
            problem,
            operand="reduce_op",
            seen=problem,
            allowed="nl.add, scales of 1.0, at most 16 sources",
            fix="compute on the vector engine",
        )
    if scales is not None and len(scales) != len(srcs):
        call.fail_call(
            rules.BAD_CALL,
            f"has {len(srcs)} sources and {len(scales)} scales",
            operand="scales",
            seen=len(scales),
            allowed=len(srcs),
            fix="give one scale per source",
        )
    dst = call.operand("dst")
    for i, src in enumerate(srcs):
        if getattr(src, "size", None) != dst.size:
            call.fail(
                DMA_COUNT,
                f"requires all tensors to have the same number of elements, got "
                f"srcs[{i}]={getattr(src, 'size', src)}, dst={dst.size}",
                operand=f"srcs[{i}]",
                seen=getattr(src, "shape", src),
                fix="slice all tensors to the same extent",
            )
        if src.buffer.value == "psum":
            call.fail(
                DMA_IN_PSUM,
                f"requires HBM or SBUF tensors, got srcs[{i}]={src.buffer}",
                operand=f"srcs[{i}]",
                seen=src.describe(),
                allowed="sbuf, hbm",
                fix="nisa.tensor_copy it to SBUF first",
            )


HwdgeBlocks = Callable[[tuple[int, ...]], bool]
"""Returns whether hardware descriptors transpose a source of this shape."""


def _sixteen_rows(shape: tuple[int, ...]) -> bool:
    return shape[0] == 16 and shape[-1] % 128 == 0


def _up_to_sixteen_rows(shape: tuple[int, ...]) -> bool:
    if shape[-1] > 128:
        return False
    if len(shape) == 2:
        return shape[0] == 16
    return shape[0] in (1, 2, 4, 8, 16) and shape[0] * shape[-2] % 16 == 0


UNTIL_0_5 = _sixteen_rows, "(16, ..., 128 * n)"
FROM_0_6 = (
    _up_to_sixteen_rows,
    "(16, up to 128), or (1, 2, 4, 8 or 16, ..., up to 128) with shape[0] * shape[-2] a multiple "
    "of 16",
)
"""Predicate of the shapes that hardware descriptors transpose, and its text, by NKI version."""


def transpose_arguments(
    call: Call, *, same_rank: bool = False, blocks: tuple[HwdgeBlocks, str] = UNTIL_0_5
) -> None:
    """Check axes, shapes and modes of a dma_transpose.

    With ``same_rank`` the shape of ``dst`` must be the permuted shape; otherwise ``dst`` may join
    dimensions after the first one. ``blocks`` are the shapes that hwdge mode takes.
    """
    src, dst = call.operand("src"), call.operand("dst")
    ndim = len(src.shape)
    wanted = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}.get(ndim)
    axes = None if call["axes"] is None else tuple(call["axes"])
    if wanted is None or (axes is not None and axes != wanted):
        call.fail(
            TRANSPOSE_AXES,
            f"axes {axes} are not supported for {ndim} dimensions",
            operand="axes",
            seen=axes,
            allowed="(1, 0), (2, 1, 0), (3, 1, 2, 0)",
            fix="permute with one of the supported axes, or nc_transpose",
        )
    assert wanted is not None
    expected = tuple(src.shape[a] for a in wanted)
    padded = dst.size == src.size and dst.shape[0] == expected[0] and not same_rank
    if dst.shape != expected and not padded:
        call.fail(
            TRANSPOSE_AXES,
            f"dst must have shape {expected} for src {src.shape}, got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=expected,
            fix="allocate dst with the permuted shape",
        )
    mode = call["dge_mode"]
    indirect = (
        src.indirection
        if src.indirection is not None and src.indirection.kind == "vector"
        else None
    )
    legal = (DgeMode.unknown, DgeMode.swdge) if indirect else (DgeMode.unknown, DgeMode.hwdge)
    if mode not in legal:
        _conflict(
            call,
            f"takes {' or '.join(map(str, legal))}, got {mode}",
            "leave dge_mode unknown",
        )
    if mode is DgeMode.hwdge:
        if call.generation.number < 3:
            _conflict(call, "hwdge needs gen3 or newer", "leave dge_mode unknown")
        transposes, shapes = blocks
        if not transposes(src.shape):
            call.fail(
                TRANSPOSE_HWDGE,
                f"in hwdge mode needs a src of shape {shapes}, got {src.shape}",
                operand="src",
                seen=src.shape,
                allowed=shapes,
                fix="leave dge_mode unknown, or pad",
            )
    direct = mode is not DgeMode.hwdge and indirect is None
    if src.dtype.itemsize not in ((2, 4) if direct else (2,)):
        call.fail(
            TRANSPOSE_WIDTH,
            f"needs a type of {'2 or 4 bytes' if direct else '2 bytes in this mode'}, got "
            f"{src.dtype}",
            operand="src",
            seen=src.dtype,
            allowed="types of 2 or 4 bytes" if direct else "types of 2 bytes",
            fix="convert to a type of 2 bytes first, or transpose on the Tensor engine",
        )
    if indirect:
        _indirect_transpose(call, src, indirect.source)


def _indirect_transpose(call: Call, src: NkiTensor, index: NkiTensor) -> None:
    rows, columns = index.shape[0], index.free_size
    why = ""
    if call.generation.number < 3:
        why = "gather transposes need gen3 or newer"
    elif src.shape[-1] > 128:
        why = f"the last dimension is {src.shape[-1]}, more than 128"
    elif src.shape[0] % 16:
        why = f"src.shape[0] is {src.shape[0]}, not a multiple of 16"
    elif len(src.shape) == 4 and src.shape[1] != 1 and src.shape[2] != 1:
        why = "both middle dimensions are larger than 1"
    elif index.dtype != "uint32" or len(index.shape) != 2:
        why = f"the index tile is {index.dtype} {index.shape}, needs 2-D uint32"
    elif rows % 16 or not 16 <= rows <= 128:
        why = f"the index tile has {rows} rows, needs 16 to 128 in steps of 16"
    elif columns > 1 and rows != 128:
        why = f"an index tile with {columns} columns needs 128 rows, has {rows}"
    elif rows * columns < src.shape[0]:
        why = f"{rows * columns} indices for {src.shape[0]} rows"
    if why:
        call.fail(
            TRANSPOSE_INDIRECT, why, operand="src", seen=why, fix="gather first, then transpose"
        )
