"""The geometry of ``ap``, ``reshape`` and ``view``: start, shape and strides of the new view."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nkisim.diagnostics import flag
from nkisim.dtypes import DType
from nkisim.memory import rules
from nkisim.memory.region import MemoryRegion, is_hbm, is_on_chip
from nkisim.memory.requests import require_dtype
from nkisim.memory.tensor.geometry import Indirection, View

Geometry = tuple[tuple[int, ...], DType, int, tuple[int, ...]]
"""Shape, type, byte start and byte strides."""


def pattern_geometry(
    view: View, pattern: Sequence[Sequence[int]], offset: int, dtype: Any
) -> Geometry:
    """Return the geometry of ``view.ap(pattern, offset, dtype=dtype)``.

    The pattern counts elements of the storage, whatever the shape of the view. The offset is added
    to the start of the view.
    """
    kind = view.dtype if dtype is None else require_dtype(dtype, "ap()")
    origin, pitch = view.life.origin, view._storage.pitch
    itemsize = origin.itemsize(kind)
    row = origin.row_bytes // itemsize
    steps = [(int(step), int(count)) for step, count in pattern]
    shape = tuple([count for _, count in steps])
    if not is_on_chip(view.form.buffer):
        strides = tuple([step * itemsize for step, _ in steps])
        return shape, kind, view.form.start + int(offset) * itemsize, strides
    _check_partition_step(view, steps, row, dtype)
    above, byte = divmod(view.form.start - origin.form.start, pitch)
    if byte % itemsize:
        flag(
            rules.VIEW_SIZE,
            f"ap(dtype={kind}) of {view.describe()}: the view starts {byte} bytes after the start "
            f"of a row, one {kind} takes {itemsize}",
            operand=view.name,
            seen=f"start byte {byte}",
            allowed=f"a multiple of {itemsize}",
            fix="call ap() on a view that starts at a whole element",
        )
    rows, rest = divmod(int(offset) + byte // itemsize, max(row, 1))
    start = origin.form.start + (above + rows) * pitch + rest * itemsize
    return shape, kind, start, (pitch, *[step * itemsize for step, _ in steps[1:]])


def pattern_of_part(
    view: View, pattern: Sequence[Sequence[int]], offset: int, dtype: Any
) -> Geometry:
    """Return the geometry of a pattern on a part of a tensor in 0.3.0 and 0.4.0: a finding.

    Pattern and offset count elements of the view, row by row.
    """
    kind = view.dtype if dtype is None else require_dtype(dtype, "ap()")
    flag(
        rules.NESTED_PATTERN,
        "cannot specify an access pattern on an already indexed tensor",
        operand=view.name,
        seen=view.describe(),
        fix="call ap() on the base tensor and put the position into offset=",
    )
    shape, strides = _reinterpreted(view, kind)
    steps = [(int(step), int(count)) for step, count in pattern]
    if is_on_chip(view.form.buffer):
        _check_partition_step(view, steps, math.prod(shape[1:]), dtype)
        free = tuple(_bytes(step, shape[1:], strides[1:]) for step, _ in steps[1:])
        new_strides = (view._storage.pitch, *free)
    else:
        new_strides = tuple(_bytes(step, shape, strides) for step, _ in steps)
    start = view.form.start + _bytes(int(offset), shape, strides)
    return tuple(count for _, count in steps), kind, start, new_strides


def _bytes(step: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    """Return the distance in bytes of elements that are ``step`` apart, counted row by row."""
    rest, distance, elements = abs(step), 0, math.prod(shape)
    for extent, stride in zip(shape, strides, strict=True):
        elements //= max(extent, 1)
        count, rest = divmod(rest, max(elements, 1))
        distance += count * stride
    return distance if step >= 0 else -distance


def _check_partition_step(view: View, steps: list[tuple[int, int]], row: int, dtype: Any) -> None:
    if not steps:
        flag(
            rules.PARTITION_STEP,
            f"ap() pattern is empty. It must start with the partition step {row}",
            operand=view.name,
            seen="[]",
            allowed=row,
            fix=f"start the pattern with [{row}, 1]",
        )
    step, count = steps[0]
    if step == row or count == 1 or (not view.form.whole and step == view.get_pattern()[0][0]):
        return
    shown = [list(entry) for entry in steps]
    if dtype is not None and step == view.free_size:
        flag(
            rules.PATTERN_DTYPE,
            f"ap() pattern has invalid partition stride. Partition step {step} counts elements of "
            f"{view.dtype}, but the pattern is in elements of {dtype}: {row} per partition. "
            f"Pattern: {shown}",
            operand=view.name,
            seen=step,
            allowed=row,
            fix=f"count in elements of {dtype}: [[{row}, {count}], ...]",
        )
    flag(
        rules.PARTITION_STEP,
        f"ap() pattern has invalid partition stride. Partition step {step} must equal tensor free "
        f"dimension size {row}. Pattern: {shown}",
        operand=view.name,
        seen=step,
        allowed=row,
        fix=f"start the pattern with [{row}, {count}]",
    )


def dynamic_offset(
    view: View, scalar_offset: Any, vector_offset: Any, indirect_dim: int, method: str = "ap"
) -> Indirection | None:
    """Check the offset arguments of ``view.ap`` and return the dynamic offset of the new view."""
    if scalar_offset is None and vector_offset is None:
        return view.indirection
    if view.indirection is not None:
        bad_offset(view, "the tensor has a dynamic offset already", method)
    if scalar_offset is not None and vector_offset is not None:
        flag(
            rules.TWO_OFFSETS,
            "ap() takes scalar_offset or vector_offset, not both",
            operand=view.name,
            fix="keep one of them",
        )
    if not 0 <= indirect_dim < len(view.shape):
        bad_offset(view, f"indirect_dim {indirect_dim} is not a dimension of {view.shape}", method)
    stride, extent = view.form.strides[indirect_dim], view.shape[indirect_dim]
    if scalar_offset is not None:
        if isinstance(scalar_offset, View):
            if scalar_offset.buffer is not MemoryRegion.sbuf or scalar_offset.size != 1:
                bad_offset(
                    view,
                    f"scalar_offset is {scalar_offset.describe()}, needs a 1x1 SBUF tile",
                    method,
                )
        elif not hasattr(scalar_offset, "__index__"):
            bad_offset(view, f"scalar_offset is a {type(scalar_offset).__name__}", method)
        elif getattr(scalar_offset, "dtype", "") == "int64" and not is_hbm(view.form.buffer):
            flag(
                rules.SCALAR_WIDTH,
                f"{method}() of {view.describe()}: scalar_offset is a scalar of int64",
                operand=view.name,
                seen="int64",
                allowed="a scalar of int32 on chip",
                fix="load the offset from a tile of nl.int32",
            )
        return Indirection("scalar", scalar_offset, stride, extent)
    if not isinstance(vector_offset, View):
        bad_offset(view, f"vector_offset is a {type(vector_offset).__name__}", method)
    if vector_offset.buffer is not MemoryRegion.sbuf or not vector_offset.dtype.is_integer:
        bad_offset(
            view, f"vector_offset is {vector_offset.describe()}, needs integers in SBUF", method
        )
    if not is_hbm(view.form.buffer):
        bad_offset(view, f"vector_offset indexes {view.describe()}, which is not in HBM", method)
    if indirect_dim != 0:
        bad_offset(view, f"vector_offset with indirect_dim {indirect_dim}", method)
    return Indirection("vector", vector_offset, stride, extent)


def bad_offset(view: View, why: str, method: str = "ap") -> None:
    """Raise S025: an offset is not of a kind that a method accepts."""
    flag(
        rules.OFFSET_KIND,
        f"{method}() on tensor `{view.name}`: {why}",
        operand=view.name,
        seen=why,
        allowed="scalar: register or 1x1 SBUF tile; vector: (P, 1) integer SBUF tile on an HBM "
        "tensor, dim 0",
        fix="load the offset into such a register or tile first",
    )


def refuse_columns(view: View, method: str) -> None:
    """Raise S025: ``method`` does not accept a view made by ``indirect``."""
    if view.indirection is not None and view.indirection.kind == "columns":
        bad_offset(view, "the tensor is a view made by indirect()", method)


def has_fixed_rows(view: View) -> bool:
    """Return whether dimension 0 is fixed: it counts partitions, or rows that an index selects."""
    indirection = view.indirection
    selects = indirection is not None and indirection.kind == "vector"
    return selects or is_on_chip(view.form.buffer)


def reshaped_strides(
    view: View, shape: Sequence[int], *, of_parts: bool
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides of ``view.reshape(shape)``; without ``of_parts`` S016 for parts."""
    extents = (int(shape),) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
    if math.prod(extents) != view.size or any(extent < 0 for extent in extents):
        flag(
            rules.RESHAPE_COUNT,
            f"cannot reshape tensor of shape {view.shape} into shape {extents}: "
            f"{view.size} elements into {math.prod(extents)}",
            operand=view.name,
            seen=extents,
            allowed=f"{view.size} elements, every extent given",
            fix="write every extent so that their product is the number of elements",
        )
    if has_fixed_rows(view) and (not extents or extents[0] != view.shape[0]):
        got = extents[0] if extents else "nothing"
        flag(
            rules.RESHAPE_PARTITIONS,
            f"Partition dim size must be preserved, got {view.shape[0]} -> {got}",
            operand=view.name,
            seen=extents,
            allowed=f"({view.shape[0]}, ...)",
            fix="allocate with the wanted shape, or move the data with a DMA or a transpose",
        )
    if not of_parts and not view.form.whole:
        flag(
            rules.RESHAPE_OF_SLICE,
            f"reshape of an indexed tensor {view.describe()}",
            operand=view.name,
            fix="reshape the base tensor, then slice it",
        )
    void = np.empty(1, np.dtype((np.void, view.form.itemsize)))
    template = np.lib.stride_tricks.as_strided(void, view.shape, view.form.strides)
    try:  # NumPy finds the strides of the new shape without copying
        return extents, np.reshape(template, extents, copy=False).strides
    except ValueError:
        flag(
            rules.RESHAPE_COUNT,
            f"cannot reshape {view.describe()} into shape {extents} without moving data",
            operand=view.name,
            seen=extents,
            fix="reshape the base tensor, then slice it",
        )
        raise


