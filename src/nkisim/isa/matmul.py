"""nc_matmul: stationary.T @ moving on the systolic array, summed up in PSUM.

Products of the input formats are exact in float32 and are summed in float32; the order of summation
inside one instruction is not specified by the hardware, and here it is the BLAS library's. With
``accumulate=None`` the first matmul into an element of a PSUM tensor overwrites it and later ones
add, element by element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import bfloat16, decode, encode
from nkisim.isa import matmul_rules as broken
from nkisim.isa.matmul_rules import MATMUL_CONSTRAINTS
from nkisim.machine import Core, instruction, prepare_read
from nkisim.memory import NkiTensor, with_sentinel
from nkisim.spec import PSUM, SBUF, In, Out, rules
from nkisim.spec.cost import matmul
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import matmul_perf_mode as PerfMode

__all__ = ["adding", "nc_matmul", "note_sum", "store_sum"]

Array = np.ndarray

_REMOVED = {
    keyword: (rules.RENAMED_MATMUL_KEYWORD, f"write {new}")
    for keyword, new in {
        "is_moving_zero": "is_moving_onezero=",
        "is_stationary_zero": "is_stationary_onezero=",
        "psumAccumulateFlag": "accumulate=",
        "psum_accumulate_flag": "accumulate=",
        "performance_mode": "perf_mode=nisa.matmul_perf_mode.double_row",
    }.items()
}


def _trace(core: Core, dst: NkiTensor, *arguments: Any) -> None:
    """Follow the accumulation groups without computing the sums."""
    accumulate = arguments[5]
    adding(core, dst, accumulate)
    note_sum(dst)


@instruction(
    engines=(Engine.tensor,),
    operands={
        "dst": Out(PSUM, buffer_rule=broken.RESULT_BUFFER),
        "stationary": In(SBUF, buffer_rule=broken.OPERAND_BUFFER),
        "moving": In(SBUF, buffer_rule=broken.OPERAND_BUFFER),
    },
    require=MATMUL_CONSTRAINTS,
    memory=True,
    trace=_trace,
    cost=matmul(),
    removed=_REMOVED,
    source="nki.isa.nc_matmul, 0.3.0",
)
def nc_matmul(
    core: Core,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile_position: Any = (),
    tile_size: Any = (),
    perf_mode: PerfMode = PerfMode.none,
    name: str | None = None,
) -> None:
    """Write or add ``stationary.T @ moving`` to a PSUM tile.

    Float32 operands take four passes on the device and give float32 products. With a one/zero hint
    the low parts of that operand are dropped, which is emulated by rounding it to bfloat16.
    """
    if is_transpose and core.generation.number >= 3:
        store_sum(core, dst, transposed(stationary, moving), accumulate=False, raw=True)
        return
    left = _operand(stationary, "stationary", is_stationary_onezero)
    right = _operand(moving, "moving", is_moving_onezero)
    if perf_mode is PerfMode.double_row:
        left = left.reshape(2 * left.shape[0], -1)
        right = right.reshape(2 * right.shape[0], -1)
    adds = adding(core, dst, accumulate)
    if adds is False and dst.dtype == "float32" and dst.ndim == 2:
        np.matmul(left.T, right, out=dst.array)
        note_sum(dst)
        return
    product = np.matmul(left.T, right, out=core.scratch(left.shape[1], right.shape[1]))
    store_sum(core, dst, product, accumulate=adds)


def transposed(stationary: NkiTensor, moving: NkiTensor) -> Array:
    """Return the bits that transpose mode passes through, selected by ``moving``'s ones."""
    stored = prepare_read(stationary, "nc_matmul", "stationary").reshape(stationary.shape[0], -1)
    selector = decode(
        prepare_read(moving, "nc_matmul", "moving").reshape(moving.shape[0], -1), moving.dtype
    )
    row = selector.argmax(axis=0)
    return np.ascontiguousarray(stored[row].T)


def _operand(tensor: NkiTensor, name: str, onezero: bool) -> Array:
    """Return an operand in float32; decoded copies are kept, since tiles are reused."""
    stored = prepare_read(tensor, "nc_matmul", name)
    if stored.dtype == np.float32:
        values: Array = stored.reshape(tensor.shape[0], -1)
        if onezero:
            _check_onezero(values, name)
            values = decode(encode(values, bfloat16), bfloat16)
        return values
    key = (*tensor.region, tensor.dtype)
    kept = tensor.storage.decoded(key)
    if kept is None:
        copy = tensor.storage.new_decoded(key, tensor.shape)
        kept = decode(stored, tensor.dtype, out=copy)
    return kept.reshape(tensor.shape[0], -1)


