"""Views made by ``ap``, ``reshape`` and ``view``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.memory import rules
from nkisim.memory.indirect import make_indirection
from nkisim.memory.region import is_on_chip
from nkisim.memory.requests import require_dtype
from nkisim.memory.tensor import NkiTensor

if TYPE_CHECKING:
    from nkisim.dtypes import DType

__all__ = ["access_view", "dtype_view", "reshape_view"]


def access_view(
    tensor: NkiTensor,
    pattern: Sequence[Sequence[int]],
    offset: int,
    scalar_offset: Any,
    vector_offset: Any,
    indirect_dim: int,
    dtype: Any,
) -> NkiTensor:
    """Return ``tensor.ap(...)``; the extent of the pattern is checked when the view is used."""
    if not tensor.whole:
        flag(
            rules.NESTED_PATTERN,
            "cannot specify an access pattern on an already indexed tensor",
            operand=tensor.name,
            seen=tensor.describe(),
            fix="call ap() on the base tensor and put the position into offset=",
        )
    kind = tensor.dtype if dtype is None else require_dtype(dtype, "ap()")
    itemsize = tensor.alloc.itemsize(kind)
    steps = [(int(step), int(count)) for step, count in pattern]
    pitch = tensor.storage.pitch
    row = tensor.alloc.row_bytes // itemsize
    if is_on_chip(tensor.buffer):
        _check_partition_step(tensor, steps, row, dtype)
        rows, rest = divmod(int(offset), row) if row else (0, int(offset))
        start = tensor.alloc.start + rows * pitch + rest * itemsize
        strides = (pitch, *(step * itemsize for step, _ in steps[1:]))
    else:
        start = tensor.alloc.start + int(offset) * itemsize
        strides = tuple(step * itemsize for step, _ in steps)
    indirect = make_indirection(tensor, scalar_offset, vector_offset, indirect_dim)
    shape = tuple(count for _, count in steps)
    return NkiTensor(tensor.alloc, shape, kind, start, strides, indirect=indirect, trusted=False)


def _check_partition_step(
    tensor: NkiTensor, steps: list[tuple[int, int]], row: int, dtype: Any
) -> None:
    step, count = steps[0]
    if step == row or count == 1:
        return
    shown = [list(entry) for entry in steps]
    old_row = tensor.free_size
    if dtype is not None and step == old_row:
        flag(
            rules.PATTERN_DTYPE,
            f"ap() pattern has invalid partition stride. Partition step {step} counts elements of "
            f"{tensor.dtype}, but the pattern is in elements of {dtype}: {row} per partition. "
            f"Pattern: {shown}",
            operand=tensor.name,
            seen=step,
            allowed=row,
            fix=f"count in elements of {dtype}: [[{row}, {count}], ...]",
        )
    flag(
        rules.PARTITION_STEP,
        f"ap() pattern has invalid partition stride. Partition step {step} must equal tensor free "
        f"dimension size {row}. Pattern: {shown}",
        operand=tensor.name,
        seen=step,
        allowed=row,
        fix=f"start the pattern with [{row}, {count}]",
    )


def reshape_view(tensor: NkiTensor, shape: Sequence[int]) -> NkiTensor:
    """Return ``tensor.reshape(shape)``."""
    extents = (int(shape),) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if math.prod(extents) != tensor.size or any(extent < 0 for extent in extents):
        flag(
            rules.RESHAPE_COUNT,
            f"cannot reshape tensor of shape {tensor.shape} into shape {extents}: "
            f"{tensor.size} elements into {math.prod(extents)}",
            operand=tensor.name,
            seen=extents,
            allowed=f"{tensor.size} elements, every extent given",
            fix="write every extent so that their product is the number of elements",
        )
    if is_on_chip(tensor.buffer) and (not extents or extents[0] != tensor.shape[0]):
        got = extents[0] if extents else "nothing"
        flag(
            rules.RESHAPE_PARTITIONS,
            f"Partition dim size must be preserved, got {tensor.shape[0]} -> {got}",
            operand=tensor.name,
            seen=extents,
            allowed=f"({tensor.shape[0]}, ...)",
            fix="allocate with the wanted shape, or move the data with a DMA or a transpose",
        )
    if not tensor.whole:
        flag(
            rules.RESHAPE_OF_SLICE,
            f"reshape of an indexed tensor {tensor.describe()}",
            operand=tensor.name,
            fix="reshape the base tensor, then slice it",
        )
    void = np.empty(1, np.dtype((np.void, tensor.itemsize)))
    template = np.lib.stride_tricks.as_strided(void, tensor.shape, tensor.strides)
    return _adopt(tensor, template, extents)


def _adopt(tensor: NkiTensor, template: np.ndarray, extents: tuple[int, ...]) -> NkiTensor:
    """Let NumPy find the strides of the new shape without copying."""
    try:
        strides = np.reshape(template, extents, copy=False).strides
    except ValueError:
        flag(
            rules.RESHAPE_COUNT,
            f"cannot reshape {tensor.describe()} into shape {extents} without moving data",
            operand=tensor.name,
            seen=extents,
            fix="reshape the base tensor, then slice it",
        )
        raise
    return NkiTensor(tensor.alloc, extents, tensor.dtype, tensor.start, strides, whole=tensor.whole)


def dtype_view(tensor: NkiTensor, dtype: Any) -> NkiTensor:
    """Return ``tensor.view(dtype)``."""
    kind: DType = require_dtype(dtype, "view()")
    old, new = tensor.itemsize, tensor.alloc.itemsize(kind)
    if not tensor.alloc.precise and tensor.dtype.itemsize != old:
        raise ValueError(
            f"view({kind}) of a {tensor.dtype} tensor needs real {tensor.dtype} bytes; "
            "run with NKI_PRECISE_FP=1"
        )
    if old == new:
        return NkiTensor(
            tensor.alloc, tensor.shape, kind, tensor.start, tensor.strides, whole=tensor.whole
        )
    row = tensor.shape[-1] * old if tensor.shape else old
    dense = not tensor.shape or tensor.strides[-1] == old or tensor.shape[-1] == 1
    aligned = tensor.start % new == 0 and all(stride % new == 0 for stride in tensor.strides[:-1])
    if not dense or row % new or not aligned or not tensor.shape:
        flag(
            rules.VIEW_SIZE,
            f"view({kind}) of {tensor.describe()}: the last dimension holds {row} "
            f"{'contiguous ' if dense else 'strided '}bytes, one {kind} takes {new}",
            operand=tensor.name,
            seen=f"{row} bytes, start byte {tensor.start}",
            allowed=f"contiguous, aligned and a multiple of {new}",
            fix="view the whole tensor first, then slice it",
        )
    shape = (*tensor.shape[:-1], row // new)
    strides = (*tensor.strides[:-1], new)
    return NkiTensor(tensor.alloc, shape, kind, tensor.start, strides, whole=tensor.whole)
