"""nc_matmul: stationary.T @ moving on the systolic array, summed up in PSUM.

Products of the input formats are exact in float32 and are summed in float32; the order of summation
inside one instruction is not specified by the hardware. Here it is the BLAS library's, or, for
bfloat16 and float8 in a process with numba, that of the processor's matrix unit if it has one. With
``accumulate=None`` the first matmul into an element of a PSUM tensor overwrites it and later ones
add, element by element.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nkisim.compiled import matrix_unit
from nkisim.compiled.matrix_unit import Packed
from nkisim.diagnostics import flag
from nkisim.dtypes import DType, bfloat16, decode, encode, float32
from nkisim.isa import matmul_rules as broken
from nkisim.isa.matmul_rules import MATMUL_CONSTRAINTS, spreads
from nkisim.isa.transpose import contaminated, passed
from nkisim.machine import Core, check_finite, instruction, prepare_read
from nkisim.memory import NkiTensor, with_sentinel
from nkisim.spec import PSUM, SBUF, In, Out, rules
from nkisim.spec.cost import matmul
from nkisim.spec.enums import engine as Engine
from nkisim.spec.enums import matmul_perf_mode as PerfMode

__all__ = ["adding", "nc_matmul", "note_sum", "store_sum"]

Array = np.ndarray

# Smaller products are done by BLAS before the matrix unit is set up.
_UNIT_PRODUCTS = 1 << 15

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

    From gen3 on ``is_transpose`` passes the bits of ``stationary`` through, in the order of a
    ``moving`` identity or permutation; on gen2 it only labels the product.

    Float32 operands take four passes on the device and give float32 products. With a one/zero hint
    the low parts of that operand are dropped, which is emulated by rounding it to bfloat16.
    """
    rows = 2 * stationary.shape[0] if perf_mode is PerfMode.double_row else stationary.shape[0]
    left = prepare_read(stationary, "nc_matmul", "stationary").reshape(rows, -1)
    right = prepare_read(moving, "nc_matmul", "moving").reshape(rows, -1)
    adds = adding(core, dst, accumulate)
    if is_transpose and _passes(core, dst, stationary, moving, left, right, adds):
        return
    watched = core.recorder.watches_values and np.isfinite(dst.array[adds]).all()
    plain = dst.dtype is float32 and dst.ndim == 2
    if (
        plain
        and (adds is True or adds is False)
        and _multiply_on_unit(stationary, moving, left, right, dst.array, add=adds)
    ):
        note_sum(dst)
    else:
        left = _widened(stationary, left, "stationary", is_stationary_onezero)
        right = _widened(moving, right, "moving", is_moving_onezero)
        if plain and adds is False:
            np.matmul(left.T, right, out=dst.array)
            note_sum(dst)
        else:
            product = np.matmul(left.T, right, out=core.scratch(left.shape[1], right.shape[1]))
            store_sum(core, dst, product, accumulate=adds)
    if watched:
        check_finite("nc_matmul", (left, right), dst.array)


def _multiply_on_unit(
    stationary: NkiTensor, moving: NkiTensor, left: Array, right: Array, out: Array, *, add: bool
) -> bool:
    """Write or add a product of 16- and 8-bit floats to ``out``, if the matrix unit can do that."""
    if left.size * right.shape[1] < _UNIT_PRODUCTS or out.strides[1] != out.itemsize:
        return False
    if not matrix_unit.available():
        return False
    first = _packed(stationary, left, matrix_unit.pack_stationary)
    second = None if first is None else _packed(moving, right, matrix_unit.pack_moving)
    if first is None or second is None:
        return False
    matrix_unit.multiply(first, second, out, add=add)
    return True


def _packed(tensor: NkiTensor, stored: Array, pack: Callable[..., Packed | None]) -> Packed | None:
    """Return an operand as the matrix unit wants it, kept like decoded ones; None if it cannot."""
    key = (tensor.start, tensor.layout, len(stored), pack)
    kept: Packed | None = tensor.storage.decoded(key)
    if kept is None:
        table = _bfloat16_patterns(tensor.dtype)
        if table is None or stored.dtype == np.float32:
            return None
        dense = stored if stored.strides[1] == stored.itemsize else stored.copy()
        bits = dense.view(np.uint8 if table.size else np.uint16)
        kept = pack(bits, table if table.size else None)
        if kept is not None:
            tensor.storage.keep_decoded(key, kept)
    return kept


@cache
def _bfloat16_patterns(dtype: DType) -> Array | None:
    """Return the bfloat16 of every pattern of an 8-bit float; empty for bfloat16, else None."""
    if dtype is bfloat16:
        return np.empty(0, np.uint16)
    if dtype.kind != "float" or dtype.itemsize != 1:
        return None
    values = decode(np.arange(256, dtype=np.uint8).view(dtype.numpy), dtype)
    return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def _passes(
    core: Core,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    left: Array,
    right: Array,
    adds: Array | bool,
) -> bool:
    """Write what transpose mode passes through; False where the product is to be computed."""
    if core.generation.number == 2:
        contaminated(left, stationary, "nc_matmul", "stationary")
        return False
    ones = decode(right, moving.dtype) if right.dtype != np.float32 else right
    if not ((ones == 0) | (ones == 1)).all() or (ones.sum(axis=0) != 1).any():
        why = "holds columns other than those of an identity"
    elif (ones.sum(axis=1) > 1).any():
        why = "selects a row twice"
    elif adds is not False:
        return False
    else:
        spread = spreads(core.generation.number, Engine.tensor, stationary.dtype)
        moved = left[ones.argmax(axis=0)].T
        dst.array[...] = passed(moved, stationary, dst, spread=spread).reshape(dst.shape)
        note_sum(dst)
        return True
    flag(
        broken.TRANSPOSE_MOVING,
        f"nc_matmul in transpose mode has a moving operand that {why}",
        instruction="nc_matmul",
        operand="moving",
        seen=why,
        allowed="an identity or a permutation",
        fix="drop is_transpose to multiply, or pass an identity",
    )
    return False


def _widened(tensor: NkiTensor, stored: Array, name: str, onezero: bool) -> Array:
    """Return an operand in float32; decoded copies are kept, since tiles are reused."""
    if stored.dtype == np.float32:
        if onezero:
            _check_onezero(stored, name)
            return decode(encode(stored, bfloat16), bfloat16)
        return stored
    key = (tensor.start, tensor.layout, len(stored))
    kept: Array | None = tensor.storage.decoded(key)
    if kept is None:
        copy = tensor.storage.new_decoded(key, stored.shape)
        kept = decode(stored, tensor.dtype, out=copy)
    return kept


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
    if region is state.current:
        return True
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


def store_sum(core: Core, dst: NkiTensor, product: Array, accumulate: Array | bool) -> None:
    """Put a product into PSUM, adding where told; sums are rounded to ``dst``'s type."""
    target = dst.array
    product = product.reshape(dst.shape)
    if accumulate is False:
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
    if dst.region is not storage.psum.current:
        storage.psum.open(dst.region)
