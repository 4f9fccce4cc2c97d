"""Legality of a call: constraints of the declaration, checked once per signature."""

from __future__ import annotations

import numpy as np

from nkisim.diagnostics import declare
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm, is_on_chip
from nkisim.memory import rules as memory_rules
from nkisim.memory.log import device_bytes
from nkisim.spec import rules
from nkisim.spec.call import Call
from nkisim.spec.constants import check_constants, check_enums
from nkisim.spec.constraints import refuse_pack
from nkisim.spec.enums import engine as Engine
from nkisim.spec.indirection import check_indirection, check_selected
from nkisim.spec.instruction import Instruction
from nkisim.spec.operands import Operand
from nkisim.spec.operator_constraints import check_operators
from nkisim.spec.signatures import CALLS, call_text
from nkisim.versions import in_force
from nkisim.versions.rules import held

_ENUMERATED = 1 << 20
"""Elements up to which the addresses of an interleaved pattern are compared one by one."""

_OF_SCALARS = ("dma_copy", "memset")
"""Instructions that fill and move tiles of int64, which hold scalars."""

RUNTIME_ADDRESS = declare(
    "M050",
    "runtime-address",
    "An SBUF operand of a compute instruction has an address of run time.",
    "the compiler refuses it (NCC_INLA001 dynamic access, NCC_IBIR829, NCC_IBIR040)",
)
RUNTIME_COPY = declare(
    "M053",
    "runtime-address-of-copy",
    "An SBUF operand of tensor_copy has an address of run time.",
    "NKI documents it, and some users saw the compiler refuse it (NCC_INLA001 dynamic access)",
    severity="warning",
)

_COMPUTE = (Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd)


def check_call(instruction: Instruction, call: Call) -> None:
    """Check a call against its declaration, and choose its engine.

    Raises:
        NkiValidationError: The call breaks a rule that leaves no natural result.
    """
    if call.generation.number < instruction.since:
        call.fail(
            rules.GENERATION,
            f"is not available on {call.generation}",
            seen=call.generation,
            allowed=f"gen{instruction.since} or newer",
            fix="choose another target, or an instruction that this generation has",
        )
    check_enums(call)
    for constraint in instruction.require:
        if constraint.first:
            constraint.check(call)
    check_constants(call)
    for name, operand in instruction.operands.items():
        _check_operand(call, name, operand)
    if "engine" in call.values and Engine.dma not in instruction.engines:
        _check_engine(call)
    for constraint in instruction.require:
        if not constraint.first:
            constraint.check(call)
    check_operators(call)
    _check_packs(call)
    call.engine = _engine(instruction, call)
    check_indirection(call)
    for name, operand in instruction.operands.items():
        tensor = call.tensor(name)
        if tensor is not None:
            _check_placement(call, name, operand, tensor)
    _check_addresses(call)
    _check_together(call)


def _check_addresses(call: Call) -> None:
    """Check that no SBUF operand of a compute instruction has an address of run time."""
    if call.engine not in _COMPUTE or call.name.startswith("register_"):
        return
    rule = RUNTIME_COPY if call.name == "tensor_copy" else RUNTIME_ADDRESS
    for name in call.instruction.operands:
        tensor = call.tensor(name)
        if tensor is None or tensor.buffer is not MemoryRegion.sbuf:
            continue
        if tensor.indirection is not None and tensor.indirection.kind == "scalar":
            call.fail(
                rule,
                f"has a scalar_offset in {name}, which is in SBUF",
                operand=name,
                seen="an address of run time",
                allowed="addresses known to the compiler",
                fix="keep the tensor in HBM, and load the part with nisa.dma_copy",
                severity=held(rule.id).level,
            )


def _check_together(call: Call) -> None:
    """Check that the tiles of one instruction fit in SBUF at the same time.

    Tiles on at most half of the partitions may share bytes with others, and are not counted.
    """
    half, limit = call.generation.partitions // 2, call.generation.sbuf_usable_bytes
    tiles = {
        id(tensor._storage): tensor
        for _, tensor in call.tensors(*call.values)
        if tensor.buffer is MemoryRegion.sbuf
        and tensor.life.shape[0] > half
        and not _too_large(call, tensor)
    }
    need = sum(device_bytes(tensor.life) for tensor in tiles.values())
    if need > limit:
        names = ", ".join(f"`{tensor.name}`" for tensor in tiles.values())
        call.fail(
            memory_rules.SBUF_OVERFLOW,
            f"uses {names}, together {need} bytes per partition, {call.generation} has {limit}",
            seen=f"{need} bytes",
            allowed=f"{limit} bytes per partition",
            fix="use smaller tiles",
            severity="error",
        )


def _too_large(call: Call, tensor: NkiTensor) -> bool:
    """Return whether one tile exceeds its memory; its allocation has reported that."""
    generation = call.generation
    psum = tensor.buffer is MemoryRegion.psum
    limit = generation.psum_bytes if psum else generation.sbuf_usable_bytes
    return device_bytes(tensor.life) > limit


