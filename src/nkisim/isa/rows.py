"""Large tiles of float32 and bfloat16 rows, computed in blocks that fit the processor's cache.

Every pass of a block writes to the same scratch memory. The results are identical to a computation
of the whole tile at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nkisim.compiled import compiles_exact
from nkisim.dtypes import bfloat16, decode, encode
from nkisim.machine import Core
from nkisim.memory import NkiTensor
from nkisim.spec import Call
from nkisim.spec.instruction import Shortcut

Array = np.ndarray

BLOCK = 131072
"""Elements of a block: 512 KiB of float32 fit a level-2 cache; smaller ones have call overhead."""

_LARGE = 65536
"""Elements from which on a tile is computed in blocks."""

_F32 = np.dtype(np.float32)
_COMPILED = (np.add, np.subtract, np.multiply)


def blocks_of_rows(rows: int, width: int, elements: int) -> list[slice]:
    """Return the blocks of rows of a tile, each of at most ``elements`` elements or one row."""
    height = max(1, elements // max(1, width))
    return [slice(first, min(first + height, rows)) for first in range(0, rows, height)]


def reads_rows(tensor: NkiTensor) -> bool:
    """Return whether a tensor holds float32 or bfloat16 in dense rows, one per partition."""
    if tensor.indirection is not None or tensor.form.strides[0] < 0 or not tensor.dtype.is_float:
        return False
    if tensor.origin.storage_dtype(tensor.dtype) not in (_F32, bfloat16.numpy):
        return False
    step = tensor.itemsize
    for extent, stride in zip(tensor.shape[:0:-1], tensor.form.strides[:0:-1], strict=True):
        if extent != 1 and stride != step:
            return False
        step *= extent
    return True


def writes_rows(tensor: NkiTensor) -> bool:
    """Return whether results are written to dense float32 or bfloat16 rows and rounded once."""
    # With stride 0 all rows would be the same memory.
    rounded = tensor.dtype == "tfloat32" and tensor.origin.precise
    return reads_rows(tensor) and not rounded and tensor.form.strides[0] >= tensor.itemsize


def as_rows(value: Any) -> Any:
    """Return the elements of a tensor as (partitions, elements); numbers unchanged."""
    return value.reshape(len(value), -1) if isinstance(value, np.ndarray) else value


def widened_rows(values: Any, out: Array | None = None) -> Any:
    """Return float32 or bfloat16 elements in float32; numbers unchanged."""
    if not isinstance(values, np.ndarray) or values.dtype == _F32:
        return values
    return decode(values, bfloat16, out)


def store_rows(values: Array, out: Array) -> None:
    """Write float32 values to rows of float32 or bfloat16."""
    if out.dtype != _F32:
        encode(values, bfloat16, out)
    elif values is not out:
        out[...] = values


def chained(data: str, *steps: tuple[str, str, str | None]) -> Callable[[Call], Shortcut | None]:
    """Return the blockwise computation of a chain of operations on ``data`` into ``dst``.

    Args:
        data: Parameter of the input.
        steps: Parameters of each operation: the operator, its other operand, and the flag that
            exchanges them, if there is one. An operator that is None is skipped.
    """

    def make(call: Call) -> Shortcut | None:
        dst, x = call.operand("dst"), call.operand(data)
        if dst.size < _LARGE:
            return None
        index = call.instruction.parameters.index
        chain, tiles = [], [x]
        for operator, operand, reverse in steps:
            op = call.op(operator)
            if op is None:
                continue
            if not isinstance(op.binary, np.ufunc):
                return None
            exchanged = reverse is not None and bool(call[reverse])
            chain.append((op.binary, index(operand), exchanged))
            tiles += [t for _, t in call.tensors(operand)]
        if not writes_rows(dst) or not all(map(reads_rows, tiles)):
            return None
        if not chain and dst.dtype == x.dtype:
            return None  # copied bitwise
        to, of = index("dst"), index(data)

        def compute(core: Core, arguments: Sequence[Any]) -> tuple[Any, ...]:
            operations = [(f, as_rows(arguments[i]), exchanged) for f, i, exchanged in chain]
            _compute(core, as_rows(arguments[to]), as_rows(arguments[of]), operations)
            return (None,)

        return compute

    return make


def _compute(
    core: Core, out: Array, data: Array, operations: Sequence[tuple[np.ufunc, Any, bool]]
) -> None:
    if compiles_exact(out.size) and _are_compiled(out, data, operations):
        from nkisim.compiled.elementwise import combine

        combine(out, data, operations)
        return
    width = out.shape[1]
    blocks = blocks_of_rows(len(out), width, BLOCK)
    height = blocks[0].stop
    values, others = core.scratch(2 * height, width).reshape(2, height, width)
    # Operands other than the data are read after the first write.
    direct = out.dtype == _F32 and not any(
        isinstance(operand, np.ndarray) and np.may_share_memory(out, operand)
        for _, operand, _ in operations
    )
    for rows in blocks:
        count = rows.stop - rows.start
        room = out[rows] if direct else values[:count]
        value = widened_rows(data[rows], room)
        for ufunc, operand, exchanged in operations:
            other = operand
            if isinstance(operand, np.ndarray):
                other = widened_rows(operand[rows], others[:count, : operand.shape[1]])
            a, b = (other, value) if exchanged else (value, other)
            value = ufunc(a, b, out=room)
        store_rows(value, out[rows])


def _are_compiled(
    out: Array, data: Array, operations: Sequence[tuple[np.ufunc, Any, bool]]
) -> bool:
    """Return whether a compiled loop has these operations and at most one more dense tile."""
    tiles = [x for _, x, _ in operations if isinstance(x, np.ndarray) and x.shape[1] > 1]
    return (
        len(tiles) <= 1
        and all(ufunc in _COMPILED for ufunc, _, _ in operations)
        and all(x.flags.c_contiguous for x in (out, data, *tiles))
    )
