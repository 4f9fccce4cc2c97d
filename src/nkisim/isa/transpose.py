"""nc_transpose: partition and free dimension exchanged, on the Tensor or the Vector engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import decode, encode, suits_numba, transpose_rows
from nkisim.isa.matmul_rules import RESULT_BUFFER, TRANSPOSE_DTYPE
from nkisim.machine import Core, commit, instruction, prepare_read
from nkisim.machine.transfer import note_written
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import ON_CHIP, Call, Constraint, In, Out
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine

__all__ = ["nc_transpose"]

TRANSPOSE_SIZE = declare(
    "S039",
    "transpose-size",
    "error",
    "nc_transpose has a tile that is too large for the engine, or a destination of the wrong "
    "shape.",
    "the Tensor engine transposes up to 128x128, the Vector engine up to 32x32",
    meaningless=True,
)
TRANSPOSE_FLATTENS = declare(
    "S040",
    "transpose-flattens",
    "error",
    "nc_transpose of a tile with several free dimensions has a destination that assumes a "
    "permutation.",
    "the free dimensions are flattened into one before the transpose",
    meaningless=True,
)
TRANSPOSE_8BIT = declare(
    "D008",
    "transpose-8bit",
    "error",
    "The Tensor engine transposes float8 data into an 8-bit destination.",
    "results are spaced 16 bits apart in PSUM",
)
TRANSPOSE_SPECIALS = declare(
    "D009",
    "transpose-specials",
    "warning",
    "The Tensor engine of gen2 transposes data with NaN or infinity.",
    "gen2 multiplies by the identity, and 0 * inf spreads NaN over the row",
)
TRANSPOSE_ENGINE = declare(
    "A046",
    "transpose-engine-ignored",
    "warning",
    "nc_transpose names an engine that 0.3.0 does not use.",
    "the compiler of 0.3.0 ignores engine= here and picks by shape and memory",
)


def _runs_on(data: NkiTensor, dst: NkiTensor, asked: Engine) -> Engine:
    """Return the engine that runs the transpose: Tensor from SBUF to PSUM, else Vector."""
    small = data.shape[0] <= 32 and data.free_size <= 32
    if asked is Engine.vector and small:
        return Engine.vector
    if data.buffer is MemoryRegion.sbuf and dst.buffer is MemoryRegion.psum:
        return Engine.tensor
    return Engine.vector if small else Engine.tensor


def _chosen(call: Call) -> Engine:
    return _runs_on(call["data"], call["dst"], call["engine"])


def _sizes(call: Call) -> None:
    data, dst = call.tensor("data"), call.tensor("dst")
    assert data is not None and dst is not None
    engine = _chosen(call)
    limit = 128 if engine is Engine.tensor else 32
    if data.shape[0] > limit or data.free_size > limit:
        call.fail(
            TRANSPOSE_SIZE,
            f"data of shape {data.shape} exceeds {limit}x{limit}, the limit of the {engine.name} "
            f"engine",
            operand="data",
            seen=data.shape,
            allowed=f"at most ({limit}, {limit})",
            fix=f"transpose tiles of {limit}x{limit}",
        )
    if engine is Engine.tensor:
        for name, tensor, wanted in (
            ("data", data, MemoryRegion.sbuf),
            ("dst", dst, MemoryRegion.psum),
        ):
            if tensor.buffer is not wanted:
                call.fail(
                    RESULT_BUFFER,
                    f"{name} must be in ['{wanted.value}'] on the tensor engine, got "
                    f"{tensor.buffer.value}",
                    operand=name,
                    seen=tensor.describe(),
                    allowed=wanted.value,
                    fix="transpose from SBUF into a PSUM tile, then nisa.tensor_copy",
                )
    if (dst.shape[0], dst.free_size) != (data.free_size, data.shape[0]):
        rule = TRANSPOSE_FLATTENS if len(data.shape) > 2 else TRANSPOSE_SIZE
        call.fail(
            rule,
            f"dst must be ({data.free_size}, {data.shape[0]}) for data of shape {data.shape}, "
            f"got {dst.shape}",
            operand="dst",
            seen=dst.shape,
            allowed=(data.free_size, data.shape[0]),
            fix="allocate dst transposed; for a permutation of three dimensions use one call per "
            "slice or dma_transpose",
        )
    asked = call["engine"]
    if asked is not Engine.unknown and asked is not engine:
        call.fail(
            TRANSPOSE_ENGINE,
            f"engine={asked} is ignored, the {engine.name} engine runs it",
            operand="engine",
            seen=asked,
            fix="drop engine=",
        )


def _dtypes(call: Call) -> None:
    data, dst = call.tensor("data"), call.tensor("dst")
    assert data is not None and dst is not None
    if dst.dtype != data.dtype:
        call.fail(
            TRANSPOSE_DTYPE,
            f"dst must have the dtype of data, {data.dtype}, got {dst.dtype}",
            operand="dst",
            seen=dst.dtype,
            allowed=data.dtype,
            fix="allocate dst with data's dtype; a bfloat16 PSUM tile is legal here",
        )
    elif data.dtype.bits == 8 and data.dtype.is_float and _chosen(call) is Engine.tensor:
        call.fail(
            TRANSPOSE_8BIT,
            f"dst is {dst.dtype}, but the tensor engine writes 8-bit results 16 bits apart",
            operand="dst",
            seen=dst.dtype,
            allowed="a 16-bit destination with stride 2",
            fix="view the PSUM tile as 16-bit, or transpose bfloat16",
        )


@instruction(
    engines=(Engine.tensor, Engine.vector),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP)},
    require=(
        Constraint(
            "up to 128x128 from SBUF to PSUM on Tensor, 32x32 on Vector; free dimensions flattened",
            (TRANSPOSE_SIZE, TRANSPOSE_FLATTENS, TRANSPOSE_ENGINE),
            _sizes,
        ),
        Constraint("dst has the dtype of data", (TRANSPOSE_DTYPE, TRANSPOSE_8BIT), _dtypes),
    ),
    choose_engine=_chosen,
    memory=True,
    cost=stream(over="data"),
    source="nki.isa.nc_transpose, 0.3.0",
)
def nc_transpose(
    core: Core,
    dst: NkiTensor,
    data: NkiTensor,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> None:
    """Transpose a tile bit for bit; on gen2's Tensor engine NaN and infinity spread."""
    stored = prepare_read(data, "nc_transpose", "data")
    if stored.ndim != 2:
        stored = stored.reshape(data.shape[0], -1)
    result: Any = None
    if core.generation.number == 2 and data.dtype.is_float:
        on_tensor = _runs_on(data, dst, engine) is Engine.tensor
        result = _contaminated(stored, data) if on_tensor else None
    if result is None:
        if dst.dtype == data.dtype and dst.storage is not data.storage:
            target = dst.array
            if suits_numba(stored) and _has_dense_rows(target) and _has_dense_rows(stored):
                transpose_rows(target, stored)
                note_written(dst)
                return
        result = stored.T
    if dst.dtype != data.dtype:
        result = encode(decode(np.ascontiguousarray(result), data.dtype), dst.dtype)
    commit(dst, result.reshape(dst.shape))


def _has_dense_rows(array: Any) -> bool:
    return array.ndim == 2 and array.strides[1] == array.itemsize <= array.strides[0]


def _contaminated(stored: Any, data: NkiTensor) -> Any:
    """Return the product with the identity if NaN or infinity contaminates it, else None."""
    values = decode(stored, data.dtype)
    special = ~np.isfinite(values)
    if not special.any():
        return None
    flag(
        TRANSPOSE_SPECIALS,
        f"nc_transpose data holds {int(special.sum())} NaN or infinite values; gen2 spreads them",
        instruction="nc_transpose",
        operand="data",
        seen=f"{int(special.sum())} of {values.size}",
        fix="transpose on the vector engine or by DMA, or replace them first",
    )
    product = np.matmul(values.T, np.eye(values.shape[0], dtype=np.float32))
    return encode(product, data.dtype)
