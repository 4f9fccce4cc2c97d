"""Shared helpers of the tile functions: operands, result types and new tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from nkisim.diagnostics import declare, flag
from nkisim.dtypes import DType, float32, int32, promote
from nkisim.isa import dma_copy, tensor_copy
from nkisim.machine import current_core
from nkisim.memory import MemoryRegion, NkiTensor, is_hbm, require_dtype
from nkisim.removed import refuse_argument

FUNCTION_OF_HBM = declare(
    "M049",
    "function-of-hbm",
    "A tile function of nki.language has an operand in HBM.",
    "compute engines reach SBUF and PSUM only; here the operand is loaded first",
)


def is_tile(value: object) -> bool:
    """Return whether an operand is a tensor."""
    return isinstance(value, NkiTensor)


def need_tile(function: str, name: str, value: Any) -> NkiTensor:
    """Return an on-chip tile; copy an HBM tensor to SBUF with finding M049, or raise."""
    if not isinstance(value, NkiTensor):
        fix, allowed = "load the tensor with nl.load first", "a tile in SBUF or PSUM"
        refuse_argument(
            *(f"nl.{function}", name, value, allowed, fix), wanted="a tile", on_device=True
        )
    if is_hbm(value.buffer):
        flag(
            FUNCTION_OF_HBM,
            f"nl.{function} {name} must be in ['sbuf', 'psum'], got {value.buffer.value}",
            instruction=f"nl.{function}",
            operand=name,
            seen=value.describe(),
            allowed="sbuf, psum",
            fix="load it with nl.load first",
        )
        tile = fresh((*value.shape, 1) if value.ndim == 1 else value.shape, value.dtype)
        dma_copy(tile, value)
        return tile
    return value


def result_dtype(dtype: Any, *operands: Any) -> DType:
    """Return ``dtype``, or the promotion of the tensors' dtypes; Python numbers do not widen it."""
    if dtype is not None:
        return require_dtype(dtype, "dtype")
    kinds = [t.dtype for t in operands if isinstance(t, NkiTensor)]
    if not kinds:
        return float32 if any(isinstance(v, (float, np.floating)) for v in operands) else int32
    result = kinds[0]
    for kind in kinds[1:]:
        result = promote(result, kind)
    if not result.is_float and any(isinstance(v, (float, np.floating)) for v in operands):
        result = float32
    return result


def fresh(shape: tuple[int, ...], dtype: DType, like: NkiTensor | None = None) -> NkiTensor:
    """Return a new tile, in the buffer of ``like`` or in SBUF."""
    region = MemoryRegion.sbuf if like is None else like.buffer
    return current_core("nl").memory.allocate(shape, dtype, region)


def operand_and_result(function: str, x: Any, dtype: Any) -> tuple[NkiTensor, NkiTensor]:
    """Return the operand ``x`` of a tile function, and a new tile for its result."""
    tile = need_tile(function, "x", x)
    return tile, fresh(tile.shape, result_dtype(dtype, tile))


def converted(tile: NkiTensor, dtype: Any, where: str) -> NkiTensor:
    """Return a tile, or a copy of it in another dtype where one is given."""
    kind = tile.dtype if dtype is None else require_dtype(dtype, where)
    if kind == tile.dtype:
        return tile
    copy = fresh(tile.shape, kind)
    tensor_copy(copy, tile)
    return copy
