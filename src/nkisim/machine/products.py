"""Products of stored tiles by compiled code, with operands that are packed once and kept.

Both ways answer False where BLAS has to multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from nkisim.compiled import matrix_unit, panels, repays
from nkisim.compiled.helper import helper_for
from nkisim.compiled.matrix_unit import Packed
from nkisim.compiled.panels import HEIGHT, WIDTH
from nkisim.dtypes import DType, bfloat16, decode, float32
from nkisim.memory import NkiTensor
from nkisim.spec.call import Call

__all__ = ["multiply_on_unit", "multiply_panels", "panels_of_call"]

Array = np.ndarray

Key = tuple[int, int, int, int]
"""Start and layout of an operand, its rows, and the width of its panels: what packed ones go by."""

# Smaller products are done by BLAS before the matrix unit is set up.
_UNIT_PRODUCTS = 1 << 15

# Smaller products are done by BLAS before operands are packed for a compiled loop.
_PANEL_PRODUCTS = 1 << 17

# Many stationary tiles are used once or twice, so only then they are worth keeping in panels.
_USES = 2

_NOTHING = np.empty(0, np.float32)


def multiply_on_unit(
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


def multiply_panels(
    stationary: NkiTensor,
    moving: NkiTensor,
    left: Array,
    right: Array,
    out: Array,
    *,
    add: bool,
) -> bool:
    """Write or add a product to ``out`` by a compiled loop, if that has the bits of BLAS."""
    depth = len(left)
    if out.size * depth < _PANEL_PRODUCTS or out.strides[1] != out.itemsize:
        return False
    if stationary.itemsize == 4 or moving.itemsize == 4:
        return False  # BLAS takes float32 as it is
    if not repays(out.size // 4) or not panels.agrees(depth, *out.shape):
        return False
    second = _packed_moving(stationary, moving, right, (moving.start, moving.layout, depth, WIDTH))
    if second is None:
        return False
    key = (stationary.start, stationary.layout, depth, HEIGHT)
    return _multiply(stationary, left, key, second, out, add)


def panels_of_call(call: Call) -> Callable[..., bool] | None:
    """Return what multiplies the tiles of a call in panels, if they are large enough.

    It takes ``dst``, ``stationary``, ``moving`` and whether to add, and answers as
    ``multiply_panels``.
    """
    result, *factors = (call.operand(name) for name in ("dst", "stationary", "moving"))
    plain = all(tensor.ndim == 2 and tensor.trusted for tensor in (result, *factors))
    if call["is_transpose"] or not plain or result.dtype is not float32:
        return None
    narrow = all(tensor.itemsize < 4 for tensor in factors)
    hinted = call["is_stationary_onezero"] or call["is_moving_onezero"]
    if not narrow and (hinted or any(tensor.dtype is not float32 for tensor in factors)):
        return None
    depth, (rows, columns) = factors[0].shape[0], result.shape
    dense = result.strides[1] == result.itemsize
    if not dense or factors[1].shape[0] != depth or result.size * depth < _PANEL_PRODUCTS:
        return None
    share, steps = result.size // 4, result.strides
    work = panels.pass_like(result.size * depth)
    (first_layout, second_layout), step = (x.layout for x in factors), factors[0].strides[0]
    as_bytes = factors[0].strides[1] == 2 and all(x.dtype is bfloat16 for x in factors)

    def multiply(dst: NkiTensor, stationary: NkiTensor, moving: NkiTensor, add: bool) -> bool:
        if not repays(share):
            return False
        if not narrow and not helper_for(work):
            return False  # BLAS takes float32 as it is, but not with two threads
        if not panels.agrees(depth, rows, columns, narrow):
            return False
        key = (moving.start, second_layout, depth, WIDTH)
        second = _packed_moving(stationary, moving, None, key)
        if second is None:
            return False
        of, to = stationary.storage, dst.storage
        if as_bytes:  # to pack it takes less than to remember how often it was used
            done: bool = panels.bytes_multiplier()(
                of.data,
                stationary.start,
                step,
                depth,
                second,
                to.data,
                dst.start,
                steps[0],
                rows,
                columns,
                add,
                helper_for(work),
            )
            return done
        key = (stationary.start, first_layout, depth, HEIGHT)
        out = np.ndarray((rows, columns), np.float32, to.data, dst.start, steps)
        return _multiply(stationary, None, key, second, out, add)

    return multiply


def _packed_moving(
    stationary: NkiTensor, moving: NkiTensor, stored: Array | None, key: Key
) -> Array | None:
    """Return a moving operand in panels, None where BLAS is to multiply."""
    storage = moving.storage
    if stationary.storage is storage and stationary.start == moving.start:
        return None  # BLAS has another routine for a matrix and itself
    packed: Array | None = storage.decoded(key)
    if packed is None:
        stored = _packable(moving, stored)
        # In bfloat16 they take half the room, and are widened in the nearest cache.
        elements = panels.packed_elements(*stored.shape)
        packed = storage.new_decoded(key, (elements,), stored.dtype)
        if not panels.pack(stored, packed, WIDTH):
            packed = _NOTHING  # which NaN a sum becomes is BLAS's to say
            storage.keep_decoded(key, packed)
    return packed if packed.size else None


def _multiply(
    stationary: NkiTensor, stored: Array | None, key: Key, second: Array, out: Array, add: bool
) -> bool:
    """Multiply by a packed operand; a stationary one that is None is as it lies in memory."""
    storage = stationary.storage
    first = storage.decoded(key)
    if first is None or type(first) is int:
        stored = _packable(stationary, stored)
        uses = (first or 0) + 1
        if uses <= _USES:
            done = panels.pack_and_multiply(stored, second, out, add)
            storage.keep_decoded(key, uses if done else _NOTHING)
            return done
        first = storage.new_decoded(key, (panels.packed_elements(*stored.shape),))
        panels.pack(stored, first, HEIGHT)
    if not first.size:
        return False
    panels.multiply(first, second, key[2], out, add)
    return True


def _packable(tensor: NkiTensor, stored: Array | None) -> Array:
    """Return an operand as it can be packed."""
    if tensor.dtype is not bfloat16:
        wide = decode(tensor.array if stored is None else stored, tensor.dtype)
        return wide if wide.strides[1] == 4 else wide.copy()
    bits = tensor.bits if stored is None else stored.view(np.uint16)
    return bits if bits.strides[1] == 2 else bits.copy()


@cache
def _bfloat16_patterns(dtype: DType) -> Array | None:
    """Return the bfloat16 of every pattern of an 8-bit float; empty for bfloat16, else None."""
    if dtype is bfloat16:
        return np.empty(0, np.uint16)
    if dtype.kind != "float" or dtype.itemsize != 1:
        return None
    values = decode(np.arange(256, dtype=np.uint8).view(dtype.numpy), dtype)
    return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