def _check_packs(call: Call) -> None:
    """Check that no x4 tile is converted to float32: its words are packed values."""
    for name, value in call.values.items():
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, NkiTensor) and tensor.dtype.kind == "packed":
                if call.instruction.arithmetic(call) == "fp32":
                    refuse_pack(call, name, tensor)
                return


def _engine(instruction: Instruction, call: Call) -> Engine:
    if instruction.choose_engine is not None:
        return instruction.choose_engine(call)
    asked = call.values.get("engine", Engine.unknown)
    return (
        asked
        if isinstance(asked, Engine) and asked is not Engine.unknown
        else instruction.engines[0]
    )


def _check_operand(call: Call, name: str, operand: Operand) -> None:
    """Check kind, memory and column shape of one operand."""
    value = call.values[name]
    if value is None and operand.optional:
        return
    if operand.many:  # checked by the instruction's constraints
        return
    if not isinstance(value, NkiTensor):
        if operand.scalar and isinstance(value, (int, float, np.number)):
            return
        accepted = "a tensor" + (" or a number" if operand.scalar else "")
        of_host = bool(getattr(value, "ndim", 0))
        call.fail_call(
            rules.BAD_CALL,
            f"{name} must be {accepted}, got {type(value).__name__}",
            operand=name,
            seen=f"{value.dtype} {tuple(value.shape)} on the host" if of_host else repr(value)[:80],
            allowed=accepted,
            fix="make the array an argument of the kernel"
            if of_host
            else f"pass the .data of the grid for {name}"
            if hasattr(value, "is_data_representable")
            else f"pass {accepted} for {name}; the signature is "
            f"{call_text(call.name, CALLS[call.name][in_force()].signature)}",
            data={"is_none": value is None},
        )
    if value.indirection is not None and value.indirection.kind == "vector" and not operand.gathers:
        call.fail(
            rules.INDIRECT_OPERAND,
            f"{name} has a vector_offset, but {call.name} cannot gather",
            operand=name,
            seen="vector_offset",
            allowed="a static view or a scalar_offset",
            fix="gather with nisa.dma_copy in swdge mode, or nc_n_gather or local_gather on chip",
        )
    if value.dtype == "int64" and call.name not in _OF_SCALARS:
        call.fail(
            rules.SCALAR_DTYPE,
            f"{name} is int64, which {call.name} does not take",
            operand=name,
            seen=value.describe(),
            allowed="dtypes of at most 32 bits",
            fix="use int64 tiles for nisa.scalar_load and nisa.scalar_store only",
        )
    check_selected(call, name)
    if value.buffer not in operand.buffers:
        _wrong_buffer(call, name, operand, value)
    if operand.column and (value.free_size != 1):
        call.fail(
            rules.COLUMN_SHAPE,
            f"{name} must have one element per partition, got shape {value.shape}",
            operand=name,
            seen=value.shape,
            allowed="(P, 1)",
            fix="slice one column, such as t[:, 0:1]",
        )


def _wrong_buffer(call: Call, name: str, operand: Operand, tensor: NkiTensor) -> None:
    names = [region.value for region in operand.buffers]
    if operand.buffer_rule is not None:
        rule = operand.buffer_rule
    else:
        rule = rules.COMPUTE_IN_HBM if is_hbm(tensor.buffer) else rules.BUFFER_UNREACHABLE
    if call.instruction.engines == (Engine.dma,):
        got = ", ".join(
            f"{n}={t.buffer}" for n, t in call.tensors("src", "dst") if n in call.values
        )
        message = f"requires HBM or SBUF tensors, got {got}"
    else:
        message = f"{name} must be in {names}, got {tensor.buffer.value}"
    call.fail(
        rule,
        message,
        operand=name,
        seen=tensor.describe(),
        allowed=", ".join(names),
        fix="load it into SBUF with nisa.dma_copy first"
        if is_hbm(tensor.buffer)
        else "go through a tile in an allowed memory with nisa.tensor_copy",
    )


def _check_engine(call: Call) -> None:
    asked = call["engine"]
    if asked is not Engine.unknown and asked not in call.instruction.engines:
        call.fail(
            rules.WRONG_ENGINE,
            f"cannot run on {asked}",
            operand="engine",
            seen=asked,
            allowed=", ".join(str(e) for e in call.instruction.engines),
            fix="leave engine=nisa.engine.unknown, or name one of the allowed engines",
        )


