"""nc_transpose: partition and free dimension exchanged, on the Tensor or the Vector engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nkisim.diagnostics import Rule, declare, flag
from nkisim.dtypes import decode, encode, tfloat32
from nkisim.isa.elementwise import same_bits_or_fp32
from nkisim.isa.products.matmul_rules import RESULT_BUFFER
from nkisim.isa.products.transpose_rules import (
    TRANSPOSE_8BIT,
    TRANSPOSE_DTYPE,
    spreads,
    transpose_dtype,
)
from nkisim.machine import Core, instruction
from nkisim.memory import MemoryRegion, NkiTensor
from nkisim.spec import ON_CHIP, Call, Constraint, In, Out
from nkisim.spec.cost import stream
from nkisim.spec.enums import engine as Engine

TRANSPOSE_SIZE = declare(
    "S039",
    "transpose-size",
    "nc_transpose has a tile that is too large for the engine, or a destination of the wrong "
    "shape.",
    "the Tensor engine transposes up to 128x128, the Vector engine up to 32x32",
    meaningless=True,
)
TRANSPOSE_FLATTENS = declare(
    "S040",
    "transpose-flattens",
    "nc_transpose of a tile with several free dimensions has a destination that assumes a "
    "permutation.",
    "the free dimensions are flattened into one before the transpose",
    meaningless=True,
)
TRANSPOSE_SPECIALS = declare(
    "D009",
    "transpose-specials",
    "The Tensor engine of gen2 transposes data with NaN or infinity.",
    "gen2 multiplies by the identity, and 0 * inf spreads NaN over the row",
    severity="warning",
    on_values=True,
)
TRANSPOSE_ENGINE = declare(
    "A046",
    "transpose-engine-ignored",
    "nc_transpose names an engine that 0.3.0 does not use.",
    "the compiler of 0.3.0 ignores engine= here and picks by shape and memory",
    severity="warning",
)


Choice = Callable[[NkiTensor, NkiTensor, Engine], Engine]
"""Returns the engine that transposes data into a destination, given the one that was asked for."""


def _automatic(data: NkiTensor, dst: NkiTensor, asked: Engine) -> Engine:
    """Return the engine of NKI 0.3.0: Tensor from SBUF to PSUM, else Vector."""
    small = data.shape[0] <= 32 and data.free_size <= 32
    if asked is Engine.vector and small:
        return Engine.vector
    if data.buffer is MemoryRegion.sbuf and dst.buffer is MemoryRegion.psum:
        return Engine.tensor
    return Engine.vector if small else Engine.tensor


def _honoured(data: NkiTensor, dst: NkiTensor, asked: Engine) -> Engine:
    """Return the engine from NKI 0.4.0 on: the one asked for, else the automatic one."""
    return _automatic(data, dst, asked) if asked is Engine.unknown else asked


def _check_sizes(call: Call, engine: Engine) -> None:
    data, dst = call.operand("data"), call.operand("dst")
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
            data={"shape": (data.free_size, data.shape[0])},
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


def _by(choice: Choice, *more: Rule) -> dict[str, Any]:
    """Return the fields of the declaration that depend on ``choice``, which returns the engine."""

    def chosen(call: Call) -> Engine:
        return choice(call["data"], call["dst"], call["engine"])

    def body(core: Core, dst: NkiTensor, data: Any, engine: Engine, name: str | None) -> Any:
        tile, stored = data
        return _transposed(core, dst, tile, stored, choice(tile, dst, engine))

    return {
        "choose_engine": chosen,
        "body": body,
        "require": (
            Constraint(
                "up to 128x128 from SBUF to PSUM on Tensor, 32x32 on Vector; free dimensions "
                "flattened",
                (TRANSPOSE_SIZE, TRANSPOSE_FLATTENS, *more),
                lambda call: _check_sizes(call, chosen(call)),
            ),
            Constraint(
                "dst has the dtype of data, float8 on Tensor 16 bits",
                (TRANSPOSE_DTYPE, TRANSPOSE_8BIT),
                lambda call: transpose_dtype(call, "data", chosen(call)),
            ),
        ),
    }


def _transposed(core: Core, dst: NkiTensor, data: NkiTensor, stored: Any, engine: Engine) -> Any:
    """Return the stored elements of ``data``, transposed by an engine."""
    stored = stored.reshape(data.shape[0], -1)
    generation = core.generation.number
    if generation == 2 and data.dtype.is_float and engine is Engine.tensor:
        stored = contaminated(stored, data, "nc_transpose", "data")
    result: Any = stored.T
    if dst.dtype != data.dtype:
        spread = spreads(generation, engine, data.dtype)
        result = passed(result, data, dst, spread=spread)
    return result


_AUTOMATIC = _by(_automatic, TRANSPOSE_ENGINE)


@instruction(
    engines=(Engine.tensor, Engine.vector),
    operands={"dst": Out(ON_CHIP), "data": In(ON_CHIP, as_view=True)},
    require=_AUTOMATIC["require"],
    choose_engine=_AUTOMATIC["choose_engine"],
    arithmetic=same_bits_or_fp32("dst", "data"),
    raw_results=("dst",),
    stateful=True,
    spread="transpose",
    cost=stream(over="data"),
    source="nki.isa.nc_transpose, 0.3.0",
    changes={"0.4.0": _by(_honoured)},
)
def nc_transpose(
    core: Core,
    dst: NkiTensor,
    data: Any,
    engine: Engine = Engine.unknown,
    name: str | None = None,
) -> Any:
    """Transpose a tile bit for bit; on gen2's Tensor engine NaN and infinity contaminate rows.

    The Tensor engine of gen2 multiplies by the identity, which rounds tfloat32 as ``nc_matmul``
    does.

    NKI 0.3.0 ignores ``engine=`` and chooses by shape and memory; later versions use it.

    Args:
        dst: Tile that receives the transpose; the Tensor engine writes to PSUM.
        data: Tile of at most 128 by 128 elements on the Tensor engine, 32 by 32 on the Vector
            engine.
        engine: Engine that transposes, ``tensor`` or ``vector``; with ``unknown`` shape and memory
            decide.
    """
    return _AUTOMATIC["body"](core, dst, data, engine, name)


def passed(moved: Any, data: NkiTensor, dst: NkiTensor, *, spread: bool) -> Any:
    """Return stored elements of ``data`` as a transpose writes them to ``dst``.

    Bits are unchanged; with ``spread`` 8-bit elements are zero-extended to 16 bits. A ``dst`` of
    another type is a finding, and values are converted.
    """
    if dst.dtype == data.dtype:
        return moved
    moved = np.ascontiguousarray(moved)
    if not (spread and dst.dtype.bits == 16):
        return encode(decode(moved, data.dtype), dst.dtype)
    narrow = moved if moved.itemsize == 1 else encode(moved, data.dtype)
    wide = narrow.view(np.uint8).astype(np.uint16).view(dst.dtype.numpy)
    return wide if dst.itemsize == 2 else decode(wide, dst.dtype)


def as_multiplied(stored: Any, operand: NkiTensor) -> Any:
    """Return stored elements as the Tensor engine multiplies them: tfloat32 is rounded.

    A tfloat32 tile may be a view of float32 data, which has more fraction bits. A run without
    precise formats does not round.
    """
    rounds = operand.dtype is tfloat32 and operand.origin.precise
    return encode(stored, tfloat32) if rounds else stored


def contaminated(stored: Any, data: NkiTensor, name: str, operand: str) -> Any:
    """Return the elements of ``data`` multiplied by the identity, as gen2 transposes them."""
    stored = as_multiplied(stored, data)
    values = decode(stored, data.dtype)
    special = ~np.isfinite(values)
    if not special.any():
        return stored
    flag(
        TRANSPOSE_SPECIALS,
        f"{name} {operand} holds {int(special.sum())} NaN or infinite values; gen2 spreads them",
        instruction=name,
        operand=operand,
        seen=f"{int(special.sum())} of {values.size}",
        fix="transpose on the vector engine or by DMA, or replace them first",
    )
    product = np.matmul(np.eye(values.shape[0], dtype=np.float32), values)
    return encode(product, data.dtype)