def _check_onezero(values: Array, name: str) -> None:
    other = (values != 0) & (values != 1)
    if other.any():
        at = np.unravel_index(int(np.argmax(other)), other.shape)
        flag(
            broken.ONEZERO_HINT,
            f"nc_matmul {name} is hinted to hold ones and zeros but holds {values[at]:.9g}",
            instruction="nc_matmul",
            operand=name,
            seen=f"{values[at]:.9g} at {tuple(int(i) for i in at)}",
            allowed="0 and 1",
            fix=f"drop is_{name}_onezero",
        )


def adding(
    core: Core, dst: NkiTensor, accumulate: bool | None, name: str = "nc_matmul"
) -> Array | bool:
    """Decide which elements of ``dst`` are added to, and flag broken accumulation groups."""
    state = dst.storage.psum
    assert state is not None
    region = dst.region
    if accumulate is not None and not accumulate:
        return False
    if accumulate and state.interrupted(region):
        _flag_interrupted(name, dst, "written by another engine or another matmul")
        return True
    opened = state.opened(region)
    if accumulate is None:
        if opened is True and state.evicted(region):
            flag(
                broken.REUSED_GROUP,
                f"{name} adds to `{dst.name}`, whose sum was already read out",
                instruction=name,
                operand="dst",
                seen="accumulate=None on a tile that was read since its last matmul",
                fix="write accumulate=(k > 0), or allocate the PSUM tile inside the outer loop",
            )
        return opened
    if opened is not True:
        _not_begun(name, core, dst)
    elif state.evicted(region):
        _flag_interrupted(name, dst, "read")
    return True


def _flag_interrupted(name: str, dst: NkiTensor, how: str) -> None:
    flag(
        broken.INTERRUPTED_GROUP,
        f"{name} continues an accumulation in `{dst.name}` that was {how} in between",
        instruction=name,
        operand="dst",
        seen=f"dst was {how} between two accumulating matmuls",
        fix="finish the accumulation first, or begin a new one with accumulate=False",
    )


def _not_begun(name: str, core: Core, dst: NkiTensor) -> None:
    hidden = dst.storage.unwritten(*dst.region)
    if hidden is not None:
        # The sum that follows overwrites dst, so the sentinel may stand in the memory itself.
        dst.array[...] = with_sentinel(dst, hidden)
        flag(
            broken.ACCUMULATE_UNWRITTEN,
            f"{name} adds to `{dst.name}`, which nothing has written",
            instruction=name,
            operand="dst",
            seen=f"{int(hidden.sum())} unwritten elements",
            fix="pass accumulate=(k > 0), or leave accumulate=None",
            notes=(f"dst   {dst.describe()}",),
        )
    elif core.generation.number <= 3:
        flag(
            broken.ACCUMULATE_AFTER_FILL,
            f"{name} adds to `{dst.name}`, an accumulation that no matmul has begun",
            instruction=name,
            operand="dst",
            seen="dst was last written by another engine",
            fix="drop the fill and pass accumulate=(k > 0)",
            notes=(f"dst   {dst.describe()}",),
        )


def store_sum(
    core: Core, dst: NkiTensor, product: Array, accumulate: Array | bool, raw: bool = False
) -> None:
    """Put a product into PSUM, adding where told; sums are rounded to ``dst``'s type."""
    target = dst.array
    product = product.reshape(dst.shape)
    if raw:
        target[...] = (
            product
            if product.dtype == target.dtype
            else encode(product.astype(np.float32), dst.dtype)
        )
    elif accumulate is False:
        target[...] = product if target.dtype == np.float32 else encode(product, dst.dtype)
    else:
        old = target if target.dtype == np.float32 else decode(target, dst.dtype)
        if accumulate is True:
            total = np.add(old, product, out=target if old is target else None)
        else:
            total = np.where(accumulate, old + product, product)
        if total is not target:
            target[...] = total if target.dtype == np.float32 else encode(total, dst.dtype)
    note_sum(dst)


def note_sum(dst: NkiTensor) -> None:
    """Note that a matmul wrote all of ``dst``."""
    storage = dst.storage
    storage.version += 1
    dst.alloc.written = True
    if not storage.complete:
        storage.mark_written(*dst.region)
    assert storage.psum is not None
    storage.psum.open(dst.region)