def _check_placement(call: Call, name: str, operand: Operand, tensor: NkiTensor) -> None:
    """Check the constraints of the engine: ports, partition starts, sizes of fields."""
    if call.engine is Engine.gpsimd and tensor.buffer is MemoryRegion.psum:
        call.fail(
            rules.GPSIMD_IN_PSUM,
            f"{name} is in psum, which the GpSimd engine cannot reach",
            operand=name,
            seen=tensor.describe(),
            allowed="sbuf",
            fix="move it through SBUF, or use the vector engine",
        )
    if operand.writes and not _is_discarded(call, name, tensor) and _revisits(tensor):
        call.fail(
            rules.REPEATED_WRITE,
            f"{name} writes some elements more than once: pattern {tensor.get_pattern()}",
            operand=name,
            seen=tensor.get_pattern(),
            allowed="every element at most once",
            fix="give the destination a dense pattern",
        )
    if call.engine not in _COMPUTE or not is_on_chip(tensor.buffer):
        return
    if not operand.any_start:
        _check_partition_start(call, name, tensor)
    generation = call.generation
    psum = tensor.buffer is MemoryRegion.psum
    limit = generation.psum_free_elements if psum else generation.sbuf_free_elements
    if _too_large(call, tensor):
        return
    if call.engine in (Engine.vector, Engine.scalar) and tensor.free_size > limit:
        call.fail(
            rules.FREE_SIZE_LIMIT,
            f"{name} has {tensor.free_size} elements per partition, one instruction covers "
            f"{limit} in "
            f"{tensor.buffer.value}",
            operand=name,
            seen=tensor.free_size,
            allowed=f"at most {limit}",
            fix="split the free dimension over several instructions",
            of_view=True,
        )
        return
    _check_fields(call, name, tensor)


def _check_partition_start(call: Call, name: str, tensor: NkiTensor) -> None:
    pitch = tensor._storage.pitch
    if (
        tensor.shape[0] > 1
        and tensor.form.strides[0] % pitch == 0
        and tensor.form.strides[0] != pitch
    ):
        call.fail(
            memory_rules.PATTERN_FIELDS,
            f"{name} takes every {tensor.form.strides[0] // pitch}th partition",
            operand=name,
            seen=f"partition step {tensor.form.strides[0] // pitch}",
            allowed="consecutive partitions",
            fix="move the rows together with nisa.dma_copy first",
            of_view=True,
        )
        return
    start = tensor.start_partition
    count = tensor.shape[0] if tensor.form.strides[0] == tensor._storage.pitch else 1
    step = 32 if count <= 32 else 64 if count <= 64 else 128
    if start % step:
        allowed = ", ".join(str(s) for s in range(0, 128, step))
        call.fail(
            rules.PARTITION_START,
            f"{name} covers {count} partitions from partition {start}",
            operand=name,
            seen=f"start {start}, {count} partitions",
            allowed=f"start at {allowed}",
            fix="align the start, or move the rows with nisa.dma_copy first",
            of_view=True,
        )


def _check_fields(call: Call, name: str, tensor: NkiTensor) -> None:
    """Check that the free dimensions fit the instruction's access-pattern fields."""
    strides: list[int] = []  # one per dimension that does not merge with the next
    for extent, stride in zip(tensor.shape[1:], tensor.form.strides[1:], strict=True):
        if extent == 1:
            continue
        if strides and strides[-1] == stride * extent:
            strides.pop()
        strides.append(stride)
    steps = [stride // tensor.itemsize for stride in strides]
    widest = max(tensor.shape[1:], default=1)
    if len(steps) <= 4 and widest <= 65535 + 1 and all(abs(step) <= 32767 for step in steps):
        return
    call.fail(
        memory_rules.PATTERN_FIELDS,
        f"{name} has the access pattern {tensor.get_pattern()}, which does not fit the instruction",
        operand=name,
        seen=f"{len(steps)} free dimensions, largest count {widest}, strides {steps}",
        allowed="4 free dimensions, counts up to 65535, strides up to 32767 elements",
        fix="merge dimensions, or split the instruction",
        of_view=True,
    )


def _revisits(tensor: NkiTensor) -> bool:
    """Return whether a view's pattern visits an element twice.

    Interleaved patterns of more than ``_ENUMERATED`` elements are not enumerated and count as
    revisiting.
    """
    rows_by_index = tensor.indirection is not None and tensor.indirection.kind == "vector"
    if rows_by_index or not tensor.size:
        return False
    dims = [
        (abs(stride), extent)
        for extent, stride in zip(tensor.shape, tensor.form.strides, strict=True)
        if extent > 1
    ]
    reach = tensor.itemsize
    interleaved = False
    for stride, extent in sorted(dims):
        if stride < tensor.itemsize:
            return True
        interleaved = interleaved or stride < reach
        reach += stride * (extent - 1)
    if not interleaved:
        return False
    if tensor.size > _ENUMERATED:
        return True
    offsets = np.zeros(1, np.int64)
    for stride, extent in dims:
        offsets = np.add.outer(offsets, stride * np.arange(extent)).ravel()
    offsets.sort()
    return bool((np.diff(offsets) < tensor.itemsize).any())


def _is_discarded(call: Call, name: str, tensor: NkiTensor) -> bool:
    """Return whether ``dst`` has a step of 0 and only ``reduce_res`` is of use.

    Later reads of ``dst`` are not searched for, so such a read is not reported.
    """
    return (
        name == "dst" and call.values.get("reduce_res") is not None and 0 in tensor.form.strides[1:]
    )