def reinterpreted_geometry(view: View, dtype: Any) -> Geometry:
    """Return the geometry of ``view.view(dtype)``."""
    kind = require_dtype(dtype, "view()")
    shape, strides = _reinterpreted(view, kind)
    return shape, kind, view.form.start, strides


def _reinterpreted(view: View, kind: DType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return shape and strides of the same bytes as another type."""
    shape, strides = view.shape, view.form.strides
    old, new = view.form.itemsize, view.life.origin.itemsize(kind)
    if kind is not view.dtype and not view.life.origin.precise and view.dtype.itemsize != old:
        raise ValueError(
            f"view({kind}) of a {view.dtype} tensor needs real {view.dtype} bytes; "
            "run with NKI_PRECISE_FP=1"
        )
    if old == new:
        return shape, strides
    row = shape[-1] * old if shape else old
    dense = not shape or strides[-1] == old or shape[-1] == 1
    aligned = view.form.start % new == 0 and all(stride % new == 0 for stride in strides[:-1])
    if not dense or row % new or not aligned or not shape:
        flag(
            rules.VIEW_SIZE,
            f"view({kind}) of {view.describe()}: the last dimension holds {row} "
            f"{'contiguous ' if dense else 'strided '}bytes, one {kind} takes {new}",
            operand=view.name,
            seen=f"{row} bytes, start byte {view.form.start}",
            allowed=f"contiguous, aligned and a multiple of {new}",
            fix="view the whole tensor first, then slice it",
        )
    return (*shape[:-1], row // new), (*strides[:-1], new)
