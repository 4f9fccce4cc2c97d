"""Types of the destination of a transpose, with their rules."""

from __future__ import annotations

from nkisim.diagnostics import declare
from nkisim.dtypes import DType
from nkisim.spec import Call
from nkisim.spec.enums import engine as Engine

TRANSPOSE_DTYPE = declare(
    "D007",
    "transpose-dtype",
    "The destination of a transpose has another type than the data.",
    "transposes pass bits through and do not convert",
)
TRANSPOSE_8BIT = declare(
    "D008",
    "transpose-8bit",
    "The Tensor engine transposes float8 data into an 8-bit destination.",
    "results are spaced 16 bits apart in PSUM, with zeros in the upper byte",
)


def transpose_dtype(call: Call, name: str, engine: Engine) -> None:
    """Check the type of ``dst`` for a transpose of an operand on an engine."""
    data, dst = call.operand(name), call.operand("dst")
    if spreads(call.generation.number, engine, data.dtype):
        spaced = dst.shape[-1] == 1 or dst.form.strides[-1] == 2 * dst.itemsize
        if dst.dtype.bits == 16 or (dst.dtype == data.dtype and spaced):
            return
        rule, allowed = TRANSPOSE_8BIT, f"a 16-bit type, or {data.dtype} with a step of 2"
        fix = "allocate a 16-bit PSUM tile, or transpose bfloat16"
    elif dst.dtype == data.dtype:
        return
    else:
        rule, allowed, fix = TRANSPOSE_DTYPE, data.dtype, "allocate dst with the data's dtype"
    call.fail(
        rule,
        f"dst is {dst.dtype}, the transposed operand is {data.dtype}",
        operand="dst",
        seen=dst.dtype,
        allowed=allowed,
        data={"dtypes": [str(data.dtype)]} if rule is TRANSPOSE_DTYPE else None,
        fix=f"{fix}; a bfloat16 PSUM tile is legal here",
    )


def spreads(generation: int, engine: Engine, dtype: DType) -> bool:
    """Return whether a transpose widens 8-bit elements to 16 bits."""
    return generation >= 3 and engine is Engine.tensor and dtype.bits == 8 and dtype.is_float
