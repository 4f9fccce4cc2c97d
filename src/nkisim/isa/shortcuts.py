"""Faster ways through calls on large float32 and bfloat16 tiles, to the same bits.

A call's layout decides whether there is such a way, so that is found out once per signature. Some
are open only once numba is worth loading, or while the process has torch loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nkisim.compiled import numba_loaded, repays
from nkisim.dtypes import (
    BFLOAT16_OPERATIONS,
    NUMBA_ELEMENTS,
    TORCH_ELEMENTS,
    bfloat16,
    bfloat16_arithmetic,
    combine_rows,
    decode,
    encode,
    torch_helps,
)
from nkisim.memory import NkiTensor
from nkisim.spec import OPS, Call
from nkisim.spec.instruction import Shortcut

__all__ = ["as_rows", "chained", "either", "reads_rows", "stored", "writes_rows"]

Array = np.ndarray
MakeShortcut = Callable[[Call], Shortcut | None]

_ROW_TYPES = (np.dtype(np.float32), bfloat16.numpy)

_LARGE = 65536
"""Elements from which on NumPy goes through a tile in blocks."""


def reads_rows(tensor: NkiTensor) -> bool:
    """Tell whether a tensor holds float32 or bfloat16 in dense rows, one per partition."""
    if tensor.indirect is not None or tensor.strides[0] < 0 or not tensor.dtype.is_float:
        return False
    if tensor.origin.storage_dtype(tensor.dtype) not in _ROW_TYPES:
        return False
    step = tensor.itemsize
    for extent, stride in zip(tensor.shape[:0:-1], tensor.strides[:0:-1], strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def writes_rows(tensor: NkiTensor) -> bool:
    """Tell whether a result goes into such rows with no other rounding than to their type."""
    # Rows of stride 0 would be one row that is written several times.
    rounded = tensor.dtype == "tfloat32" and tensor.origin.precise
    return reads_rows(tensor) and not rounded and tensor.strides[0] >= tensor.itemsize


def as_rows(array: Array) -> Array:
    """Return the elements of such a tensor in the form (partitions, elements); shares memory."""
    return array if array.ndim == 2 else array.reshape(array.shape[0], -1)


def either(*makers: MakeShortcut) -> MakeShortcut:
    """Return what takes the first of several ways that is open."""

    def make(call: Call) -> Shortcut | None:
        found = [shortcut for maker in makers if (shortcut := maker(call)) is not None]
        if len(found) < 2:
            return found[0] if found else None

        def compute(core: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
            return next(s for s in found if s.suits()).compute(core, arguments)

        return Shortcut(lambda: any(s.suits() for s in found), compute)

    return make


def chained(data: str, *steps: tuple[str, str, str | None]) -> MakeShortcut:
    """Return the way through ``data`` and one or two operations, into ``dst``, in one pass.

    Args:
        data: Parameter that goes in.
        steps: Parameters of each operation: the operator, its other operand, and what exchanges
            them, if there is such a parameter. An operator that is None is left out.
    """

    def make(call: Call) -> Shortcut | None:
        dst, x = call.operand("dst"), call.operand(data)
        if dst.size < NUMBA_ELEMENTS:
            return None
        index = call.instruction.parameters.index
        chain = []
        tiles = [x]
        for operator, operand, reverse in steps:
            op = call.op(operator)
            if op is None:
                continue
            if op.name not in BFLOAT16_OPERATIONS:
                return None
            exchanged = reverse is not None and bool(call[reverse])
            chain.append((op.name, index(operand), exchanged))
            tiles += [t for _, t in call.tensors(operand)]
        if not writes_rows(dst) or not all(map(reads_rows, tiles)):
            return None
        # Without an operation equal types are copied as they are, also NaN.
        if not chain and dst.dtype == x.dtype:
            return None
        large = dst.size >= _LARGE
        to, of = index("dst"), index(data)

        def compute(core: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
            out = as_rows(arguments[to])
            operations = [
                (name, _operand(arguments[number]), exchanged) for name, number, exchanged in chain
            ]
            combine_rows(out, as_rows(arguments[of]), operations)
            return (None,)

        size = dst.size
        return Shortcut(lambda: repays(size) or large, compute)

    return make


def _operand(value: Any) -> Any:
    return as_rows(value) if isinstance(value, np.ndarray) else value


def stored(a: str, b: str, operator: str) -> MakeShortcut:
    """Return torch's way through an operation on two bfloat16 tiles, into ``dst``."""

    def make(call: Call) -> Shortcut | None:
        op, tensors = call.op(operator), call.tensors("dst", a, b)
        if op is None or op.name not in BFLOAT16_OPERATIONS:
            return None
        shape = tensors[0][1].shape
        if tensors[0][1].size < TORCH_ELEMENTS:
            return None
        for _, tensor in tensors:
            dense = reads_rows(tensor) and tensor.strides[0] * shape[0] == tensor.size * 2
            if tensor.dtype != "bfloat16" or tensor.shape != shape or not dense:
                return None
        to, left, right = (call.instruction.parameters.index(name) for name in ("dst", a, b))
        name = op.name

        def compute(core: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
            out, x, y = arguments[to], arguments[left], arguments[right]
            # A result that torch leaves undefined must not have destroyed an operand.
            apart = not (np.may_share_memory(out, x) or np.may_share_memory(out, y))
            if not (apart and bfloat16_arithmetic(name, x, y, out)):
                binary = OPS[name].binary
                assert binary is not None
                out[...] = encode(binary(decode(x, bfloat16), decode(y, bfloat16)), bfloat16)
            return (None,)

        return Shortcut(lambda: torch_helps() and not numba_loaded(), compute)

    return make
